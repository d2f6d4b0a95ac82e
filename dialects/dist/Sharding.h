//===- Sharding.h - how one tensor lies on the mesh ------------------------------------------===//
//
// For every dimension the mesh axes that cut it (major to minor, into equal blocks), and the axes
// over which a reduction is still owed ("partial"): the tensor is the sum (maximum, minimum) of the
// ranks' pieces along them. An axis occurs at most once; ranks along an axis that does not occur
// hold copies.
//
// An axis need not divide what it cuts: blocks then have the extent rounded up, and what is missing
// at the end is padding, of unknown contents. Every axis cuts the block that the one before it left,
// padding included, so that every rank's own elements come first in its block, and a collective over
// minor axes only has to lengthen or shorten blocks at their end.
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
/// nullopt for another word.
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
  /// The same blocks with nothing owed.
  Sharding withoutPartial() const;
  /// Whether a dimension or the partial list uses the axis.
  bool uses(int axis) const;

  /// Number of blocks of a dimension.
  int64_t numShards(const Mesh &mesh, int64_t dim) const { return mesh.size(dims[dim]); }
  /// Of every rank's block, padding included.
  llvm::SmallVector<int64_t> localShape(const Mesh &mesh, llvm::ArrayRef<int64_t> global) const;
  /// First global index that `rank` holds, per dimension (the tensor's extent if it holds none).
  llvm::SmallVector<int64_t> offset(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t rank) const;
  /// How many elements `rank` holds, per dimension, without padding: localShape or less.
  llvm::SmallVector<int64_t> extent(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t rank) const;
  /// Whether an extent may be cut so: evenly, or with padding and an element for every block.
  static bool canCut(int64_t extent, int64_t shards) { return extent % shards == 0 || shards < extent; }
  /// Whether some block of a dimension of this extent is padded.
  bool isPadded(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t dim) const {
    return global[dim] % numShards(mesh, dim) != 0;
  }

  /// An error in one sentence if an axis is unknown or used twice, the rank differs, or a dimension
  /// has fewer elements than blocks.
  llvm::Error verify(const Mesh &mesh, llvm::ArrayRef<int64_t> global) const;

  std::string str(const Mesh &mesh) const;

  bool operator==(const Sharding &o) const {
    return dims == o.dims && partial == o.partial && reduction == o.reduction;
  }
  bool operator<(const Sharding &o) const; // any total order, the same in every run
};

} // namespace tessera::dist

#endif
