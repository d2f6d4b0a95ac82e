#include "runtime/comm/nccl/DeviceBoxes.h"

#include <algorithm>
#include <cstdint>

namespace tessera::rt {
namespace {

/// Rows of fewer bytes take the copy engine longer than a kernel: a transaction of memory has 64.
constexpr int64_t kWideRow = 64;
constexpr size_t kMostLoops = 6; // of the kernel

constexpr const char *kKernel = R"(
struct alignas(16) Unit16 { unsigned long long a, b; };
extern "C" __global__ void __launch_bounds__(256) copy_boxes(UNIT *to, const UNIT *from, const long long *box) {
  const INDEX n = (INDEX)box[0];
  const int loops = (int)box[1];
  for (INDEX i = (INDEX)blockIdx.x * 256u + threadIdx.x; i < n; i += (INDEX)gridDim.x * 256u) {
    INDEX rest = i;
    long long source = 0, target = 0;
    for (int d = 0; d < loops; ++d) {
      const INDEX count = (INDEX)box[2 + 3 * d], outer = rest / count;
      const long long at = (long long)(rest - outer * count);
      source += at * box[3 + 3 * d];
      target += at * box[4 + 3 * d];
      rest = outer;
    }
    to[target] = from[source];
  }
}
)";

bool isContiguous(const BoxLoop &loop) { return loop.src == 1 && loop.dst == 1; }

/// Makes of neighbouring elements one of twice the size as long as that is possible; returns the size.
size_t widen(std::vector<BoxLoop> &loops, uintptr_t addresses, size_t size) {
  auto isEven = [&](const BoxLoop &l) { return l.src % 2 == 0 && l.dst % 2 == 0; };
  while (size < 16 && !loops.empty() && isContiguous(loops[0]) && loops[0].count % 2 == 0 &&
         addresses % (2 * size) == 0 && std::all_of(loops.begin() + 1, loops.end(), isEven)) {
    loops[0].count /= 2;
    for (size_t d = 1; d < loops.size(); ++d)
      loops[d].src /= 2, loops[d].dst /= 2;
    size *= 2;
  }
  return size;
}

} // namespace

std::string boxCopySource(size_t unit, bool isLarge) {
  const char *types[] = {"unsigned char", "unsigned short", "unsigned int", "unsigned long long", "Unit16"};
  size_t which = 0;
  while (size_t(1) << which < unit)
    ++which;
  return std::string("#define UNIT ") + types[which] + "\n#define INDEX " +
         (isLarge ? "unsigned long long" : "unsigned int") + kKernel;
}

bool isRun(const Box &box) {
  std::vector<BoxLoop> loops;
  return commonLoops(box, {0, {boxElements(box)}, {1}}, loops) &&
         (loops.empty() || (loops.size() == 1 && isContiguous(loops[0])));
}

Status DeviceBoxes::copy(const void *from, const Box &fromBox, void *to, const Box &toBox, size_t elementSize) {
  if (boxElements(fromBox) == 0)
    return Status();
  std::vector<BoxLoop> loops;
  if (!commonLoops(fromBox, toBox, loops))
    return Status::error("boxes that are cut differently cannot be copied on a device: " + describeBox(fromBox) +
                         " and " + describeBox(toBox));
  const char *source = static_cast<const char *>(from) + fromBox.offset * int64_t(elementSize);
  char *target = static_cast<char *>(to) + toBox.offset * int64_t(elementSize);
  const size_t unit =
      widen(loops, reinterpret_cast<uintptr_t>(source) | reinterpret_cast<uintptr_t>(target), elementSize);
  if (loops.empty() || (loops.size() == 1 && isContiguous(loops[0])))
    return device_->copy(TESSERA_COMM_STREAM, target, source, unit * size_t(loops.empty() ? 1 : loops[0].count));
  const int64_t width = loops[0].count * int64_t(unit);
  if (loops.size() == 2 && isContiguous(loops[0]) && width >= kWideRow &&
      std::min(loops[1].src, loops[1].dst) >= loops[0].count)
    return Device::check([&](TesseraMessage *m) {
      return device_->api().copyRows(device_->handle(), TESSERA_COMM_STREAM, target, size_t(loops[1].dst) * unit,
                                     source, size_t(loops[1].src) * unit, size_t(width), size_t(loops[1].count), m);
    });
  return launch(source, target, loops, unit);
}

/// Loops that the kernel has no place for run here.
Status DeviceBoxes::launch(const char *from, char *to, const std::vector<BoxLoop> &loops, size_t unit) {
  if (loops.size() > kMostLoops) {
    const std::vector<BoxLoop> inner(loops.begin(), loops.end() - 1);
    for (int64_t i = 0; i < loops.back().count; ++i)
      TESSERA_RETURN_IF_ERROR(
          launch(from + i * loops.back().src * int64_t(unit), to + i * loops.back().dst * int64_t(unit), inner, unit));
    return Status();
  }
  std::vector<int64_t> words = {1, int64_t(loops.size())};
  for (const BoxLoop &l : loops) {
    words[0] *= l.count;
    words.insert(words.end(), {l.count, l.src, l.dst});
  }
  return kernels_.launch(boxCopySource(unit, words[0] > INT32_MAX), to, from, words, words[0]);
}

} // namespace tessera::rt
