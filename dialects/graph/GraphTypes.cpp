// Result types of operators, and the verifiers of those whose result type is given.
#include "dialects/graph/Graph.h"

#include "mlir/IR/Matchers.h"

using namespace llvm;
using namespace mlir;

namespace tessera::graph {

namespace {

using Loc = std::optional<Location>;
using Types = SmallVectorImpl<Type>;

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult fail(Loc loc, const Twine &why) { return emitOptionalError(loc, why); }

/// Infers the broadcast of all operands with the given element type.
LogicalResult broadcastOf(Loc loc, ValueRange operands, Type element, Types &results) {
  dist::Shape shape;
  for (Value operand : operands) {
    std::optional<dist::Shape> next = broadcastShapes(shape, tensor(operand).getShape());
    if (!next)
      return fail(loc, "operand shapes do not broadcast");
    shape = *next;
  }
  results.push_back(RankedTensorType::get(shape, element));
  return success();
}

LogicalResult sameElements(Loc loc, Value a, Value b) {
  if (tensor(a).getElementType() != tensor(b).getElementType())
    return fail(loc, "operands have different element types");
  return success();
}

/// Output extents of a sliding window; fails when an extent is not positive.
LogicalResult windowExtents(Loc loc, ArrayRef<int64_t> in, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                            ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations, SmallVectorImpl<int64_t> &out) {
  size_t n = in.size();
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n ||
      (!dilations.empty() && dilations.size() != n))
    return fail(loc, "kernel, strides, dilations need one and pads two numbers per spatial dimension");
  for (size_t i = 0; i < n; ++i) {
    int64_t dilation = dilations.empty() ? 1 : dilations[i];
    if (kernel[i] < 1 || strides[i] < 1 || dilation < 1)
      return fail(loc, "kernel, strides and dilations must be positive");
    int64_t room = in[i] + pads[i] + pads[n + i] - (kernel[i] - 1) * dilation - 1;
    if (room < 0)
      return fail(loc, "the window is larger than the padded input");
    out.push_back(room / strides[i] + 1);
  }
  return success();
}

} // namespace

LogicalResult inferBroadcast(Loc loc, ValueRange operands, Types &results) {
  if (failed(sameElements(loc, operands[0], operands[1])))
    return failure();
  return broadcastOf(loc, operands, tensor(operands[0]).getElementType(), results);
}

LogicalResult inferComparison(Loc loc, ValueRange operands, Types &results) {
  if (failed(sameElements(loc, operands[0], operands[1])))
    return failure();
  return broadcastOf(loc, operands, IntegerType::get(operands[0].getContext(), 1), results);
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  if (!tensor(adaptor.getCond()).getElementType().isInteger(1))
    return fail(loc, "the condition of select must be i1");
  if (failed(sameElements(loc, adaptor.getA(), adaptor.getB())))
    return failure();
  return broadcastOf(loc, adaptor.getOperands(), tensor(adaptor.getA()).getElementType(), results);
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  ArrayRef<int64_t> perm = adaptor.getPerm();
  dist::Shape shape;
  SmallVector<bool> seen(x.getRank(), false);
  for (int64_t p : perm) {
    if (p < 0 || p >= x.getRank() || seen[p])
      return fail(loc, "perm is no permutation of the dimensions");
    seen[p] = true;
    shape.push_back(x.getDimSize(p));
  }
  if (int64_t(perm.size()) != x.getRank())
    return fail(loc, "perm is no permutation of the dimensions");
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  ArrayRef<int64_t> starts = adaptor.getStarts(), limits = adaptor.getLimits(), strides = adaptor.getStrides();
  size_t n = x.getRank();
  if (starts.size() != n || limits.size() != n || strides.size() != n)
    return fail(loc, "starts, limits and strides need one number per dimension");
  dist::Shape shape;
  for (size_t d = 0; d < n; ++d) {
    if (starts[d] < 0 || limits[d] < starts[d] || limits[d] > x.getDimSize(d) || strides[d] < 1)
      return fail(loc, "slice of dimension " + Twine(d) + " is out of bounds");
    shape.push_back((limits[d] - starts[d] + strides[d] - 1) / strides[d]);
  }
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  size_t n = x.getRank();
  if (adaptor.getLo().size() != n || adaptor.getHi().size() != n || adaptor.getInner().size() != n)
    return fail(loc, "lo, hi and inner need one number per dimension");
  dist::Shape shape;
  for (size_t d = 0; d < n; ++d) {
    int64_t lo = adaptor.getLo()[d], hi = adaptor.getHi()[d], inner = adaptor.getInner()[d];
    if (lo < 0 || hi < 0 || inner < 0)
      return fail(loc, "negative padding");
    int64_t extent = x.getDimSize(d);
    shape.push_back(lo + hi + (extent == 0 ? 0 : extent + (extent - 1) * inner));
  }
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  if (adaptor.getXs().empty())
    return fail(loc, "concat of nothing");
  RankedTensorType first = tensor(adaptor.getXs()[0]);
  int64_t dim = adaptor.getDim();
  if (dim < 0 || dim >= first.getRank())
    return fail(loc, "dim is out of range");
  dist::Shape shape(first.getShape());
  shape[dim] = 0;
  for (Value x : adaptor.getXs()) {
    RankedTensorType type = tensor(x);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType())
      return fail(loc, "operands differ in rank or element type");
    for (int64_t d = 0; d < first.getRank(); ++d)
      if (d != dim && type.getDimSize(d) != first.getDimSize(d))
        return fail(loc, "operands differ in dimension " + Twine(d));
    shape[dim] += type.getDimSize(dim);
  }
  results.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType table = tensor(adaptor.getTable()), indices = tensor(adaptor.getIndices());
  int64_t axis = adaptor.getAxis(), batch = adaptor.getBatchDims();
  if (axis < 0 || axis >= table.getRank())
    return fail(loc, "axis is out of range");
  if (batch < 0 || batch > axis || batch > indices.getRank() ||
      table.getShape().take_front(batch) != indices.getShape().take_front(batch))
    return fail(loc, "table and indices do not agree in " + Twine(batch) + " batch dimensions");
  if (!indices.getElementType().isInteger())
    return fail(loc, "indices must be integers");
  dist::Shape shape(table.getShape().take_front(axis));
  llvm::append_range(shape, indices.getShape().drop_front(batch));
  llvm::append_range(shape, table.getShape().drop_front(axis + 1));
  results.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}

LogicalResult ScatterAddOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType indices = tensor(adaptor.getIndices()), updates = tensor(adaptor.getUpdates());
  int64_t axis = adaptor.getAxis(), batch = adaptor.getBatchDims();
  int64_t own = indices.getRank() - batch, rank = updates.getRank() - own + 1;
  if (axis < 0 || axis >= rank || int64_t(adaptor.getSize()) < 0)
    return fail(loc, "axis is out of range");
  if (batch < 0 || batch > axis || own < 0 ||
      updates.getShape().take_front(batch) != indices.getShape().take_front(batch))
    return fail(loc, "indices and updates do not agree in " + Twine(batch) + " batch dimensions");
  if (!indices.getElementType().isInteger())
    return fail(loc, "indices must be integers");
  if (updates.getShape().slice(axis, own) != indices.getShape().drop_front(batch))
    return fail(loc, "updates do not have the shape of the indices at axis " + Twine(axis));
  dist::Shape shape(updates.getShape().take_front(axis));
  shape.push_back(adaptor.getSize());
  llvm::append_range(shape, updates.getShape().drop_front(axis + own));
  results.push_back(RankedTensorType::get(shape, updates.getElementType()));
  return success();
}

namespace {
LogicalResult inferReduce(Loc loc, RankedTensorType x, ArrayRef<int64_t> dims, bool keepdims, Type element,
                          Types &results) {
  SmallVector<bool> reduced(x.getRank(), false);
  for (int64_t d : dims) {
    if (d < 0 || d >= x.getRank() || reduced[d])
      return fail(loc, "dims are out of range or repeated");
    reduced[d] = true;
  }
  dist::Shape shape;
  for (int64_t d = 0; d < x.getRank(); ++d)
    if (!reduced[d])
      shape.push_back(x.getDimSize(d));
    else if (keepdims)
      shape.push_back(1);
  results.push_back(RankedTensorType::get(shape, element));
  return success();
}

/// Infers the result of reduce_sum, reduce_max and reduce_min.
template <typename Adaptor> LogicalResult inferReduce(Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  return inferReduce(loc, x, adaptor.getDims(), adaptor.getKeepdims(), x.getElementType(), results);
}
} // namespace

LogicalResult ReduceSumOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  return inferReduce(loc, adaptor, results);
}
LogicalResult ReduceMaxOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  return inferReduce(loc, adaptor, results);
}
LogicalResult ReduceMinOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  return inferReduce(loc, adaptor, results);
}

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *context, Loc loc, Adaptor adaptor, Types &results) {
  return inferReduce(loc, tensor(adaptor.getX()), {int64_t(adaptor.getDim())}, adaptor.getKeepdims(),
                     IntegerType::get(context, 64), results);
}

LogicalResult TopKOp::inferReturnTypes(MLIRContext *context, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  int64_t dim = adaptor.getDim(), k = adaptor.getK();
  if (dim < 0 || dim >= x.getRank() || k < 1 || k > x.getDimSize(dim))
    return fail(loc, "k = " + Twine(k) + " is not within dimension " + Twine(dim));
  dist::Shape shape(x.getShape());
  shape[dim] = k;
  results.push_back(RankedTensorType::get(shape, IntegerType::get(context, 64)));
  return success();
}

LogicalResult OrthonormalizeOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  if (x.getRank() < 2 || !isa<FloatType>(x.getElementType()))
    return fail(loc, "a matrix of floating-point numbers is wanted");
  results.push_back(x);
  return success();
}

LogicalResult MicroRowsOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  int64_t parts = adaptor.getParts();
  if (x.getRank() == 0 || parts < 1 || x.getDimSize(0) % parts != 0)
    return fail(loc, "dimension 0 cannot be cut in " + Twine(parts) + " micro-batches");
  dist::Shape shape(x.getShape());
  shape[0] /= parts;
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

/// The element type of sums of products.
static Type productElement(Type element, bool wide) {
  bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  return wide && narrow ? Float32Type::get(element.getContext()) : element;
}

LogicalResult MatMulOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType a = tensor(adaptor.getA()), b = tensor(adaptor.getB());
  if (a.getRank() < 2 || b.getRank() < 2)
    return fail(loc, "matmul needs operands of at least two dimensions");
  if (failed(sameElements(loc, adaptor.getA(), adaptor.getB())))
    return failure();
  int64_t ra = a.getRank(), rb = b.getRank();
  int64_t m = a.getDimSize(ra - (adaptor.getTransposeA() ? 1 : 2));
  int64_t ka = a.getDimSize(ra - (adaptor.getTransposeA() ? 2 : 1));
  int64_t kb = b.getDimSize(rb - (adaptor.getTransposeB() ? 1 : 2));
  int64_t n = b.getDimSize(rb - (adaptor.getTransposeB() ? 2 : 1));
  if (ka != kb)
    return fail(loc, "matmul of inner extents " + Twine(ka) + " and " + Twine(kb));
  std::optional<dist::Shape> shape = broadcastShapes(a.getShape().drop_back(2), b.getShape().drop_back(2));
  if (!shape)
    return fail(loc, "batch dimensions do not broadcast");
  shape->push_back(m);
  shape->push_back(n);
  results.push_back(RankedTensorType::get(*shape, productElement(a.getElementType(), adaptor.getWide())));
  return success();
}

LogicalResult ConvOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX()), w = tensor(adaptor.getW());
  int64_t groups = adaptor.getGroups();
  if (x.getRank() < 3 || x.getRank() != w.getRank())
    return fail(loc, "conv needs x and w of the same rank, at least 3");
  if (groups < 1 || x.getDimSize(1) != w.getDimSize(1) * groups || w.getDimSize(0) % groups != 0)
    return fail(loc, "channels " + Twine(x.getDimSize(1)) + " do not fit weights of " + Twine(w.getDimSize(1)) +
                         " channels in " + Twine(groups) + " groups");
  dist::Shape shape{x.getDimSize(0), w.getDimSize(0)};
  if (failed(windowExtents(loc, x.getShape().drop_front(2), w.getShape().drop_front(2), adaptor.getStrides(),
                           adaptor.getPads(), adaptor.getDilations(), shape)))
    return failure();
  results.push_back(RankedTensorType::get(shape, productElement(x.getElementType(), adaptor.getWide())));
  return success();
}

LogicalResult ConvInputGradOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType dy = tensor(adaptor.getDy()), w = tensor(adaptor.getW());
  int64_t groups = adaptor.getGroups();
  if (dy.getRank() < 3 || dy.getRank() != w.getRank() || int64_t(adaptor.getInputSizes().size()) != dy.getRank() - 2)
    return fail(loc, "conv_input_grad needs dy and w of the same rank and one input size per spatial dimension");
  if (groups < 1 || dy.getDimSize(1) != w.getDimSize(0) || w.getDimSize(0) % groups != 0)
    return fail(loc, "channels do not fit the weights");
  dist::Shape shape{dy.getDimSize(0), w.getDimSize(1) * groups};
  llvm::append_range(shape, adaptor.getInputSizes());
  results.push_back(RankedTensorType::get(shape, productElement(dy.getElementType(), adaptor.getWide())));
  return success();
}

LogicalResult ConvWeightGradOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX()), dy = tensor(adaptor.getDy());
  int64_t groups = adaptor.getGroups();
  if (x.getRank() < 3 || x.getRank() != dy.getRank() || int64_t(adaptor.getKernelSizes().size()) != x.getRank() - 2)
    return fail(loc, "conv_weight_grad needs x and dy of the same rank and one kernel size per "
                     "spatial dimension");
  if (groups < 1 || x.getDimSize(1) % groups != 0 || dy.getDimSize(1) % groups != 0 ||
      x.getDimSize(0) != dy.getDimSize(0))
    return fail(loc, "batch or channels do not fit");
  dist::Shape shape{dy.getDimSize(1), x.getDimSize(1) / groups};
  llvm::append_range(shape, adaptor.getKernelSizes());
  results.push_back(RankedTensorType::get(shape, productElement(x.getElementType(), adaptor.getWide())));
  return success();
}

LogicalResult MaxPoolOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  if (x.getRank() < 3)
    return fail(loc, "pooling needs a batch, a channel and a spatial dimension");
  dist::Shape shape{x.getDimSize(0), x.getDimSize(1)};
  if (failed(windowExtents(loc, x.getShape().drop_front(2), adaptor.getKernel(), adaptor.getStrides(),
                           adaptor.getPads(), adaptor.getDilations(), shape)))
    return failure();
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}

LogicalResult AvgPoolOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType x = tensor(adaptor.getX());
  if (x.getRank() < 3)
    return fail(loc, "pooling needs a batch, a channel and a spatial dimension");
  dist::Shape shape{x.getDimSize(0), x.getDimSize(1)};
  if (failed(windowExtents(loc, x.getShape().drop_front(2), adaptor.getKernel(), adaptor.getStrides(),
                           adaptor.getPads(), {}, shape)))
    return failure();
  results.push_back(RankedTensorType::get(shape, x.getElementType()));
  return success();
}
LogicalResult AvgPoolGradOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  RankedTensorType dy = tensor(adaptor.getDy());
  if (dy.getRank() < 3 || int64_t(adaptor.getInputSizes().size()) != dy.getRank() - 2)
    return fail(loc, "avg_pool_grad needs one input size per spatial dimension");
  dist::Shape shape{dy.getDimSize(0), dy.getDimSize(1)};
  llvm::append_range(shape, adaptor.getInputSizes());
  results.push_back(RankedTensorType::get(shape, dy.getElementType()));
  return success();
}

namespace {
/// q, k, v, bias and what dropout keeps must fit together.
template <typename Adaptor> LogicalResult checkAttention(Loc loc, Adaptor adaptor) {
  RankedTensorType q = tensor(adaptor.getQ()), k = tensor(adaptor.getK()), v = tensor(adaptor.getV());
  const bool rowsFirst = adaptor.getRowsFirst();
  int64_t rank = q.getRank();
  if (rank < 3 || k.getRank() != rank || v.getRank() != rank)
    return fail(loc, "attention needs q, k and v of one rank, at least 3");
  if (!isa<FloatType>(q.getElementType()) || k.getElementType() != q.getElementType() ||
      v.getElementType() != q.getElementType())
    return fail(loc, "attention needs q, k and v of one floating-point type");
  int64_t head = rank - (rowsFirst ? 2 : 3), row = rank - (rowsFirst ? 3 : 2);
  dist::Shape scores(q.getShape().drop_back(3));
  if (k.getShape().drop_back(3) != ArrayRef<int64_t>(scores) || v.getShape().drop_back(3) != ArrayRef<int64_t>(scores))
    return fail(loc, "attention needs q, k and v of the same batch");
  int64_t heads = q.getDimSize(head), keyHeads = k.getDimSize(head);
  if (keyHeads < 1 || heads % keyHeads != 0 || v.getDimSize(head) != keyHeads)
    return fail(loc, Twine(heads) + " heads of q do not fit " + Twine(keyHeads) + " of k and " +
                         Twine(v.getDimSize(head)) + " of v");
  if (k.getDimSize(rank - 1) != q.getDimSize(rank - 1) || q.getDimSize(rank - 1) < 1)
    return fail(loc, "rows of q and k differ in length");
  if (v.getDimSize(row) != k.getDimSize(row) || k.getDimSize(row) < 1)
    return fail(loc, "k and v differ in length");
  scores.append({heads, q.getDimSize(row), k.getDimSize(row)});
  ValueRange more = adaptor.getMore();
  if (adaptor.getKeepScale()) {
    if (more.empty())
      return fail(loc, "attention with keep_scale has no operand that says what is kept");
    RankedTensorType keep = tensor(more.back());
    if ((!keep.getElementType().isInteger(1) && keep.getElementType() != q.getElementType()) ||
        keep.getShape() != ArrayRef<int64_t>(scores))
      return fail(loc, "what dropout keeps is not one i1, or number of q's type, for each score");
    more = more.drop_back();
  }
  if (more.empty())
    return success();
  if (more.size() > 1)
    return fail(loc, "attention has one bias at most");
  RankedTensorType bias = tensor(more.front());
  std::optional<dist::Shape> both = broadcastShapes(bias.getShape(), scores);
  const Type scoreType = productElement(q.getElementType(), true);
  if ((bias.getElementType() != q.getElementType() && bias.getElementType() != scoreType) || bias.getRank() > rank ||
      !both || *both != scores)
    return fail(loc, "the bias of attention does not broadcast to its scores");
  return success();
}

/// The type of what attention makes of q, k and v.
template <typename Adaptor> RankedTensorType mixedType(Adaptor adaptor, bool wide) {
  const RankedTensorType q = tensor(adaptor.getQ());
  dist::Shape shape(q.getShape());
  shape.back() = tensor(adaptor.getV()).getShape().back();
  return RankedTensorType::get(shape, productElement(q.getElementType(), wide));
}
/// The type of a number for each row of each head.
template <typename Adaptor> RankedTensorType statisticsType(Adaptor adaptor) {
  const RankedTensorType q = tensor(adaptor.getQ());
  dist::Shape shape(q.getShape().drop_back());
  if (adaptor.getRowsFirst())
    std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  return RankedTensorType::get(shape, productElement(q.getElementType(), true));
}
} // namespace

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  if (failed(checkAttention(loc, adaptor)))
    return failure();
  results.push_back(mixedType(adaptor, adaptor.getWide()));
  if (adaptor.getKeepsStatistics())
    results.push_back(statisticsType(adaptor));
  return success();
}

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *, Loc loc, Adaptor adaptor, Types &results) {
  if (failed(checkAttention(loc, adaptor)))
    return failure();
  const RankedTensorType y = mixedType(adaptor, /*wide=*/false);
  if (tensor(adaptor.getDy()) != y || tensor(adaptor.getY()) != y)
    return fail(loc, "dy or y is not what attention makes of q, k and v");
  if (tensor(adaptor.getStatistics()) != statisticsType(adaptor))
    return fail(loc, "the statistics are not those of the rows of q");
  for (Value v : {adaptor.getQ(), adaptor.getK(), adaptor.getV()})
    results.push_back(tensor(v).clone(productElement(tensor(v).getElementType(), adaptor.getWide())));
  return success();
}

//===----------------------------------------------------------------------------------------------===//
// Verifiers of operators whose result type is given
//===----------------------------------------------------------------------------------------------===//

LogicalResult CastOp::verify() {
  if (getX().getType().getShape() != getY().getType().getShape())
    return emitOpError("changes the shape");
  return success();
}

LogicalResult IotaOp::verify() {
  if (int64_t(getDim()) < 0 || int64_t(getDim()) >= getY().getType().getRank())
    return emitOpError("dim is out of range");
  return success();
}

LogicalResult RandomOp::verify() {
  if (getStep().getType().getRank() != 0 || !getStep().getType().getElementType().isInteger(64))
    return emitOpError("needs the step as an i64 scalar");
  if (!isa<FloatType>(getY().getType().getElementType()))
    return emitOpError("makes floating-point numbers only");
  return success();
}

LogicalResult BroadcastOp::verify() {
  std::optional<dist::Shape> shape = broadcastShapes(getX().getType().getShape(), getY().getType().getShape());
  if (!shape || ArrayRef<int64_t>(*shape) != getY().getType().getShape() ||
      getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("operand does not broadcast to the result");
  return success();
}

LogicalResult ReshapeOp::verify() {
  if (getX().getType().getNumElements() != getY().getType().getNumElements() ||
      getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("changes the number or the type of elements");
  return success();
}

LogicalResult LeafSumsOp::verify() {
  const llvm::ArrayRef<int64_t> x = getX().getType().getShape();
  const auto dim = int64_t(getDim()), leaves = int64_t(getLeaves());
  if (!llvm::is_contained(getDims(), dim) || dim < 0 || dim >= int64_t(x.size()) || leaves < 1 || x[dim] % leaves != 0)
    return emitOpError("has no ") << leaves << " equal ranges of a summed dimension " << dim;
  dist::Shape shape;
  for (auto [d, size] : llvm::enumerate(x))
    if (int64_t(d) == dim)
      shape.push_back(leaves);
    else if (!llvm::is_contained(getDims(), int64_t(d)))
      shape.push_back(size);
  if (getY().getType() != RankedTensorType::get(shape, getX().getType().getElementType()))
    return emitOpError("has a result of another type than the sums of its leaves");
  return success();
}

LogicalResult FusedOp::verify() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getNumOperands())
    return emitOpError("needs one block argument per input");
  for (auto [argument, operand] : llvm::zip(block.getArguments(), getOperands()))
    if (argument.getType() != operand.getType())
      return emitOpError("block argument and input differ in type");
  auto yield = dyn_cast<YieldOp>(block.back());
  if (!yield || yield.getNumOperands() != getNumResults())
    return emitOpError("must yield one value per result");
  for (auto [value, result] : llvm::zip(yield.getOperands(), getResults()))
    if (value.getType() != result.getType())
      return emitOpError("yielded value and result differ in type");
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

void ConstantOp::build(OpBuilder &builder, OperationState &state, RankedTensorType type, double splat) {
  Type element = type.getElementType();
  Attribute value;
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat number(splat);
    bool lost;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    value = FloatAttr::get(element, number);
  } else {
    value = IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(), uint64_t(int64_t(splat)),
                                            /*isSigned=*/false, /*implicitTrunc=*/true));
  }
  FloatAttr exact;
  if (element.isF32() && !std::isnan(splat) && double(float(splat)) != splat)
    exact = builder.getF64FloatAttr(splat);
  build(builder, state, type, cast<ElementsAttr>(Attribute(DenseElementsAttr::get(type, value))), exact);
}

std::optional<double> ConstantOp::getNumber() {
  auto splat = dyn_cast<SplatElementsAttr>(getValue());
  if (!splat || !isa<FloatType>(splat.getElementType()))
    return std::nullopt;
  if (getExact())
    return getExact()->convertToDouble();
  APFloat value = splat.getSplatValue<APFloat>();
  bool lost;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

LogicalResult ConstantOp::verify() {
  if (!getExact())
    return success();
  auto splat = dyn_cast<SplatElementsAttr>(getValue());
  if (!splat || !splat.getElementType().isF32())
    return emitOpError("has 'exact', which only a splat of f32 can have");
  if (splat.getSplatValue<float>() != float(getExact()->convertToDouble()))
    return emitOpError("has a value that is not what 'exact' rounds to in f32");
  return success();
}

} // namespace tessera::graph
