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

// The block of k parts is b = ceil(n / k) elements, rounded up to whole units. A unit u that divides this unit rounds
// to the same b if b - n / k < u.
Cut Cut::canonical(const Mesh &mesh, int64_t extent) const {
  if (unit == 1)
    return *this;
  int64_t parts = 1, least = 1;
  for (int axis : axes()) {
    parts *= mesh.axisSize(axis);
    int64_t block = divideCeil(extent / unit, parts) * unit;
    least = std::max(least, (block * parts - extent) / parts + 1);
  }
  int64_t times = unit / least; // at most the number of parts, unless it is the unit itself
  while (unit % times != 0)
    --times;
  return Cut(axes(), unit / times);
}

Cut Cut::first(size_t count, const Mesh &mesh, int64_t extent) const {
  return Cut(ArrayRef<int>(axes()).take_front(count), unit).canonical(mesh, extent);
}

bool Sharding::isReplicated() const {
  return partial.empty() && all_of(dims, [](const Cut &cut) { return cut.empty(); });
}

Sharding Sharding::withoutPartial() const {
  Sharding s;
  s.dims = dims;
  return s;
}

bool Sharding::uses(int axis) const {
  return is_contained(partial, axis) || any_of(dims, [&](const Cut &cut) { return is_contained(cut, axis); });
}

SmallVector<int64_t> Sharding::localShape(const Mesh &mesh, ArrayRef<int64_t> global) const {
  SmallVector<int64_t> local(global);
  for (int64_t d = 0; d < rank(); ++d)
    local[d] = divideCeil(local[d] / dims[d].unit, numShards(mesh, d)) * dims[d].unit; // axis by axis it is the same
  return local;
}

/// (first index, number of elements) of a rank's block.
static std::pair<int64_t, int64_t> part(const Mesh &mesh, const Cut &cut, int64_t global, int64_t rank) {
  int64_t offset = 0, held = global, block = global / cut.unit;
  for (int axis : cut) {
    block = divideCeil(block, mesh.axisSize(axis));
    int64_t before = mesh.coordinate(rank, axis) * block * cut.unit;
    offset += before;
    held = std::clamp<int64_t>(held - before, 0, block * cut.unit);
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
    const Cut &cut = dims[d];
    if (cut.unit < 1 || !canCut(global[d], numShards(mesh, d), cut.unit))
      return createStringError("dimension " + Twine(d) + " of extent " + Twine(global[d]) + " cannot be cut in " +
                               Twine(numShards(mesh, d)) + " blocks" +
                               (cut.unit == 1 ? "" : " of units of " + std::to_string(cut.unit)));
    if (int64_t unit = cut.canonical(mesh, global[d]).unit; unit != cut.unit)
      return createStringError("dimension " + Twine(d) + " of extent " + Twine(global[d]) + " has the same blocks in " +
                               "units of " + Twine(unit) + " as in units of " + Twine(cut.unit) +
                               ": write the smaller unit" + (unit == 1 ? ", which is none" : ""));
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
  if (dims != o.dims)
    return dims.size() != o.dims.size() ? dims.size() < o.dims.size() : dims < o.dims;
  if (partial != o.partial)
    return partial < o.partial;
  return reduction < o.reduction;
}

} // namespace tessera::dist
