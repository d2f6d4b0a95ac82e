#include "runtime/backend/Tensor.h"
#include "runtime/backend/Parallel.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tessera::rt {

std::string dtypeName(plan::DType dtype) {
  switch (dtype) {
  case plan::F32:
    return "f32";
  case plan::F64:
    return "f64";
  case plan::F16:
    return "f16";
  case plan::BF16:
    return "bf16";
  case plan::I64:
    return "i64";
  case plan::I32:
    return "i32";
  case plan::I8:
    return "i8";
  case plan::U8:
    return "u8";
  case plan::BOOL:
    return "bool";
  default:
    return "an unknown type";
  }
}

int64_t elementCount(const Shape &shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

Shape rowMajorStrides(const Shape &shape) {
  Shape strides(shape.size());
  int64_t s = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = s;
    s *= shape[d];
  }
  return strides;
}

Shape rowStrides(const Shape &shape, int64_t pitch) {
  Shape strides = rowMajorStrides(shape);
  for (size_t d = 0; pitch && d + 1 < shape.size(); ++d)
    strides[d] = strides[d] / shape.back() * pitch;
  return strides;
}

std::string str(const Shape &shape) {
  std::string s = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    s += (d ? ", " : "") + std::to_string(shape[d]);
  return s + "]";
}

bool overlap(const TensorView &a, const TensorView &b) {
  const char *x = a.as<const char>(), *y = b.as<const char>();
  return a.bytes() && b.bytes() && x < y + b.bytes() && y < x + a.bytes();
}

Shape broadcastStrides(const Shape &shape, size_t rank, int64_t pitch) {
  Shape strides(rank, 0), own = rowStrides(shape, pitch);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1)
      strides[rank - shape.size() + d] = own[d];
  return strides;
}

namespace {

template <typename T> void copyRow(T *dst, int64_t dstStride, const T *src, int64_t srcStride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    dst[i * dstStride] = src[i * srcStride];
}

/// Transposes a matrix. Reads run along dimension 0, writes along dimension 1. Squares of 16 x 16 use every cache line
/// that they touch in full.
template <typename T>
void copyTransposed(T *dst, int64_t dstStride, const T *src, int64_t srcStride, int64_t n, int64_t m) {
  constexpr int64_t kSquare = 16;
  for (int64_t i0 = 0; i0 < n; i0 += kSquare)
    for (int64_t j0 = 0; j0 < m; j0 += kSquare)
      for (int64_t i = i0; i < std::min(n, i0 + kSquare); ++i)
        for (int64_t j = j0; j < std::min(m, j0 + kSquare); ++j)
          dst[i * dstStride + j] = src[i + j * srcStride];
}

template <typename T>
void copyDims(T *dst, const int64_t *dstStrides, const T *src, const int64_t *srcStrides, const int64_t *shape,
              size_t rank) {
  if (rank == 0) {
    *dst = *src;
  } else if (rank == 1) {
    if (*dstStrides == 1 && *srcStrides == 1)
      std::memcpy(dst, src, size_t(*shape) * sizeof(T));
    else
      copyRow(dst, *dstStrides, src, *srcStrides, *shape);
  } else if (rank == 2 && srcStrides[0] == 1 && dstStrides[1] == 1) {
    copyTransposed(dst, dstStrides[0], src, srcStrides[1], shape[0], shape[1]);
  } else {
    for (int64_t i = 0; i < *shape; ++i)
      copyDims(dst + i * *dstStrides, dstStrides + 1, src + i * *srcStrides, srcStrides + 1, shape + 1, rank - 1);
  }
}

/// Drops dimensions of one element and merges adjacent ones that are contiguous in both tensors.
void mergeDims(Shape &shape, Shape &a, Shape &b) {
  size_t out = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    if (out > 0 && a[out - 1] == a[d] * shape[d] && b[out - 1] == b[d] * shape[d]) {
      shape[out - 1] *= shape[d];
      a[out - 1] = a[d];
      b[out - 1] = b[d];
      continue;
    }
    shape[out] = shape[d];
    a[out] = a[d];
    b[out] = b[d];
    ++out;
  }
  shape.resize(out);
  a.resize(out);
  b.resize(out);
}

} // namespace

void copyStrided(void *dst, const Shape &dstStrides, const void *src, const Shape &srcStrides, const Shape &shape,
                 size_t size, int threads) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return;
  Shape n = shape, a = dstStrides, b = srcStrides;
  mergeDims(n, a, b);
  auto run = [&](auto tag) {
    using T = decltype(tag);
    T *to = static_cast<T *>(dst);
    const T *from = static_cast<const T *>(src);
    if (threads <= 1 || n.empty() || elementCount(n) < (32 << 10)) {
      copyDims(to, a.data(), from, b.data(), n.data(), n.size());
      return;
    }
    parallelFor(threads, n[0], [&](int64_t begin, int64_t end) {
      Shape part = n;
      part[0] = end - begin;
      copyDims(to + begin * a[0], a.data(), from + begin * b[0], b.data(), part.data(), part.size());
    });
  };
  if (size == 8)
    run(uint64_t());
  else if (size == 4)
    run(uint32_t());
  else if (size == 2)
    run(uint16_t());
  else
    run(uint8_t());
}

Shape physicalShape(const Shape &shape, const Layout &layout) {
  Shape physical = shape;
  for (auto [dim, block] : layout.inner) {
    physical[size_t(dim)] /= block;
    physical.push_back(block);
  }
  return physical;
}

namespace {

/// The tensor's dimensions, cut so that each piece has one stride on either side of a copy.
struct Refined {
  Shape extent;              // sizes, logical order, major to minor inside a dimension
  std::vector<size_t> dim;   // logical dimension of each piece
  std::vector<int64_t> unit; // how many logical indices one step of the piece is
};

/// A loop over a dimension of a tensor as it lies: a step goes `unit` logical indices and `stride` elements further.
struct Level {
  int64_t unit, stride;
};

/// Strides of the physical dimensions.
Shape physicalStrides(const Shape &shape, const Layout &layout) {
  return layout.pitch ? rowStrides(shape, layout.pitch) : rowMajorStrides(physicalShape(shape, layout));
}

/// The levels of dimension d, minor to major. A block that is the whole dimension is no level above itself: channels
/// that lie last can be cut anywhere.
///   [8, 64, 14, 14], d = 1, {{1, 16}}: {1, 1}, {16, 3136};   {{1, 64}}: {1, 1}
std::vector<Level> levels(const BoxAt &at, size_t d) {
  const Shape strides = physicalStrides(at.whole, at.layout);
  std::vector<Level> result;
  int64_t unit = 1;
  for (size_t i = at.layout.inner.size(); i-- > 0;)
    if (auto [dim, block] = at.layout.inner[i]; size_t(dim) == d) {
      result.push_back({unit, strides[at.whole.size() + i]});
      unit *= block;
    }
  if (result.empty() || unit != at.whole[d])
    result.push_back({unit, strides[d]});
  return result;
}

/// Both sides' blocks of a dimension are nested (16 in 16, 4 in 16), so that all their units cut it.
Refined refine(const Shape &shape, const BoxAt &a, const BoxAt &b) {
  Refined r;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int64_t> cuts;
    for (const BoxAt *at : {&a, &b})
      for (const Level &level : levels(*at, d))
        cuts.push_back(level.unit);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t c = cuts.size(); c-- > 0;) {
      int64_t upper = c + 1 < cuts.size() ? cuts[c + 1] : shape[d];
      r.extent.push_back(upper / cuts[c]);
      r.dim.push_back(d);
      r.unit.push_back(cuts[c]);
    }
  }
  return r;
}

/// The stride of every piece on one side: that of the largest level that it consists of.
Shape refinedStrides(const Refined &r, const BoxAt &at) {
  Shape result(r.extent.size());
  for (size_t p = 0; p < r.extent.size(); ++p) {
    const std::vector<Level> all = levels(at, r.dim[p]);
    size_t k = all.size();
    while (all[k - 1].unit > r.unit[p])
      --k;
    result[p] = all[k - 1].stride * (r.unit[p] / all[k - 1].unit);
  }
  return result;
}

/// The first element of a box that begins between blocks.
int64_t firstElement(const BoxAt &at) {
  int64_t first = 0;
  for (size_t d = 0; d < at.begin.size(); ++d) {
    const Level outer = levels(at, d).back();
    first += at.begin[d] / outer.unit * outer.stride;
  }
  return first;
}

} // namespace

void StridedCopy::run(void *dst, const void *src, size_t size, int threads) const {
  copyStrided(static_cast<std::byte *>(dst) + toFirst * int64_t(size), to,
              static_cast<const std::byte *>(src) + fromFirst * int64_t(size), from, shape, size, threads);
}

std::optional<StridedCopy> copyOfBox(const BoxAt &to, const BoxAt &from, const Shape &shape) {
  for (const BoxAt *at : {&to, &from})
    for (size_t d = 0; d < shape.size(); ++d)
      if (const int64_t block = levels(*at, d).back().unit; at->begin[d] % block != 0 || shape[d] % block != 0)
        return std::nullopt;
  const Refined r = refine(shape, to, from);
  const Shape a = refinedStrides(r, to), b = refinedStrides(r, from);
  // The loops run in the destination's order, so that writes are contiguous.
  std::vector<size_t> order(r.extent.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return a[x] > a[y]; });
  StridedCopy copy;
  for (size_t i : order) {
    copy.shape.push_back(r.extent[i]);
    copy.to.push_back(a[i]);
    copy.from.push_back(b[i]);
  }
  copy.toFirst = firstElement(to);
  copy.fromFirst = firstElement(from);
  return copy;
}

void convertLayout(void *dst, const Layout &dstLayout, const void *src, const Layout &srcLayout, const Shape &shape,
                   size_t size, int threads) {
  const Shape begin(shape.size(), 0);
  copyOfBox({dstLayout, shape, begin}, {srcLayout, shape, begin}, shape)->run(dst, src, size, threads);
}

} // namespace tessera::rt
