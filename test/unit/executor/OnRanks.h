// Executors of tests: one rank's with its initial values, and all ranks over TCP on this machine.
#ifndef TESSERA_TEST_UNIT_EXECUTOR_ONRANKS_H
#define TESSERA_TEST_UNIT_EXECUTOR_ONRANKS_H

#include "runtime/comm/tcp/Socket.h"
#include "runtime/comm/tcp/TcpWorld.h"
#include "runtime/executor/Executor.h"

#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera::rt {

/// Makes the executor of one rank, with its initial values, and uses it.
inline Status withExecutor(const plan::Plan &plan, World &world, const std::string &backend, const LoadOptions &options,
                           const std::function<Status(Executor &)> &use) {
  auto made = createBackend(backend);
  if (!made)
    return made.status();
  auto executor = Executor::create(plan, **made, world, options);
  if (!executor)
    return executor.status();
  TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(nullptr, false));
  return use(**executor);
}

/// Runs `use` on each rank, a thread of its own, over TCP on this machine. Gives what it returns, by rank.
inline std::vector<Status> onTcp(int ranks, double rendezvousTimeout, const std::function<Status(World &)> &use) {
  uint16_t port = uint16_t(12000 + getpid() % 180 * 32); // no other test takes it
  while (!listenOn("127.0.0.1", port))
    ++port;
  auto statuses = std::vector<Status>(size_t(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      TcpOptions options;
      options.rank = rank;
      options.ranks = ranks;
      options.address = "127.0.0.1";
      options.port = port;
      options.plan = "0";
      options.rendezvousTimeout = rendezvousTimeout;
      Result<std::unique_ptr<World>> world = createTcpWorld(options);
      statuses[size_t(rank)] = world ? use(**world) : world.status();
    });
  for (std::thread &thread : threads)
    thread.join();
  return statuses;
}

} // namespace tessera::rt

#endif
