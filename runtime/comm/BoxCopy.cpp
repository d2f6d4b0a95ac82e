#include "runtime/comm/BoxCopy.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

bool commonLoops(const Box &a, const Box &b, std::vector<BoxLoop> &loops) {
  size_t i = a.count.size(), j = b.count.size();
  int64_t ca = 1, cb = 1, sa = 0, sb = 0; // elements left in the current dimension of either box, and the strides
  while (true) {
    while (ca == 1 && i > 0) {
      --i;
      ca = a.count[i], sa = a.stride[i];
    }
    while (cb == 1 && j > 0) {
      --j;
      cb = b.count[j], sb = b.stride[j];
    }
    if (ca == 1 && cb == 1)
      break;
    const int64_t step = std::min(ca, cb);
    if (ca % step != 0 || cb % step != 0)
      return false;
    // Merges this loop with the one inside it where both sides continue where that one ends.
    if (!loops.empty() && sa == loops.back().src * loops.back().count && sb == loops.back().dst * loops.back().count)
      loops.back().count *= step;
    else
      loops.push_back({step, sa, sb});
    ca /= step, sa *= step;
    cb /= step, sb *= step;
  }
  return true;
}

namespace {

template <typename T> void copyLine(const T *src, T *dst, int64_t count, int64_t srcStride, int64_t dstStride) {
  if (srcStride == 1 && dstStride == 1) {
    std::memcpy(dst, src, size_t(count) * sizeof(T));
  } else if (dstStride == 1) {
    for (int64_t i = 0; i < count; ++i)
      dst[i] = src[i * srcStride];
  } else {
    for (int64_t i = 0; i < count; ++i)
      dst[i * dstStride] = src[i * srcStride];
  }
}

template <typename T> void runLoops(const T *src, T *dst, const std::vector<BoxLoop> &loops) {
  if (loops.empty()) {
    *dst = *src;
    return;
  }
  const BoxLoop inner = loops[0];
  if (loops.size() == 1) {
    copyLine(src, dst, inner.count, inner.src, inner.dst);
    return;
  }
  // The two innermost loops are plain loops; the counters `at` drive all others.
  std::vector<int64_t> at(loops.size(), 0);
  while (true) {
    const T *s = src;
    T *d = dst;
    for (int64_t i = 0; i < loops[1].count; ++i, s += loops[1].src, d += loops[1].dst)
      copyLine(s, d, inner.count, inner.src, inner.dst);
    size_t k = 2;
    for (; k < loops.size(); ++k) {
      src += loops[k].src, dst += loops[k].dst;
      if (++at[k] < loops[k].count)
        break;
      src -= loops[k].src * loops[k].count, dst -= loops[k].dst * loops[k].count;
      at[k] = 0;
    }
    if (k == loops.size())
      return;
  }
}

/// Steps through a box element by element in row-major order.
class Walker {
public:
  explicit Walker(const Box &box) : box_(box), at_(box.count.size(), 0), offset_(box.offset) {}
  int64_t offset() const { return offset_; }
  void advance() {
    for (size_t d = at_.size(); d-- > 0;) {
      offset_ += box_.stride[d];
      if (++at_[d] < box_.count[d])
        return;
      offset_ -= box_.stride[d] * box_.count[d];
      at_[d] = 0;
    }
  }

private:
  const Box &box_;
  std::vector<int64_t> at_;
  int64_t offset_;
};

template <typename T> void copyTyped(const void *srcBytes, const Box &srcBox, void *dstBytes, const Box &dstBox) {
  const T *src = static_cast<const T *>(srcBytes);
  T *dst = static_cast<T *>(dstBytes);
  std::vector<BoxLoop> loops;
  loops.reserve(srcBox.count.size() + dstBox.count.size());
  if (commonLoops(srcBox, dstBox, loops)) {
    runLoops(src + srcBox.offset, dst + dstBox.offset, loops);
    return;
  }
  Walker from(srcBox), to(dstBox);
  for (int64_t n = boxElements(srcBox); n > 0; --n, from.advance(), to.advance())
    dst[to.offset()] = src[from.offset()];
}

std::string listText(const std::vector<int64_t> &values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

} // namespace

int64_t boxElements(const Box &box) {
  int64_t n = 1;
  for (int64_t c : box.count)
    n *= c;
  return n;
}

std::string describeBox(const Box &box) {
  return "offset " + std::to_string(box.offset) + ", count " + listText(box.count) + ", stride " + listText(box.stride);
}

Status checkBox(const Box &box) {
  bool bad = box.count.size() != box.stride.size() || box.offset < 0;
  int64_t elements = 1, last = box.offset; // `last`: the largest offset of an element
  for (size_t d = 0; !bad && d < box.count.size(); ++d) {
    int64_t extent = 0;
    bad = box.count[d] < 0 || box.stride[d] < 0;
    if (bad)
      break;
    bad = __builtin_mul_overflow(elements, std::max<int64_t>(box.count[d], 1), &elements) ||
          __builtin_mul_overflow(std::max<int64_t>(box.count[d], 1) - 1, box.stride[d], &extent) ||
          __builtin_add_overflow(last, extent, &last);
  }
  // An element has at most eight bytes, so that offsets in bytes do not overflow either.
  bad |= last > INT64_MAX / 8 - 1 || elements > INT64_MAX / 8;
  if (bad)
    return Status::error("the box with " + describeBox(box) + " is malformed");
  return Status();
}

void copyBox(const void *src, const Box &srcBox, void *dst, const Box &dstBox, size_t elementSize) {
  if (boxElements(srcBox) == 0)
    return;
  switch (elementSize) {
  case 1:
    return copyTyped<uint8_t>(src, srcBox, dst, dstBox);
  case 2:
    return copyTyped<uint16_t>(src, srcBox, dst, dstBox);
  case 4:
    return copyTyped<uint32_t>(src, srcBox, dst, dstBox);
  default:
    return copyTyped<uint64_t>(src, srcBox, dst, dstBox);
  }
}

} // namespace tessera::rt
