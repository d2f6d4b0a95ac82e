//===- TcpMessages.h - messages over a mesh of connections ---------------------------------------===//
//
// Internal to the TCP transport. One connection to each other member; the calling thread moves the data itself,
// straight between the sockets and the caller's buffers. A message is a header with its size and number, then
// its bytes; the receiver knows both beforehand, so nothing is allocated and a difference is an error.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_TCPMESSAGES_H
#define TESSERA_RUNTIME_COMM_TCP_TCPMESSAGES_H

#include "runtime/comm/Messages.h"
#include "runtime/comm/tcp/Watch.h"

namespace tessera::rt {

/// `peers` are the members in order, each with its connection; that of the member `me` is empty.
std::unique_ptr<MessageGroup> createTcpGroup(std::shared_ptr<Watch> watch, std::vector<TcpPeer> peers,
                                             std::vector<Socket> sockets, int me);

} // namespace tessera::rt

#endif
