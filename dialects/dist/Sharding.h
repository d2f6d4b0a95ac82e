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
// A dimension may be cut in units: runs of so many elements that stay together, such as the columns of one head. It is
// cut like an extent that counts units, and block extents are rounded up to whole units.
//
//   Mesh data=2,model=2; [8, 6] under {{0}, {1}}:   local shape [4, 3]
//   text "[data, model]"; "[data+model, -]" cuts dimension 0 in four;
//   "[-, -] sum(model)" is partial; "[-, model/2]" cuts dimension 1 in units of 2: 6 elements into blocks of 4.
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

/// How a dimension, or a factor of a rule, is cut: the axes, major to minor, and the unit. An AxisList is a cut in
/// units of one element.
struct Cut : AxisList {
  /// Elements that stay together; it divides the extent. A cut is canonical if no smaller unit gives the same blocks.
  /// All cuts that leave a function are canonical, so that equal blocks compare equal: where the units can be shared
  /// out evenly, or nothing is cut, the unit is 1.
  int64_t unit = 1;

  using AxisList::AxisList;
  Cut() = default;
  Cut(const AxisList &axes) : AxisList(axes) {}
  Cut(AxisList &&axes) : AxisList(std::move(axes)) {}
  Cut(llvm::ArrayRef<int> axes, int64_t unit) : AxisList(axes), unit(unit) {}

  void clear() {
    AxisList::clear();
    unit = 1;
  }
  /// The same blocks of an extent, with the smallest unit that gives them.
  Cut canonical(const Mesh &mesh, int64_t extent) const;
  /// The cut by the first `count` axes alone; canonical.
  Cut first(size_t count, const Mesh &mesh, int64_t extent) const;

  const AxisList &axes() const { return *this; }
  bool operator==(const Cut &o) const { return unit == o.unit && axes() == o.axes(); }
  bool operator==(const AxisList &o) const { return unit == 1 && axes() == o; }
  bool operator<(const Cut &o) const { return axes() != o.axes() ? axes() < o.axes() : unit < o.unit; }
};

struct Sharding {
  llvm::SmallVector<Cut, 4> dims;
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
  /// Whether an extent may be cut into `shards` blocks of whole units: evenly, or with padding if it has more units
  /// than blocks. A padded block may hold padding only ([5] in four blocks of 2).
  static bool canCut(int64_t extent, int64_t shards, int64_t unit = 1) {
    return extent % unit == 0 && (extent / unit % shards == 0 || shards < extent / unit);
  }
  /// Whether some block of a dimension of this extent is padded.
  bool isPadded(const Mesh &mesh, llvm::ArrayRef<int64_t> global, int64_t dim) const {
    return global[dim] / dims[dim].unit % numShards(mesh, dim) != 0;
  }

  /// Fails with one sentence if an axis is unknown or used twice, the rank differs, a dimension has fewer units than
  /// blocks, or a cut is not canonical.
  llvm::Error verify(const Mesh &mesh, llvm::ArrayRef<int64_t> global) const;

  std::string str(const Mesh &mesh) const;

  bool operator==(const Sharding &o) const {
    return dims == o.dims && partial == o.partial && reduction == o.reduction;
  }
  bool operator<(const Sharding &o) const; // any total order, the same in every run
};

} // namespace tessera::dist

#endif
