#include "Totals.h"

#include "compiler/emit/PlanLayout.h"
#include "compiler/partition/Passes.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "strategies/report/Report.h"
#include "strategies/search/Evaluate.h"

#include "mlir/Pass/PassManager.h"

#include <algorithm>

using namespace mlir;

namespace tessera::strategies {

Totals searched(const BuiltGraph &built, const Choice &choice) {
  Totals totals;
  for (size_t c = 0; c < built.groups.list.size(); ++c)
    totals.kernels += double((*built.options[c])[size_t(choice[c])].compute());
  Evaluation all = evaluate(built.dense.graph, choice);
  totals.communication = double(all.cost) - totals.kernels;
  totals.memory = double(all.memoryPeak);
  return totals;
}

Totals reported(FunctionAssignment &plan, const BuiltGraph &built, const Choice &choice, const CostModel &model) {
  applyChoice(plan, model.mesh(), built, choice);
  plan.finishResults();
  llvm::cantFail(plan.write(model.mesh()));
  FunctionReport report = llvm::cantFail(priceFunction(plan.program.func, model));
  return {double(report.compute), double(report.communication), report.bytesSent, double(report.peakBytes)};
}

namespace {

using compiler::LayoutStep;
using compiler::PlanLayout;

class Emitted {
public:
  Emitted(const PlanLayout &layout, const CostModel &model)
      : layout_(layout), program_(layout.programs.front()), model_(model) {}

  Totals run() {
    for (auto [s, step] : llvm::enumerate(program_.steps)) {
      const Totals before = totals_;
      add(step);
      const double more = double(timesOf(s)) - 1;
      totals_.kernels += more * (totals_.kernels - before.kernels);
      totals_.communication += more * (totals_.communication - before.communication);
      totals_.bytes += more * (totals_.bytes - before.bytes);
    }
    totals_.memory = memory();
    return totals_;
  }

private:
  /// How often the program calls the step.
  int64_t timesOf(size_t step) const {
    if (!program_.hasSections())
      return 1;
    const auto section = llvm::find_if(program_.sectionEnds, [&](uint32_t end) { return step < end; });
    return llvm::count_if(program_.calls,
                          [&](auto call) { return int64_t(call.first) == section - program_.sectionEnds.begin(); });
  }

  double bytesOf(const LayoutStep &step) const {
    double bytes = 0;
    for (int b : step.inputs)
      bytes += double(layout_.buffers[b].bytes());
    for (int b : step.outputs)
      bytes += double(layout_.buffers[b].bytes());
    return bytes;
  }

  void add(const LayoutStep &step) {
    if (step.kind == LayoutStep::Fill && !step.op)
      return; // where a sum over micro-batches starts; as constants, it has no price
    if (step.kind == LayoutStep::Collective) {
      auto op = cast<dist::CollectiveOp>(step.op);
      dist::Collective c = op.getCollective(model_.mesh());
      int64_t size = elementBytes(op.getX().getType());
      totals_.communication += double(model_.collective(c, size));
      totals_.bytes += dist::bytesSent(model_.mesh(), c, size);
      return;
    }
    if (step.kind == LayoutStep::Kernel && isa<dist::ShardingRuleOpInterface>(step.op)) {
      auto cls = llvm::cantFail(OperatorClass::of(step.op));
      Strategy whole;
      whole.factors.resize(cls->rule.factors.size());
      totals_.kernels += double(model_.compute(*cls, whole));
      return;
    }
    totals_.kernels += double(loop(step));
  }

  /// The time of a loop over the bytes that are read and written.
  Cost loop(const LayoutStep &step) const {
    double flops = 0;
    int bits = 32;
    if (auto fused = dyn_cast_or_null<graph::FusedOp>(step.op))
      for (Operation &op : fused.getBody().front().without_terminator()) {
        if (op.hasTrait<OpTrait::ConstantLike>())
          continue;
        auto cls = llvm::cantFail(OperatorClass::of(&op));
        flops += cast<dist::ShardingRuleOpInterface>(&op).getFlops(cls->operandShapes, cls->resultShapes);
        bits = std::max(bits, cls->elementBits);
      }
    return model_.loopKernel(flops, bits, bytesOf(step));
  }

  bool transient(int root) const { return !layout_.buffers[root].persistent; }

  /// The bytes of persistent buffers, and the most bytes that the others cover at one step.
  double memory() const {
    double persistent = 0;
    for (const compiler::LayoutBuffer &buffer : layout_.buffers)
      if (buffer.persistent && buffer.alias < 0 && !buffer.constant)
        persistent += double(buffer.bytes());
    const std::vector<LayoutStep> &steps = program_.steps;
    std::map<int, std::pair<int, int>> lives; // root -> first and last step
    auto touch = [&](int buffer, int step) {
      int root = layout_.root(buffer);
      auto it = lives.try_emplace(root, step, step).first;
      it->second = {std::min(it->second.first, step), std::max(it->second.second, step)};
    };
    for (auto [s, step] : llvm::enumerate(steps)) {
      for (int b : step.inputs)
        touch(b, int(s));
      for (int b : step.outputs)
        touch(b, int(s));
    }
    for (const compiler::LayoutBinding &binding : layout_.bindings)
      touch(binding.buffer, layout_.buffers[binding.buffer].kind == "input" ? -1 : int(steps.size()));
    // What is there before the body and used in it lives until its end.
    if (program_.hasSections())
      for (auto &[root, life] : lives)
        if (life.first < int(program_.sectionEnds[0]) && life.second >= int(program_.sectionEnds[0]))
          life.second = std::max(life.second, int(program_.sectionEnds[1]) - 1);
    uint64_t most = 0;
    for (int s = -1; s <= int(steps.size()); ++s)
      most = std::max(most, covered(lives, s));
    return persistent + double(most);
  }

  /// The bytes that transient buffers cover at a step. A place that several share counts once.
  uint64_t covered(const std::map<int, std::pair<int, int>> &lives, int step) const {
    std::vector<std::pair<uint64_t, uint64_t>> places;
    for (const auto &[root, life] : lives)
      if (transient(root) && life.first <= step && step <= life.second)
        places.push_back({layout_.buffers[root].offset, layout_.buffers[root].offset + layout_.buffers[root].bytes()});
    llvm::sort(places);
    uint64_t sum = 0, end = 0;
    for (auto [from, to] : places) {
      sum += to > end ? to - std::max(from, end) : 0;
      end = std::max(end, to);
    }
    return sum;
  }

  const PlanLayout &layout_;
  const compiler::LayoutProgram &program_;
  const CostModel &model_;
  Totals totals_;
};

} // namespace

Totals emitted(ModuleOp annotated, const CostModel &model) {
  OwningOpRef<ModuleOp> local(annotated.clone());
  compiler::PartitionOptions options;
  options.cost = [&](const dist::Mesh &) { return model.collectiveCost(); };
  options.sums = model.sumRules();
  PassManager manager(annotated.getContext());
  compiler::buildPartitionPipeline(manager, options);
  if (failed(manager.run(*local)))
    llvm::report_fatal_error("the partition pipeline failed");
  PlanLayout layout = llvm::cantFail(compiler::buildPlanLayout(*local));
  return Emitted(layout, model).run();
}

} // namespace tessera::strategies
