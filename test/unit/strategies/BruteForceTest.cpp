// The search's answer on small random programs costs exactly what the best of all strategies costs: every sharding of
// the arguments and every strategy of every operator, priced as the plan is.
#include "EveryStrategy.h"
#include "Programs.h"

#include "strategies/cost/ProgramCost.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/search/wide/SearchWide.h"

#include <optional>
#include <random>
#include <set>

using namespace tessera;
using namespace tessera::strategies;

namespace {

/// Shapes of `n` rows: a matrix, n columns of it; a tall one of 8; a column alone; images of 8 channels.
enum Kind { kMatrix, kTall, kColumn, kRow, kImages, kFilters, kLong };

/// What a program may have.
enum Operators {
  kProducts,  // products alone
  kChoosing,  // and others that follow none of their operands: each has a choice of its own
  kFollowing, // and those that are cut as an operand is
};

/// A random program of operators that read earlier values. What no operator reads is a result.
class RandomProgram {
public:
  RandomProgram(std::mt19937 &random, int args, int ops, Operators operators, int n = 64) : random_(random), n_(n) {
    for (int a = 0; a < args; ++a)
      addArgument(kMatrix);
    for (int i = 0; i < ops; ++i) {
      if (operators == kProducts)
        addProduct(kMatrix, kMatrix, kMatrix);
      else if (operators == kFollowing && draw(2))
        addFollowing();
      else
        addChoosing();
    }
  }

  std::string text() const {
    std::string results, types, shown;
    for (size_t v = 0; v < values_.size(); ++v)
      if (const Value &value = values_[v]; value.isMade && !value.isRead) {
        const std::string comma = results.empty() ? "" : ", ";
        results += comma + value.name;
        types += comma + type(value.kind);
        shown += comma + type(value.kind) + " {graph.role = \"output\", graph.name = \"y" + std::to_string(v) + "\"}";
      }
    return "func.func @infer(" + head_ + ") -> (" + shown + ") {\n" + body_ + "  return " + results + " : " + types +
           "\n}";
  }

private:
  struct Value {
    std::string name;
    Kind kind;
    bool isMade = false, isRead = false;
  };

  int draw(int n) { return int(random_() % unsigned(n)); }

  std::string type(Kind kind) const {
    const std::string n = std::to_string(n_), eighth = std::to_string(n_ / 8);
    const std::string shapes[] = {
        n + "x" + n, n + "x8", n + "x1", n, eighth + "x8x8x" + eighth, "8x8x3x3", eighth + "x8x" + eighth};
    return "tensor<" + shapes[kind] + "xf32>";
  }

  size_t addArgument(Kind kind) {
    const std::string n = std::to_string(values_.size());
    values_.push_back({"%v" + n, kind});
    head_ += (head_.empty() ? "" : ", ") + values_.back().name + ": " + type(kind) +
             " {graph.role = \"parameter\", graph.name = \"v" + n + "\"}";
    return values_.size() - 1;
  }

  /// A value of the kind, not `other`; an argument if there is none.
  size_t pick(Kind kind, size_t other = std::numeric_limits<size_t>::max()) {
    std::vector<size_t> some;
    for (size_t v = 0; v < values_.size(); ++v)
      if (values_[v].kind == kind && v != other)
        some.push_back(v);
    return some.empty() ? addArgument(kind) : some[size_t(draw(int(some.size())))];
  }

  void add(const std::string &name, const std::vector<size_t> &operands, const std::string &attributes, Kind kind) {
    const std::string n = std::to_string(values_.size());
    std::string read, types;
    for (size_t v : operands) {
      values_[v].isRead = true;
      read += (read.empty() ? "" : ", ") + values_[v].name;
      types += (types.empty() ? "" : ", ") + type(values_[v].kind);
    }
    body_ += "  %v" + n + " = graph." + name + " " + read + " {graph.name = \"v" + n + "\"" + attributes + "} : (" +
             types + ") -> " + type(kind) + "\n";
    values_.push_back({"%v" + n, kind, true});
  }

  void addProduct(Kind a, Kind b, Kind result, bool mayTranspose = true, const std::string &attributes = "") {
    const size_t left = pick(a), right = pick(b);
    const bool transposed = mayTranspose && draw(2), otherTransposed = mayTranspose && b == kMatrix && draw(2);
    add("matmul", {left, right},
        std::string(transposed ? ", transpose_a = true" : "") + (otherTransposed ? ", transpose_b = true" : "") +
            attributes,
        result);
  }

  void addChoosing() {
    switch (draw(9)) {
    case 0:
      return addProduct(kMatrix, kTall, kTall);
    case 1:
      return addProduct(kTall, kTall, kMatrix, false, ", transpose_b = true");
    case 2: // so few terms that the results are no smaller thing
      return add(draw(2) ? "reduce_sum" : "reduce_max", {pick(kTall)}, ", dims = array<i64: 1>, keepdims = true",
                 kColumn);
    case 3: { // neither operand has all dimensions
      const size_t column = pick(kColumn), row = pick(kRow);
      return add(draw(2) ? "add" : "mul", {column, row}, "", kMatrix);
    }
    case 4:
    case 5: {
      const size_t images = pick(kImages), filters = pick(kFilters);
      return add("conv", {images, filters},
                 ", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
                 "groups = 1 : i64",
                 kImages);
    }
    case 6:
      return add("reduce_sum", {pick(kImages)}, ", dims = array<i64: 1>, keepdims = false", kLong);
    default:
      return addProduct(kMatrix, kMatrix, kMatrix);
    }
  }

  void addFollowing() {
    const std::string dim = std::to_string(draw(2));
    const size_t one = pick(kMatrix);
    switch (draw(6)) {
    case 0:
      return add("relu", {one}, "", kMatrix);
    case 1:
      return add(draw(2) ? "add" : "mul", {one, pick(kMatrix, one)}, "", kMatrix);
    case 2:
      return add("mul", {one, pick(kRow)}, "", kMatrix);
    case 3:
      return add("transpose", {one}, ", perm = array<i64: 1, 0>", kMatrix);
    case 4:
      return add(draw(2) ? "reduce_sum" : "reduce_max", {one}, ", dims = array<i64: " + dim + ">, keepdims = false",
                 kRow);
    default:
      return add("softmax", {one}, ", dim = " + dim + " : i64", kMatrix);
    }
  }

  std::mt19937 &random_;
  const int n_;
  std::vector<Value> values_;
  std::string head_, body_;
};

/// Each operator is a kernel of its own. (What fusion saves in a loop of several groups, the search prices by shares.)
bool hasLoops(const Program &program) {
  std::set<int> loops;
  for (const OperatorInfo &info : program.operators)
    if (info.loop < 0 || !loops.insert(info.loop).second)
      return true;
  return false;
}

Cost total(const FunctionAssignment &plan, const CostModel &model) {
  llvm::Expected<ProgramCost> cost = priceProgram(chosenIn(plan), model);
  REQUIRE(bool(cost));
  return cost->compute + cost->communication;
}

/// What the search finds, and what the best of all strategies costs. Nothing if the program has loops.
struct Compared {
  Cost found, least;
};
std::optional<Compared> compare(const std::string &text, const std::string &mesh, const char *topology) {
  UNSCOPED_INFO(mesh << " " << topology << "\n" << text);
  Module m(text);
  const CostModel model(llvm::cantFail(Mesh::parse(mesh)), llvm::cantFail(Topology::load(topology)));
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("infer"))));
  if (hasLoops(plan.program))
    return std::nullopt;
  BuiltGraph built = buildGraph(plan, model, nullptr, {}, int64_t(1) << 40, nullptr, /*parts=*/false, Groups::Split);
  SearchOptions options;
  options.gap = 0;
  WideSolution found = searchWide(built.wide, options);
  REQUIRE(found.solution.optimal);
  narrow(built, std::move(found.dense));
  applyChoice(plan, model.mesh(), built, found.solution.choice);
  plan.finishResults();
  UNSCOPED_INFO("the plan and the search count alike");
  CHECK(total(plan, model) == found.solution.cost);
  EveryStrategy every(plan.program, model);
  const Cost least = every.least(found.solution.cost + 1);
  UNSCOPED_INFO("the best of all strategies:\n" << every.answer());
  return Compared{found.solution.cost, least};
}

struct Case {
  const char *mesh;
  int ops, programs;
};

/// Compares so many programs without loops per case and topology.
template <typename Check>
void compareAll(std::initializer_list<Case> cases, Operators operators, Check check, unsigned seed = 14) {
  for (const Case &c : cases)
    for (const auto &[topology, n] : {std::pair("cpu", 64), std::pair("8xh100", 64), std::pair("8xh100", 4096)}) {
      std::mt19937 random(seed);
      for (int compared = 0; compared < c.programs;) {
        const int args = 1 + int(random() % 3);
        if (auto costs = compare(RandomProgram(random, args, c.ops, operators, n).text(), c.mesh, topology)) {
          check(*costs);
          ++compared;
        }
      }
    }
}

/// The plan of a program's search problem, and what the search says that it costs.
struct Planned {
  FunctionAssignment plan;
  Cost said;
};
Planned planOf(const Program &program, const CostModel &model, Groups groups,
               const FunctionAssignment *start = nullptr) {
  Planned planned{FunctionAssignment(program), 0};
  BuiltGraph built = buildGraph(planned.plan, model, nullptr, {}, int64_t(1) << 40, nullptr, /*parts=*/false, groups);
  SearchOptions options;
  options.gap = 0;
  Choice known;
  if (start) {
    known = likestOptions(built, *start);
    options.start = &known;
  }
  WideSolution found = searchWide(built.wide, options);
  REQUIRE(found.solution.optimal);
  planned.said = found.solution.cost;
  narrow(built, std::move(found.dense));
  applyChoice(planned.plan, model.mesh(), built, found.solution.choice);
  planned.plan.finishResults();
  return planned;
}

} // namespace

TEST_CASE("the search's optimum is that of every strategy") {
  auto check = [](const Compared &costs) { CHECK(costs.found == costs.least); };
  compareAll({{"x=2", 12, 10}, {"x=8", 12, 10}, {"x=2,y=2", 4, 5}, {"x=4,y=2", 4, 5}, {"x=2,y=2,z=2", 2, 3}}, kProducts,
             check);
  compareAll({{"x=2", 12, 30}, {"x=8", 12, 30}, {"x=4,y=2", 4, 5}, {"x=2,y=2,z=2", 3, 3}}, kChoosing, check);
}

// Those that follow are cut where they are handed something whole, or otherwise than it, if that is cheaper.
TEST_CASE("where operators follow others, the search's optimum is that of every strategy, too") {
  for (unsigned seed : {14, 15, 16})
    compareAll(
        {{"x=2", 12, 10}, {"x=8", 12, 10}, {"x=4,y=2", 4, 5}}, kFollowing,
        [](const Compared &costs) { CHECK(costs.found == costs.least); }, seed);
}

// A group that is split has the prices that it had: as one kernel where a loop stays whole.
TEST_CASE("splitting groups never costs more, in programs with loops as well") {
  int loops = 0, cheaper = 0;
  std::mt19937 random(14);
  for (int i = 0; i < 40; ++i) {
    const std::string text = RandomProgram(random, 1 + int(random() % 3), 12, kFollowing, i % 2 ? 64 : 4096).text();
    for (const char *mesh : {"x=8", "x=4,y=2"}) {
      INFO(mesh << "\n" << text);
      Module m(text);
      const CostModel model(llvm::cantFail(Mesh::parse(mesh)), llvm::cantFail(Topology::load("8xh100")));
      const Program program = llvm::cantFail(Program::analyse(m.func("infer")));
      const Planned whole = planOf(program, model, Groups::Whole),
                    split = planOf(program, model, Groups::Split, &whole.plan);
      CHECK(split.said <= whole.said);
      CHECK(split.said == planOf(program, model, Groups::Split).said);
      loops += hasLoops(program);
      cheaper += split.said < whole.said;
    }
  }
  CHECK(loops > 10);
  CHECK(cheaper > 10);
}
