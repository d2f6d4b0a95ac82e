#include "compiler/partition/LeafCut.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/InPlace.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

static Value named(OpBuilder &builder, Operation *op, const Twine &name) {
  op->setAttr(graph::kNameAttr, builder.getStringAttr(name));
  return op->getResult(0);
}

Value leafOperand(OpBuilder &builder, Value value, const dist::LeafCut &cut, const dist::Sharding &part, int64_t leaf,
                  StringRef name) {
  const int64_t dim = cut.dim(part);
  if (dim < 0)
    return value;
  return graph::sliceLeaf(builder, value, dim, cut.count, leaf, name);
}

Value joinLeaves(OpBuilder &builder, ArrayRef<Value> leaves, const dist::LeafCut &cut, const dist::Sharding &part,
                 StringRef name) {
  const Location loc = leaves[0].getLoc();
  if (is_contained(part.partial, cut.axis)) {
    SmallVector<Value> sums(leaves);
    for (; sums.size() > 1; sums.truncate(sums.size() / 2)) // the number of leaves is a power of two
      for (size_t i = 0; i < sums.size() / 2; ++i)
        sums[i] = named(builder, graph::AddOp::create(builder, loc, sums[2 * i], sums[2 * i + 1]), name + ".sum");
    return sums[0];
  }
  const int64_t dim = cut.dim(part);
  if (dim < 0)
    return leaves[0];
  return named(builder, graph::ConcatOp::create(builder, loc, leaves, dim), name);
}

} // namespace tessera::compiler
