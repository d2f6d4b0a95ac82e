#include "dialects/dist/exchange/Exchange.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tessera::dist {

using llvm::ArrayRef;
using llvm::SmallVector;

int64_t ExchangeBox::elements() const {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

void forEachBox(const Collective &c, llvm::function_ref<void(const ExchangeBox &)> visit) {
  const size_t rank = c.localIn.size(), each = numbersPerBox(rank);
  for (size_t at = 0; at + each <= c.boxes.size(); at += each) {
    ArrayRef<int64_t> row = ArrayRef<int64_t>(c.boxes).slice(at, each);
    visit({row[0], row[1], row.slice(2, rank), row.slice(2 + rank, rank), row.slice(2 + 2 * rank, rank)});
  }
}

bool canExchange(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &sharding) {
  for (int64_t d = 0; d < sharding.rank(); ++d)
    if (sharding.isPadded(mesh, shape, d))
      return false;
  return sharding.rank() > 0;
}

namespace {

/// Coordinates of all ranks, rank by rank.
class Coordinates {
public:
  explicit Coordinates(const Mesh &mesh) : axes_(mesh.numAxes()) {
    for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
      for (int axis = 0; axis < axes_; ++axis)
        all_.push_back(mesh.coordinate(rank, axis));
  }
  int64_t of(int64_t rank, int axis) const { return all_[size_t(rank * axes_ + axis)]; }
  /// The axes along which two ranks differ, as bits.
  uint32_t between(int64_t a, int64_t b) const {
    uint32_t axes = 0;
    for (int axis = 0; axis < axes_; ++axis)
      axes |= uint32_t(of(a, axis) != of(b, axis)) << axis;
    return axes;
  }

private:
  int64_t axes_;
  std::vector<int64_t> all_;
};

AxisList paidAxes(const Sharding &from, const Sharding &to) {
  AxisList paid;
  for (int axis : from.partial)
    if (!llvm::is_contained(to.partial, axis))
      paid.push_back(axis);
  return paid;
}

/// Lists the messages to one rank after the other.
class Intersections {
public:
  Intersections(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to)
      : mesh_(mesh), shape_(shape), from_(from), to_(to), at_(mesh), paid_(paidAxes(from, to)),
        has_(from.localShape(mesh, shape)), wants_(to.localShape(mesh, shape)) {
    int64_t stride = 1;
    for (int axis = mesh.numAxes(); axis-- > 0; stride *= mesh.axisSize(axis))
      strides_.insert(strides_.begin(), stride);
  }

  void addTo(int64_t rank, std::vector<int64_t> &boxes) const {
    const SmallVector<int64_t> begin = to_.offset(mesh_, shape_, rank);
    const size_t dims = shape_.size();
    SmallVector<int64_t> first, block, source(dims), target(dims), extent(dims);
    for (size_t d = 0; d < dims; ++d)
      first.push_back(begin[d] / has_[d]);
    block = first;
    while (true) {
      int64_t sender = rank; // with this rank's place along all axes that cut nothing
      for (size_t d = 0; d < dims; ++d) {
        const int64_t low = std::max(begin[d], block[d] * has_[d]),
                      high = std::min(begin[d] + wants_[d], (block[d] + 1) * has_[d]);
        source[d] = low - block[d] * has_[d];
        target[d] = low - begin[d];
        extent[d] = high - low;
        int64_t index = block[d];
        for (int axis : llvm::reverse(from_.dims[d])) {
          const int64_t size = mesh_.axisSize(axis);
          sender += (index % size - at_.of(rank, axis)) * strides_[axis];
          index /= size;
        }
      }
      for (int64_t term = 0, terms = mesh_.size(paid_); term < terms; ++term) {
        boxes.push_back(withTerm(sender, term));
        boxes.push_back(rank);
        boxes.insert(boxes.end(), source.begin(), source.end());
        boxes.insert(boxes.end(), target.begin(), target.end());
        boxes[boxes.size() - dims] += term * wants_[0];
        boxes.insert(boxes.end(), extent.begin(), extent.end());
      }
      size_t d = dims;
      while (d > 0 && ++block[d - 1] * has_[d - 1] >= begin[d - 1] + wants_[d - 1])
        block[d - 1] = first[d - 1], --d;
      if (d == 0)
        return;
    }
  }

private:
  /// The rank at place `term` along the axes that are paid.
  int64_t withTerm(int64_t rank, int64_t term) const {
    for (int axis : llvm::reverse(paid_)) {
      const int64_t size = mesh_.axisSize(axis);
      rank += (term % size - at_.of(rank, axis)) * strides_[axis];
      term /= size;
    }
    return rank;
  }

  const Mesh &mesh_;
  ArrayRef<int64_t> shape_;
  const Sharding &from_, &to_;
  const Coordinates at_;
  const AxisList paid_;
  const SmallVector<int64_t> has_, wants_;
  SmallVector<int64_t> strides_; // of ranks, by axis
};

} // namespace

Collective makeExchange(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to) {
  Collective c;
  c.kind = CollectiveKind::Exchange;
  c.result = to;
  c.localIn = from.localShape(mesh, shape);
  c.localOut = to.localShape(mesh, shape);
  c.localOut[0] *= mesh.size(paidAxes(from, to));
  const Intersections all(mesh, shape, from, to);
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
    all.addTo(rank, c.boxes);
  c.loads = rankLoads(mesh, c);
  uint32_t moves = 0;
  for (const RankLoad &load : c.loads)
    for (const PeerLoad &part : load)
      moves |= part.axes;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (moves >> axis & 1)
      c.axes.push_back(axis);
  return c;
}

std::optional<Collective> makeFold(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &from,
                                   const Sharding &to) {
  const int64_t terms = mesh.size(paidAxes(from, to));
  if (terms == 1)
    return std::nullopt;
  Collective c;
  c.kind = CollectiveKind::Fold;
  c.dim = 0;
  c.reduction = from.reduction;
  c.result = to;
  c.localIn = c.localOut = to.localShape(mesh, shape);
  c.localIn[0] *= terms;
  return c;
}

/// Whether no part of `a` is more than the same part of `b`.
static bool isWithin(const RankLoad &a, const RankLoad &b) {
  return llvm::all_of(a, [&](const PeerLoad &part) {
    return llvm::any_of(b, [&](const PeerLoad &other) {
      return other.axes == part.axes && other.messages >= part.messages && other.elements >= part.elements;
    });
  });
}

std::vector<RankLoad> rankLoads(const Mesh &mesh, const Collective &exchange) {
  const size_t ranks = size_t(mesh.numRanks());
  const Coordinates at(mesh);
  std::vector<RankLoad> all(2 * ranks); // sent and received, by rank
  auto add = [](RankLoad &load, uint32_t axes, int64_t elements) {
    auto *part = llvm::lower_bound(load, axes, [](const PeerLoad &p, uint32_t x) { return p.axes < x; });
    if (part == load.end() || part->axes != axes)
      part = load.insert(part, {axes, 0, 0});
    ++part->messages;
    part->elements += elements;
  };
  forEachBox(exchange, [&](const ExchangeBox &box) {
    const uint32_t axes = at.between(box.from, box.to);
    if (axes == 0)
      return;
    add(all[size_t(box.from)], axes, box.elements());
    add(all[ranks + size_t(box.to)], axes, box.elements());
  });
  llvm::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::vector<RankLoad> most;
  for (const RankLoad &load : all)
    if (llvm::none_of(all, [&](const RankLoad &other) { return &other != &load && isWithin(load, other); }))
      most.push_back(load);
  return most;
}

} // namespace tessera::dist
