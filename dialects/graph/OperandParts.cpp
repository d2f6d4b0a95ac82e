#include "dialects/graph/OperandParts.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace llvm;
using namespace mlir;

namespace tessera::graph {

namespace {

ArrayRef<int64_t> shapeOf(Value v) { return cast<RankedTensorType>(v.getType()).getShape(); }

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t size : sizes)
    n *= size;
  return n;
}

/// The operands that can be parts, in the order of the kernel's attribute.
OperandRange partOperands(Operation *op) {
  return llvm::TypeSwitch<Operation *, OperandRange>(op)
      .Case([](AttentionOp o) { return o->getOperands().slice(o.getQMutable().getOperandNumber(), 3); })
      .Case([](AttentionGradOp o) { return o->getOperands().slice(o.getQMutable().getOperandNumber(), 3); })
      .Default([](Operation *o) { return o->getOperands().take_front(0); });
}

bool readsPart(OpOperand &use) {
  const OperandRange parts = partOperands(use.getOwner());
  return !parts.empty() && use.getOperandNumber() >= parts.getBeginOperandIndex() &&
         use.getOperandNumber() < parts.getBeginOperandIndex() + parts.size();
}

bool isRowsFirst(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<AttentionOp, AttentionGradOp>([](auto o) { return o.getRowsFirst(); })
      .Default(false);
}

/// The dimensions along which the reader can take a part: heads, and the columns of rows.
std::array<int64_t, 2> partDims(Operation *reader, int64_t rank) {
  return {rank - (isRowsFirst(reader) ? 2 : 3), rank - 1};
}

bool isWhole(SliceOp slice, int64_t d) {
  return slice.getStarts()[d] == 0 && slice.getLimits()[d] == shapeOf(slice.getX())[d];
}

bool hasSteps(SliceOp slice) {
  return llvm::any_of(slice.getStrides(), [](int64_t step) { return step != 1; });
}

bool isPart(SliceOp slice) {
  if (hasSteps(slice) || slice->use_empty())
    return false;
  const int64_t rank = int64_t(shapeOf(slice.getX()).size());
  return llvm::all_of(slice->getUses(), [&](OpOperand &use) {
    if (!readsPart(use))
      return false;
    const std::array<int64_t, 2> dims = partDims(use.getOwner(), rank);
    for (int64_t d = 0; d < rank; ++d)
      if (!is_contained(dims, d) && !isWhole(slice, d))
        return false;
    return true;
  });
}

/// Writes the heads of a slice of rows as a slice of heads:
///
///   reshape (slice x [8, 5, 36], columns 12 to 24) [8, 5, 3, 4]  =>  slice (reshape x [8, 5, 9, 4]), heads 3 to 6
void sliceHeads(ReshapeOp heads) {
  auto slice = heads->getOperand(0).getDefiningOp<SliceOp>();
  if (!slice || hasSteps(slice) || !slice->hasOneUse() || heads->use_empty() ||
      !llvm::all_of(heads->getUses(), [](OpOperand &use) { return readsPart(use) && isRowsFirst(use.getOwner()); }))
    return;
  const ArrayRef<int64_t> from = shapeOf(slice.getX()), to = shapeOf(heads->getResult(0)),
                          cut = shapeOf(slice->getResult(0));
  const size_t head = to.size() - 2;
  const int64_t rows = product(to.take_front(head)), depth = to.back();
  // Dimensions of rows, then those of which the slice takes one place, one of which it takes some, and whole ones.
  size_t d = 0;
  while (d < from.size() && product(from.take_front(d)) != rows)
    if (!isWhole(slice, int64_t(d++)))
      return;
  if (product(from.take_front(d)) != rows)
    return;
  const int64_t columns = product(from.drop_front(d));
  int64_t begin = 0;
  for (bool some = false; d < from.size(); ++d) {
    if (some && !isWhole(slice, int64_t(d)))
      return;
    some |= cut[d] != 1;
    begin += slice.getStarts()[d] * product(from.drop_front(d + 1));
  }
  if (depth == 0 || begin % depth != 0 || columns % depth != 0)
    return;
  OpBuilder builder(heads);
  SmallVector<int64_t> shape(to), starts(to.size(), 0), limits(to), strides(to.size(), 1);
  shape[head] = columns / depth;
  starts[head] = begin / depth;
  limits[head] += starts[head];
  auto all = ReshapeOp::create(
      builder, heads.getLoc(),
      RankedTensorType::get(shape, cast<RankedTensorType>(slice.getX().getType()).getElementType()), slice.getX());
  auto part = SliceOp::create(builder, slice.getLoc(), all->getResult(0), starts, limits, strides);
  part->setDiscardableAttrs(slice->getDiscardableAttrDictionary());
  all->setDiscardableAttrs(heads->getDiscardableAttrDictionary());
  heads->replaceAllUsesWith(part);
  heads->erase();
  slice->erase();
}

/// What the value is a view of, as far as reshapes go.
Value wholeOf(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape->getOperand(0);
  return v;
}

} // namespace

void markParts(func::FuncOp func) {
  for (ReshapeOp reshape : make_early_inc_range(func.getBody().getOps<ReshapeOp>()))
    sliceHeads(reshape);
  MapVector<Value, SmallVector<SliceOp>> parts; // by the tensor that would live in their place
  for (SliceOp slice : func.getBody().getOps<SliceOp>())
    if (isPart(slice))
      parts[wholeOf(slice.getX())].push_back(slice);
  for (auto &[whole, slices] : parts) {
    int64_t elements = 0;
    for (SliceOp slice : slices)
      elements += product(shapeOf(slice->getResult(0)));
    if (elements >= product(shapeOf(whole)))
      for (SliceOp slice : slices)
        slice->setAttr(kReadAsPartAttr, UnitAttr::get(slice->getContext()));
  }
}

std::optional<SmallVector<int64_t>> operandParts(Operation *op) {
  SmallVector<int64_t> parts;
  bool any = false;
  for (Value operand : partOperands(op)) {
    auto slice = operand.getDefiningOp<SliceOp>();
    const bool part = slice && slice->hasAttr(kReadAsPartAttr);
    any |= part;
    for (int64_t d : partDims(op, int64_t(shapeOf(operand).size())))
      parts.append({part ? slice.getStarts()[d] : 0, shapeOf(operand)[d]});
  }
  return any ? std::optional(parts) : std::nullopt;
}

} // namespace tessera::graph
