//===- operator_strategies_test.cpp - every operator under every strategy ------------------------===//
//
// Each function of operators.mlir and operators_padded.mlir holds one operator. It is run on one rank, and then under
// every strategy that the operator's rule allows on several meshes: through resharding, localisation, emission, the
// plan checker and the executor with the reference backend in float64. Every rank's box must equal the one-rank
// result: exactly where that is integers, to 1e-12 elsewhere.
//
// Where a strategy pads an operand's blocks, the operand is divided by ones (increased by what is 0 in whole
// numbers) whose padding is 0: 0/0 stands in the padding then, or a large number, and must not reach a result.
//
// Some strategies take an operand as a partial sum. Then a reduction over an additional outer dimension, which the
// partial axes cut, makes the operand.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/emit/Plans.h"
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"
#include "dialects/graph/Graph.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "test/e2e/StrategyTesting.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/raw_ostream.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <mutex>
#include <set>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;
using compiler::EmitOptions;
using dist::Mesh;
using dist::Shape;
using dist::ShardingRule;
using dist::Strategy;

namespace {

/// The extent of the additional dimension over which partial operands are summed.
constexpr int64_t kShares = 4;

class Harness {
public:
  MLIRContext context;
  OwningOpRef<ModuleOp> cases;

  explicit Harness(const char *file = "operators.mlir") {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.allowUnregisteredDialects(); // test.low, test.high
    context.disableMultithreading();
    cases = parse(file);
    if (StringRef(file) == "operators_padded.mlir")
      addPaddedElementwise();
  }

private:
  OwningOpRef<ModuleOp> parse(const std::string &file) {
    auto module = parseSourceFile<ModuleOp>(std::string(TESSERA_TEST_DIR) + "/" + file, ParserConfig(&context));
    REQUIRE(module);
    return module;
  }
  /// The elementwise operators of operators.mlir with 5 for 4 and 7 for 8.
  void addPaddedElementwise();
};

Operation *onlyOp(func::FuncOp func) { return &func.getBody().front().front(); }

void Harness::addPaddedElementwise() {
  OwningOpRef<ModuleOp> plain = parse("operators.mlir");
  for (func::FuncOp func : plain->getOps<func::FuncOp>()) {
    Operation *op = onlyOp(func);
    if (!graph::isElementwise(op) || !op->getAttrs().empty())
      continue;
    auto copy = cast<func::FuncOp>(func->clone());
    auto retype = [](Value value) {
      auto type = cast<RankedTensorType>(value.getType());
      Shape shape(type.getShape());
      for (int64_t &extent : shape)
        extent = extent == 4 ? 5 : extent == 8 ? 7 : extent;
      value.setType(RankedTensorType::get(shape, type.getElementType()));
    };
    llvm::for_each(copy.getArguments(), retype);
    llvm::for_each(onlyOp(copy)->getResults(), retype);
    copy.setFunctionType(
        FunctionType::get(&context, copy.getBody().front().getArgumentTypes(), onlyOp(copy)->getResultTypes()));
    cases->push_back(copy);
  }
}

/// A module with the one function as a program "infer" whose arguments are inputs and results outputs. Operands
/// in `summed` are made by reductions. No strategies yet.
OwningOpRef<ModuleOp> makeProgram(func::FuncOp original, llvm::ArrayRef<int> summed) {
  OpBuilder builder(original.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  auto func = cast<func::FuncOp>(original->clone());
  module->push_back(func);
  func.setName("infer");
  Block &block = func.getBody().front();
  Operation *op = onlyOp(func);
  for (int i : summed) {
    Value operand = op->getOperand(i);
    auto argument = cast<BlockArgument>(operand);
    auto type = cast<RankedTensorType>(operand.getType());
    Shape shape = {kShares};
    shape.append(type.getShape().begin(), type.getShape().end());
    argument.setType(RankedTensorType::get(shape, type.getElementType()));
    builder.setInsertionPoint(op);
    auto sum = graph::ReduceSumOp::create(builder, op->getLoc(), type, argument, builder.getDenseI64ArrayAttr({0}),
                                          builder.getBoolAttr(false));
    op->setOperand(i, sum.getY());
  }
  func.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), func.getResultTypes()));
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    func.setArgAttr(i, graph::kRoleAttr, builder.getStringAttr(graph::kInput));
    func.setArgAttr(i, graph::kNameAttr, builder.getStringAttr("arg" + std::to_string(i)));
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    func.setResultAttr(i, graph::kRoleAttr, builder.getStringAttr(graph::kOutput));
    func.setResultAttr(i, graph::kNameAttr, builder.getStringAttr("out" + std::to_string(i)));
  }
  return module;
}

/// What the arguments of spoilPadding hold, in whole numbers.
constexpr double kSpoiled = 1000;

/// An operator of two operands of one shape, with the first one's sharding.
template <typename Op>
Value spoil(OpBuilder &builder, Value a, Value b, const dist::Sharding &sharding, const Mesh &mesh) {
  auto op = Op::create(builder, a.getLoc(), a, b);
  ShardingRule rule = llvm::cantFail(op.getShardingRule());
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  for (int64_t d = 0; d < sharding.rank(); ++d)
    for (int f : rule.operands[0][d])
      strategy.factors[f] = sharding.dims[d];
  if (sharding.isPartial()) {
    strategy.linear = 0;
    strategy.partial = sharding.partial;
  }
  dist::setStrategy(op, rule, mesh, strategy);
  return op.getY();
}

/// Makes the operand's padding worse than the zeros that arguments come with.
void spoilPadding(OpOperand &operand, const dist::Sharding &sharding, const Mesh &mesh) {
  Operation *op = operand.getOwner();
  auto func = cast<func::FuncOp>(op->getParentOp());
  auto type = cast<RankedTensorType>(operand.get().getType());
  bool padded = false;
  for (int64_t d = 0; d < sharding.rank(); ++d)
    padded |= sharding.isPadded(mesh, type.getShape(), d);
  bool whole = !isa<FloatType>(type.getElementType());
  if (!padded || type.getElementType().isInteger(1) || (whole && sharding.isPartial()))
    return;
  OpBuilder builder(op);
  unsigned number = func.getNumArguments();
  auto text = [&](const llvm::Twine &s) { return builder.getNamedAttr(graph::kRoleAttr, builder.getStringAttr(s)); };
  auto attributes = builder.getDictionaryAttr(
      {text(graph::kInput), builder.getNamedAttr(graph::kNameAttr, builder.getStringAttr("arg" + llvm::Twine(number))),
       builder.getNamedAttr(dist::kShardingAttr,
                            dist::ShardingAttr::get(op->getContext(), mesh, sharding.withoutPartial()))});
  REQUIRE(succeeded(func.insertArgument(number, type, attributes, op->getLoc())));
  Value even = func.getArgument(number);
  if (!whole) {
    operand.set(spoil<graph::DivOp>(builder, operand.get(), even, sharding, mesh));
    return;
  }
  auto constant = graph::ConstantOp::create(builder, op->getLoc(), type, kSpoiled);
  ShardingRule rule = llvm::cantFail(constant.getShardingRule());
  Strategy strategy;
  strategy.factors.append(sharding.dims.begin(), sharding.dims.end());
  dist::setStrategy(constant, rule, mesh, strategy);
  Value zero = spoil<graph::SubOp>(builder, constant.getY(), even, sharding, mesh);
  operand.set(spoil<graph::AddOp>(builder, operand.get(), zero, sharding, mesh));
}

/// Writes strategies and shardings into a program made with `summed` = the strategy's linear group.
void annotate(ModuleOp module, const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy) {
  MLIRContext *context = module.getContext();
  dist::setMesh(module, mesh);
  auto func = *module.getOps<func::FuncOp>().begin();
  auto setArg = [&](Value value, const dist::Sharding &sharding) {
    func.setArgAttr(cast<BlockArgument>(value).getArgNumber(), dist::kShardingAttr,
                    dist::ShardingAttr::get(context, mesh, sharding));
  };
  Operation *op = func.getBody().front().getTerminator()->getPrevNode();
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    dist::Sharding want = dist::operandSharding(mesh, rule, strategy, int(i));
    Operation *sum = op->getOperand(i).getDefiningOp();
    if (!sum) {
      setArg(op->getOperand(i), want);
      continue;
    }
    ShardingRule sumRule = llvm::cantFail(cast<dist::ShardingRuleOpInterface>(sum).getShardingRule());
    Strategy sumStrategy;
    sumStrategy.factors.push_back(want.partial);
    sumStrategy.factors.append(want.dims.begin(), want.dims.end());
    dist::setStrategy(sum, sumRule, mesh, sumStrategy);
    setArg(sum->getOperand(0), dist::operandSharding(mesh, sumRule, sumStrategy, 0));
  }
  dist::setStrategy(op, rule, mesh, strategy);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    spoilPadding(op->getOpOperand(i), dist::operandSharding(mesh, rule, strategy, int(i)), mesh);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    func.setResultAttr(
        i, dist::kShardingAttr,
        dist::ShardingAttr::get(context, mesh, dist::resultSharding(mesh, rule, strategy, int(i)).withoutPartial()));
}

/// A global input: small integers, the same for every mesh.
Values makeInput(const plan::Plan &plan, const plan::Binding &binding, func::FuncOp original) {
  if (binding.ordinal() >= original.getNumArguments()) { // of spoilPadding
    int64_t count = 1;
    for (int64_t d : binding.global_shape())
      count *= d;
    bool whole = plan.buffers(int(binding.buffer())).dtype() == plan::I64;
    return Values(size_t(count), whole ? kSpoiled : 1);
  }
  auto limit = [&](const char *name, int64_t otherwise) {
    auto attr = original.getArgAttrOfType<IntegerAttr>(binding.ordinal(), name);
    return attr ? attr.getInt() : otherwise;
  };
  bool boolean = cast<RankedTensorType>(original.getArgumentTypes()[binding.ordinal()]).getElementType().isInteger(1);
  int64_t low = limit("test.low", boolean ? 0 : -3), high = limit("test.high", boolean ? 1 : 3), count = 1;
  for (int64_t d : binding.global_shape())
    count *= d;
  Values values;
  uint64_t state = 12345 + 7919 * binding.ordinal();
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(double(low + int64_t((state >> 33) % uint64_t(high - low + 1))));
  }
  return values;
}

/// What every rank holds of every output; by rank, output.
struct Outcome {
  std::string error;
  std::vector<plan::Plan> plans;
  std::vector<std::vector<Values>> outputs;
};

Outcome run(ModuleOp module, func::FuncOp original) {
  Outcome outcome;
  PassManager manager(module.getContext());
  compiler::buildPartitionPipeline(manager);
  if (failed(manager.run(module))) {
    outcome.error = "the partition pipeline failed";
    return outcome;
  }
  auto plans = compiler::buildPlans(module, EmitOptions{.model = "test"});
  if (!plans) {
    outcome.error = llvm::toString(plans.takeError());
    return outcome;
  }
  outcome.plans = std::move(*plans);
  outcome.outputs.resize(outcome.plans.size());
  rt::Status status = rt::runRanks(int(outcome.plans.size()), [&](rt::World &world) -> rt::Status {
    const plan::Plan &plan = outcome.plans[world.rank()];
    auto backend = rt::createBackend("reference");
    if (!backend)
      return backend.status();
    auto executor = rt::Executor::create(plan, **backend, world, {.threads = 1, .widen = true});
    if (!executor)
      return executor.status();
    for (int b : (*executor)->bindings(plan::INPUT, "infer")) {
      const plan::Binding &binding = plan.bindings(b);
      Values global = makeInput(plan, binding, original);
      std::vector<char> box(*rt::bytesOf(rt::toVector(plan.buffers(int(binding.buffer())).shape()),
                                         plan.buffers(int(binding.buffer())).dtype()));
      eachElement(plan, binding,
                  [&](size_t g, size_t i) { write(box, plan.buffers(int(binding.buffer())).dtype(), i, global[g]); });
      TESSERA_RETURN_IF_ERROR((*executor)->feed(b, box.data()));
    }
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    for (int b : (*executor)->bindings(plan::OUTPUT, "infer")) {
      std::vector<char> bytes;
      TESSERA_RETURN_IF_ERROR((*executor)->fetch(b, bytes));
      Values values;
      eachElement(plan, plan.bindings(b), [&](size_t, size_t i) {
        values.resize(std::max(values.size(), i + 1));
        values[i] = read(bytes, (*executor)->heldType(b), i);
      });
      outcome.outputs[world.rank()].push_back(std::move(values));
    }
    return rt::Status();
  });
  if (!status.ok())
    outcome.error = status.message();
  return outcome;
}

/// Empty if every rank's box of every output is that of the one-rank run.
std::string difference(const Outcome &whole, const Outcome &parts) {
  if (!parts.error.empty())
    return parts.error;
  for (size_t rank = 0; rank < parts.plans.size(); ++rank) {
    const plan::Plan &plan = parts.plans[rank];
    for (const plan::Binding &binding : plan.bindings()) {
      if (binding.role() != plan::OUTPUT)
        continue;
      const Values &expected = whole.outputs[0][binding.ordinal()], &got = parts.outputs[rank][binding.ordinal()];
      bool integers = llvm::all_of(expected, [](double v) { return v == std::floor(v); });
      std::string text;
      eachElement(plan, binding, [&](size_t g, size_t i) {
        double want = expected[g], have = got[i];
        double limit = integers ? 0 : 1e-12 * std::max(1.0, std::abs(want));
        if (!(std::abs(have - want) <= limit) && text.empty())
          text = "rank " + std::to_string(rank) + ", element " + std::to_string(g) + ": " + std::to_string(have) +
                 " instead of " + std::to_string(want);
      });
      if (!text.empty())
        return text;
    }
  }
  return "";
}

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream(text) << module;
  return text;
}

} // namespace

TEST_CASE("every operator gives under every strategy what it gives on one rank") {
  const char *file = GENERATE("operators.mlir", "operators_padded.mlir");
  Harness harness(file);
  size_t runs = 0;
  for (func::FuncOp func : harness.cases->getOps<func::FuncOp>()) {
    Operation *op = onlyOp(func);
    auto sharded = dyn_cast<dist::ShardingRuleOpInterface>(op);
    REQUIRE(sharded);
    llvm::Expected<ShardingRule> rule = sharded.getShardingRule();
    if (!rule)
      FAIL(func.getName().str() << ": " << llvm::toString(rule.takeError()));
    std::map<int, Outcome> references; // by linear group
    auto reference = [&](int group) -> const Outcome & {
      auto [it, fresh] = references.try_emplace(group);
      if (fresh) {
        llvm::ArrayRef<int> summed = group < 0 ? llvm::ArrayRef<int>() : llvm::ArrayRef(rule->linear[group]);
        OwningOpRef<ModuleOp> program = makeProgram(func, summed);
        Mesh one;
        Strategy none;
        none.factors.resize(rule->factors.size());
        annotate(*program, one, *rule, none);
        it->second = run(*program, func);
        if (!it->second.error.empty())
          FAIL(func.getName().str() << " on one rank: " << it->second.error);
      }
      return it->second;
    };
    for (const char *text : {"a=2", "a=4", "a=2,b=2"}) {
      Mesh mesh = llvm::cantFail(Mesh::parse(text));
      for (const Strategy &strategy : allStrategies(*rule, mesh, op)) {
        llvm::ArrayRef<int> summed =
            strategy.linear < 0 ? llvm::ArrayRef<int>() : llvm::ArrayRef(rule->linear[strategy.linear]);
        OwningOpRef<ModuleOp> program = makeProgram(func, summed);
        annotate(*program, mesh, *rule, strategy);
        std::string before = printed(*program);
        Outcome outcome = run(*program, func);
        std::string wrong = difference(reference(strategy.linear), outcome);
        ++runs;
        if (!wrong.empty()) {
          INFO(before);
          INFO(printed(*program));
          FAIL_CHECK(func.getName().str()
                     << " on " << text << " under '" << dist::strategyText(strategy, *rule, mesh) << "': " << wrong);
          break; // one of a kind is enough to read
        }
      }
    }
  }
  WARN(runs << " strategies run");
  CHECK(runs > 1000);
}

TEST_CASE("every operator is tested") {
  Harness harness;
  std::set<std::string> tested;
  for (func::FuncOp func : harness.cases->getOps<func::FuncOp>())
    tested.insert(onlyOp(func)->getName().getStringRef().str());
  for (RegisteredOperationName name : harness.context.getRegisteredOperations()) {
    if (name.getDialectNamespace() != "graph" || !name.hasInterface<dist::ShardingRuleOpInterface>())
      continue;
    // Gone before anything is distributed.
    if (name.getStringRef().starts_with("graph.batch_norm") || name.getStringRef().starts_with("graph.log_softmax"))
      continue;
    // Its result belongs to one micro-batch, and a program cannot return it. accumulate_test.py runs it.
    if (name.getStringRef() == "graph.micro_rows")
      continue;
    // Localisation makes it, so nothing cuts it. random_graphs_test runs reproducible programs, which have it.
    if (name.getStringRef() == "graph.leaf_sums")
      continue;
    INFO(name.getStringRef().str());
    CHECK(tested.count(name.getStringRef().str()));
  }
}
