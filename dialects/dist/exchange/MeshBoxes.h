//===- MeshBoxes.h - boxes between the ranks of two meshes ----------------------------------------===//
//
// A tensor that one group of ranks holds goes to another group, which has a mesh of its own: between stages of a
// pipeline, for example. Every rank that receives gets its block, from each block of the sender's mesh that meets it
// what the two have in common. Of the ranks that hold the same block, the one sends that has sent least so far, so
// replicas share the work.
//
//   Mesh a: data=2,model=2; b: data=1. [8] from "[data]" on a to "[-]" on b: rank 0 sends the elements 0 to 3, rank 2
//   the elements 4 to 7. Back: the one rank of b sends a box to each of the four.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_EXCHANGE_MESHBOXES_H
#define TESSERA_DIALECTS_DIST_EXCHANGE_MESHBOXES_H

#include "dialects/dist/Sharding.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <vector>

namespace tessera::dist {

/// On a dist.send and its dist.receive between stages with meshes of their own: the boxes as numbersOf() gives them,
/// with ranks of the two meshes.
inline constexpr llvm::StringLiteral kBoxesAttr = "dist.boxes";

/// A box of `shape` that begins at `source` in the local tensor of `from`, a rank of the one mesh, and goes to `target`
/// in the local tensor of `to`, a rank of the other.
struct MeshBox {
  int64_t from = 0, to = 0;
  llvm::SmallVector<int64_t> source, target, shape;
  bool operator==(const MeshBox &) const = default;
};

/// Whether a tensor can leave or reach a mesh so: it is no sum that is not paid yet, and has no padding.
bool canCrossMeshes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &sharding);

/// By `to`, and for one of them in the order of the blocks. Every rank of the other mesh receives each element of its
/// block once, and at most one box from a rank. Requires canCrossMeshes at both ends.
std::vector<MeshBox> boxesBetween(llvm::ArrayRef<int64_t> shape, const Mesh &fromMesh, const Sharding &from,
                                  const Mesh &toMesh, const Sharding &to);

/// The boxes as numbers, for an attribute: from, to, source, target and shape of each.
std::vector<int64_t> numbersOf(llvm::ArrayRef<MeshBox> boxes);
/// The other way, for a tensor of `rank` dimensions. Empty if these are no whole boxes.
std::vector<MeshBox> boxesIn(llvm::ArrayRef<int64_t> numbers, size_t rank);

} // namespace tessera::dist

#endif
