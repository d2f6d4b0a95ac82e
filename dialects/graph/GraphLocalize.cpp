// How operators become local: `localize` adjusts attributes, `rankAttributes` computes those that depend on the rank.
// Also the operators' numbers of floating-point operations.
#include "dialects/graph/Graph.h"

#include "runtime/support/Scalar.h"

using namespace llvm;
using namespace mlir;

namespace tessera::graph {

using dist::LocalizeContext;
using dist::Shape;
using dist::Window;

namespace {

/// Calls visit(spatial index, window, halo, shards) for every window whose dimension is cut.
void eachCutWindow(const LocalizeContext &ctx,
                   llvm::function_ref<void(size_t, const Window &, Window::Halo, int64_t)> visit) {
  for (const Window &window : ctx.rule.windows) {
    int64_t shards = ctx.operands[window.operand].numShards(ctx.mesh, window.dim);
    if (shards > 1)
      visit(window.dim - 2, window, *window.halo(shards), shards);
  }
}

/// Sets the pads of cut dimensions to 0, because the halo exchange has added the padding to the block.
template <typename Op> void dropPads(Op op, const LocalizeContext &ctx) {
  SmallVector<int64_t> pads(op.getPads());
  size_t n = pads.size() / 2;
  eachCutWindow(ctx, [&](size_t i, const Window &, Window::Halo, int64_t) { pads[i] = pads[n + i] = 0; });
  op.setPads(pads);
}

/// Adjusts pads and input sizes of an adjoint of a window operator: the first row of dy now lies halo.lo rows before
/// the rank's block.
template <typename Op>
void shiftPads(Op op, const LocalizeContext &ctx, ArrayRef<int64_t> kernel, ArrayRef<int64_t> dilations) {
  SmallVector<int64_t> pads(op.getPads()), sizes(op.getInputSizes());
  size_t n = pads.size() / 2;
  eachCutWindow(ctx, [&](size_t i, const Window &window, Window::Halo halo, int64_t shards) {
    sizes[i] /= shards;
    pads[i] += halo.lo * window.stride;
    int64_t rows = window.extent / shards + halo.lo + halo.hi;
    int64_t reach = (kernel[i] - 1) * dilations[i];
    pads[n + i] = std::max<int64_t>(0, (rows - 1) * window.stride + reach + 1 - sizes[i] - pads[i]);
  });
  op.setPads(pads);
  op.setInputSizes(sizes);
}

NamedAttribute named(Operation *op, StringRef name, int64_t value) {
  Builder builder(op->getContext());
  return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
}
NamedAttribute named(Operation *op, StringRef name, ArrayRef<int64_t> values) {
  Builder builder(op->getContext());
  return builder.getNamedAttr(name, builder.getDenseI64ArrayAttr(values));
}

double elements(const Shape &shape) {
  double n = 1;
  for (int64_t d : shape)
    n *= double(d);
  return n;
}

} // namespace

void ConstantOp::localize(const LocalizeContext &ctx) {
  auto type = cast<RankedTensorType>(getY().getType());
  if (auto splat = dyn_cast<SplatElementsAttr>(getValue()))
    setValueAttr(cast<ElementsAttr>(Attribute(splat.resizeSplat(type))));
}

void IotaOp::rankAttributes(const LocalizeContext &ctx, int64_t rank, SmallVectorImpl<NamedAttribute> &attributes) {
  attributes.push_back(named(*this, "start", int64_t(getStart()) + ctx.resultOffset(rank, 0, getDim())));
}

void RandomOp::rankAttributes(const LocalizeContext &ctx, int64_t rank, SmallVectorImpl<NamedAttribute> &attributes) {
  attributes.push_back(named(*this, "global_shape", ctx.resultShapes[0]));
  attributes.push_back(named(*this, "offset", ctx.results[0].offset(ctx.mesh, ctx.resultShapes[0], rank)));
}

// Dimensions that are not sliced run to their end, which is now the local one.
void SliceOp::localize(const LocalizeContext &ctx) {
  SmallVector<int64_t> limits(getLimits());
  for (size_t d = 0; d < limits.size(); ++d)
    if (ctx.operands[0].numShards(ctx.mesh, d) > 1)
      limits[d] = cast<RankedTensorType>(getX().getType()).getDimSize(d);
  setLimits(limits);
}

void GatherOp::rankAttributes(const LocalizeContext &ctx, int64_t rank, SmallVectorImpl<NamedAttribute> &attributes) {
  attributes.push_back(named(*this, "start", int64_t(getStart()) + ctx.operandOffset(rank, 0, getAxis())));
  if (ctx.operands[0].isPadded(ctx.mesh, ctx.operandShapes[0], getAxis()))
    attributes.push_back(named(*this, "limit", ctx.operandExtent(rank, 0, getAxis())));
}

void ScatterAddOp::localize(const LocalizeContext &ctx) {
  setSize(cast<RankedTensorType>(getY().getType()).getDimSize(getAxis()));
}

void ScatterAddOp::rankAttributes(const LocalizeContext &ctx, int64_t rank,
                                  SmallVectorImpl<NamedAttribute> &attributes) {
  attributes.push_back(named(*this, "start", int64_t(getStart()) + ctx.resultOffset(rank, 0, getAxis())));
}

namespace {
/// Adds the index of the rank's first row of q to `start`, so that the causal diagonal stays where it was.
template <typename Op>
void startOfRows(Op op, const LocalizeContext &ctx, int64_t rank, SmallVectorImpl<NamedAttribute> &attributes) {
  if (!op.getCausal())
    return;
  int64_t rows = int64_t(ctx.resultShapes[0].size()) - (op.getRowsFirst() ? 3 : 2);
  attributes.push_back(named(op, "start", int64_t(op.getStart()) + ctx.resultOffset(rank, 0, rows)));
}

/// The number of pairs of a row and a key, over all heads.
double pairs(const Shape &q, const Shape &k, bool rowsFirst) {
  return elements(q) / double(q.back()) * double(k[k.size() - (rowsFirst ? 3 : 2)]);
}
/// Operations per score: scaling, bias, exponential, sum and division. In the gradient, which need not sum: scaling,
/// bias, exponential, difference and product.
constexpr double kScoreFlops = 8;
} // namespace

void AttentionOp::rankAttributes(const LocalizeContext &ctx, int64_t rank,
                                 SmallVectorImpl<NamedAttribute> &attributes) {
  startOfRows(*this, ctx, rank, attributes);
}
void AttentionGradOp::rankAttributes(const LocalizeContext &ctx, int64_t rank,
                                     SmallVectorImpl<NamedAttribute> &attributes) {
  startOfRows(*this, ctx, rank, attributes);
}

double AttentionOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  const Shape &q = operandShapes[0], &k = operandShapes[1], &v = operandShapes[2];
  return pairs(q, k, getRowsFirst()) * (2 * double(q.back() + v.back()) + kScoreFlops);
}
double AttentionGradOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  const Shape &q = operandShapes[1], &k = operandShapes[2], &v = operandShapes[3];
  return pairs(q, k, getRowsFirst()) * (2 * double(3 * q.back() + 2 * v.back()) + kScoreFlops);
}

/// The number of groups of one rank, in padded blocks with those of padding.
static uint64_t localGroups(uint64_t groups, const LocalizeContext &ctx) {
  const int factor = ctx.rule.findFactor("g");
  const uint64_t unit = factor < 0 ? 1 : uint64_t(ctx.strategy.factors[size_t(factor)].unit);
  return llvm::divideCeil(groups / unit, uint64_t(ctx.factorShards("g"))) * unit;
}

void ConvOp::localize(const LocalizeContext &ctx) {
  dropPads(*this, ctx);
  setGroups(localGroups(getGroups(), ctx));
}
void ConvWeightGradOp::localize(const LocalizeContext &ctx) {
  dropPads(*this, ctx);
  setGroups(localGroups(getGroups(), ctx));
}
void ConvInputGradOp::localize(const LocalizeContext &ctx) {
  shiftPads(*this, ctx, cast<RankedTensorType>(getW().getType()).getShape().drop_front(2), getDilations());
  setGroups(localGroups(getGroups(), ctx));
}
void MaxPoolOp::localize(const LocalizeContext &ctx) { dropPads(*this, ctx); }
void MaxPoolGradOp::localize(const LocalizeContext &ctx) { dropPads(*this, ctx); }
void AvgPoolOp::localize(const LocalizeContext &ctx) { dropPads(*this, ctx); }
void AvgPoolGradOp::localize(const LocalizeContext &ctx) {
  SmallVector<int64_t> dilations(getKernel().size(), 1);
  shiftPads(*this, ctx, getKernel(), dilations);
}

#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, REAL, WHOLE, LOW, HIGH, TOLERANCE, COURSE, WORK, ...)          \
  double NAME##Op::getFlops(ArrayRef<Shape>, ArrayRef<Shape> resultShapes) { return WORK * elements(resultShapes[0]); }
#include "runtime/support/Elementwise.def"

double ReduceSumOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape>) { return elements(operandShapes[0]); }
double ReduceMaxOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape>) { return elements(operandShapes[0]); }
double ReduceMinOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape>) { return elements(operandShapes[0]); }

double MatMulOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  const Shape &a = operandShapes[0];
  return 2 * elements(resultShapes[0]) * double(a[a.size() - (getTransposeA() ? 2 : 1)]);
}

/// Every column is projected on those before it, twice.
double OrthonormalizeOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape>) {
  return 4 * elements(operandShapes[0]) * double(operandShapes[0].back());
}

namespace {
/// The number of elements of a kernel [f, c, r, s] that are multiplied for one output element.
double taps(const Shape &w) { return w[0] == 0 ? 0 : elements(w) / double(w[0]); }
double window(ArrayRef<int64_t> kernel) {
  double n = 1;
  for (int64_t k : kernel)
    n *= double(k);
  return n;
}
} // namespace

double ConvOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return 2 * elements(resultShapes[0]) * taps(operandShapes[1]);
}
double ConvInputGradOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return 2 * elements(operandShapes[0]) * taps(operandShapes[1]);
}
double ConvWeightGradOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return 2 * elements(operandShapes[1]) * taps(resultShapes[0]);
}
double MaxPoolOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return elements(resultShapes[0]) * window(getKernel());
}
double MaxPoolGradOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return elements(operandShapes[1]) * window(getKernel());
}
double AvgPoolOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return elements(resultShapes[0]) * window(getKernel());
}
double AvgPoolGradOp::getFlops(ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  return elements(operandShapes[0]) * window(getKernel());
}

} // namespace tessera::graph
