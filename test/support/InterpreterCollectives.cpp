//===- InterpreterCollectives.cpp - what all ranks do together ------------------------------------===//
//
// Each collective by its definition in dialects/dist/Reshard.h, written over the values of all ranks.
//
//===----------------------------------------------------------------------------------------------===//
#include "test/support/InterpreterDetail.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/exchange/Exchange.h"

#include <algorithm>

using namespace mlir;
using tessera::dist::CollectiveKind;

namespace tessera::test::detail {

namespace {

struct Together {
  dist::CollectiveOp op;
  dist::Mesh mesh;
  dist::Collective c;
  ArrayRef<const Tensor *> in; // by rank
  dist::Shape shape;           // of every rank's result

  /// The ranks of this rank's group.
  SmallVector<int64_t> group(int64_t rank) const { return mesh.group(rank, c.axes); }
  int64_t place(int64_t rank) const { return mesh.coordinate(rank, c.axes); }

  /// A tensor whose element at `index` is value(index).
  template <typename Fn> Tensor make(ArrayRef<int64_t> extents, Fn value) const {
    Tensor result = Tensor::zeros(extents);
    size_t i = 0;
    forEach(extents, [&](ArrayRef<int64_t> index) { result.data[i++] = value(index); });
    return result;
  }
  static double at(const Tensor &x, ArrayRef<int64_t> index) { return x.data[size_t(offset(x.shape, index))]; }

  /// The block of x that a place owns when dim is cut by the group.
  Tensor block(const Tensor &x, int64_t dim, int64_t place) const {
    dist::Shape extents = x.shape;
    extents[size_t(dim)] /= mesh.size(c.axes);
    return make(extents, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> source(index);
      source[size_t(dim)] += place * extents[size_t(dim)];
      return at(x, source);
    });
  }

  Tensor join(ArrayRef<Tensor> parts, int64_t dim) const {
    dist::Shape extents = parts.front().shape;
    int64_t each = extents[size_t(dim)];
    extents[size_t(dim)] *= int64_t(parts.size());
    return make(extents, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> source(index);
      source[size_t(dim)] %= each;
      return at(parts[size_t(index[size_t(dim)] / each)], source);
    });
  }

  double combine(double a, double b) const {
    return c.reduction == dist::Reduction::Max   ? std::max(a, b)
           : c.reduction == dist::Reduction::Min ? std::min(a, b)
                                                 : a + b;
  }

  Tensor reduce(ArrayRef<int64_t> ranks) const {
    Tensor sum = *in[size_t(ranks[0])];
    for (int64_t rank : ranks.drop_front())
      for (size_t i = 0; i < sum.data.size(); ++i)
        sum.data[i] = combine(sum.data[i], in[size_t(rank)]->data[i]);
    return sum;
  }

  Tensor exchange(int64_t rank) const {
    Tensor out = Tensor::zeros(shape);
    dist::forEachBox(c, [&](const dist::ExchangeBox &box) {
      if (box.to != rank)
        return;
      forEach(box.shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> source(index), target(index);
        for (size_t d = 0; d < index.size(); ++d) {
          source[d] += box.source[d];
          target[d] += box.target[d];
        }
        out.data[size_t(offset(out.shape, target))] = at(*in[size_t(box.from)], source);
      });
    });
    return out;
  }

  /// The rank's rows with `lo` of its lower and `hi` of its upper neighbours; `fill` beyond the ends.
  Tensor halo(int64_t rank) const {
    SmallVector<int64_t> ranks = group(rank);
    size_t dim = size_t(c.dim);
    int64_t rows = in[size_t(rank)]->shape[dim];
    return make(shape, [&](ArrayRef<int64_t> index) {
      int64_t row = place(rank) * rows + index[dim] - c.haloLo;
      if (row < 0 || row >= rows * int64_t(ranks.size()))
        return c.fill;
      SmallVector<int64_t> source(index);
      source[dim] = row % rows;
      return at(*in[size_t(ranks[size_t(row / rows)])], source);
    });
  }

  Tensor result(int64_t rank) const {
    switch (c.kind) {
    case CollectiveKind::Slice:
      return block(*in[size_t(rank)], c.dim, place(rank));
    case CollectiveKind::AllReduce:
      return reduce(group(rank));
    case CollectiveKind::ReduceScatter:
      return block(reduce(group(rank)), c.dim, place(rank));
    case CollectiveKind::Fit: {
      const Tensor &x = *in[size_t(rank)];
      return make(shape, [&](ArrayRef<int64_t> index) { return index[c.dim] < c.localIn[c.dim] ? at(x, index) : 0; });
    }
    case CollectiveKind::Permute:
      return *in[size_t(c.sources[size_t(rank)])];
    case CollectiveKind::Broadcast:
      return *in[size_t(group(rank)[size_t(c.root)])];
    case CollectiveKind::Halo:
      return halo(rank);
    case CollectiveKind::Exchange:
      return exchange(rank);
    case CollectiveKind::Fold: {
      const Tensor &x = *in[size_t(rank)];
      const int64_t terms = c.localIn[c.dim] / c.localOut[c.dim];
      return make(shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> source(index);
        double sum = at(x, source);
        for (int64_t term = 1; term < terms; ++term) {
          source[size_t(c.dim)] += c.localOut[c.dim];
          sum = combine(sum, at(x, source));
        }
        return sum;
      });
    }
    case CollectiveKind::AllGather:
    case CollectiveKind::AllToAll: {
      SmallVector<Tensor> parts;
      for (int64_t other : group(rank))
        parts.push_back(c.kind == CollectiveKind::AllGather ? *in[size_t(other)]
                                                            : block(*in[size_t(other)], c.splitDim, place(rank)));
      return join(parts, c.dim);
    }
    }
    llvm_unreachable("every kind is listed");
  }
};

} // namespace

llvm::Expected<std::vector<Tensor>> interpretCollective(dist::CollectiveOp op, ArrayRef<const Tensor *> operands) {
  Together all{op, dist::getMesh(op->getParentOfType<ModuleOp>()), {}, operands, {}};
  if (all.mesh.numRanks() != int64_t(operands.size()))
    return llvm::createStringError("interpreter: a collective on mesh %s with %zu ranks", all.mesh.str().c_str(),
                                   operands.size());
  all.c = op.getCollective(all.mesh);
  all.shape = dist::Shape(cast<RankedTensorType>(op.getY().getType()).getShape());
  std::vector<Tensor> results;
  for (int64_t rank = 0; rank < all.mesh.numRanks(); ++rank)
    results.push_back(all.result(rank));
  return results;
}

} // namespace tessera::test::detail
