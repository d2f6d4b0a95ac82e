#include "compiler/emit/LoopChains.h"

#include "dialects/graph/GraphDecompose.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Fusion.h"

#include <algorithm>
#include <map>

using namespace mlir;

namespace tessera::compiler {

/// How many steps apart two loops of a chain are at most. What reads a forward value in the backward pass is none.
constexpr size_t kNear = 32;

static bool isLoop(const LayoutStep &step) {
  return step.kind == LayoutStep::Kernel &&
         (graph::isLoop(step.op) || graph::loopPart(step.op) != graph::LoopPart::None || graph::hasStatistics(step.op));
}

std::vector<size_t> chainEnds(const PlanLayout &layout, const LayoutProgram &program) {
  std::vector<size_t> ends(program.steps.size());
  std::map<int, std::vector<size_t>> readers; // by root buffer: loops
  for (size_t s = program.steps.size(); s-- > 0;) {
    const LayoutStep &step = program.steps[s];
    ends[s] = s;
    if (!isLoop(step))
      continue;
    for (int out : step.outputs)
      for (size_t reader : readers[layout.root(out)])
        if (reader - s <= kNear && program.sectionOf(reader) == program.sectionOf(s))
          ends[s] = std::max(ends[s], ends[reader]);
    for (int in : step.inputs)
      readers[layout.root(in)].push_back(s);
  }
  return ends;
}

} // namespace tessera::compiler
