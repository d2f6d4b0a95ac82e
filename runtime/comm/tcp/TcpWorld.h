//===- TcpWorld.h - ranks as processes that talk by TCP ------------------------------------------===//
//
// The transport between processes and machines that needs no MPI.
//
//   TcpOptions options;
//   options.rank = 1, options.ranks = 4, options.address = "10.0.0.1", options.port = 29500;
//   Result<std::unique_ptr<World>> world = createTcpWorld(options);   // all ranks, within the timeout
//
// Every group has a connection between each two of its members, so that groups may be driven by different threads. A
// separate thread keeps one more connection to every rank (Watch.h). It sends a sign of life every second, and the news
// that a rank ends. So all others learn of a rank that is killed or aborts at once, and of one that is stopped or cut
// off after `peerTimeout`. Their calls then return an error that names the rank and says why. After that every call of
// the world fails.
//
// Results are those of the thread transport, bit for bit (MessageCommunicator.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_TCPWORLD_H
#define TESSERA_RUNTIME_COMM_TCP_TCPWORLD_H

#include "runtime/comm/Communicator.h"

#include <string>

namespace tessera::rt {

struct TcpOptions {
  int rank = 0, ranks = 1;
  std::string address; // the address on which rank 0 listens
  uint16_t port = 0;
  int listener = -1;                                // rank 0: a descriptor that listens already; -1: none
  std::string listenAddress;                        // of the other ranks; empty: where they reach rank 0 from
  std::string secret;                               // the same on all ranks; empty: no secret
  std::string plan;                                 // plan_id: all ranks must have the same
  double rendezvousTimeout = 120, peerTimeout = 10; // seconds
};

Result<std::unique_ptr<World>> createTcpWorld(const TcpOptions &options);

} // namespace tessera::rt

#endif
