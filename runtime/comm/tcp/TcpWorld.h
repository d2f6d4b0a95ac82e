//===- TcpWorld.h - ranks as processes that talk by TCP ------------------------------------------===//
//
// The transport between processes and machines that needs no MPI.
//
//   TcpOptions options;
//   options.rank = 1, options.ranks = 4, options.address = "10.0.0.1", options.port = 29500;
//   Result<std::unique_ptr<World>> world = createTcpWorld(options);   // all ranks, within the timeout
//
// Every group has a connection between each two of its members, so that groups may be driven by different
// threads. A thread of its own keeps one more connection to every rank (Watch.h): over it goes a sign of life
// every second, and the news that a rank ends. A rank that is killed, stopped, cut off or that aborts is
// therefore known to all others at once, or after `peerTimeout`; their calls then return an error that names
// it and says why. After that every call of the world fails.
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
  std::string address; // where rank 0 listens,
  uint16_t port = 0;
  int listener = -1;                                // rank 0: a descriptor that listens there already
  std::string listenAddress;                        // the other ranks: empty: the address from which they reach rank 0
  std::string secret;                               // the same on all ranks; empty: none
  std::string plan;                                 // plan_id: all ranks must have the same
  double rendezvousTimeout = 120, peerTimeout = 10; // seconds
};

Result<std::unique_ptr<World>> createTcpWorld(const TcpOptions &options);

} // namespace tessera::rt

#endif
