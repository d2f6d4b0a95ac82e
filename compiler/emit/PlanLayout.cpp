//===- PlanLayout.cpp - the layout of a module, and what the stages of a pipeline share -----------===//
//
// Programs are laid one by one (LayProgram.cpp). Buffers that nothing uses are removed, and the rest placed in memory.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/emit/PlanLayout.h"

#include "compiler/emit/FusedLoop.h"
#include "compiler/emit/LayProgram.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include <array>
#include <map>
#include <set>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

uint64_t elementBytes(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integer.getWidth() == 1 || integer.getWidth() == 8 ? 1
           : integer.getWidth() == 32                         ? 4
           : integer.getWidth() == 64                         ? 8
                                                              : 0;
  return element.isF64() ? 8 : element.isF32() ? 4 : element.isF16() || element.isBF16() ? 2 : 0;
}

uint64_t LayoutBuffer::bytes() const { return uint64_t(type.getNumElements()) * elementBytes(type.getElementType()); }

bool mayShare(const PlanLayout &layout, const LayoutStep &step, int i, int o) {
  RankedTensorType in = layout.buffers[step.inputs[i]].type, out = layout.buffers[step.outputs[o]].type;
  if (in.getElementType() != out.getElementType() || in.getNumElements() != out.getNumElements())
    return false;
  switch (step.kind) {
  case LayoutStep::Copy:
    return true;
  case LayoutStep::Fill:
  case LayoutStep::Send:
  case LayoutStep::Receive:
    return false;
  case LayoutStep::Collective:
    return cast<dist::CollectiveOp>(step.op).getCollectiveKind() == dist::CollectiveKind::AllReduce;
  case LayoutStep::Kernel:
    break;
  }
  if (graph::isLoop(step.op)) {
    FusedLoop loop = cantFail(FusedLoop::get(step.op)); // seen when the step was made
    return loop.inputViews[i] == loop.domain && loop.results[o].reduction == dist::Reduction::None;
  }
  return graph::isElementwise(step.op) && in.getShape() == out.getShape();
}

size_t LayoutProgram::sectionOf(size_t step) const {
  return size_t(llvm::upper_bound(sectionEnds, uint32_t(step)) - sectionEnds.begin());
}

/// Removes buffers that no step, binding or view uses.
static void dropUnused(PlanLayout &layout) {
  std::vector<bool> used(layout.buffers.size(), false);
  auto each = [&](auto visit) {
    for (LayoutProgram &program : layout.programs)
      for (LayoutStep &step : program.steps) {
        for (int &b : step.inputs)
          visit(b);
        for (int &b : step.outputs)
          visit(b);
      }
    for (LayoutBinding &binding : layout.bindings)
      visit(binding.buffer);
  };
  each([&](int &b) { used[b] = used[layout.root(b)] = true; });
  std::vector<int> index(layout.buffers.size(), -1);
  std::vector<LayoutBuffer> kept;
  for (size_t b = 0; b < used.size(); ++b)
    if (used[b]) {
      index[b] = int(kept.size());
      kept.push_back(std::move(layout.buffers[b]));
    }
  for (LayoutBuffer &buffer : kept)
    if (buffer.alias >= 0)
      buffer.alias = index[buffer.alias];
  each([&](int &b) { b = index[b]; });
  layout.buffers = std::move(kept);
}

/// The batch is dimension 0 of the target, else of the first input, of the first program that has one: evaluation may
/// take fewer samples at a time than a training step.
static void setGlobalBatch(llvm::MutableArrayRef<PlanLayout> layouts) {
  const LayoutBinding *batch = nullptr;
  auto before = [](const LayoutBinding &a, const LayoutBinding &b) {
    return a.role == b.role ? a.ordinal < b.ordinal : a.role == graph::kTarget;
  };
  for (const PlanLayout &layout : layouts)
    for (const LayoutBinding &binding : layout.bindings)
      if ((binding.role == graph::kTarget || binding.role == graph::kInput) && !binding.globalShape.empty())
        if (!batch || before(binding, *batch))
          batch = &binding;
  for (PlanLayout &layout : layouts)
    layout.globalBatch = batch ? uint64_t(batch->globalShape[0]) : 0;
}

Expected<PlanLayout> buildPlanLayout(ModuleOp local) {
  PlanLayout layout;
  layout.mesh = dist::getMesh(local);
  if (auto stages = local->getAttrOfType<IntegerAttr>(dist::kStagesAttr)) {
    layout.stages = stages.getInt();
    layout.stage = local->getAttrOfType<IntegerAttr>(dist::kStageAttr).getInt();
  }
  layout.leaves = dist::leavesOf(local);
  SharedBuffers shared;
  for (func::FuncOp func : local.getOps<func::FuncOp>()) {
    if (!func.getBody().hasOneBlock())
      return createStringError("program '" + func.getName() + "' must have one block");
    if (Error e = layProgram(layout, shared, func))
      return e;
  }
  if (layout.programs.empty())
    return createStringError("the module has no program");
  setGlobalBatch(layout);
  dropUnused(layout);
  placeBuffers(layout);
  return layout;
}

/// Stages with meshes of their own cut a tensor that several of them have in their own ways. Returns whether they are
/// such stages.
static bool setOwnMeshes(std::vector<PlanLayout> &layouts) {
  if (llvm::all_of(layouts, [&](const PlanLayout &layout) { return layout.mesh == layouts[0].mesh; }))
    return false;
  std::vector<int64_t> ranks;
  for (const PlanLayout &layout : layouts)
    ranks.push_back(layout.mesh.numRanks());
  std::map<std::array<std::string, 3>, std::vector<dist::Shape>> held;
  for (PlanLayout &layout : layouts) {
    layout.stageRanks = ranks;
    for (LayoutBinding &binding : layout.bindings) {
      std::vector<dist::Shape> &blocks = held[{binding.role, binding.name, binding.program}];
      binding.before = blocks;
      for (int64_t rank = 0; rank < layout.mesh.numRanks(); ++rank) {
        dist::Shape block = binding.sharding.offset(layout.mesh, binding.globalShape, rank);
        block.append(binding.sharding.extent(layout.mesh, binding.globalShape, rank));
        if (!llvm::is_contained(blocks, block))
          blocks.push_back(std::move(block));
      }
    }
  }
  return true;
}

/// What all plans of a pipeline say alike although only some stages know it.
static void shareFacts(std::vector<PlanLayout> &layouts) {
  const bool ownMeshes = setOwnMeshes(layouts);
  std::set<std::array<std::string, 3>> seen;
  for (PlanLayout &layout : layouts)
    for (LayoutBinding &binding : layout.bindings)
      binding.again = !seen.insert({binding.role, binding.name, binding.program}).second && !ownMeshes;
  std::vector<dist::AxisList> groups;
  size_t mostGroups = 0;
  for (PlanLayout &layout : layouts) {
    if (ownMeshes)
      groups.clear();
    for (const LayoutProgram &program : layout.programs)
      for (const LayoutStep &step : program.steps)
        if (auto op = dyn_cast_or_null<dist::CollectiveOp>(step.op))
          if (dist::AxisList axes = op.getAxisList(layout.mesh);
              dist::communicates(op.getCollectiveKind()) && !llvm::is_contained(groups, axes))
            groups.push_back(axes);
    layout.groups = groups;
    mostGroups = std::max(mostGroups, groups.size());
  }
  setGlobalBatch(layouts);
  for (PlanLayout &layout : layouts) {
    if (!ownMeshes)
      layout.groups = groups;
    layout.numGroups = mostGroups;
  }
}

Expected<std::vector<PlanLayout>> buildPlanLayouts(ModuleOp local) {
  std::vector<PlanLayout> layouts;
  SmallVector<ModuleOp> stages(local.getOps<ModuleOp>());
  if (stages.empty())
    stages.push_back(local);
  for (ModuleOp stage : stages) {
    Expected<PlanLayout> layout = buildPlanLayout(stage);
    if (!layout)
      return layout.takeError();
    layouts.push_back(std::move(*layout));
  }
  if (layouts.size() > 1)
    shareFacts(layouts);
  return layouts;
}

} // namespace tessera::compiler
