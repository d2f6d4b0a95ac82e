//===- LeafPieces.h - which leaves are read where they lie -------------------------------------------===//
//
// Partition copies a leaf that is no piece of memory, and the cost model prices the copy. Both ask here.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_LEAVES_LEAFPIECES_H
#define TESSERA_DIALECTS_DIST_LEAVES_LEAFPIECES_H

#include "dialects/dist/leaves/LeafRule.h"

#include "llvm/ADT/STLExtras.h"

namespace tessera::dist {

/// Whether every leaf of a block of this shape, cut in this dimension, is one piece of memory, so that nothing is
/// copied. The shape may be that of a leaf.
///
///   [8, 6] cut in its rows: yes     in its columns: no     [1, 8, 6] cut in 8: yes
inline bool leavesArePieces(llvm::ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::all_of(shape.take_front(size_t(dim)), [](int64_t size) { return size == 1; });
}
inline bool leavesArePieces(const LeafCut &cut, const Sharding &part, llvm::ArrayRef<int64_t> shape) {
  return cut.dim(part) < 0 || leavesArePieces(shape, cut.dim(part));
}

} // namespace tessera::dist

#endif
