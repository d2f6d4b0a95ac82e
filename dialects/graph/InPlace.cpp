#include "dialects/graph/InPlace.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

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

llvm::SmallVector<Value> reduceParts(OpBuilder &builder, Operation *op, Value x, int64_t dim, int64_t parts,
                                     llvm::StringRef name) {
  auto named = [&](Operation *made) {
    made->setAttr(kNameAttr, builder.getStringAttr(name));
    return made->getResult(0);
  };
  const Location loc = op->getLoc();
  const Type element = getElementTypeOrSelf(x.getType());
  llvm::SmallVector<int64_t> split(llvm::cast<RankedTensorType>(x.getType()).getShape()), dims, kept;
  split[dim] /= parts;
  split.insert(split.begin() + dim, parts);
  const PlainReduction reduction = *plainReduction(op);
  for (int64_t d : reduction.dims)
    dims.push_back(d < dim ? d : d + 1);
  const int64_t at = llvm::count_if(llvm::seq<int64_t>(dim), [&](int64_t d) { return !llvm::is_contained(dims, d); });
  for (int64_t d = 0; d < int64_t(split.size()); ++d)
    if (!llvm::is_contained(dims, d))
      kept.push_back(split[d]);

  Value leaves = named(ReshapeOp::create(builder, loc, RankedTensorType::get(split, element), x));
  leaves.getDefiningOp()->setAttr(kInPlaceAttr, builder.getUnitAttr());
  Operation *reduce = builder.clone(*op);
  reduce->setOperand(0, leaves);
  reduce->setAttr("dims", builder.getDenseI64ArrayAttr(dims));
  reduce->setAttr("keepdims", builder.getBoolAttr(false));
  reduce->getResult(0).setType(RankedTensorType::get(kept, element));
  named(reduce);

  llvm::SmallVector<Value> results;
  for (int64_t part = 0; part < parts; ++part) {
    llvm::SmallVector<int64_t> starts(kept.size(), 0), limits = kept;
    starts[at] = part;
    limits[at] = part + 1;
    Value range = named(SliceOp::create(builder, loc, reduce->getResult(0), starts, limits,
                                        llvm::SmallVector<int64_t>(kept.size(), 1)));
    results.push_back(named(ReshapeOp::create(builder, loc, op->getResult(0).getType(), range)));
  }
  return results;
}

} // namespace tessera::graph
