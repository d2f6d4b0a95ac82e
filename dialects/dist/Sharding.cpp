#include "dialects/dist/Sharding.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace llvm;

namespace tessera::dist {

StringRef stringify(Reduction reduction) {
  switch (reduction) {
  case Reduction::None:
    return "none";
  case Reduction::Sum:
    return "sum";
  case Reduction::Max:
    return "max";
  case Reduction::Min:
    return "min";
  }
  return "";
}

std::optional<Reduction> parseReduction(StringRef text) {
  for (Reduction r : {Reduction::Sum, Reduction::Max, Reduction::Min})
    if (stringify(r) == text)
      return r;
  return std::nullopt;
}

bool Sharding::isReplicated() const {
  return partial.empty() && all_of(dims, [](const AxisList &axes) { return axes.empty(); });
}

Sharding Sharding::withoutPartial() const {
  Sharding s;
  s.dims = dims;
  return s;
}

bool Sharding::uses(int axis) const {
  return is_contained(partial, axis) || any_of(dims, [&](const AxisList &axes) { return is_contained(axes, axis); });
}

SmallVector<int64_t> Sharding::localShape(const Mesh &mesh, ArrayRef<int64_t> global) const {
  SmallVector<int64_t> local(global);
  for (int64_t d = 0; d < rank(); ++d)
    local[d] = divideCeil(local[d], numShards(mesh, d)); // axis by axis it is the same number
  return local;
}

/// (first index, number of elements) of a rank's block.
static std::pair<int64_t, int64_t> part(const Mesh &mesh, ArrayRef<int> axes, int64_t global, int64_t rank) {
  int64_t offset = 0, held = global, block = global;
  for (int axis : axes) {
    block = divideCeil(block, mesh.axisSize(axis));
    int64_t before = mesh.coordinate(rank, axis) * block;
    offset += before;
    held = std::clamp<int64_t>(held - before, 0, block);
  }
  return {held == 0 ? global : offset, held};
}

SmallVector<int64_t> Sharding::offset(const Mesh &mesh, ArrayRef<int64_t> global, int64_t r) const {
  SmallVector<int64_t> start;
  for (int64_t d = 0; d < rank(); ++d)
    start.push_back(part(mesh, dims[d], global[d], r).first);
  return start;
}

SmallVector<int64_t> Sharding::extent(const Mesh &mesh, ArrayRef<int64_t> global, int64_t r) const {
  SmallVector<int64_t> held;
  for (int64_t d = 0; d < rank(); ++d)
    held.push_back(part(mesh, dims[d], global[d], r).second);
  return held;
}

Error Sharding::verify(const Mesh &mesh, ArrayRef<int64_t> global) const {
  if (rank() != int64_t(global.size()))
    return createStringError("a sharding of " + Twine(rank()) + " dimensions on a tensor of " + Twine(global.size()));
  SmallVector<bool> used(mesh.numAxes(), false);
  auto use = [&](int axis) -> Error {
    if (axis < 0 || axis >= mesh.numAxes())
      return createStringError("unknown mesh axis " + Twine(axis));
    if (used[axis])
      return createStringError("mesh axis '" + mesh.axisName(axis) + "' is used twice");
    used[axis] = true;
    return Error::success();
  };
  for (int64_t d = 0; d < rank(); ++d) {
    for (int axis : dims[d])
      if (Error e = use(axis))
        return e;
    if (!canCut(global[d], numShards(mesh, d)))
      return createStringError("dimension " + Twine(d) + " of extent " + Twine(global[d]) + " cannot be cut in " +
                               Twine(numShards(mesh, d)) + " blocks");
  }
  for (int axis : partial)
    if (Error e = use(axis))
      return e;
  if (partial.empty() != (reduction == Reduction::None))
    return createStringError("partial axes and a reduction belong together");
  if (!is_sorted(partial))
    return createStringError("partial axes are not in mesh order");
  return Error::success();
}

bool Sharding::operator<(const Sharding &o) const {
  auto list = [](const AxisList &a) { return ArrayRef<int>(a); };
  auto less = [&](const AxisList &a, const AxisList &b) {
    return std::lexicographical_compare(list(a).begin(), list(a).end(), list(b).begin(), list(b).end());
  };
  if (dims.size() != o.dims.size())
    return dims.size() < o.dims.size();
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != o.dims[d])
      return less(dims[d], o.dims[d]);
  if (partial != o.partial)
    return less(partial, o.partial);
  return reduction < o.reduction;
}

} // namespace tessera::dist
