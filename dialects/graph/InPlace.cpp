#include "dialects/graph/InPlace.h"

#include "dialects/dist/leaves/LeafPieces.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tessera::graph {

int64_t viewStart(Operation *op) {
  auto slice = llvm::dyn_cast<SliceOp>(op);
  if (!slice)
    return 0;
  int64_t start = 0;
  for (auto [size, first] :
       llvm::zip_equal(llvm::cast<RankedTensorType>(slice->getOperand(0).getType()).getShape(), slice.getStarts()))
    start = start * size + first;
  return start;
}

Value sliceLeaf(OpBuilder &builder, Value x, int64_t dim, int64_t leaves, int64_t leaf, llvm::StringRef name) {
  const llvm::ArrayRef<int64_t> shape = llvm::cast<RankedTensorType>(x.getType()).getShape();
  llvm::SmallVector<int64_t> starts(shape.size(), 0), limits(shape), strides(shape.size(), 1);
  const int64_t length = shape[dim] / leaves;
  starts[dim] = leaf * length;
  limits[dim] = starts[dim] + length;
  auto slice = SliceOp::create(builder, x.getLoc(), x, starts, limits, strides);
  if (dist::leavesArePieces(shape, dim))
    slice->setAttr(kInPlaceAttr, builder.getUnitAttr());
  slice->setAttr(kNameAttr, builder.getStringAttr(name));
  return slice;
}

llvm::SmallVector<Value> sumLeaves(OpBuilder &builder, Operation *op, Value x, int64_t dim, int64_t leaves,
                                   llvm::StringRef name) {
  auto named = [&](Operation *made) {
    made->setAttr(kNameAttr, builder.getStringAttr(name));
    return made->getResult(0);
  };
  const Location loc = op->getLoc();
  const llvm::SmallVector<int64_t> dims = plainReduction(op)->dims;
  llvm::SmallVector<int64_t> shape;
  int64_t at = 0;
  for (auto [d, size] : llvm::enumerate(llvm::cast<RankedTensorType>(x.getType()).getShape()))
    if (int64_t(d) == dim) {
      at = int64_t(shape.size());
      shape.push_back(leaves);
    } else if (!llvm::is_contained(dims, int64_t(d))) {
      shape.push_back(size);
    }
  auto sums = LeafSumsOp::create(builder, loc, RankedTensorType::get(shape, getElementTypeOrSelf(x)), x, dims,
                                 uint64_t(dim), uint64_t(leaves));
  sums->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  named(sums);

  llvm::SmallVector<Value> results;
  for (int64_t leaf = 0; leaf < leaves; ++leaf)
    results.push_back(named(ReshapeOp::create(builder, loc, op->getResult(0).getType(),
                                              sliceLeaf(builder, sums.getY(), at, leaves, leaf, name))));
  return results;
}

} // namespace tessera::graph
