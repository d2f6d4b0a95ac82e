#include "runtime/backend/cuda/layout/OwnPlaces.h"

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanInfo.h"

#include <optional>

namespace tessera::rt::cuda {
namespace {

/// Larger tensors share memory: a number for each of some ten thousand lines, or a parameter's sums, is small.
constexpr uint64_t kSmall = 64 << 10;
constexpr uint64_t kPlaces = 256; // bytes, of which a place is a multiple
/// Small tensors take at most this part of the arena. The memory of a tiny network is nothing but small tensors.
constexpr uint64_t kPart = 16;

uint64_t bytesOf(const plan::Buffer &buffer) {
  const uint64_t bytes =
      uint64_t(elementCount({buffer.shape().begin(), buffer.shape().end()})) * bytesPerElement(buffer.dtype());
  return (bytes + kPlaces - 1) / kPlaces * kPlaces;
}

/// The buffers, by root, that only loops use.
std::vector<bool> usedByLoops(const plan::Plan &plan, const std::vector<uint32_t> &root) {
  std::vector<bool> loops(root.size(), true);
  for (const plan::Binding &binding : plan.bindings())
    loops[root[binding.buffer()]] = false;
  for (const plan::Program &program : plan.programs())
    for (const plan::Step &step : program.steps())
      if (!step.has_kernel() || !isExpressionKernel(step.kernel().name()))
        for (const std::vector<uint32_t> &list : {readsOf(step), writesOf(step)})
          for (const uint32_t b : list)
            loops[root[b]] = false;
  return loops;
}

} // namespace

OwnPlaces::OwnPlaces(const plan::Plan &plan) {
  const std::vector<uint32_t> root = wholeBuffers(plan);
  const std::vector<bool> loops = usedByLoops(plan, root);
  const Frames frames(plan);
  std::vector<std::optional<uint64_t>> offsets(root.size()); // by root
  for (uint32_t b = 0; b < root.size(); ++b) {
    const plan::Buffer &buffer = plan.buffers(int(b));
    const uint64_t bytes = bytesOf(buffer);
    if (root[b] != b || !loops[b] || buffer.persistent() || frames.frameOf(buffer.offset()) >= 0 || bytes > kSmall ||
        bytes_ + bytes > plan.arena_bytes() / kPart)
      continue;
    offsets[b] = bytes_;
    bytes_ += bytes;
  }
  for (uint32_t b = 0; b < root.size(); ++b)
    if (const std::optional<uint64_t> offset = offsets[root[b]])
      moves_.push_back({b, *offset + plan.buffers(int(b)).offset() - plan.buffers(int(root[b])).offset()});
}

} // namespace tessera::rt::cuda
