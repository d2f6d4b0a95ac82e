//===- random_programs_test.cpp - a whole training under random strategies -----------------------===//
//
// The network of network.mlir (and of network_padded.mlir) with loss, gradients and optimizer. Every operator gets a random strategy of those
// its rule allows, every argument and result a random sharding; between any two of them the reshards follow.
// Some steps of training and an evaluation must give what one rank gives. This exercises what tests of single
// operators cannot: reshards between all kinds of neighbours, partial sums that pass through several
// operators, fusion, scheduling, memory that is used again, parameters that are updated in place.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Training.h"
#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/Reshard.h"
#include "dialects/graph/Graph.h"
#include "runtime/executor/Executor.h"
#include "runtime/executor/Launcher.h"
#include "runtime/plan/PlanFile.h"
#include "test/e2e/StrategyTesting.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;
using dist::Sharding;

namespace {

constexpr int kSteps = 3;

struct Harness {
  MLIRContext context;
  OwningOpRef<ModuleOp> training;

  explicit Harness(const std::string &optimizer, const std::string &file = "network.mlir") {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    training = parseSourceFile<ModuleOp>(std::string(TESSERA_TEST_DIR) + "/" + file,
                                         ParserConfig(&context));
    REQUIRE(training);
    compiler::TrainingOptions options;
    options.optimizer = llvm::cantFail(compiler::parseOptimizer(optimizer));
    if (llvm::Error e = compiler::buildTraining(*training, options))
      FAIL(llvm::toString(std::move(e)));
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
    manager.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
    REQUIRE(succeeded(manager.run(*training)));
    for (func::FuncOp func : llvm::make_early_inc_range(training->getOps<func::FuncOp>()))
      if (func.getName() == "infer")
        func.erase();
  }
};

class Annotator {
public:
  Annotator(ModuleOp module, const Mesh &mesh, unsigned seed)
      : module_(module), mesh_(mesh), random_(seed) {}

  void run() {
    dist::setMesh(module_, mesh_);
    for (func::FuncOp func : module_.getOps<func::FuncOp>())
      annotate(func);
  }

private:
  size_t below(size_t n) { return random_() % n; }

  Sharding randomSharding(Type type) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(type).getShape();
    Sharding sharding = Sharding::replicated(int64_t(shape.size()));
    for (int axis = 0; axis < mesh_.numAxes(); ++axis) {
      size_t dim = below(shape.size() + 1);
      if (dim == shape.size())
        continue;
      sharding.dims[dim].push_back(axis);
      if (!Sharding::canCut(shape[dim], sharding.numShards(mesh_, int64_t(dim))))
        sharding.dims[dim].pop_back();
    }
    return sharding;
  }

  dist::ShardingAttr attr(const Sharding &sharding) {
    return dist::ShardingAttr::get(module_.getContext(), mesh_, sharding);
  }

  void annotate(func::FuncOp func) {
    llvm::DenseMap<Value, Sharding> handedOn;
    std::map<unsigned, Sharding> updates;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      bool lasting =
          graph::argRole(func, i) == graph::kParameter || graph::argRole(func, i) == graph::kState;
      Sharding sharding = randomSharding(func.getArgumentTypes()[i]);
      if (lasting) // the same in all programs
        sharding = lasting_.try_emplace(graph::argName(func, i).str(), sharding).first->second;
      func.setArgAttr(i, dist::kShardingAttr, attr(sharding));
      handedOn[func.getArgument(i)] = sharding;
      if (auto result = graph::updateOf(func, i))
        updates[*result] = sharding;
    }
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      func.setResultAttr(
          i, dist::kShardingAttr,
          attr(updates.count(i) ? updates[i] : randomSharding(func.getResultTypes()[i])));
    for (Operation &op : func.getBody().front().without_terminator()) {
      ShardingRule rule =
          llvm::cantFail(cast<dist::ShardingRuleOpInterface>(&op).getShardingRule());
      std::vector<Strategy> strategies = allStrategies(rule, mesh_, &op);
      llvm::erase_if(strategies, [&](const Strategy &strategy) {
        for (unsigned i = 0; i < op.getNumOperands(); ++i)
          if (!dist::canReshard(mesh_, handedOn[op.getOperand(i)],
                                dist::operandSharding(rule, strategy, int(i))))
            return true;
        return false;
      });
      REQUIRE(!strategies.empty());
      // Half the time one that lets partial sums pass, if there is any.
      std::vector<Strategy> passing;
      for (const Strategy &strategy : strategies)
        if (strategy.linear >= 0)
          passing.push_back(strategy);
      const std::vector<Strategy> &from = !passing.empty() && below(2) ? passing : strategies;
      const Strategy &chosen = from[below(from.size())];
      dist::setStrategy(&op, rule, mesh_, chosen);
      for (OpResult result : op.getResults())
        handedOn[result] = dist::resultSharding(rule, chosen, int(result.getResultNumber()));
    }
  }

  ModuleOp module_;
  const Mesh &mesh_;
  std::mt19937 random_;
  std::map<std::string, Sharding> lasting_;
};

/// A value of an input or a parameter by name and place, the same on every mesh.
double valueOf(const std::string &name, size_t index, int step) {
  uint64_t h = 1469598103934665603u + uint64_t(step) * 97;
  for (char c : name)
    h = (h ^ uint64_t(c)) * 1099511628211u;
  h = (h + index) * 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9u;
  return double(h >> 40) / double(1 << 24) - 0.5;
}

/// Losses, then the outputs of the evaluation, then parameters and states; the global tensors.
using Outcome = std::map<std::string, Values>;

rt::Status train(const plan::Plan &plan, rt::World &world, Outcome &outcome) {
  auto backend = rt::createBackend("reference");
  if (!backend)
    return backend.status();
  auto made = rt::Executor::create(plan, **backend, world, {.threads = 1, .widen = true});
  if (!made)
    return made.status();
  rt::Executor &executor = **made;
  auto uploads = [&](const std::string &program, int step) -> rt::Status {
    for (int b = 0; b < plan.bindings_size(); ++b) {
      const plan::Binding &binding = plan.bindings(b);
      bool fed = binding.role() == plan::INPUT || binding.role() == plan::TARGET;
      if (!fed || binding.program() != program)
        continue;
      plan::DType type = plan.buffers(int(binding.buffer())).dtype();
      std::vector<char> box(
          *rt::bytesOf(rt::toVector(plan.buffers(int(binding.buffer())).shape()), type));
      eachElement(plan, binding, [&](size_t g, size_t i) {
        double value = valueOf(binding.name(), g, step);
        int classes = binding.role() == plan::TARGET ? 4 : 8;
        write(box, type, i, type == plan::I64 ? std::floor((value + 0.5) * classes) : value);
      });
      TESSERA_RETURN_IF_ERROR(executor.feed(b, box.data()));
    }
    return rt::Status();
  };
  auto keep = [&](int b, const std::string &name) -> rt::Status {
    const plan::Binding &binding = plan.bindings(b);
    std::vector<char> bytes;
    TESSERA_RETURN_IF_ERROR(executor.fetch(b, bytes));
    Values &global = outcome[name];
    int64_t count = 1;
    for (int64_t d : binding.global_shape())
      count *= d;
    global.resize(size_t(count), std::nan(""));
    eachElement(plan, binding,
                [&](size_t g, size_t i) { global[g] = read(bytes, executor.heldType(b), i); });
    return rt::Status();
  };
  // Parameters as if from a file; states by their fill.
  for (int b = 0; b < plan.bindings_size(); ++b) {
    const plan::Binding &binding = plan.bindings(b);
    if (binding.role() != plan::PARAMETER && binding.role() != plan::STATE)
      continue;
    plan::DType type = executor.heldType(b);
    std::vector<char> box(
        *rt::bytesOf(rt::toVector(plan.buffers(int(binding.buffer())).shape()), type));
    eachElement(plan, binding, [&](size_t g, size_t i) {
      write(box, type, i,
            binding.role() == plan::STATE ? binding.fill() : valueOf(binding.name(), g, 0));
    });
    TESSERA_RETURN_IF_ERROR(executor.loaded().upload(binding.buffer(), box.data()));
  }
  int trainProgram = -1, evalProgram = -1;
  for (int p = 0; p < plan.programs_size(); ++p)
    (plan.programs(p).name() == "train" ? trainProgram : evalProgram) = p;
  for (int step = 0; step < kSteps; ++step) {
    TESSERA_RETURN_IF_ERROR(uploads("train", step));
    TESSERA_RETURN_IF_ERROR(executor.feedStep("train", step));
    TESSERA_RETURN_IF_ERROR(executor.run(trainProgram));
    for (int b : executor.bindings(plan::LOSS, "train"))
      TESSERA_RETURN_IF_ERROR(keep(b, "loss " + std::to_string(step)));
  }
  TESSERA_RETURN_IF_ERROR(uploads("eval", 7));
  TESSERA_RETURN_IF_ERROR(executor.run(evalProgram));
  for (int b = 0; b < plan.bindings_size(); ++b) {
    const plan::Binding &binding = plan.bindings(b);
    bool result = binding.role() == plan::OUTPUT || binding.role() == plan::LOSS ||
                  binding.role() == plan::CORRECT || binding.role() == plan::PREDICTIONS;
    if ((result && binding.program() == "eval") || binding.role() == plan::PARAMETER ||
        binding.role() == plan::STATE)
      TESSERA_RETURN_IF_ERROR(keep(b, std::to_string(binding.role()) + " " + binding.name()));
  }
  return rt::Status();
}

/// What every rank holds, each in its place of the global tensors.
std::vector<Outcome> run(ModuleOp module, bool fuse, compiler::MemoryReport *report = nullptr) {
  PassManager manager(module.getContext());
  compiler::PartitionOptions options;
  options.fuse = fuse;
  compiler::buildPartitionPipeline(manager, options);
  REQUIRE(succeeded(manager.run(module)));
  auto plans = compiler::buildPlans(module, {.model = "network"}, report);
  if (!plans)
    FAIL(llvm::toString(plans.takeError()));
  std::vector<Outcome> outcomes(plans->size());
  rt::Status status = rt::runRanks(int(plans->size()), [&](rt::World &world) {
    return train((*plans)[world.rank()], world, outcomes[world.rank()]);
  });
  if (!status.ok())
    FAIL(status.message());
  return outcomes;
}

void compare(const Outcome &expected, const std::vector<Outcome> &ranks) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    REQUIRE(ranks[rank].size() == expected.size());
    for (const auto &[name, values] : expected) {
      const Values &got = ranks[rank].at(name);
      REQUIRE(got.size() == values.size());
      double worst = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        REQUIRE(std::isfinite(values[i]));
        if (!std::isnan(got[i])) // what another rank holds
          worst =
              std::max(worst, std::abs(got[i] - values[i]) / std::max(1.0, std::abs(values[i])));
      }
      INFO("rank " << rank << ", " << name);
      CHECK(worst < 1e-10);
    }
  }
}

OwningOpRef<ModuleOp> onMesh(const Harness &harness, const Mesh &mesh, unsigned seed) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(harness.training.get()->clone());
  Annotator(*module, mesh, seed).run();
  return module;
}

} // namespace

TEST_CASE("a training gives under random strategies what it gives on one rank") {
  const char *file = GENERATE("network.mlir", "network_padded.mlir");
  for (const char *optimizer : {"sgd:lr=0.05,momentum=0.9,weight_decay=0.01", "adam:lr=0.01"}) {
    Harness harness(optimizer, file);
    OwningOpRef<ModuleOp> single = onMesh(harness, Mesh(), 0);
    Outcome expected = run(*single, /*fuse=*/false).front();
    CHECK(expected.size() > 15);
    CHECK(expected.at("loss 0").front() != expected.at("loss 2").front());
    {
      INFO("one rank, fused");
      OwningOpRef<ModuleOp> fused = onMesh(harness, Mesh(), 0);
      compare(expected, run(*fused, true));
    }
    for (const char *text : {"a=2", "a=4", "a=2,b=2"})
      for (unsigned seed = 1; seed <= 6; ++seed) {
        Mesh mesh = llvm::cantFail(Mesh::parse(text));
        INFO(file << ", " << optimizer << " on " << text << ", seed " << seed);
        OwningOpRef<ModuleOp> module = onMesh(harness, mesh, seed);
        compare(expected, run(*module, seed % 3 != 0));
      }
  }
}

TEST_CASE("the same module gives the same bytes") {
  Harness harness("sgd:lr=0.1");
  Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2"));
  auto bytes = [&] {
    OwningOpRef<ModuleOp> module = onMesh(harness, mesh, 3);
    PassManager manager(module->getContext());
    compiler::buildPartitionPipeline(manager);
    REQUIRE(succeeded(manager.run(*module)));
    std::string all;
    for (const plan::Plan &plan :
         llvm::cantFail(compiler::buildPlans(*module, {.model = "network"})))
      all += rt::serialize(plan);
    return all;
  };
  CHECK(bytes() == bytes());
}
