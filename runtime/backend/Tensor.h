//===- Tensor.h - element types, shapes and views of tensors ----------------------------------===//
//
// A TensorView is what a kernel sees of a buffer: element type, logical shape, layout and address.
//
//   TensorView x = ...;                 // F32 [2, 3], plain
//   x.elements() == 6; x.bytes() == 24; x.as<float>()[5] is the last element
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_TENSOR_H
#define TESSERA_RUNTIME_BACKEND_TENSOR_H

#include "runtime/backend/Backend.h"
#include "runtime/plan/ElementType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

using Shape = std::vector<int64_t>;

/// "f32", "i64", ...: as messages print it.
std::string dtypeName(plan::DType dtype);
inline bool isFloat(plan::DType t) { return t == plan::F32 || t == plan::F64 || t == plan::F16 || t == plan::BF16; }

/// Product of the sizes (1 for a scalar). Sizes come from checked buffers: no overflow.
int64_t elementCount(const Shape &shape);
/// Row-major strides in elements: [2, 3, 4] -> [12, 4, 1].
Shape rowMajorStrides(const Shape &shape);
/// Strides in elements where rows of the last dimension are `pitch` elements apart, or as many as they have for 0:
/// [2, 3, 7] by 8 -> [24, 8, 1].
Shape rowStrides(const Shape &shape, int64_t pitch);
/// "[2, 3, 4]".
std::string str(const Shape &shape);

struct TensorView {
  plan::DType dtype = plan::DTYPE_INVALID;
  Shape shape;
  Layout layout;
  void *data = nullptr;
  /// How often the host has written the contents, where no step writes them (a parameter of a plan that only infers):
  /// what a kernel makes of them it may keep while this stays. Null where a step writes them, or the host each time.
  const uint64_t *edition = nullptr;

  int64_t elements() const { return elementCount(shape); }
  /// From the first element of a row to that of the next.
  int64_t pitch() const { return layout.pitch ? layout.pitch : shape.empty() ? 1 : shape.back(); }
  /// Of the memory that it takes, with what lies between its rows.
  size_t bytes() const {
    return size_t(layout.pitch ? elements() / shape.back() * layout.pitch : elements()) * bytesPerElement(dtype);
  }
  template <typename T> T *as() const { return static_cast<T *>(data); }
};

/// Whether two views share bytes.
bool overlap(const TensorView &a, const TensorView &b);

/// Row-major strides of a view of rank `rank` aligned at the last dimension, 0 where `shape` is
/// stretched by broadcasting: [3, 1] in a domain of rank 3 -> [0, 1, 0]. `pitch` as in rowStrides.
Shape broadcastStrides(const Shape &shape, size_t rank, int64_t pitch = 0);

/// Copies `shape` elements of `size` bytes between two strided places (strides in elements).
void copyStrided(void *dst, const Shape &dstStrides, const void *src, const Shape &srcStrides, const Shape &shape,
                 size_t size, int threads = 1);

/// The physical shape of a layout, and the stride in it of every (outer dimension, inner block).
/// {{1, 16}} on [8, 64, 3]: physical [8, 4, 3, 16].
Shape physicalShape(const Shape &shape, const Layout &layout);

/// A place in a tensor of shape `whole`: where a box of it begins.
struct BoxAt {
  const Layout &layout;
  const Shape &whole, &begin;
};

/// A copy between strided places: `shape` elements, strides and first elements of both sides in elements.
struct StridedCopy {
  Shape shape, to, from;
  int64_t toFirst = 0, fromFirst = 0;
  void run(void *dst, const void *src, size_t size, int threads = 1) const;
};

/// The copy of a box of `shape` elements from one tensor to another, each in its own layout; nothing where the box cuts
/// a block of a layout. Channels 16 to 47 of [8, 64, 3] in {{1, 16}} are 8 pieces of 2 * 3 * 16 elements. A block that
/// is its whole dimension may be cut: in {{1, 64}} they are 24 pieces of 32 elements.
std::optional<StridedCopy> copyOfBox(const BoxAt &to, const BoxAt &from, const Shape &shape);
/// Converts the layout of a tensor; dst and src do not overlap.
void convertLayout(void *dst, const Layout &dstLayout, const void *src, const Layout &srcLayout, const Shape &shape,
                   size_t size, int threads = 1);

} // namespace tessera::rt

#endif
