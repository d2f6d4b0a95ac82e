#include "runtime/comm/threads/ThreadWorld.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <thread>

using namespace tessera::rt;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

/// Runs `body(rank, world)` on a thread per rank.
template <typename Body> void onRanks(int n, Body body) {
  auto worlds = createThreadWorlds(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] { body(r, worlds[r]); });
  for (std::thread &thread : threads)
    thread.join();
}

std::vector<int> firstRanks(int n) {
  std::vector<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

} // namespace

TEST_CASE("an abort at any moment reaches every rank, and nobody reads freed memory", "[comm]") {
  const int n = 4;
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> errors(n);
    std::atomic<bool> wrong = false;
    onRanks(n, [&](int rank, std::unique_ptr<World> &world) {
      auto comm = world->group(firstRanks(n));
      if (!comm) { // the abort came during the set-up of a slower rank
        errors[rank] = comm.status().message();
        return;
      }
      for (int i = 0;; ++i) {
        if (rank == round % n && i == round / 4)
          world->abort("round " + std::to_string(round));
        // The memory is new every time. A peer that read it after this rank left would read freed memory.
        std::vector<float> in(i % 2 ? 3000 : 10, 1.0f), out(in.size());
        const Status status = (*comm)->allReduce(in.data(), out.data(), in.size(), plan::F32, plan::SUM);
        if (!status) {
          errors[rank] = status.message();
          return;
        }
        if (out.front() != n || out.back() != n)
          wrong = true;
      }
    });
    CHECK_FALSE(wrong);
    for (const std::string &error : errors)
      CHECK_THAT(error, Contains("rank " + std::to_string(round % n) + " aborted: round " + std::to_string(round)));
  }
}

TEST_CASE("a rank that leaves stops its groups, and only those", "[comm]") {
  std::vector<std::string> errors(3);
  onRanks(3, [&](int rank, std::unique_ptr<World> &world) {
    auto all = world->group(firstRanks(3));
    auto pair = world->group(rank == 2 ? std::vector<int>{2} : std::vector<int>{0, 1});
    if (!all || !pair)
      return;
    if (rank == 2) {
      world.reset();
      return;
    }
    errors[rank] = (*all)->barrier().message();
    int32_t one = 1, sum = 0;
    const Status status = (*pair)->allReduce(&one, &sum, 1, plan::I32, plan::SUM);
    if (!status || sum != 2)
      errors[rank] += "; pair: " + status.message();
  });
  for (int rank : {0, 1})
    CHECK(errors[rank] == "barrier stopped: rank 2 has left");
}

TEST_CASE("the first reason of an abort stays", "[comm]") {
  auto worlds = createThreadWorlds(1);
  auto comm = worlds[0]->group({0});
  REQUIRE(comm.ok());
  worlds[0]->abort("first");
  worlds[0]->abort("second");
  CHECK((*comm)->barrier().message() == "barrier stopped: rank 0 aborted: first");
  worlds.clear(); // a communicator may outlive its world
  CHECK((*comm)->barrier().message() == "barrier stopped: rank 0 aborted: first");
}

TEST_CASE("a waiting rank sleeps", "[comm]") {
  double spent = 0; // processor seconds of the waiting thread
  onRanks(2, [&](int rank, std::unique_ptr<World> &world) {
    auto comm = world->group({0, 1});
    if (!comm)
      return;
    if (rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    (void)(*comm)->barrier();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    if (rank == 0)
      spent = double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec - before.tv_nsec);
  });
  CHECK(spent < 0.05);
}

TEST_CASE("two threads of a rank may drive two groups", "[comm]") {
  std::atomic<int> wrong = 0;
  onRanks(3, [&](int rank, std::unique_ptr<World> &world) {
    auto a = world->group({0, 1, 2}), b = world->group({2, 1, 0});
    if (!a || !b) {
      ++wrong;
      return;
    }
    auto run = [&](Communicator &comm) {
      for (int i = 0; i < 300; ++i) {
        int64_t value = comm.rank() + i, sum = 0;
        if (!comm.allReduce(&value, &sum, 1, plan::I64, plan::SUM) || sum != 3 + 3 * i)
          ++wrong;
      }
    };
    std::thread second([&] { run(**b); });
    run(**a);
    second.join();
  });
  CHECK(wrong == 0);
}
