#include "dialects/graph/GraphPadding.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"

using namespace mlir;

namespace tessera::graph {

Value makeRowMask(OpBuilder &builder, Location loc, int64_t rank, int64_t dim, int64_t rows, ArrayRef<int64_t> held) {
  SmallVector<int64_t> shape(rank, 1);
  shape[dim] = rows;
  Type i64 = builder.getI64Type();
  auto counter = IotaOp::create(builder, loc, RankedTensorType::get(shape, i64), uint64_t(dim));
  SmallVector<Attribute> perRank;
  for (int64_t n : held)
    perRank.push_back(builder.getDictionaryAttr(builder.getNamedAttr("start", builder.getI64IntegerAttr(-n))));
  counter->setAttr(dist::kPerRankAttr, builder.getArrayAttr(perRank));
  Value zero = ConstantOp::create(builder, loc, RankedTensorType::get({}, i64), 0.0);
  return LtOp::create(builder, loc, counter.getY(), zero);
}

Value keepRows(OpBuilder &builder, Location loc, Value mask, Value x, double value) {
  Type element = cast<RankedTensorType>(x.getType()).getElementType();
  Value fill = ConstantOp::create(builder, loc, RankedTensorType::get({}, element), value);
  return SelectOp::create(builder, loc, mask, x, fill);
}

} // namespace tessera::graph
