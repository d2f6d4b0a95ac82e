// The trials of --pipeline auto, on costs that are known.
#include "compiler/driver/stages/StageTrials.h"

#include "catch2/catch.hpp"

#include <cmath>
#include <set>
#include <tuple>

using namespace tessera;
using strategies::Cost;
using strategies::kForbidden;

namespace {

/// A network whose kernels take `work` in all, whose stages wait for one another, and whose micro-batches each read the
/// weights once more.
struct Network {
  int64_t work = 1'000'000, weights = 5'000, ranks = 8;
  int64_t leastParts = 1; // fewer micro-batches do not fit
  std::vector<int64_t> stages = {1, 2, 4, 8}, parts = {1, 2, 4, 8, 16, 32};
  std::vector<double> meshes = {1.3, 1.1, 1.2}; // by how much longer each takes
  size_t simple = 3;
  int64_t sent = 100'000; // by all ranks that do not lie in stages
  int64_t rows = 0;       // of a batch; where ranks of a stage do not divide them, a step takes half as long again
  int runs = 0;
  std::set<std::tuple<int64_t, int64_t, size_t>> seen;

  Cost bound(int64_t s, int64_t m) const {
    return Cost(double(work + weights * m) / double(ranks) * (s > m ? double(s) / double(m) : 1));
  }
  Cost cost(const StageTrial &trial) const {
    if (trial.microBatches < leastParts)
      return kForbidden;
    const double busy = double(work + weights * trial.microBatches) / double(ranks) * meshes[trial.mesh];
    return Cost(busy * double(trial.microBatches + trial.stages - 1) / double(trial.microBatches) *
                    (divides(trial.stages, trial.microBatches) ? 1 : 1.5) +
                double(sent) / double(trial.stages));
  }
  bool divides(int64_t s, int64_t m) const { return rows % (m * (ranks / s)) == 0; }
  Cost least() const {
    Cost best = kForbidden;
    for (int64_t s : stages)
      for (int64_t m : parts)
        for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
          best = std::min(best, cost({s, m, mesh}));
    return best;
  }

  TriedStages run(std::function<bool()> stopped = [] { return false; }) {
    runs = 0;
    seen.clear();
    llvm::Expected<TriedStages> tried =
        tryStages({.stages = stages,
                   .microBatches = parts,
                   .bound = [&](int64_t s, int64_t m) -> llvm::Expected<Cost> { return bound(s, m); },
                   .meshes =
                       [&](int64_t) {
                         return StageMeshes{simple, meshes.size()};
                       },
                   .similar =
                       [&](int64_t, const StageTrial &like) {
                         std::vector<size_t> list = {like.mesh};
                         for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
                           if (mesh != like.mesh)
                             list.push_back(mesh);
                         return list;
                       },
                   .run = [&](llvm::ArrayRef<StageTrial> list, Cost) -> llvm::Expected<std::vector<Cost>> {
                     std::vector<Cost> costs;
                     for (const StageTrial &trial : list) {
                       ++runs;
                       CHECK(seen.insert({trial.stages, trial.microBatches, trial.mesh}).second); // nothing twice
                       costs.push_back(cost(trial));
                     }
                     return costs;
                   },
                   .divides = [&](int64_t s, int64_t m) { return divides(s, m); },
                   .stopped = std::move(stopped)});
    REQUIRE(bool(tried));
    return std::move(*tried);
  }
  static Cost best(const TriedStages &tried) {
    Cost best = kForbidden;
    for (const auto &[trial, cost] : tried.trials)
      best = std::min(best, cost);
    return best;
  }
};

} // namespace

TEST_CASE("the best number of stages and of micro-batches is found with few trials") {
  for (int64_t weights : {100, 5'000, 50'000})
    for (int64_t sent : {0, 100'000, 1'000'000, 10'000'000})
      for (int64_t leastParts : {1, 4, 32}) {
        Network net;
        net.weights = weights;
        net.sent = sent;
        net.leastParts = leastParts;
        const TriedStages tried = net.run();
        CHECK(Network::best(tried) == net.least());
        CHECK(net.runs <= 48); // of 72
      }
}

TEST_CASE("numbers of stages that cannot be faster are left out") {
  Network net;
  net.sent = 0;
  net.weights = 0;
  net.meshes = {1};
  net.simple = 1;
  net.parts = {2};
  const TriedStages tried = net.run(); // one stage reaches the bound, so the bound of the others is no less
  CHECK(net.runs == 1);
  CHECK(tried.leftOut == std::vector<int64_t>{2, 4, 8});
}

TEST_CASE("where more micro-batches help, fewer are not tried") {
  Network net;
  net.stages = {8};
  net.weights = 100;
  net.meshes = {3, 2.5, 2.8}; // far above the bounds
  net.run();                  // the bound is least for 8
  for (size_t mesh = 0; mesh < net.meshes.size(); ++mesh)
    CHECK(!net.seen.count({8, 4, mesh}));
  CHECK(net.seen.count({8, 16, 1}));
  net.weights = 1'000'000;
  net.run();
  CHECK(net.seen.count({8, 4, 1}));
}

TEST_CASE("of what does not fit with any number of micro-batches few are tried") {
  Network net;
  net.leastParts = 64;
  net.meshes = std::vector<double>(9, 1.0);
  net.simple = 9;
  net.run();
  CHECK(net.runs <= 4 * 3 * 4); // three meshes each, in larger and larger steps
}

TEST_CASE("numbers of micro-batches between those that were tried come last, and so do other meshes") {
  Network net;
  net.parts = {1, 2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 36, 48, 72, 144};
  net.meshes = {1.3, 1.1, 1.2, 1.05};
  net.sent = 3'000'000;
  const TriedStages tried = net.run();
  CHECK(Network::best(tried) == net.least());
}

TEST_CASE("numbers of micro-batches between those that were tried count for every number of stages") {
  for (int64_t weights : {1'000, 3'000, 10'000, 30'000, 100'000})
    for (int64_t sent : {100'000, 300'000, 1'000'000, 3'000'000}) {
      Network net;
      net.ranks = 12;
      net.stages = {1, 2, 3, 4, 6, 12};
      net.parts = {1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60};
      net.weights = weights;
      net.sent = sent;
      const TriedStages tried = net.run();
      INFO(weights << " for weights, " << sent << " sent");
      CHECK(Network::best(tried) == net.least());
    }
}

TEST_CASE("where rows are not divided, numbers of micro-batches that divide them are tried") {
  // Of 12 ranks and 60 rows in 3 stages of 4 ranks: 2 micro-batches leave 7 1/2 rows for a rank, 3 leave 5.
  Network net;
  net.ranks = 12;
  net.stages = {2, 3};
  net.parts = {1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60};
  net.rows = 60;
  net.weights = 30'000;
  net.sent = 300'000;
  const TriedStages tried = net.run();
  CHECK(Network::best(tried) == net.least());
}

TEST_CASE("after an interrupt nothing more is tried once something fits") {
  Network net;
  net.run([] { return true; });
  CHECK(net.runs == 3);
}

TEST_CASE("an error ends the trials") {
  Network net;
  llvm::Expected<TriedStages> tried =
      tryStages({.stages = {1, 2},
                 .microBatches = {1},
                 .bound = [](int64_t, int64_t) -> llvm::Expected<Cost> { return Cost(1); },
                 .meshes =
                     [](int64_t) {
                       return StageMeshes{1, 1};
                     },
                 .similar = [](int64_t, const StageTrial &like) { return std::vector<size_t>{like.mesh}; },
                 .run = [](llvm::ArrayRef<StageTrial>, Cost) -> llvm::Expected<std::vector<Cost>> {
                   return llvm::createStringError("broken");
                 }});
  CHECK(llvm::toString(tried.takeError()) == "broken");
}

TEST_CASE("numbers are widely spaced") {
  CHECK(widelySpaced({1}) == std::vector<int64_t>{1});
  CHECK(widelySpaced({1, 2, 4, 8}) == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(widelySpaced({1, 2, 3, 4, 6, 8, 12, 16, 24, 48}) == std::vector<int64_t>{1, 2, 4, 8, 16, 48});
  CHECK(widelySpaced({1, 7}) == std::vector<int64_t>{1, 7});
}
