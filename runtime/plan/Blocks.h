//===- Blocks.h - boxes of global tensors -----------------------------------------------------===//
//
// A block is what one rank, or one file, holds of a global tensor. Whatever was cut one way is put
// together another way by intersecting blocks.
//
//   Block a{{0, 2}, {4, 2}}, b{{2, 0}, {4, 3}};       // [offset, offset + shape) per dimension
//   intersect(a, b)                                   // {{2, 2}, {2, 1}}
//   copyBlock(x, a, y, b, 4);                         // those elements, from a's to b's memory
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_BLOCKS_H
#define TESSERA_RUNTIME_PLAN_BLOCKS_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::rt {

struct Block {
  std::vector<int64_t> offset, shape;
  auto operator<=>(const Block &) const = default;
};

/// The block that is the whole tensor.
Block wholeBlock(const std::vector<int64_t> &shape);
/// The block of a bound tensor that this rank holds; it has no elements where the rank holds only
/// padding.
Block blockOf(const plan::Plan &plan, const plan::Binding &binding);
/// Whether the block lies inside a tensor of the shape `global` and has at least one element. This
/// is safe for hostile numbers. The functions below expect blocks for which it holds.
bool isInside(const Block &block, const std::vector<int64_t> &global);

/// The elements that are in both blocks, or nothing. The blocks have equally many dimensions.
std::optional<Block> intersect(const Block &a, const Block &b);

/// Checks that the blocks are the tensor cut dimension by dimension, so that every element is in
/// exactly one of them. All of them must be inside the tensor. The error says what is wrong.
Status checkTiling(const std::vector<Block> &blocks, const std::vector<int64_t> &global);

/// The block in pieces of at most `elements` elements (but at least one), in row-major order. Each
/// piece is contiguous in the block's memory.
std::vector<Block> slabsOf(const Block &block, int64_t elements);

/// Copies the elements that are in both blocks. Each memory holds its block row-major and packed.
void copyBlock(const void *from, const Block &source, void *to, const Block &target, uint64_t elementBytes);

} // namespace tessera::rt

#endif
