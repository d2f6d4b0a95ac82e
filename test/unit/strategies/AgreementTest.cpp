// The search sums, the report prices and the plan contains the same numbers, for kernels,
// communication, bytes and memory. They are compared for every operator of operators.mlir on three meshes under every
// option that the search has for it, and for whole networks under the search's choice.
//
// If two of the three disagree, known_differences.txt has a line with the size of the difference. The test fails
// where a line is missing and where one is left over. With TESSERA_WRITE_DIFFERENCES=FILE it writes
// the file anew instead.
#include "Totals.h"
#include "TrainingPrograms.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/search/Evaluate.h"
#include "strategies/search/wide/SearchWide.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

using namespace tessera;
using namespace tessera::strategies;
using namespace mlir;

namespace {

const char *const kMeshes[] = {"data=2", "data=2,model=2", "a=4,b=2"};

/// How two of the three differ over the options of one operator, or in one network.
struct Difference {
  int options = 0, differ = 0;
  double least = 0, most = 0; // parts of the first one

  void add(double first, double second) {
    ++options;
    double part = first == second ? 0 : (second - first) / std::max(1.0, std::max(first, second));
    differ += part != 0;
    least = std::min(least, part);
    most = std::max(most, part);
  }
  std::string str() const {
    std::string text;
    llvm::raw_string_ostream(text) << differ << " of " << options << ", "
                                   << llvm::format("%+.1f%% to %+.1f%%", 100 * least, 100 * most);
    return text;
  }
};

class Comparison {
public:
  void add(const Totals &searched, const Totals &reported, const Totals &emitted) {
    between_["search, report: kernels"].add(searched.kernels, reported.kernels);
    between_["search, report: communication"].add(searched.communication, reported.communication);
    between_["search, report: memory"].add(searched.memory, reported.memory);
    between_["report, emitted: kernels"].add(reported.kernels, emitted.kernels);
    between_["report, emitted: communication"].add(reported.communication, emitted.communication);
    between_["report, emitted: bytes"].add(reported.bytes, emitted.bytes);
    between_["report, emitted: memory"].add(reported.memory, emitted.memory);
  }
  void list(const std::string &program, const std::string &mesh, std::set<std::string> &lines) const {
    for (const auto &[what, difference] : between_)
      if (difference.differ)
        lines.insert(what + ": " + program + " on " + mesh + ": " + difference.str());
  }

private:
  std::map<std::string, Difference> between_;
};

CostModel modelFor(const std::string &mesh) {
  return CostModel(llvm::cantFail(Mesh::parse(mesh)), llvm::cantFail(Topology::load("cpu")));
}

/// The graph with usages, without a memory limit.
BuiltGraph graphOf(const FunctionAssignment &plan, const CostModel &model) {
  BuiltGraph built = buildGraph(plan, model, nullptr, {}, /*memoryLimit=*/0);
  built.wide.memoryLimit = std::numeric_limits<int64_t>::max();
  return built;
}

/// The function as a program whose arguments are inputs and whose results are outputs.
OwningOpRef<ModuleOp> programOf(func::FuncOp original) {
  OpBuilder builder(original.getContext());
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  auto func = cast<func::FuncOp>(original->clone());
  module->push_back(func);
  func.setName("infer");
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

/// The choice with aliases set and every group but `kept` at its cheapest, one after the other.
Choice answered(const StrategyGraph &graph, Choice choice, int32_t kept) {
  auto settle = [&] {
    for (auto [node, alias] : graph.aliases)
      choice[size_t(alias)] = choice[size_t(node)];
    return evaluate(graph, choice).cost;
  };
  std::set<int32_t> aliases;
  for (auto [node, alias] : graph.aliases)
    aliases.insert(alias);
  Cost best = settle();
  for (int32_t n = 0; n < int32_t(graph.nodes.size()); ++n) {
    if (n == kept || aliases.count(n))
      continue;
    int32_t at = choice[size_t(n)];
    for (int32_t k = 0; k < int32_t(graph.nodes[size_t(n)].costs.size()); ++k) {
      choice[size_t(n)] = k;
      if (Cost cost = settle(); cost < best) {
        best = cost;
        at = k;
      }
    }
    choice[size_t(n)] = at;
    settle();
  }
  return choice;
}

/// `offersApart`: choices count apart that differ only in the copies that they offer to readers. If not, they are one
/// program, which costs what the cheapest of them does.
void compareOptions(ModuleOp module, const CostModel &model, Comparison &comparison, bool offersApart = true) {
  dist::setMesh(module, model.mesh());
  auto func = *module.getOps<func::FuncOp>().begin();
  FunctionAssignment plan(llvm::cantFail(Program::analyse(func)));
  BuiltGraph built = graphOf(plan, model);
  const Kept every = everyOption(built.wide);
  narrow(built, denseGraph(built.wide, every, everyOffer(built.wide, every)));
  using Taken = std::vector<std::pair<const GroupHead *, const GroupTail *>>;
  std::map<std::pair<Taken, Choice>, std::pair<Cost, Choice>> seen; // compared in any order
  Choice first(built.dense.graph.nodes.size(), 0);
  if (built.groups.list.empty()) // a source alone
    seen[{}] = {0, first};
  for (int32_t n = 0; n < int32_t(built.groups.list.size()); ++n)
    for (int32_t k = 0; k < int32_t(built.dense.graph.nodes[size_t(n)].costs.size()); ++k) {
      Choice choice = first;
      choice[size_t(n)] = k;
      choice = answered(built.dense.graph, std::move(choice), n);
      const Cost cost = evaluate(built.dense.graph, choice).cost;
      if (cost >= kForbidden)
        continue;
      Taken taken;
      for (size_t c = 0; c < built.groups.list.size(); ++c) {
        const GroupOption &option = (*built.options[c])[size_t(choice[c])];
        taken.push_back({option.head, option.tail});
      }
      auto [it, fresh] = seen.try_emplace({std::move(taken), offersApart ? choice : Choice()}, cost, choice);
      if (!fresh && cost < it->second.first)
        it->second = {cost, std::move(choice)};
    }
  for (const auto &[key, found] : seen) {
    const Choice &choice = found.second;
    Totals report = reported(plan, built, choice, model);
    comparison.add(searched(built, choice), report, emitted(module, model));
  }
}

std::set<std::string> knownDifferences(const std::string &section) {
  std::ifstream file(TESSERA_TEST_DIR "/known_differences.txt");
  std::set<std::string> lines;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#')
      inside = line == "# " + section;
    else if (inside)
      lines.insert(line);
  }
  return lines;
}

void check(const std::string &section, const std::set<std::string> &found) {
  if (std::getenv("TESSERA_WRITE_DIFFERENCES")) {
    std::ofstream file(std::getenv("TESSERA_WRITE_DIFFERENCES"), std::ios::app);
    file << "\n# " << section << "\n";
    for (const std::string &line : found)
      file << line << "\n";
    return;
  }
  std::set<std::string> known = knownDifferences(section);
  for (const std::string &line : found)
    if (!known.count(line))
      FAIL_CHECK("new: " << line);
  for (const std::string &line : known)
    if (!found.count(line))
      FAIL_CHECK("gone: " << line);
}

} // namespace

TEST_CASE("operators: the search, the report and what is emitted agree but for known differences") {
  OwningOpRef<ModuleOp> cases = parseSourceFile<ModuleOp>(TESSERA_OPERATORS, ParserConfig(&context()));
  REQUIRE(cases);
  std::set<std::string> found;
  for (const char *mesh : kMeshes) {
    const CostModel model = modelFor(mesh);
    for (func::FuncOp func : cases->getOps<func::FuncOp>()) {
      Comparison comparison;
      compareOptions(*programOf(func), model, comparison);
      comparison.list(func.getName().str(), mesh, found);
    }
  }
  check("operators", found);
}

TEST_CASE("copies that may expire: the search, the report and what is emitted agree but for known differences") {
  std::set<std::string> lines;
  for (const char *mesh : kMeshes)
    for (int micros : {1, 3}) {
      const CostModel model = modelFor(mesh);
      Comparison comparison;
      compareOptions(*withExpiringCopies(micros), model, comparison, /*offersApart=*/false);
      comparison.list("in " + std::to_string(micros), mesh, lines);
    }
  check("copies that may expire", lines);
}

TEST_CASE("networks: the search, the report and what is emitted agree but for known differences") {
  std::set<std::string> lines;
  const std::pair<const char *, int64_t> files[] = {{"mlp_train.onnx", 16},
                                                    {"lenet_train.onnx", 16},
                                                    {"families/squeezenet.onnx", 0},
                                                    {"families/mobilenet_v3.onnx", 0}};
  for (auto [file, batch] : files)
    for (const char *mesh : kMeshes) {
      const CostModel model = modelFor(mesh);
      OwningOpRef<ModuleOp> module = trainingOf(file, batch);
      dist::setMesh(*module, model.mesh());
      FunctionAssignment plan(llvm::cantFail(Program::analyse(*module->getOps<func::FuncOp>().begin())));
      BuiltGraph built = graphOf(plan, model);
      SearchOptions options;
      options.seconds = 600; // never reached: the same choice on every machine
      options.work = 0.5;
      WideSolution found = searchWide(built.wide, options);
      const Solution &solution = found.solution;
      REQUIRE(!solution.choice.empty());
      narrow(built, std::move(found.dense));
      Comparison comparison;
      Totals report = reported(plan, built, solution.choice, model);
      comparison.add(searched(built, solution.choice), report, emitted(*module, model));
      comparison.list(file, mesh, lines);
    }
  check("networks", lines);
}
