// Latency and bandwidth of the transports, float32:
//
//   comm_bench --ranks 4                 ranks as threads
//   mpirun -n 4 --oversubscribe comm_bench
//
// One line per operation and size: the median and the best time of one call, and the algorithm
// bandwidth of the best (bytes of the larger buffer of a rank over the time).

#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/comm/threads/ThreadWorld.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

using Clock = std::chrono::steady_clock;

struct Sizes {
  size_t bytes;
  int rounds, repeats; // calls per round, rounds
};

struct Times {
  double median, best; // seconds of one call
};

/// All members run equally many rounds.
Times measure(Communicator &comm, const Sizes &size, const std::function<Status()> &call) {
  std::vector<double> times;
  for (int i = 0; i < size.repeats + 1; ++i) {
    Status status = comm.barrier();
    const auto start = Clock::now();
    for (int k = 0; k < size.rounds && status.ok(); ++k)
      status = call();
    const std::chrono::duration<double> spent = Clock::now() - start;
    if (!status) {
      std::fprintf(stderr, "rank %d: %s\n", comm.rank(), status.message().c_str());
      std::exit(1);
    }
    if (i > 0) // the first round warms up
      times.push_back(spent.count() / size.rounds);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[0]};
}

void report(const Communicator &comm, const char *transport, const char *name, size_t bytes, Times times) {
  if (comm.rank() == 0)
    std::printf("%-7s x%d  %-14s %9zu bytes  %11.2f us  %11.2f us  %8.2f GB/s\n", transport, comm.size(), name, bytes,
                times.median * 1e6, times.best * 1e6, double(bytes) / times.best / 1e9);
}

void runRank(World &world, const char *transport) {
  std::vector<int> ranks(world.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  Result<std::unique_ptr<Communicator>> made = world.group(ranks);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.status().message().c_str());
    std::exit(1);
  }
  Communicator &comm = **made;
  const size_t n = comm.size();
  for (const Sizes &size : {Sizes{4 << 10, 500, 9}, {1 << 20, 20, 9}, {64 << 20, 1, 7}}) {
    const size_t count = size.bytes / 4, part = count / n;
    std::vector<float> in(count, 1.0f), out(count, 0.0f);
    report(comm, transport, "allReduce", size.bytes,
           measure(comm, size, [&] { return comm.allReduce(in.data(), out.data(), count, plan::F32, plan::SUM); }));
    report(comm, transport, "allGather", size.bytes,
           measure(comm, size, [&] { return comm.allGather(in.data(), out.data(), 1, part, plan::F32); }));
    report(comm, transport, "reduceScatter", size.bytes, measure(comm, size, [&] {
             return comm.reduceScatter(in.data(), out.data(), 1, part, plan::F32, plan::SUM);
           }));
    std::vector<Transfer> sends, receives;
    for (size_t peer = 0; peer < n; ++peer) {
      const Box box{int64_t(peer * part), {int64_t(part)}, {1}};
      sends.push_back({int(peer), box});
      receives.push_back({int(peer), box});
    }
    report(comm, transport, "all-to-all", size.bytes,
           measure(comm, size, [&] { return comm.exchange(in.data(), sends, out.data(), receives, plan::F32); }));
  }
}

} // namespace

int main(int argc, char **argv) {
  if (launchedByMpi()) {
    Result<std::unique_ptr<World>> world = createMpiWorld();
    if (!world) {
      std::fprintf(stderr, "%s\n", world.status().message().c_str());
      return 1;
    }
    runRank(**world, "mpi");
    return 0;
  }
  const int ranks = argc == 3 && !std::strcmp(argv[1], "--ranks") ? std::atoi(argv[2]) : 2;
  if (ranks < 1 || ranks > 1024) {
    std::fprintf(stderr, "usage: comm_bench --ranks N\n");
    return 2;
  }
  std::vector<std::unique_ptr<World>> worlds = createThreadWorlds(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { runRank(*worlds[r], "thread"); });
  for (std::thread &thread : threads)
    thread.join();
  return 0;
}
