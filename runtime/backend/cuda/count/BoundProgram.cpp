// The same steps as in run/CudaPlan.cpp, without memory and without libraries.
#include "runtime/backend/cuda/count/BoundProgram.h"

#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/join/JoinSteps.h"
#include "runtime/backend/cuda/layout/OwnPlaces.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"
#include "runtime/plan/TimeOrder.h"

#include <map>

namespace tessera::rt::cuda {

Result<BoundProgram> bindProgram(const plan::Plan &plan, int program, const LoadOptions &options) {
  TESSERA_RETURN_IF_ERROR(checkArena(plan));
  Result<std::vector<std::vector<KernelCall>>> shapes = resolveCalls(plan, options);
  if (!shapes)
    return shapes.status();
  // Addresses that no memory has: nothing is read or written.
  char *base = reinterpret_cast<char *>(uint64_t(1) << 40);
  std::vector<TensorView> buffers;
  const std::optional<PaddedRows> layouts = layoutsFor(plan, *shapes, options);
  TESSERA_RETURN_IF_ERROR(resolveBuffers(plan, options.widen, layouts ? layouts->layouts() : std::vector<Layout>(),
                                         reinterpret_cast<std::byte *>(base), buffers));
  if (layouts) {
    layouts->place(buffers, base + plan.arena_bytes());
    OwnPlaces(plan).place(buffers, base + plan.arena_bytes() + layouts->bytes());
  }
  const std::vector<ByteRange> ranges = byteRanges(buffers, base);
  const BufferUses uses(plan);
  BindOptions choice;
  choice.tf32 = options.device.tf32;
  choice.keepNan = options.device.keepNan;
  choice.tiledAttention = options.device.tiledAttention;
  const plan::Program &steps = plan.programs(program);
  const TimeOrder order(steps);
  BoundProgram bound;
  bound.base = base;
  bound.calls.resize(size_t(steps.steps_size()));
  std::vector<KernelCall> &calls = bound.calls;
  std::vector<CudaKernel> kernels(calls.size());
  for (size_t s = 0; s < calls.size(); ++s) {
    const plan::Step &step = steps.steps(int(s));
    if (!step.has_kernel())
      continue;
    const std::string where = "step '" + step.name() + "'";
    TESSERA_RETURN_IF_ERROR(resolveCall(plan, step, buffers, options, calls[s]).context(where));
    Result<std::vector<CudaKernel>> choices = bindCuda(calls[s], choice);
    if (!choices)
      return choices.status().context(where);
    if (choices->empty())
      return Status::error(where + ": the cuda backend has no kernel for it");
    kernels[s] = std::move(choices->front());
  }
  std::map<size_t, FoundKernel> joined;
  JoinedProgram joins(steps, ranges);
  joinSteps(joins, steps, calls, ranges, uses, choice, joinsFor(plan, options), [&](const FoundKernel &found) {
    joined[found.place] = found;
    return true;
  });
  const std::vector<StepAccess> accesses = accessesOf(steps, ranges);
  for (size_t s = 0; s < calls.size(); ++s) {
    const std::optional<size_t> place = joins.placeOf(s);
    if (!steps.steps(int(s)).has_kernel() || (place && *place != s))
      continue;
    BoundStep step;
    step.times = order.timesOf(uint32_t(s));
    if (place) {
      FoundKernel &found = joined.at(s);
      step.name = steps.steps(int(found.first)).name();
      step.kind = found.kind == FoundKernel::Kind::Rows ? "rows" : calls[found.first].name();
      step.set = std::move(found.kernel.set);
      step.kernel = std::move(found.kernel.kernel);
    } else {
      step.name = steps.steps(int(s)).name();
      step.kind = calls[s].name();
      step.set = {{s}, {accesses[s]}};
      step.kernel = std::move(kernels[s]);
    }
    step.kernel.actions = inAlignedParts(step.kernel.actions);
    bound.kernels.push_back(std::move(step));
  }
  return bound;
}

} // namespace tessera::rt::cuda
