#include "runtime/backend/cuda/count/CountWork.h"

#include "runtime/backend/KernelWork.h"
#include "runtime/backend/cuda/count/BoundProgram.h"

#include <algorithm>
#include <map>

namespace tessera::rt::cuda {
namespace {

int bitsOf(int32_t dtype) { return 8 * int(bytesPerElement(plan::DType(dtype))); }

uint64_t product(const int64_t (&sizes)[3], int32_t spatial) { // the last ones count
  uint64_t n = 1;
  for (int32_t i = 3 - spatial; i < 3; ++i)
    n *= uint64_t(sizes[i]);
  return n;
}

/// What an action does. `own`: the bytes at the addresses of the tensors that the kernel is given.
void describe(const Action &action, const std::map<uint64_t, uint64_t> &own, DeviceWork &work) {
  auto at = [&](const Place &place) -> uint64_t {
    const auto found = place.scratch ? own.end() : own.find(place.value);
    return found == own.end() ? 0 : found->second;
  };
  if (const auto *launch = std::get_if<Launch>(&action)) {
    work.bits = launch->bits;
    work.bytes = launch->copied;
    for (const Place &argument : launch->arguments)
      work.bytes += at(argument);
  } else if (const auto *matmul = std::get_if<LibraryMatMul>(&action)) {
    const TesseraMatMul &w = matmul->what;
    work.library = true;
    work.bits = bitsOf(w.dtype);
    work.flops = operationsOf(w);
    // A matrix that is repeated for the batch is read once.
    auto matrices = [&](int64_t stride) { return uint64_t(stride == 0 ? 1 : w.batch); };
    const uint64_t in = uint64_t(bitsOf(w.dtype)) / 8, out = uint64_t(bitsOf(w.resultType)) / 8;
    work.bytes = in * uint64_t(w.k) * (uint64_t(w.m) * matrices(w.strideA) + uint64_t(w.n) * matrices(w.strideB)) +
                 out * uint64_t(w.m) * uint64_t(w.n) * uint64_t(w.batch) * (w.accumulate ? 2 : 1) + at(matmul->bias) +
                 at(matmul->aux);
  } else if (const auto *conv = std::get_if<LibraryConv>(&action)) {
    const TesseraConv &w = conv->what;
    work.library = true;
    work.bits = bitsOf(w.dtype);
    const uint64_t out = uint64_t(w.n) * uint64_t(w.filters) * product(w.out, w.spatial),
                   in = uint64_t(w.n) * uint64_t(w.channels) * product(w.in, w.spatial),
                   each = uint64_t(w.channels / std::max<int64_t>(w.groups, 1)) * product(w.kernel, w.spatial);
    work.flops = 2.0 * double(out) * double(each);
    // Which of the three is the result decides its type: y, dx or dw.
    const uint64_t operand = uint64_t(bitsOf(w.dtype)) / 8, result = uint64_t(bitsOf(w.resultType)) / 8;
    const uint64_t sizes[3] = {out, in, uint64_t(w.filters) * each};
    work.bytes = operand * (sizes[0] + sizes[1] + sizes[2]) + (result - operand) * sizes[w.kind] +
                 (w.accumulate ? result * sizes[w.kind] : 0);
  } else if (const auto *attention = std::get_if<LibraryAttention>(&action)) {
    const TesseraAttention &w = attention->what;
    work.library = true;
    work.bits = bitsOf(w.dtype);
    // Scores, and the product with v; of the gradient three products along rows of q and k, and two of v. Above the
    // diagonal nothing is multiplied.
    double scores = 0;
    for (int64_t row = 0; row < w.rows; ++row)
      scores += double(w.causal ? std::min(row + 1, w.keys) : w.keys);
    work.flops = 2 * scores * double(w.batches) * double(w.heads) *
                 (w.gradient ? double(3 * w.depth + 2 * w.width) : double(w.depth + w.width));
    const auto rows = uint64_t(w.heads * w.rows), keys = uint64_t(w.keyHeads * w.keys), depth = uint64_t(w.depth),
               width = uint64_t(w.width);
    const uint64_t elements = (rows + keys) * (depth + width), passes = w.gradient ? 2 : 1;
    const int64_t scoreSizes[4] = {w.batches, w.heads, w.rows, w.keys};
    uint64_t bias = w.biasType ? uint64_t(bitsOf(w.biasType)) / 8 : 0;
    for (size_t d = 0; d < 4; ++d)
      bias *= w.biasApart[d] ? uint64_t(scoreSizes[d]) : 1;
    const uint64_t keep = w.dropout ? uint64_t(w.batches) * rows * uint64_t(w.keys) * uint64_t(bitsOf(w.dtype)) / 8 : 0;
    work.bytes = uint64_t(w.batches) * (elements * passes * uint64_t(bitsOf(w.dtype)) / 8 +
                                        (w.gradient || w.statistics ? 4 * rows * passes : 0)) +
                 bias + keep;
  } else if (const auto *copy = std::get_if<CopyBytes>(&action)) {
    work.bytes = 2 * copy->bytes;
  } else if (const auto *fill = std::get_if<FillBytes>(&action)) {
    work.bytes = fill->bytes;
  }
}

uint64_t bytesOf(const StepAccess &access) {
  uint64_t bytes = 0;
  for (const auto *ranges : {&access.reads, &access.writes})
    for (const ByteRange &range : *ranges)
      bytes += range.end - range.begin;
  return bytes;
}

/// Adds the actions of the kernel that runs these steps. `base`: the address from which accesses are counted.
void addActions(const CudaKernel &kernel, const std::vector<KernelCall> &calls, const StepSet &set, const char *base,
                DeviceWork as, std::vector<DeviceWork> &list) {
  const std::vector<size_t> &steps = set.steps;
  std::map<uint64_t, uint64_t> own; // by address
  // Of steps that run as one, memory that only they use is neither read nor written.
  for (const StepAccess &access : set.accesses)
    for (const auto *ranges : {&access.reads, &access.writes})
      for (const ByteRange &range : *ranges) {
        uint64_t &size = own[reinterpret_cast<uint64_t>(base) + range.begin];
        size = std::max(size, range.end - range.begin);
      }
  double flops = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const KernelWork work = workOf(calls[steps[i]]);
    flops += work.flops.value_or(0);
    bytes += set.accesses[i].changed ? bytesOf(set.accesses[i]) : work.bytes;
  }
  const auto launches = std::count_if(kernel.actions.begin(), kernel.actions.end(),
                                      [](const Action &a) { return std::holds_alternative<Launch>(a); });
  // Around a library's call, copies are launched.
  if (std::any_of(kernel.actions.begin(), kernel.actions.end(), isLibraryCall))
    flops = 0;
  for (const Action &action : kernel.actions) {
    DeviceWork work = as;
    describe(action, own, work);
    if (const auto *launch = std::get_if<Launch>(&action)) {
      work.flops = flops / double(launches);
      // A part of a tensor may be all that is read. What has a table does the whole of all steps.
      if (kernel.actions.size() == 1 && (steps.size() == 1 || !launch->table.empty()))
        work.bytes = bytes;
    }
    list.push_back(std::move(work));
  }
}

} // namespace

Result<std::vector<DeviceWork>> countWork(const plan::Plan &plan, int program, const LoadOptions &options) {
  Result<BoundProgram> bound = bindProgram(plan, program, options);
  if (!bound)
    return bound.status();
  std::vector<DeviceWork> list;
  for (const BoundStep &step : bound->kernels) {
    DeviceWork as;
    as.times = step.times;
    as.step = step.name;
    as.kind = step.kind;
    addActions(step.kernel, bound->calls, step.set, bound->base, as, list);
  }
  return list;
}

} // namespace tessera::rt::cuda
