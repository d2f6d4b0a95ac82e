//===- Rendezvous.h - the ranks of a TCP world find each other -----------------------------------===//
//
// Rank 0 listens on the address that all ranks were given. Every other rank connects to it, proves that it knows the
// secret (Handshake.h), and says where it listens itself. When all are there, rank 0 sends everyone the table of
// addresses and a random session number, or the sentence that says why there is no world: which ranks are missing,
// which rank has another plan, which number of ranks it expects.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_RENDEZVOUS_H
#define TESSERA_RUNTIME_COMM_TCP_RENDEZVOUS_H

#include "runtime/comm/tcp/PeerConnections.h"
#include "runtime/comm/tcp/TcpWorld.h"

namespace tessera::rt {

struct Meeting {
  Socket listener;            // this rank's
  std::vector<TcpPeer> peers; // by rank
  Hello hello;                // with the session's number
};

/// Called on every rank. Returns the same outcome on all of them, or an error when the time is over.
Result<Meeting> meet(const TcpOptions &options);

} // namespace tessera::rt

#endif
