#include "compiler/pipeline/Versions.h"

#include "compiler/pipeline/ForwardPass.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "strategies/pipeline/stages/FindStages.h"

#include <algorithm>

using namespace mlir;

namespace tessera::compiler {

/// The effort of the search for cuts, as for stages with one mesh.
static constexpr double kCutWork = 1;

namespace {

/// A version's training step as a problem with one way.
strategies::StageProblem problemOf(const NetworkVersion &version, const PipelineCosts &costs, std::vector<int> &steps) {
  ForwardPass forward(mainFunction(version.module));
  graph::FunctionFlow &program = forward.parts.program;
  for (auto [v, value] : llvm::enumerate(program.tensors))
    if (value)
      program.flow.values[v].bytes = version.bytes(value);
  return forward.problem(version.times, costs, steps);
}

/// Adds the version's way to the problem.
void addWay(strategies::StageProblem &problem, const strategies::StageProblem &more) {
  const size_t way = problem.nodes[0].ways.size();
  for (auto [node, other] : llvm::zip_equal(problem.nodes, more.nodes))
    node.ways.push_back(other.ways[0]);
  for (auto [value, other] : llvm::zip_equal(problem.values, more.values))
    for (std::vector<int64_t> *list : {&value.sent, &value.received}) {
      list->resize(way, 0);
      list->push_back(other.bytes - value.bytes);
    }
}

} // namespace

llvm::Error placeVersions(llvm::ArrayRef<NetworkVersion> versions, llvm::ArrayRef<size_t> of,
                          const strategies::CostModel &all, int64_t limit) {
  const PipelineCosts costs{all, all, limit, strategies::StagePlaces{int(of.size()), 1, false}};
  std::vector<int> steps;
  strategies::StageProblem problem;
  for (const NetworkVersion &version : versions) {
    std::vector<int> mine;
    strategies::StageProblem one = problemOf(version, costs, mine);
    if (&version == versions.begin()) {
      problem = std::move(one);
      steps = std::move(mine);
      continue;
    }
    if (mine != steps || one.nodes.size() != problem.nodes.size() || one.values.size() != problem.values.size())
      return llvm::createStringError("internal error: versions of a network differ");
    addWay(problem, one);
  }
  // The bytes of a value in the ways beyond the least of them.
  for (strategies::StageValue &value : problem.values) {
    int64_t least = 0;
    for (int64_t more : value.sent)
      least = std::min(least, more);
    if (value.sent.empty())
      continue;
    value.bytes += least;
    for (std::vector<int64_t> *list : {&value.sent, &value.received})
      for (int64_t &more : *list)
        more -= least;
  }
  problem.ways.clear();
  int64_t ranks = 0;
  for (const NetworkVersion &version : versions)
    problem.ways.push_back({0, int(version.mesh.numRanks())});
  for (size_t version : of) {
    ranks += versions[version].mesh.numRanks();
    problem.stageWays.push_back(int(version));
  }
  problem.devices[0].count = int(ranks);
  if (int64_t(steps.size()) < int64_t(of.size()))
    return llvm::createStringError("the network has %zu operators of a forward pass, too few for %zu stages",
                                   steps.size(), of.size());
  if (std::string error = strategies::checkStageProblem(problem); !error.empty())
    return llvm::createStringError("internal error: the stages' problem: " + error);
  strategies::FoundStages found = strategies::findStages(problem, {.work = kCutWork});
  if (found.plan.empty()) { // the memory is an estimate, and the arena decides
    problem.devices[0].memory = -1;
    found = strategies::findStages(problem, {.work = kCutWork});
  }
  if (found.plan.empty())
    return llvm::createStringError("the network cannot be cut into %zu stages: too much of it waits for one another",
                                   of.size());
  for (const NetworkVersion &version : versions) {
    const ProgramParts parts(mainFunction(version.module));
    Builder builder(ModuleOp(version.module).getContext());
    for (auto [stage, part] : llvm::enumerate(found.plan))
      for (int node : part.nodes)
        parts.program.operators[size_t(steps[size_t(node)])]->setAttr(dist::kStageAttr,
                                                                      builder.getI64IntegerAttr(int64_t(stage)));
    if (llvm::Error e = placeOperators(version.module, costs))
      return e;
  }
  return llvm::Error::success();
}

} // namespace tessera::compiler
