// Mode auto where collectives may run beside kernels: what it proves, and what it takes.
#include "Programs.h"
#include "strategies/cost/ProgramCost.h"
#include "strategies/modes/Modes.h"

using namespace tessera::strategies;

namespace {

/// A machine with links so slow that what is sent takes as long as what is computed, and kernels that do not mind.
Topology slowLinks(double bandwidth, double latency, double slowdown = 0) {
  return llvm::cantFail(Topology::parse(R"({"devices": 8, "flops": {"f32": 1e9}, "memory_bandwidth": 1e10,
      "memory": 1000000, "beside": {"slowdown": )" +
                                            std::to_string(slowdown) + R"(}, "links": [{"devices": 8, "latency": )" +
                                            std::to_string(latency) + R"(, "bandwidth": )" + std::to_string(bandwidth) +
                                            "}]}",
                                        "slow"));
}

FunctionReport trained(const char *mesh, const char *mode, const Topology &topology, Overlapping overlap,
                       int64_t most) {
  Module m(kMlp);
  AssignOptions options = optionsFor(mesh, mode);
  options.topology = topology;
  options.join.overlap = overlap;
  options.join.most = most;
  options.firstOnly = true;
  AssignReport report;
  REQUIRE(assign(m, options, &report) == "");
  return report.functions.front();
}

} // namespace

TEST_CASE("no step with collectives beside kernels takes less than is proven") {
  for (double bandwidth : {1e7, 1e8, 1e9})
    for (double latency : {0.0, 1e-6})
      for (int64_t most : {int64_t(0), tessera::graph::kAnySize})
        for (const char *mesh : {"a=2", "a=4", "a=2,b=2", "a=2,b=2,c=2"}) {
          INFO(mesh << ", " << bandwidth << " B/s, " << latency << " s, messages up to " << most);
          const Topology topology = slowLinks(bandwidth, latency);
          const FunctionReport found = trained(mesh, "auto", topology, Overlapping::Auto, most);
          const SearchReport &search = found.search;
          CHECK(search.besideBound > 0);
          CHECK(search.besideBound <= found.predicted());
          CHECK(found.besideGap() >= 0);
          // The bound is of all strategies: of those that were chosen without knowing what is hidden, too.
          const FunctionReport data = trained(mesh, "data", topology, Overlapping::On, most);
          CHECK(search.besideBound <= data.predicted());
          CHECK(found.predicted() <= data.predicted());
          CHECK(found.leastTime > 0);
          CHECK(found.leastTime <= found.predicted());
          CHECK(data.leastTime <= data.predicted());
          const FunctionReport sum = trained(mesh, "auto", topology, Overlapping::Off, most);
          CHECK(sum.search.besideBound == 0);
          CHECK(found.predicted() <= sum.predicted());
          CHECK(search.lowerBound <= sum.search.cost);
        }
}

TEST_CASE("where messages take hardly more than their start, the bound is the least compute") {
  for (const char *mesh : {"a=2", "a=4", "a=8"}) {
    INFO(mesh);
    const FunctionReport free = trained(mesh, "auto", slowLinks(1e15, 0), Overlapping::Off, tessera::graph::kAnySize);
    for (double latency : {1e-6, 1e-4, 1e-2}) {
      const FunctionReport found =
          trained(mesh, "auto", slowLinks(1e15, latency), Overlapping::Auto, tessera::graph::kAnySize);
      CHECK(double(found.search.besideBound) > 0.9 * double(free.compute));
    }
  }
}

TEST_CASE("what slows kernels down beside collectives raises what is proven, and no step takes less") {
  int raised = 0;
  for (double bandwidth : {1e7, 1e8, 1e9})
    for (const char *mesh : {"a=2", "a=4", "a=2,b=2"})
      for (double slowdown : {0.1, 0.2, 0.5}) {
        INFO(mesh << ", " << bandwidth << " B/s, slowed down by " << slowdown);
        const FunctionReport free = trained(mesh, "auto", slowLinks(bandwidth, 0), Overlapping::Auto, 0);
        const Topology topology = slowLinks(bandwidth, 0, slowdown);
        const FunctionReport found = trained(mesh, "auto", topology, Overlapping::Auto, 0);
        const FunctionReport data = trained(mesh, "data", topology, Overlapping::On, 0);
        CHECK(found.search.besideBound >= free.search.besideBound);
        CHECK(found.search.besideBound <= found.predicted());
        CHECK(found.search.besideBound <= data.predicted());
        CHECK(found.leastTime <= found.predicted());
        CHECK(data.leastTime <= data.predicted());
        raised += found.search.besideBound > free.search.besideBound;
      }
  CHECK(raised > 20);
}

TEST_CASE("a bound that is proven beside the next functions is the same, and who asks for none gets the same plan") {
  int proven = 0, less = 0;
  for (double bandwidth : {1e7, 1e8, 1e9})
    for (const char *mesh : {"a=4", "a=2,b=2", "a=2,b=2,c=2"}) {
      INFO(mesh << ", " << bandwidth << " B/s");
      auto found = [&](int threads, bool prove) {
        Module m(kMlp);
        AssignOptions options = optionsFor(mesh, "auto");
        options.topology = slowLinks(bandwidth, 1e-6);
        options.join.overlap = Overlapping::Auto;
        options.searchThreads = options.exactThreads = threads;
        options.proveBeside = prove;
        AssignReport report;
        REQUIRE(assign(m, options, &report) == "");
        return report;
      };
      const AssignReport alone = found(1, true), beside = found(2, true), none = found(1, false);
      REQUIRE(beside.functions.size() == alone.functions.size());
      REQUIRE(none.functions.size() == alone.functions.size());
      for (size_t f = 0; f < alone.functions.size(); ++f) {
        const FunctionReport &a = alone.functions[f], &b = beside.functions[f], &n = none.functions[f];
        CHECK(b.search.besideBound == a.search.besideBound);
        CHECK(b.search.work == a.search.work);
        CHECK(b.predicted() == a.predicted());
        CHECK(n.search.besideBound <= a.search.besideBound);
        CHECK(n.search.work <= a.search.work);
        CHECK(n.predicted() == a.predicted());
        proven += a.search.besideBound > 0;
        less += n.search.work < a.search.work;
      }
    }
  CHECK(proven > 0);
  CHECK(less > 0);
}

TEST_CASE("functions that are searched before the training step has ended take over its last answer") {
  std::string text = kMlp;
  for (size_t at; (at = text.find("<16x")) != text.npos;)
    text.replace(at, 4, "<64x");
  int changed = 0;
  for (double bandwidth : {1e9, 2e9, 4e9})
    for (const char *mesh : {"a=4", "a=2,b=2"}) {
      INFO(mesh << ", " << bandwidth << " B/s");
      auto laid = [&](int threads, Overlapping overlap, std::vector<Cost> &predicted) {
        Module m(text);
        AssignOptions options = optionsFor(mesh, "auto");
        options.topology = slowLinks(bandwidth, 1e-6);
        options.join.overlap = overlap;
        options.exactThreads = threads;
        AssignReport report;
        REQUIRE(assign(m, options, &report) == "");
        for (const FunctionReport &f : report.functions)
          predicted.push_back(f.predicted());
        const std::vector<std::string> parameters = {m.arg("train", 2), m.arg("train", 3)};
        CHECK(m.arg("eval", 1) == parameters[0]);
        CHECK(m.arg("eval", 2) == parameters[1]);
        return parameters;
      };
      std::vector<Cost> one, two, sum;
      const std::vector<std::string> alone = laid(1, Overlapping::Auto, one);
      CHECK(laid(2, Overlapping::Auto, two) == alone);
      CHECK(two == one);
      changed += laid(1, Overlapping::Off, sum) != alone;
    }
  CHECK(changed > 0); // the others begin with the answer without hiding, which is not the last one there
}

TEST_CASE("a program that takes longer in any order is not laid out in time") {
  Module m(kMlp);
  const AssignOptions options = optionsFor("a=4", "data");
  FunctionAssignment data(llvm::cantFail(Program::analyse(m.func("train"))));
  REQUIRE(!assignData(data, options, {}));
  const CostModel model(options.mesh, slowLinks(1e8, 1e-6));
  JoinOptions join;
  join.overlap = Overlapping::On;
  const ProgramCost whole = llvm::cantFail(priceProgram(chosenIn(data), model, join));
  REQUIRE(whole.leastTime > 0);
  CHECK(!llvm::cantFail(priceIfShorter(chosenIn(data), model, join, whole.leastTime)));
  const auto shorter = llvm::cantFail(priceIfShorter(chosenIn(data), model, join, whole.leastTime + 1));
  REQUIRE(shorter);
  CHECK(shorter->predicted() == whole.predicted());
  CHECK(shorter->communication == whole.communication);
  CHECK(shorter->peakBytes == whole.peakBytes);
}
