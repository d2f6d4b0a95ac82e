#include "compiler/pipeline/Versions.h"

#include "compiler/pipeline/FindCut.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"

#include <algorithm>
#include <deque>

using namespace mlir;

namespace tessera::compiler {

/// Adds the version's way to the problem.
static void addWay(strategies::StageProblem &problem, const strategies::StageProblem &more) {
  const size_t way = problem.nodes[0].ways.size();
  for (auto [node, other] : llvm::zip_equal(problem.nodes, more.nodes))
    node.ways.push_back(other.ways[0]);
  for (auto [value, other] : llvm::zip_equal(problem.values, more.values))
    for (std::vector<int64_t> *list : {&value.sent, &value.received}) {
      list->resize(way, 0);
      list->push_back(other.bytes - value.bytes);
    }
}

/// The bytes of a value in the ways beyond the least of them.
static void countFromLeast(strategies::StageProblem &problem) {
  for (strategies::StageValue &value : problem.values) {
    if (value.sent.empty())
      continue;
    int64_t least = 0;
    for (int64_t more : value.sent)
      least = std::min(least, more);
    value.bytes += least;
    for (std::vector<int64_t> *list : {&value.sent, &value.received})
      for (int64_t &more : *list)
        more -= least;
  }
}

llvm::Error placeVersions(llvm::ArrayRef<NetworkVersion> versions, llvm::ArrayRef<size_t> of,
                          const PipelineCosts &costs, int64_t *counted) {
  std::deque<ForwardPass> forwards;
  for (const NetworkVersion &version : versions) {
    graph::FunctionFlow &program = forwards.emplace_back(mainFunction(version.module)).parts.program;
    for (auto [v, value] : llvm::enumerate(program.tensors))
      if (value)
        program.flow.values[v].bytes = version.bytes(value);
  }
  auto problem = [&](std::vector<int> &steps, bool anywhere) -> llvm::Expected<strategies::StageProblem> {
    strategies::StageProblem joint = forwards[0].problem(versions[0].times, costs, steps, anywhere);
    for (size_t v = 1; v < versions.size(); ++v) {
      std::vector<int> mine;
      const strategies::StageProblem one = forwards[v].problem(versions[v].times, costs, mine, anywhere);
      if (mine != steps || one.nodes.size() != joint.nodes.size() || one.values.size() != joint.values.size())
        return llvm::createStringError("internal error: versions of a network differ");
      addWay(joint, one);
    }
    countFromLeast(joint);
    joint.ways.clear();
    for (const NetworkVersion &version : versions)
      joint.ways.push_back({0, int(version.mesh.numRanks())});
    int64_t ranks = 0;
    for (size_t version : of) {
      ranks += versions[version].mesh.numRanks();
      joint.stageWays.push_back(int(version));
    }
    joint.devices[0].count = int(ranks);
    return joint;
  };
  llvm::Expected<FoundCut> cut = findCut(mainFunction(versions[0].module).getName(), forwards[0], costs, problem);
  if (!cut)
    return cut.takeError();
  if (counted)
    *counted = cut->bytes;
  for (auto [version, forward] : llvm::zip_equal(versions, forwards)) {
    Builder builder(ModuleOp(version.module).getContext());
    for (auto [step, stage] : llvm::enumerate(cut->stages))
      if (stage != ForwardPass::kNone)
        forward.operatorOf(int(step))->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(stage));
    if (llvm::Error e = placeOperators(version.module, costs))
      return e;
  }
  return llvm::Error::success();
}

} // namespace tessera::compiler
