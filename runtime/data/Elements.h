//===- Elements.h - boxes of row-major arrays, and storing numbers as any element type --------===//
//
//   // rows 1..2 of a [4, 5] array of 4-byte elements: calls at element offsets 5 and 10, five
//   // elements each, or, since they run on, once at 5 with ten
//   forEachRun({4, 5}, {1, 0}, {2, 5}, [&](int64_t offset, int64_t count) { ... });
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_ELEMENTS_H
#define TESSERA_RUNTIME_DATA_ELEMENTS_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::rt {

/// Whether the box lies in the array. offset and shape have the array's rank.
bool boxInside(const std::vector<int64_t> &whole, const std::vector<int64_t> &offset,
               const std::vector<int64_t> &shape);

/// Calls `run(element offset in the whole array, elements)` for each contiguous piece of a box that
/// lies inside, in row-major order. `run` returns a Status; the first error ends the walk.
template <typename Run>
Status forEachRun(const std::vector<int64_t> &whole, const std::vector<int64_t> &offset,
                  const std::vector<int64_t> &shape, Run run) {
  for (int64_t extent : shape)
    if (extent == 0)
      return Status();
  // Dimensions from `split` on are one piece: all that the box holds whole, and the one before them.
  size_t split = whole.size();
  int64_t length = 1;
  while (split > 0) {
    --split;
    length *= shape[split];
    if (shape[split] != whole[split])
      break;
  }
  std::vector<int64_t> at(split, 0);
  while (true) {
    int64_t start = 0;
    for (size_t d = 0; d < whole.size(); ++d)
      start = start * whole[d] + offset[d] + (d < split ? at[d] : 0);
    TESSERA_RETURN_IF_ERROR(run(start, length));
    size_t d = split;
    while (d > 0 && ++at[d - 1] == shape[d - 1])
      at[--d] = 0;
    if (d == 0)
      return Status();
  }
}

/// Stores floats as elements `at`, `at` + 1, ... of a buffer of a floating-point type.
void storeFloats(std::span<const float> values, plan::DType dtype, void *buffer, int64_t at);

/// Stores one value as element `at` of a buffer of any type. The caller ensures that it fits.
void storeInteger(int64_t value, plan::DType dtype, void *buffer, int64_t at);

} // namespace tessera::rt

#endif
