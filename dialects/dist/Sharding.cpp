#include "dialects/dist/Sharding.h"

#include "llvm/ADT/STLExtras.h"

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
  return is_contained(partial, axis) ||
         any_of(dims, [&](const AxisList &axes) { return is_contained(axes, axis); });
}

SmallVector<int64_t> Sharding::localShape(const Mesh &mesh, ArrayRef<int64_t> global) const {
  SmallVector<int64_t> local(global);
  for (int64_t d = 0; d < rank(); ++d)
    local[d] /= numShards(mesh, d);
  return local;
}

SmallVector<int64_t> Sharding::offset(const Mesh &mesh, ArrayRef<int64_t> global, int64_t r) const {
  SmallVector<int64_t> start(global.size(), 0);
  for (int64_t d = 0; d < rank(); ++d)
    start[d] = mesh.coordinate(r, ArrayRef<int>(dims[d])) * (global[d] / numShards(mesh, d));
  return start;
}

Error Sharding::verify(const Mesh &mesh, ArrayRef<int64_t> global) const {
  if (rank() != int64_t(global.size()))
    return createStringError("a sharding of " + Twine(rank()) + " dimensions on a tensor of " +
                             Twine(global.size()));
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
    if (global[d] % numShards(mesh, d) != 0)
      return createStringError("dimension " + Twine(d) + " of extent " + Twine(global[d]) +
                               " does not divide by " + Twine(numShards(mesh, d)));
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
    return std::lexicographical_compare(list(a).begin(), list(a).end(), list(b).begin(),
                                        list(b).end());
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
