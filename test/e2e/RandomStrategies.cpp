//===- RandomStrategies.cpp ----------------------------------------------------------------------===//
#include "test/e2e/RandomStrategies.h"

#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "compiler/training/Training.h"
#include "compiler/transform/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/Reshard.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Platform.h"
#include "runtime/telemetry/Progress.h"
#include "test/e2e/StrategyTesting.h"

#include "mlir/Pass/PassManager.h"

#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

using namespace mlir;
using tessera::dist::Sharding;

namespace tessera::test {

namespace {

class Annotator {
public:
  Annotator(ModuleOp module, const Mesh &mesh, unsigned seed) : module_(module), mesh_(mesh), random_(seed) {}

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
    for (size_t dim = 0; dim < shape.size(); ++dim)
      sharding.dims[dim] = inRandomUnits(sharding.dims[dim], shape[dim]);
    return sharding;
  }

  /// The axes of a cut in some unit that allows so many blocks, or as they are.
  dist::Cut inRandomUnits(const dist::Cut &cut, int64_t extent) {
    if (cut.empty() || below(2))
      return cut;
    SmallVector<int64_t> units;
    for (int64_t unit = 1; unit < extent; ++unit)
      if (Sharding::canCut(extent, mesh_.size(cut), unit))
        units.push_back(unit);
    return units.empty() ? cut : dist::Cut(cut.axes(), units[below(units.size())]).canonical(mesh_, extent);
  }

  dist::ShardingAttr attr(const Sharding &sharding) {
    return dist::ShardingAttr::get(module_.getContext(), mesh_, sharding);
  }

  /// Axes in random order, each to a factor that it can cut, to partial sums that pass, or to nothing.
  Strategy drawn(const ShardingRule &rule, ArrayRef<dist::Shape> operands, ArrayRef<dist::Shape> results) {
    Strategy strategy;
    strategy.factors.resize(rule.factors.size());
    int group = !rule.linear.empty() && below(2) ? int(below(rule.linear.size())) : -1;
    SmallVector<int> axes;
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      axes.insert(axes.begin() + below(axes.size() + 1), axis);
    for (int axis : axes) {
      SmallVector<int> places = {-1};
      if (group >= 0)
        places.append(2, -2);
      for (int f = 0; f < int(rule.factors.size()); ++f)
        if (dist::canShard(rule, f, mesh_.size(strategy.factors[f]) * mesh_.axisSize(axis), operands, results))
          places.push_back(f);
      int place = places[below(places.size())];
      if (place >= 0)
        strategy.factors[place].push_back(axis);
      else if (place == -2)
        strategy.partial.push_back(axis);
    }
    for (int f = 0; f < int(rule.factors.size()); ++f) {
      dist::Cut cut = inRandomUnits(strategy.factors[f], rule.factors[f].size);
      if (cut.unit > 1 && dist::canShard(rule, f, mesh_.size(cut), operands, results, cut.unit))
        strategy.factors[f] = cut;
    }
    llvm::sort(strategy.partial);
    if (!strategy.partial.empty())
      strategy.linear = group;
    return strategy;
  }

  /// Partial results are handed on, reduced at once, or scattered over the dimensions.
  void settle(const ShardingRule &rule, Strategy &strategy, ArrayRef<dist::Shape> shapes) {
    if (rule.results.empty() || !dist::naturalResult(mesh_, rule, strategy, 0).isPartial() || below(2))
      return;
    bool scatter = rule.results.size() == 1 && below(2);
    for (size_t r = 0; r < rule.results.size(); ++r) {
      Sharding natural = dist::naturalResult(mesh_, rule, strategy, int(r)), reduced = natural.withoutPartial();
      for (int axis : natural.partial) {
        size_t dim = below(reduced.dims.size() + 1);
        if (!scatter || dim == reduced.dims.size())
          continue;
        dist::Cut further = reduced.dims[dim];
        further.push_back(axis);
        if (Sharding::canCut(shapes[r][dim], mesh_.size(further), further.unit))
          reduced.dims[dim] = inRandomUnits(further.canonical(mesh_, shapes[r][dim]), shapes[r][dim]);
      }
      strategy.results.push_back(reduced);
    }
  }

  Strategy choose(Operation *op, const ShardingRule &rule, const llvm::DenseMap<Value, Sharding> &handedOn) {
    auto operands = dist::operandShapes(op), results = dist::resultShapes(op);
    for (int tries = 0; tries < 16; ++tries) {
      Strategy strategy = drawn(rule, operands, results);
      settle(rule, strategy, results);
      if (llvm::Error e = dist::verifyStrategy(rule, strategy, mesh_, operands, results)) {
        llvm::consumeError(std::move(e));
        continue;
      }
      bool reachable = true;
      for (unsigned i = 0; i < op->getNumOperands(); ++i)
        reachable &= dist::canReshard(mesh_, handedOn.lookup(op->getOperand(i)),
                                      dist::operandSharding(mesh_, rule, strategy, int(i)));
      if (reachable)
        return strategy;
    }
    Strategy whole;
    whole.factors.resize(rule.factors.size());
    return whole;
  }

  void annotate(func::FuncOp func) {
    llvm::DenseMap<Value, Sharding> handedOn;
    std::map<unsigned, Sharding> updates;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      bool lasting = graph::argRole(func, i) == graph::kParameter || graph::argRole(func, i) == graph::kState;
      Sharding sharding = randomSharding(func.getArgumentTypes()[i]);
      if (lasting) // the same in all programs
        sharding = lasting_.try_emplace(graph::argName(func, i).str(), sharding).first->second;
      func.setArgAttr(i, dist::kShardingAttr, attr(sharding));
      handedOn[func.getArgument(i)] = sharding;
      if (auto result = graph::updateOf(func, i))
        updates[*result] = sharding;
    }
    for (unsigned i = 0; i < func.getNumResults(); ++i)
      func.setResultAttr(i, dist::kShardingAttr,
                         attr(updates.count(i) ? updates[i] : randomSharding(func.getResultTypes()[i])));
    for (Operation &op : func.getBody().front().without_terminator()) {
      ShardingRule rule = llvm::cantFail(dist::boundRule(&op));
      Strategy chosen = choose(&op, rule, handedOn);
      dist::setStrategy(&op, rule, mesh_, chosen);
      for (OpResult result : op.getResults())
        handedOn[result] = dist::resultSharding(mesh_, rule, chosen, int(result.getResultNumber()));
    }
  }

  ModuleOp module_;
  const Mesh &mesh_;
  std::mt19937 random_;
  std::map<std::string, Sharding> lasting_;
};

} // namespace

double uniform(const std::string &name, size_t index, int step) {
  uint64_t h = 1469598103934665603u + uint64_t(step) * 97;
  for (char c : name)
    h = (h ^ uint64_t(c)) * 1099511628211u;
  h = (h + index) * 0x9E3779B97F4A7C15u;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9u;
  return double(h >> 40) / double(1 << 24);
}

namespace {

/// One rank's part of an execution.
class Rank {
public:
  Rank(const plan::Plan &plan, rt::Executor &executor, const Feeds &feeds, Outcome &outcome)
      : plan_(plan), executor_(executor), feeds_(feeds), outcome_(outcome) {}

  rt::Status run() {
    TESSERA_RETURN_IF_ERROR(fill());
    for (int p = 0; p < plan_.programs_size(); ++p)
      if (plan_.programs(p).name() == "train")
        for (int step = 0; step < feeds_.steps; ++step) {
          TESSERA_RETURN_IF_ERROR(feed("train", step));
          TESSERA_RETURN_IF_ERROR(executor_.feedStep("train", step));
          TESSERA_RETURN_IF_ERROR(executor_.run(p));
          for (int b : executor_.bindings(plan::LOSS, "train"))
            TESSERA_RETURN_IF_ERROR(keep(b, "loss " + std::to_string(step)));
        }
    for (int p = 0; p < plan_.programs_size(); ++p)
      if (plan_.programs(p).name() != "train") {
        TESSERA_RETURN_IF_ERROR(feed(plan_.programs(p).name(), 7));
        TESSERA_RETURN_IF_ERROR(executor_.run(p));
      }
    for (int b = 0; b < plan_.bindings_size(); ++b) {
      const plan::Binding &binding = plan_.bindings(b);
      bool result = binding.role() == plan::OUTPUT || binding.role() == plan::LOSS || binding.role() == plan::CORRECT ||
                    binding.role() == plan::PREDICTIONS;
      if ((result && binding.program() != "train") || binding.role() == plan::PARAMETER ||
          binding.role() == plan::STATE)
        TESSERA_RETURN_IF_ERROR(keep(b, plan::Role_Name(binding.role()) + " " + binding.name()));
    }
    return rt::Status();
  }

private:
  std::vector<int64_t> shapeOf(const plan::Binding &binding) const {
    return rt::toVector(plan_.buffers(int(binding.buffer())).shape());
  }
  double real(const std::string &name, size_t index, int step) const {
    return (uniform(name, index, step) - 0.5) * (1 + feeds_.jitter * (uniform(name + " jitter", index, step) - 0.5));
  }

  /// Parameters as if from a file; states by their fill.
  rt::Status fill() {
    for (int b = 0; b < plan_.bindings_size(); ++b) {
      const plan::Binding &binding = plan_.bindings(b);
      if (binding.role() != plan::PARAMETER && binding.role() != plan::STATE)
        continue;
      plan::DType type = executor_.heldType(b);
      std::vector<char> box(*rt::bytesOf(shapeOf(binding), type));
      eachElement(plan_, binding, [&](size_t g, size_t i) {
        write(box, type, i, binding.role() == plan::STATE ? binding.fill() : real(binding.name(), g, 0));
      });
      TESSERA_RETURN_IF_ERROR(executor_.loaded().upload(binding.buffer(), box.data()));
    }
    return rt::Status();
  }

  rt::Status feed(const std::string &program, int step) {
    for (int b = 0; b < plan_.bindings_size(); ++b) {
      const plan::Binding &binding = plan_.bindings(b);
      bool fed = binding.role() == plan::INPUT || binding.role() == plan::TARGET;
      if (!fed || binding.program() != program)
        continue;
      plan::DType type = plan_.buffers(int(binding.buffer())).dtype();
      std::vector<char> box(*rt::bytesOf(shapeOf(binding), type));
      int64_t classes = binding.role() == plan::TARGET ? feeds_.classes : feeds_.ids;
      eachElement(plan_, binding, [&](size_t g, size_t i) {
        write(box, type, i,
              type == plan::I64 ? std::floor(uniform(binding.name(), g, step) * double(classes))
                                : real(binding.name(), g, step));
      });
      TESSERA_RETURN_IF_ERROR(executor_.feed(b, box.data()));
    }
    return rt::Status();
  }

  rt::Status keep(int b, const std::string &name) {
    const plan::Binding &binding = plan_.bindings(b);
    std::vector<char> bytes;
    TESSERA_RETURN_IF_ERROR(executor_.fetch(b, bytes));
    Values &global = outcome_[name];
    int64_t count = 1;
    for (int64_t d : binding.global_shape())
      count *= d;
    global.resize(size_t(count), kElsewhere);
    eachElement(plan_, binding, [&](size_t g, size_t i) { global[g] = read(bytes, executor_.heldType(b), i); });
    return rt::Status();
  }

  const plan::Plan &plan_;
  rt::Executor &executor_;
  const Feeds &feeds_;
  Outcome &outcome_;
};

} // namespace

void prepare(ModuleOp module, const compiler::TrainingOptions *training) {
  if (training)
    if (llvm::Error e = compiler::buildTraining(module, *training))
      throw std::runtime_error(llvm::toString(std::move(e)));
  PassManager manager(module.getContext());
  manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
  manager.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
  if (failed(manager.run(module)))
    throw std::runtime_error("normalisations cannot be decomposed");
  if (training)
    module.lookupSymbol<func::FuncOp>("infer").erase();
}

void annotateRandomly(ModuleOp module, const Mesh &mesh, unsigned seed) { Annotator(module, mesh, seed).run(); }

std::vector<plan::Plan> partitioned(ModuleOp module, bool fuse) {
  std::string why;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) {
    why += d.str() + "\n";
    return success();
  });
  PassManager manager(module.getContext());
  compiler::PartitionOptions options;
  options.fuse = fuse;
  compiler::buildPartitionPipeline(manager, options);
  if (failed(manager.run(module)))
    throw std::runtime_error("partition: " + why);
  auto plans = compiler::buildPlans(module, {.model = "network"});
  if (!plans)
    throw std::runtime_error("emit: " + llvm::toString(plans.takeError()));
  return std::move(*plans);
}

std::vector<Outcome> execute(const std::vector<plan::Plan> &plans, const Feeds &feeds) {
  std::vector<Outcome> outcomes(plans.size());
  rt::Status status = rt::runRanks(int(plans.size()), [&](rt::World &world) -> rt::Status {
    const plan::Plan &plan = plans[world.rank()];
    auto platform = rt::Platform::open({feeds.backend, world.rank(), int(plans.size())}, world);
    if (!platform)
      return platform.status();
    auto executor = rt::Executor::create(plan, *platform->backend, world,
                                         {.threads = feeds.threads, .widen = feeds.widen}, platform->deviceWorld.get());
    if (!executor)
      return executor.status();
    return Rank(plan, **executor, feeds, outcomes[world.rank()]).run();
  });
  if (!status.ok())
    throw std::runtime_error("run: " + std::string(status.message()));
  return outcomes;
}

double distance(const Values &expected, const Values &got) {
  double worst = 0, largest = 1e-3;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    if (got[i] == kElsewhere)
      continue;
    double off = std::abs(got[i] - expected[i]);
    worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  return worst / largest;
}

/// The first of a rank's elements that has other bits than are expected; empty if none has.
static std::string otherBits(const Values &expected, const Values &got) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (got[i] != kElsewhere && std::bit_cast<uint64_t>(got[i]) != std::bit_cast<uint64_t>(expected[i]) &&
        !(std::isnan(got[i]) && std::isnan(expected[i])))
      return "element " + std::to_string(i) + " is " + rt::numberText(got[i], 17) + " and not " +
             rt::numberText(expected[i], 17);
  return "";
}

std::string difference(const Outcome &expected, const std::vector<Outcome> &ranks, double limit) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string where = "rank " + std::to_string(rank) + ", ";
    if (ranks[rank].size() != expected.size())
      return where + "another number of tensors";
    for (const auto &[name, values] : expected) {
      auto found = ranks[rank].find(name);
      if (found == ranks[rank].end() || found->second.size() != values.size())
        return where + name + ": not there, or of another size";
      if (limit == 0) {
        if (std::string other = otherBits(values, found->second); !other.empty())
          return where + name + ": " + other;
        continue;
      }
      double far = distance(values, found->second);
      if (!(far <= limit))
        return where + name + ": differs by " + std::to_string(far / limit) + " times the limit";
    }
  }
  return "";
}

} // namespace tessera::test
