//===- Mesh.h - the ranks and their axes -----------------------------------------------------===//
//
// A mesh is a list of named axes, major to minor; its ranks are numbered row-major.
//
//   Mesh mesh = cantFail(Mesh::parse("data=2,model=4"));
//   mesh.numRanks();            // 8
//   mesh.coordinate(5, 1);      // rank 5 = (1, 1): 1
//   mesh.group(5, {1});         // the ranks that differ from 5 in "model" only: 4 5 6 7
//   mesh.group(5, {0});         // 1 5
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_MESH_H
#define TESSERA_DIALECTS_DIST_MESH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>

namespace tessera::dist {

/// Indices of mesh axes, major to minor.
using AxisList = llvm::SmallVector<int, 2>;

struct MeshAxis {
  std::string name;
  int64_t size;
  bool operator==(const MeshAxis &) const = default;
};

class Mesh {
public:
  Mesh() = default; // one rank, no axis
  explicit Mesh(llvm::ArrayRef<MeshAxis> axes) : axes_(axes.begin(), axes.end()) {}

  /// "data=2,model=2", or "8" for one axis named "data". Axis names are identifiers, sizes at least
  /// 1; at most 16 axes and 2^20 ranks.
  static llvm::Expected<Mesh> parse(llvm::StringRef text);
  std::string str() const; // "data=2,model=2"

  llvm::ArrayRef<MeshAxis> axes() const { return axes_; }
  int numAxes() const { return int(axes_.size()); }
  int64_t axisSize(int axis) const { return axes_[axis].size; }
  llvm::StringRef axisName(int axis) const { return axes_[axis].name; }
  int findAxis(llvm::StringRef name) const; // -1: there is none
  int64_t numRanks() const;
  /// Product of the axes' sizes.
  int64_t size(llvm::ArrayRef<int> axes) const;

  int64_t coordinate(int64_t rank, int axis) const;
  /// The rank's coordinate along `axes` read as one axis, whose first axis is the most significant.
  int64_t coordinate(int64_t rank, llvm::ArrayRef<int> axes) const;
  /// The ranks that agree with `rank` on all other axes, in the order of `coordinate(., axes)`.
  llvm::SmallVector<int64_t> group(int64_t rank, llvm::ArrayRef<int> axes) const;

  bool operator==(const Mesh &) const = default;

private:
  llvm::SmallVector<MeshAxis, 3> axes_;
};

} // namespace tessera::dist

#endif
