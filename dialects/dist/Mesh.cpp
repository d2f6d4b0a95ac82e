#include "dialects/dist/Mesh.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::dist {

namespace {
constexpr int64_t kMaxRanks = int64_t(1) << 20;
constexpr int kMaxAxes = 16;

Error bad(StringRef text, const Twine &why) {
  return createStringError("mesh '" + text + "': " + why + " (expected, for example, data=2,model=4 or 8)");
}

bool isIdentifier(StringRef name) {
  return !name.empty() && (isAlpha(name.front()) || name.front() == '_') &&
         all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
}
} // namespace

Expected<Mesh> Mesh::parse(StringRef text) {
  SmallVector<MeshAxis, 3> axes;
  SmallVector<StringRef, 4> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, size] = part.trim().split('=');
    if (size.empty() && parts.size() == 1 && !part.contains('='))
      std::tie(name, size) = std::pair<StringRef, StringRef>("data", part.trim());
    name = name.trim();
    size = size.trim();
    if (!isIdentifier(name))
      return bad(text, "'" + name + "' is no axis name");
    int64_t n = 0;
    if (size.getAsInteger(10, n) || n < 1 || n > kMaxRanks)
      return bad(text, "axis '" + name + "' has size '" + size + "'; a whole number from 1 on is needed");
    for (const MeshAxis &axis : axes)
      if (axis.name == name)
        return bad(text, "axis '" + name + "' occurs twice");
    ranks *= n;
    if (ranks > kMaxRanks || int(axes.size()) == kMaxAxes)
      return bad(text, "too many ranks or axes");
    axes.push_back({name.str(), n});
  }
  return Mesh(axes);
}

std::string Mesh::str() const {
  std::string s;
  for (const MeshAxis &axis : axes_)
    s += (s.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return s;
}

int Mesh::findAxis(StringRef name) const {
  for (int i = 0; i < numAxes(); ++i)
    if (axes_[i].name == name)
      return i;
  return -1;
}

int64_t Mesh::numRanks() const {
  int64_t n = 1;
  for (const MeshAxis &axis : axes_)
    n *= axis.size;
  return n;
}

int64_t Mesh::size(ArrayRef<int> axes) const {
  int64_t n = 1;
  for (int axis : axes)
    n *= axes_[axis].size;
  return n;
}

int64_t Mesh::coordinate(int64_t rank, int axis) const {
  int64_t minor = 1;
  for (int i = axis + 1; i < numAxes(); ++i)
    minor *= axes_[i].size;
  return rank / minor % axes_[axis].size;
}

int64_t Mesh::coordinate(int64_t rank, ArrayRef<int> axes) const {
  int64_t index = 0;
  for (int axis : axes)
    index = index * axes_[axis].size + coordinate(rank, axis);
  return index;
}

SmallVector<int64_t> Mesh::group(int64_t rank, ArrayRef<int> axes) const {
  SmallVector<int64_t> stride(numAxes(), 1);
  for (int i = numAxes() - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * axes_[i + 1].size;
  int64_t base = rank;
  for (int axis : axes)
    base -= coordinate(rank, axis) * stride[axis];
  SmallVector<int64_t> members{base};
  for (int axis : axes) { // the last axis varies fastest
    SmallVector<int64_t> next;
    for (int64_t member : members)
      for (int64_t i = 0; i < axes_[axis].size; ++i)
        next.push_back(member + i * stride[axis]);
    members = std::move(next);
  }
  return members;
}

} // namespace tessera::dist
