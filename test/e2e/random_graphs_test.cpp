//===- random_graphs_test.cpp - random graphs, meshes and strategies equal one rank --------------===//
//
// Each graph of RandomGraph.h runs on one rank, and once on a random mesh where every operator has a random
// strategy of those its rule allows, with or without fusion: losses, outputs, parameters and states must be the
// same. Where the graph is made reproducible, the bits must be. Some graphs run once more with collectives beside
// kernels, which must give the same bits. Graphs that amplify a change of their inputs by 1e-13
// above 1e-10 (a logarithm near a pole, a maximum that two elements share but for rounding) tell nothing and are
// passed over; they are few.
//
//   TESSERA_RANDOM_GRAPHS=100 TESSERA_RANDOM_SEED=5000 random_graphs_test     other graphs, or fewer
//
// Some also run on devices (`random_graphs_test [.device]`, with TESSERA_CUDA_MODULE), in double precision as well.
//
// A failure names its seed: TESSERA_RANDOM_GRAPHS=1 TESSERA_RANDOM_SEED=<it> repeats it and prints the program.
//
//===----------------------------------------------------------------------------------------------===//
#include "test/e2e/RandomGraph.h"
#include "test/e2e/RandomStrategies.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"

#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/lanes/RunBeside.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/raw_ostream.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;

namespace {

unsigned fromEnvironment(const char *name, unsigned otherwise) {
  const char *text = std::getenv(name);
  return text ? unsigned(std::strtoul(text, nullptr, 10)) : otherwise;
}

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

/// More of the small ones: they are quicker, and most mistakes need no more.
const std::vector<const char *> kMeshes = {"a=2", "a=2",     "a=3",     "a=3",     "a=4",     "a=5",
                                           "a=8", "a=2,b=2", "a=2,b=2", "a=2,b=3", "a=3,b=2", "a=2,b=2,c=2"};

/// One of so many graphs runs with collectives beside kernels as well.
constexpr unsigned kBeside = 4;

/// More than cores: ranks of small programs mostly wait for each other.
constexpr int kWorkers = 4;

struct Tally {
  std::set<std::string> operators;
  unsigned run = 0, trained = 0, fused = 0, padded = 0, inUnits = 0, beside = 0, passedOver = 0;

  void operator+=(const Tally &o) {
    operators.insert(o.operators.begin(), o.operators.end());
    run += o.run, trained += o.trained, fused += o.fused, padded += o.padded;
    inUnits += o.inUnits, beside += o.beside, passedOver += o.passedOver;
  }
};

void count(ModuleOp module, std::set<std::string> &operators) {
  module.walk([&](Operation *op) { operators.insert(op->getName().getStringRef().str()); });
}

/// Whether the strategy of some operator cuts a factor in units.
bool cutsInUnits(ModuleOp module) {
  bool found = false;
  module.walk([&](Operation *op) {
    if (auto strategy = op->getAttrOfType<dist::StrategyAttr>(dist::kStrategyAttr))
      found |= strategy.getText().contains('/');
  });
  return found;
}

bool cutsUnevenly(const std::vector<plan::Plan> &plans) {
  for (const plan::Plan &plan : plans)
    for (const plan::Binding &binding : plan.bindings())
      if (binding.extent_size())
        return true;
  return false;
}

/// What graphs run on.
struct Trial {
  std::string backend;
  std::vector<const char *> meshes;
  int64_t leaves = 0; // of a factor; not 0: reproducible programs, which must give the same bits
  int steps = kSteps;
  bool widen = true; // else as tessera-run computes: on both sides on the backend, on one thread and on two
};

/// What is wrong with the graph of this seed, or nothing.
std::string failure(unsigned seed, const Trial &trial, Tally &tally, std::string &text) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  RandomGraph graph = randomGraph(context, seed);
  text = printed(*graph.module);
  if (failed(verify(*graph.module)))
    return "the generator made an invalid program";
  count(*graph.module, tally.operators);
  prepare(*graph.module, graph.training ? &*graph.training : nullptr);
  if (trial.leaves > 0)
    dist::setLeaves(*graph.module, trial.leaves);
  std::mt19937 random(seed);
  auto draw = [&](const dist::Mesh &mesh) {
    OwningOpRef<ModuleOp> module = cast<ModuleOp>(graph.module->clone());
    annotateRandomly(*module, mesh, unsigned(random()));
    return module;
  };
  Feeds feeds = {.classes = graph.classes, .ids = kIds};
  std::vector<plan::Plan> whole = partitioned(*draw(dist::Mesh()), /*fuse=*/false);
  feeds.steps = trial.steps;
  Outcome expected;
  if (trial.widen) {
    expected = execute(whole, feeds).front();
    feeds.jitter = 1e-13;
    if (trial.leaves == 0 && !difference(expected, execute(whole, feeds), 1e-10).empty()) {
      ++tally.passedOver;
      return "";
    }
    feeds.jitter = 0;
  }
  feeds.backend = trial.backend;
  if (!trial.widen) {
    feeds.widen = false;
    expected = execute(whole, feeds).front();
    feeds.threads = 1 + int(seed % 2);
  }
  const char *shape = trial.meshes[random() % trial.meshes.size()];
  OwningOpRef<ModuleOp> module = draw(llvm::cantFail(dist::Mesh::parse(shape)));
  bool fuse = random() % 3 != 0;
  tally.inUnits += cutsInUnits(*module);
  text += "\non " + std::string(shape) + (fuse ? ", fused:\n" : ":\n") + printed(*module);
  count(*module, tally.operators);
  std::vector<plan::Plan> plans = partitioned(*module, fuse);
  count(*module, tally.operators);
  ++tally.run;
  tally.trained += graph.training.has_value();
  tally.fused += fuse;
  tally.padded += cutsUnevenly(plans);
  const std::vector<Outcome> apart = execute(plans, feeds);
  if (std::string wrong = difference(expected, apart, trial.leaves > 0 ? 0 : 1e-9);
      !wrong.empty() || random() % kBeside != 0)
    return wrong;
  // Collectives beside kernels: some, the same on all ranks.
  ++tally.beside;
  for (plan::Plan &plan : plans)
    rt::runBeside(plan,
                  [&](const plan::Program &, int step) { return std::mt19937(seed + unsigned(step))() % 3 != 0; });
  if (rt::Status status = rt::checkPlans(plans); !status.ok())
    return "beside kernels: " + status.message();
  const std::vector<Outcome> beside = execute(plans, feeds);
  for (size_t rank = 0; rank < beside.size(); ++rank)
    if (std::string wrong = difference(apart[rank], {beside[rank]}, 0); !wrong.empty())
      return "beside kernels, rank " + std::to_string(rank) + ": " + wrong;
  return "";
}

/// As many graphs as are wanted, of those that are not passed over, by several threads.
Tally tryAll(unsigned wanted, const Trial &trial) {
  unsigned next = fromEnvironment("TESSERA_RANDOM_SEED", 1);
  Tally tally;
  std::map<unsigned, std::string> failures; // by seed
  // For those passed over there are others.
  while (tally.run < wanted && tally.passedOver <= wanted && failures.empty()) {
    std::atomic<unsigned> at = next;
    unsigned end = next += wanted - tally.run;
    std::mutex mutex;
    auto work = [&] {
      Tally mine;
      for (unsigned seed; (seed = at++) < end;) {
        std::string text, wrong;
        try {
          wrong = failure(seed, trial, mine, text);
        } catch (const std::exception &e) {
          wrong = e.what();
        }
        if (wrong.empty())
          continue;
        std::lock_guard lock(mutex);
        failures[seed] = wrong + (wanted == 1 ? "\n" + text : "");
      }
      std::lock_guard lock(mutex);
      tally += mine;
    };
    std::vector<std::thread> workers;
    for (int i = 0; i < kWorkers; ++i)
      workers.emplace_back(work);
    for (std::thread &worker : workers)
      worker.join();
  }
  for (const auto &[seed, wrong] : failures)
    FAIL_CHECK("TESSERA_RANDOM_SEED=" << seed << ": " << wrong);
  WARN(tally.run << " graphs (" << tally.trained << " trained, " << tally.fused << " fused, " << tally.padded
                 << " with padded tensors, " << tally.inUnits << " cut in units, " << tally.beside
                 << " with collectives beside kernels), " << tally.passedOver << " passed over");
  CHECK(tally.run == wanted);
  CHECK(tally.passedOver <= wanted / 10 + 1);
  return tally;
}

} // namespace

TEST_CASE("random graphs give under random strategies what they give on one rank") {
  const unsigned wanted = fromEnvironment("TESSERA_RANDOM_GRAPHS", 1000);
  Tally tally = tryAll(wanted, {"reference", kMeshes});
  if (wanted < 1000)
    return;
  CHECK(tally.trained > wanted / 2);
  CHECK(tally.padded > wanted / 10);
  CHECK(tally.inUnits > wanted / 10);
  // Nothing is left out. (Made of a normalisation that is trained, and taken apart in the same breath.)
  tally.operators.insert({"graph.batch_norm_grad", "graph.log_softmax_grad"});
  // operator_strategies_test runs these under every strategy; the generator does not make them yet.
  tally.operators.insert({"graph.attention", "graph.attention_grad"});
  // Localisation makes it for sums of gradients (compress_test.py).
  tally.operators.insert("graph.orthonormalize");
  // Only reproducible programs have it: the graphs of the tests below.
  tally.operators.insert("graph.leaf_sums");
  MLIRContext context;
  context.loadDialect<graph::GraphDialect>();
  for (RegisteredOperationName name : context.getRegisteredOperationsByDialect("graph")) {
    INFO(name.getStringRef().str());
    CHECK(tally.operators.count(name.getStringRef().str()));
  }
}

TEST_CASE("reproducible random graphs give under random strategies the bits of one rank") {
  tryAll(fromEnvironment("TESSERA_RANDOM_GRAPHS", 300),
         {"reference", {"a=2", "a=3", "a=4", "a=8", "a=2,b=2", "a=2,b=4"}, 8});
}

TEST_CASE("reproducible random graphs train for 20 steps on CPUs to the bits of one rank and one thread") {
  tryAll(fromEnvironment("TESSERA_RANDOM_GRAPHS", 300),
         {"cpu", {"a=1", "a=2", "a=3", "a=4", "a=8", "a=2,b=2", "a=2,b=4"}, 8, 20, /*widen=*/false});
}

TEST_CASE("random graphs give on devices what they give on the reference backend", "[.device]") {
  tryAll(fromEnvironment("TESSERA_RANDOM_GRAPHS", 12), {"cuda", {"a=1", "a=1", "a=1", "a=2", "a=2,b=2"}});
}
