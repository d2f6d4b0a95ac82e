// The search's answer on small programs of products costs exactly what the best of all strategies costs: every sharding
// of the arguments and every strategy of every operator, priced as the plan is.
#include "Programs.h"

#include "strategies/cost/ProgramCost.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/search/wide/SearchWide.h"
#include "strategies/space/Enumerate.h"

#include <random>

using namespace tessera;
using namespace tessera::strategies;

namespace {

/// Products of random earlier values, some of them twice the same one. What no product reads is a result.
std::string products(std::mt19937 &random, int args, int ops) {
  const std::string type = "tensor<64x64xf32>";
  auto pick = [&](int n) { return int(random() % unsigned(n)); };
  std::vector<std::string> values;
  std::string head, body, results, types;
  for (int a = 0; a < args; ++a) {
    const std::string n = std::to_string(a);
    values.push_back("%a" + n);
    head += (a ? ", %a" : "%a") + n + ": " + type + " {graph.role = \"parameter\", graph.name = \"a" + n + "\"}";
  }
  std::vector<bool> read(size_t(args + ops), false);
  for (int i = 0; i < ops; ++i) {
    const int left = pick(args + i), right = pick(args + i);
    read[size_t(left)] = read[size_t(right)] = true;
    const std::string n = std::to_string(i);
    values.push_back("%m" + n);
    body += "  %m" + n + " = graph.matmul " + values[size_t(left)] + ", " + values[size_t(right)] +
            " {graph.name = \"m" + n + "\"" + (pick(2) ? ", transpose_a = true" : "") +
            (pick(2) ? ", transpose_b = true" : "") + "} : (" + type + ", " + type + ") -> " + type + "\n";
  }
  std::string shown;
  for (int i = args; i < args + ops; ++i)
    if (!read[size_t(i)]) {
      results += (results.empty() ? "" : ", ") + values[size_t(i)];
      types += (types.empty() ? "" : ", ") + type;
      shown += (shown.empty() ? "" : ", ") + type + " {graph.role = \"output\", graph.name = \"y" + std::to_string(i) +
               "\"}";
    }
  return "func.func @infer(" + head + ") -> (" + shown + ") {\n" + body + "  return " + results + " : " + types + "\n}";
}

Cost total(const FunctionAssignment &plan, const CostModel &model) {
  llvm::Expected<ProgramCost> cost =
      priceProgram({plan.program, plan.assignment.strategies, plan.args, plan.results}, model);
  if (cost)
    return cost->compute + cost->communication;
  llvm::consumeError(cost.takeError()); // a sum is expected that is not owed
  return kForbidden;
}

/// Tries every way to go on from `next`, arguments first.
void tryAll(FunctionAssignment &plan, const CostModel &model, const std::vector<std::vector<Sharding>> &shardings,
            const std::vector<std::vector<Strategy>> &strategies, size_t next, Cost &best, int64_t &tried) {
  const size_t args = plan.args.size();
  if (next < args) {
    for (const Sharding &sharding : shardings[next]) {
      plan.setArg(unsigned(next), sharding);
      tryAll(plan, model, shardings, strategies, next + 1, best, tried);
    }
    return;
  }
  const size_t op = next - args;
  if (op == strategies.size()) {
    plan.finishResults();
    best = std::min(best, total(plan, model));
    ++tried;
    return;
  }
  const OperatorInfo &info = plan.program.operators[op];
  for (const Strategy &strategy : strategies[op]) {
    bool owed = true; // what it takes partial is so
    for (auto [o, v] : llvm::enumerate(info.op->getOperands()))
      owed &= dist::canReshard(model.mesh(), plan.assignment.of(v),
                               dist::operandSharding(model.mesh(), info.cls->rule, strategy, int(o)));
    if (!owed)
      continue;
    plan.assignment.strategies[op] = strategy;
    plan.assignment.values[info.op->getResult(0)] = dist::resultSharding(model.mesh(), info.cls->rule, strategy, 0);
    tryAll(plan, model, shardings, strategies, next + 1, best, tried);
  }
}

void compare(const std::string &text, const std::string &mesh, const char *topology) {
  INFO(mesh << " " << topology << "\n" << text);
  Module m(text);
  const CostModel model(llvm::cantFail(Mesh::parse(mesh)), llvm::cantFail(Topology::load(topology)));
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("infer"))));
  BuiltGraph built = buildGraph(plan, model, nullptr, {}, int64_t(1) << 40);
  SearchOptions options;
  options.gap = 0;
  WideSolution found = searchWide(built.wide, options);
  REQUIRE(found.solution.optimal);
  narrow(built, std::move(found.dense));
  applyChoice(plan, model.mesh(), built, found.solution.choice);
  plan.finishResults();
  CHECK(total(plan, model) == found.solution.cost);

  std::vector<std::vector<Sharding>> shardings;
  std::vector<std::vector<Strategy>> strategies;
  for (unsigned a = 0; a < plan.args.size(); ++a)
    shardings.push_back(enumerateShardings(shapeOf(plan.program.func.getArgument(a)), model.mesh()));
  for (const OperatorInfo &info : plan.program.operators)
    strategies.push_back(enumerateStrategies(*info.cls, model.mesh()));
  Cost best = kForbidden;
  int64_t tried = 0;
  tryAll(plan, model, shardings, strategies, 0, best, tried);
  CAPTURE(tried);
  CHECK(best == found.solution.cost);
}

} // namespace

TEST_CASE("the search's optimum is that of every strategy") {
  std::mt19937 random(14);
  for (const char *topology : {"cpu", "8xh100"})
    for (int round = 0; round < 3; ++round) {
      compare(products(random, 2, 3), "x=2", topology);
      compare(products(random, 3, 2), "x=8", topology);
      compare(products(random, 2, 1), "x=2,y=2", topology);
      compare(products(random, 1, 2), "x=4,y=2", topology);
      compare(products(random, 1, 4), "x=2", topology);
    }
}
