#include "strategies/cost/LoopCost.h"

#include "dialects/dist/DistInterfaces.h"

#include "llvm/ADT/SetVector.h"

namespace tessera::strategies {

static double flopsOf(const CostModel &model, const StepKernel &kernel) {
  llvm::SmallVector<Shape> operands = localOperands(*kernel.cls, model.mesh(), *kernel.strategy);
  llvm::SmallVector<Shape> results = localResults(*kernel.cls, model.mesh(), *kernel.strategy);
  return mlir::cast<dist::ShardingRuleOpInterface>(kernel.cls->sample).getFlops(operands, results);
}

/// The free steps that a step computes for itself, from operands to results, which are no members of its loop.
static void addFree(const graph::DataFlow &program, int step, llvm::SetVector<int> &found) {
  for (int value : program.steps[size_t(step)].reads)
    if (const int maker = program.values[size_t(value)].maker;
        maker >= 0 && program.steps[size_t(maker)].part == graph::LoopPart::Free && found.insert(maker))
      addFree(program, maker, found);
}

std::vector<Cost> loopCosts(const CostModel &model, const graph::DataFlow &program, const graph::LoopedFlow &looped,
                            llvm::ArrayRef<StepKernel> kernels) {
  std::vector<Cost> costs(program.steps.size(), 0);
  for (auto [s, members] : llvm::enumerate(looped.members)) {
    const StepKernel &first = kernels[members.front()];
    if (!first.cls)
      continue;
    if (first.cls->part == graph::LoopPart::None || first.cls->part == graph::LoopPart::Free) {
      costs[members.front()] = model.compute(*first.cls, *first.strategy);
      continue;
    }
    double flops = 0, bytes = 0;
    int bits = 32;
    Cost sum = 0;
    llvm::SetVector<int> free;
    for (int member : members)
      addFree(program, member, free);
    for (int step : free)
      flops += flopsOf(model, kernels[size_t(step)]);
    for (int member : members) {
      flops += flopsOf(model, kernels[member]);
      bits = std::max(bits, kernels[member].cls->elementBits);
      sum += costs[member] = model.compute(*kernels[member].cls, *kernels[member].strategy);
    }
    const graph::DataFlow::Step &step = looped.flow.steps[s];
    for (int value : step.reads)
      bytes += double(program.values[value].bytes);
    for (int value : step.makes)
      bytes += double(program.values[value].bytes) * (program.values[value].sum ? 2 : 1);
    const Cost all = model.loopKernel(flops, bits, bytes);
    Cost before = 0, shared = 0;
    for (int member : members) {
      before += costs[member];
      const Cost until = member == members.back() ? all : Cost(double(all) * (double(before) / double(sum)));
      costs[member] = until - shared;
      shared = until;
    }
  }
  return costs;
}

} // namespace tessera::strategies
