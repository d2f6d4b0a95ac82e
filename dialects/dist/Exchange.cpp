#include "dialects/dist/Exchange.h"

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
      : mesh_(mesh), shape_(shape), from_(from), to_(to), paid_(paidAxes(from, to)), has_(from.localShape(mesh, shape)),
        wants_(to.localShape(mesh, shape)) {
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
          sender += (index % size - mesh_.coordinate(rank, axis)) * strides_[axis];
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
      rank += (term % size - mesh_.coordinate(rank, axis)) * strides_[axis];
      term /= size;
    }
    return rank;
  }

  const Mesh &mesh_;
  ArrayRef<int64_t> shape_;
  const Sharding &from_, &to_;
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
  for (int axis = 0; axis < mesh.numAxes(); ++axis) {
    bool moves = false;
    forEachBox(c, [&](const ExchangeBox &box) {
      moves = moves || mesh.coordinate(box.from, axis) != mesh.coordinate(box.to, axis);
    });
    if (moves)
      c.axes.push_back(axis);
  }
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

int64_t fullestRank(const Mesh &mesh, const Collective &exchange) {
  std::vector<int64_t> elements(size_t(2 * mesh.numRanks())); // sent and received, by rank
  forEachBox(exchange, [&](const ExchangeBox &box) {
    if (box.from == box.to)
      return;
    elements[size_t(2 * box.from)] += box.elements();
    elements[size_t(2 * box.to + 1)] += box.elements();
  });
  return *std::max_element(elements.begin(), elements.end());
}

} // namespace tessera::dist
