#include "compiler/partition/compress/NarrowSums.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "runtime/support/UnsentNames.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace llvm;
using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using dist::AxisList;
using dist::Collective;
using dist::CollectiveKind;
using dist::Wire;

namespace {

constexpr double kLargestF32 = std::numeric_limits<float>::max();
constexpr double kLargestF16 = 65504;
constexpr double kLargestI8 = 127;
/// Scales below it have fewer digits. What they would be for is left for later steps.
constexpr double kSmallestScale = std::numeric_limits<float>::min();

/// A reduce-scatter's blocks: [outer, ranks, rows of a block, inner].
struct Blocks {
  int64_t outer, ranks, rows, inner;
  Blocks(const Collective &step, int64_t ranks)
      : outer(ShapedType::getNumElements(ArrayRef(step.localIn).take_front(size_t(step.dim)))), ranks(ranks),
        rows(step.localOut[size_t(step.dim)]),
        inner(ShapedType::getNumElements(ArrayRef(step.localIn).drop_front(size_t(step.dim) + 1))) {}
};

} // namespace

/// [rows, n] with zeros behind every row.
Value NarrowSums::padded(Value rows, int64_t columns) {
  const int64_t more = columns - shapeOf(rows)[1];
  if (more == 0)
    return rows;
  return b_
      .make<PadOp>(rows, ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{0, more}, ArrayRef<int64_t>{0, 0}, APFloat(0.0))
      .getY();
}

/// The first columns of [rows, n].
Value NarrowSums::cut(Value rows, int64_t columns) {
  if (columns == shapeOf(rows)[1])
    return rows;
  return b_
      .make<SliceOp>(rows, ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{shapeOf(rows)[0], columns},
                     ArrayRef<int64_t>{1, 1})
      .getY();
}

/// A row for every member of the group, of whole blocks of the wire.
Value NarrowSums::piecesOf(Value term, const Collective &step) {
  const int64_t ranks = mesh_.size(step.axes);
  if (step.kind == CollectiveKind::AllReduce) {
    const int64_t elements = ShapedType::getNumElements(step.localIn),
                  columns = int64_t(alignTo(divideCeil(uint64_t(elements), ranks), uint64_t(step.wire.block)));
    return b_.reshape(padded(b_.reshape(term, {1, elements}), ranks * columns), {ranks, columns});
  }
  const Blocks blocks(step, ranks);
  Value rows = term;
  if (blocks.outer > 1)
    rows = b_.transpose(b_.reshape(rows, {blocks.outer, ranks, blocks.rows * blocks.inner}), {1, 0, 2});
  const int64_t elements = blocks.outer * blocks.rows * blocks.inner;
  return padded(b_.reshape(rows, {ranks, elements}), int64_t(alignTo(uint64_t(elements), uint64_t(step.wire.block))));
}

/// The inverse of piecesOf, of an all-reduce.
Value NarrowSums::wholeOf(Value pieces, const Collective &step) {
  Value row = b_.reshape(pieces, {1, ShapedType::getNumElements(shapeOf(pieces))});
  return b_.reshape(cut(row, ShapedType::getNumElements(step.localOut)), step.localOut);
}

/// The block of a reduce-scatter that is in a row of piecesOf.
Value NarrowSums::partOf(Value part, const Collective &step) {
  return b_.reshape(cut(part, ShapedType::getNumElements(step.localOut)), step.localOut);
}

NarrowSums::Sent NarrowSums::narrow(Value pieces, const Wire &wire) {
  Builder types(func_.getContext());
  Type f32 = types.getF32Type();
  auto rounded = [&](Value x, Type type) {
    Value y = b_.cast(x, type);
    // What is left is the difference to what is sent, inside of a loop as well.
    y.getDefiningOp()->setAttr(kRoundsAttr, types.getUnitAttr());
    return y;
  };
  auto below = [&](Value x, double limit) { return b_.binary<LeOp>(b_.unary<AbsOp>(x), b_.constant(f32, limit)); };
  switch (wire.kind) {
  case Wire::Kind::BF16:
    return {rounded(pieces, types.getBF16Type()), {}};
  case Wire::Kind::F16: {
    // What is too large for f16 is sent in several steps. Infinities are meant: a loss scale looks for them.
    Value most = b_.binary<MinOp>(pieces, b_.constant(f32, kLargestF16));
    Value held = b_.binary<MaxOp>(most, b_.constant(f32, -kLargestF16));
    return {rounded(b_.select(below(pieces, kLargestF32), held, pieces), types.getF16Type()), {}};
  }
  case Wire::Kind::I8: {
    const int64_t rows = shapeOf(pieces)[0];
    Value blocks = b_.reshape(pieces, {rows, shapeOf(pieces)[1] / wire.block, wire.block});
    Value sizes = b_.unary<AbsOp>(blocks);
    Value largest = b_.make<ReduceMaxOp>(sizes, ArrayRef<int64_t>{2}, /*keepdims=*/true).getY();
    Value all = b_.reduceSum(sizes, {2}, /*keepdims=*/true);
    Value scale = b_.binary<MaxOp>(b_.mul(largest, 1 / kLargestI8), b_.constant(f32, kSmallestScale));
    // An infinity or a NaN makes the block's scale one, so that all ranks see it.
    Value scales = b_.select(below(all, kLargestF32), scale, all);
    Value numbers = b_.unary<RoundOp>(b_.div(blocks, scales));
    return {b_.cast(numbers, types.getI8Type()), scales}; // of a NaN 0
  }
  case Wire::Kind::Whole:
  case Wire::Kind::Factors: // FactorSums.h
    break;
  }
  return {pieces, {}};
}

Value NarrowSums::widen(const Sent &sent, ArrayRef<int64_t> shape) {
  Value wide = b_.cast(sent.numbers, Float32Type::get(func_.getContext()));
  return b_.reshape(sent.scales ? b_.mul(wide, sent.scales) : wide, shape);
}

/// Rounds what is to be sent and what was left before, and keeps what is left now.
NarrowSums::Sent NarrowSums::narrowWithState(Value pieces, const Wire &wire, StringRef prefix, StringRef parameter,
                                             const AxisList &axes) {
  SmallVector<int64_t> shape(shapeOf(pieces));
  const SumStates::State state = states_.add(b_, shape, prefix, parameter, axes);
  Value whole = b_.add(pieces, state.before);
  const Sent sent = narrow(whole, wire);
  Value left = b_.sub(whole, widen(sent, shape));
  states_.keep(b_, state, left, b_.constant(left.getType(), 0.0));
  return sent;
}

/// Row i goes to member i; row i of the result comes from it.
Value NarrowSums::toAll(Value value, const AxisList &axes) {
  const SmallVector<int64_t> shape(shapeOf(value));
  const int64_t ranks = shape[0], columns = ShapedType::getNumElements(shape) / ranks;
  Collective c;
  c.kind = CollectiveKind::AllToAll;
  c.axes = axes;
  c.dim = 1;
  c.splitDim = 0;
  c.localIn = {ranks, columns};
  c.localOut = {1, ranks * columns};
  return b_.reshape(b_.make<dist::CollectiveOp>(b_.reshape(value, c.localIn), mesh_, c).getY(), shape);
}

/// The one row of every member.
Value NarrowSums::gather(Value value, const AxisList &axes) {
  SmallVector<int64_t> shape(shapeOf(value));
  Collective c;
  c.kind = CollectiveKind::AllGather;
  c.axes = axes;
  c.dim = 0;
  c.localIn = {1, ShapedType::getNumElements(shape)};
  c.localOut = {mesh_.size(axes), ShapedType::getNumElements(shape)};
  shape[0] = mesh_.size(axes);
  return b_.reshape(b_.make<dist::CollectiveOp>(b_.reshape(value, c.localIn), mesh_, c).getY(), shape);
}

Value NarrowSums::sum(Value term, const Collective &step, const dist::Sharding &from, Operation *reader,
                      StringRef parameter) {
  b_.moveBefore(reader);
  b_.setUpdateName(parameter + ".send", parameter);
  const AxisList differ = axesOfTerms(mesh_, from);
  Value pieces = piecesOf(term, step);
  SmallVector<int64_t> shape(shapeOf(pieces));
  const Sent terms = narrowWithState(pieces, step.wire, rt::kUnsent, parameter, differ);
  const Sent received = {toAll(terms.numbers, step.axes), terms.scales ? toAll(terms.scales, step.axes) : Value()};
  Value part = b_.reduceSum(widen(received, shape), {0}, /*keepdims=*/true);
  if (step.kind != CollectiveKind::AllReduce)
    return partOf(part, step);
  const Sent own = narrowWithState(part, step.wire, rt::kUnsentSum, parameter, differ);
  const Sent all = {gather(own.numbers, step.axes), own.scales ? gather(own.scales, step.axes) : Value()};
  return wholeOf(widen(all, shape), step);
}

} // namespace tessera::compiler
