//===- Sharding.h - how one tensor lies on the mesh ------------------------------------------===//
//
// A sharding lists, for every dimension, the mesh axes that cut it, major to minor, into equal blocks. It also lists
// the axes over which the tensor is partial: the tensor is the sum (maximum, minimum) of what the ranks along them
// hold. An axis occurs at most once. Ranks along an axis that does not occur hold copies.
//
// An axis need not divide the extent that it cuts. The block extent is then rounded up, and the last blocks end in
// padding, whose contents are undefined. Every axis cuts the block of the axis before it, padding included. So every
// rank's own elements come first in its block, and a collective over minor axes lengthens or shortens blocks only at
// their end.
//
//   Mesh data=2,model=2; [8, 6] under {{0}, {1}}:   local shape [4, 3]
//   text "[data, model]"; "[data+model, -]" cuts dimension 0 in four;
//   "[-, -] sum(model)" is partial.
//   [5] under {{0, 1}}: blocks of 2 (half of ceil(5/2)); the ranks hold 0 1, 2 -, 3 4, - -.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_SHARDING_H
#define TESSERA_DIALECTS_DIST_SHARDING_H

#include "dialects/dist/Mesh.h"

#include <compare>

namespace tessera::dist {

enum class Reduction { None, Sum, Max, Min };
llvm::StringRef stringify(Reduction reduction); // "sum"
/// The reduction with this name; nullopt if there is none.
std::optional<Reduction> parseReduction(llvm::StringRef text);

struct Sharding {
  llvm::SmallVector<AxisList, 4> dims;
  AxisList partial;                      // ascending
  Reduction reduction = Reduction::None; // None when and only when `partial` is empty

  static Sharding replicated(int64_t rank) {
    Sharding s;
    s.dims.resize(rank);
    return s;
  }

  int64_t rank() const { return int64_t(dims.size()); }
  bool isReplicated() const;
  bool isPartial() const { return !partial.empty(); }
  /// The same blocks, partial over no axis.
  Sharding withoutPartial() const;
  /// Whether a dimension or the partial list uses the axis.
  bool uses(int axis) const;

  /// Number of blocks of a dimension.
  int64_t numShards(const Mesh &mesh, int64_t dim) const { return mesh.size(dims[dim]); }
  /// The shape of a rank's block, padding included. It is the same on all ranks.
  llvm::SmallVector<int64_t> localShape(const Mesh &mesh, llvm::ArrayRef<int64_t> global) const;
  /// First global index that `rank` holds, per dimension (the tensor's extent if it holds none).
  llvm::SmallVector<int64_t> offset(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t rank) const;
  /// How many elements `rank` holds, per dimension, without padding: localShape or less.
  llvm::SmallVector<int64_t> extent(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t rank) const;
  /// Whether an extent may be cut into `shards` blocks: evenly, or with padding if it has more elements than blocks.
  /// A padded block may hold padding only ([5] in four blocks of 2).
  static bool canCut(int64_t extent, int64_t shards) { return extent % shards == 0 || shards < extent; }
  /// Whether some block of a dimension of this extent is padded.
  bool isPadded(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t dim) const {
    return global[dim] % numShards(mesh, dim) != 0;
  }

  /// Fails with one sentence if an axis is unknown or used twice, the rank differs, or a dimension has fewer elements
  /// than blocks.
  llvm::Error verify(const Mesh &mesh, llvm::ArrayRef<int64_t> global) const;

  std::string str(const Mesh &mesh) const;

  bool operator==(const Sharding &o) const {
    return dims == o.dims && partial == o.partial && reduction == o.reduction;
  }
  bool operator<(const Sharding &o) const; // any total order, the same in every run
};

} // namespace tessera::dist

#endif
