//===- RandomOperators.cpp - the operators of random graphs, one function per kind ----------------===//
#include "test/e2e/RandomGraphWriter.h"

#include <cmath>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::test {

//===--------------------------------------------------------------------------------------------===//
// Elementwise
//===--------------------------------------------------------------------------------------------===//

Value Writer::elementwise(const rt::ElementwiseFunction &f, ArrayRef<Value> operands) {
  Shape shape;
  for (Value operand : operands)
    shape = *broadcastShapes(shape, shapeOf(operand));
  OperationState state(loc_, "graph." + StringRef(f.name).str(), operands, type(shape, elementOf(operands[0])));
  return builder_.create(state)->getResult(0);
}

/// One of the operators that fit; null: there is none.
static const rt::ElementwiseFunction *choose(std::mt19937 &random, bool (*fits)(const rt::ElementwiseFunction &)) {
  std::vector<const rt::ElementwiseFunction *> fitting;
  for (const rt::ElementwiseFunction &f : rt::elementwiseFunctions())
    if (fits(f))
      fitting.push_back(&f);
  return fitting.empty() ? nullptr : fitting[random() % fitting.size()];
}

Value Writer::unary() {
  using Course = rt::ElementwiseCourse;
  Value x = real();
  const rt::ElementwiseFunction &f =
      *choose(random_, [](const rt::ElementwiseFunction &f) { return f.operands == 1 && f.course != Course::Steps; });
  if (f.low <= -9 && f.high >= 9)
    return elementwise(f, f.course == Course::Bent ? generic(x) : x);
  double low = std::max(-2.0, f.low + 0.5), high = std::min(2.0, f.high - 0.5);
  Value centred = scaled(bounded(x), (high - low) / 2);
  return elementwise(f, make<AddOp>(centred, splat(real_, (high + low) / 2)));
}

Value Writer::rounding() {
  Value x = generic(real());
  auto steps = [](const rt::ElementwiseFunction &f) {
    return f.kind == rt::ElementwiseKind::NumberUnary && f.course == rt::ElementwiseCourse::Steps;
  };
  return elementwise(*choose(random_, steps), x);
}

Value Writer::binary() {
  Value a = real(), b = partner(a);
  if (chance(30))
    std::swap(a, b);
  switch (pick(0, 2)) {
  case 0:
    return make<AddOp>(a, b);
  case 1:
    return make<SubOp>(a, b);
  default:
    return make<MulOp>(a, b);
  }
}

Value Writer::division() {
  Value a = real();
  return make<DivOp>(a, positive(partner(a)));
}

Value Writer::power() {
  Value a = real(), base = positive(a);
  return chance(50) ? make<PowOp>(base, make<TanhOp>(partner(a)))
                    : make<PowOp>(base, splat(real_, double(pick(-2, 3)) / 2));
}

Value Writer::remainder() {
  Value a = real();
  return make<ModOp>(generic(a), positive(partner(a)));
}

Value Writer::extremum() {
  Value a = generic(real()), b = chance(30) ? splat(real_, between(-0.5, 0.5)) : partner(a);
  return chance(50) ? make<MaxOp>(a, b) : make<MinOp>(a, b);
}

Value Writer::comparison() {
  if (chance(40)) {
    Value a = integer();
    Value b = chance(50) ? splat(whole_, double(pick(0, kIds - 1))) : partner(a);
    return make<EqOp>(a, b);
  }
  Value a = generic(real());
  return chance(50) ? compared(a) : make<LtOp>(a, partner(a));
}

Value Writer::logic() {
  Value a = boolean(), b = partner(a);
  switch (pick(0, 3)) {
  case 0:
    return make<AndOp>(a, b);
  case 1:
    return make<OrOp>(a, b);
  case 2:
    return make<XorOp>(a, b);
  default:
    return make<NotOp>(a);
  }
}

Value Writer::selection() {
  Value a = real(), b = partner(a);
  Value condition = find([&](Value v) {
    auto both = broadcastShapes(shapeOf(a), shapeOf(b));
    auto all = broadcastShapes(*both, shapeOf(v));
    return elementOf(v) == truth_ && all && count(*all) <= kElements;
  });
  if (!condition || chance(40))
    condition = compared(generic(parameter(narrowed(shapeOf(a)))));
  return make<SelectOp>(condition, a, b);
}

Value Writer::conversion() {
  auto to = [&](Value v, Type element) { return make<CastOp>(type(shapeOf(v), element), v); };
  switch (pick(0, 4)) {
  case 0:
    return to(boolean(), real_);
  case 1:
    return scaled(to(integer(), real_), 0.2);
  case 2: // through double precision
    return to(make<TanhOp>(to(real(), builder_.getF64Type())), real_);
  case 3: // through a shorter integer
    return to(to(integer(), builder_.getI32Type()), whole_);
  default:
    return make<AbsOp>(to(generic(real()), whole_));
  }
}

Value Writer::integers() {
  Value a = integer(), b = partner(a);
  switch (pick(0, 5)) {
  case 0:
    return below(make<AddOp>(a, b), kIds);
  case 1:
    return below(make<MulOp>(a, b), kIds);
  case 2:
    return make<MaxOp>(a, b);
  case 3:
    return make<DivOp>(a, make<AddOp>(b, splat(whole_, 1)));
  case 4: {
    auto f = choose(random_, [](const rt::ElementwiseFunction &f) { return f.kind == rt::ElementwiseKind::Whole; });
    return f ? below(elementwise(*f, {a, b}), kIds) : Value();
  }
  default:
    return make<AbsOp>(make<SubOp>(a, b));
  }
}

//===--------------------------------------------------------------------------------------------===//
// Sources, and moving elements
//===--------------------------------------------------------------------------------------------===//

Value Writer::source() {
  Shape shape = randomShape(1, 3);
  int64_t dim = pick(0, int64_t(shape.size()) - 1);
  switch (pick(0, 3)) {
  case 0:
    return make<ConstantOp>(type(shape, real_), between(-1, 1));
  case 1: {
    std::vector<float> values;
    for (int64_t i = 0; i < count(shape); ++i)
      values.push_back(float(between(-1, 1)));
    return make<ConstantOp>(DenseElementsAttr::get(type(shape, real_), ArrayRef(values)));
  }
  case 2:
    return make<IotaOp>(type(shape, whole_), i64(dim));
  default:
    return scaled(make<IotaOp>(type(shape, real_), i64(dim)), 0.13);
  }
}

Value Writer::dropout() {
  if (!step_)
    return Value();
  Value x = real();
  Value drawn = make<RandomOp>(type(shapeOf(x), real_), step_, i64(pick(1, 1000)), i64(pick(0, 9)));
  Value dropped = make<LtOp>(drawn, splat(real_, 0.3));
  return make<SelectOp>(dropped, splat(real_, 0), x);
}

Value Writer::broadcast() {
  Value x = find([&](Value v) { return elementOf(v) == real_ && count(shapeOf(v)) <= 40; });
  if (!x)
    x = parameter(narrowed(randomShape(1, 3)));
  Shape shape(shapeOf(x));
  for (int64_t &extent : shape)
    if (extent == 1)
      extent = pick(1, 5);
  if (shape.size() < 4 && chance(60))
    shape.insert(shape.begin(), pick(2, 6));
  return count(shape) <= kElements ? make<BroadcastOp>(type(shape, real_), x) : Value();
}

Value Writer::reshape() {
  Value x = chance(80) ? real(1) : integer(1);
  return reshaped(x, pick(1, 4));
}

Value Writer::transpose() {
  Value x = real(2);
  Shape perm;
  for (int64_t d = 0; d < rankOf(x); ++d)
    perm.insert(perm.begin() + pick(0, d), d);
  return make<TransposeOp>(x, array(perm));
}

Value Writer::slice() {
  Value x = real(1);
  Shape starts, limits, strides;
  for (int64_t extent : shapeOf(x)) {
    bool all = chance(50);
    starts.push_back(all ? 0 : pick(0, extent - 1));
    limits.push_back(all ? extent : pick(starts.back() + 1, extent));
    strides.push_back(all ? 1 : pick(1, 3));
  }
  return make<SliceOp>(x, array(starts), array(limits), array(strides));
}

Value Writer::pad() {
  Value x = real(1);
  Shape lo, hi, inner, shape;
  for (int64_t extent : shapeOf(x)) {
    bool none = chance(60);
    lo.push_back(none ? 0 : pick(0, 2));
    hi.push_back(none ? 0 : pick(0, 2));
    inner.push_back(none ? 0 : pick(0, 1));
    shape.push_back(lo.back() + extent + (extent - 1) * inner.back() + hi.back());
  }
  if (count(shape) > kElements)
    return Value();
  return make<PadOp>(x, array(lo), array(hi), array(inner), builder_.getF64FloatAttr(chance(50) ? 0 : 0.75));
}

Value Writer::concat() {
  Value x = real(1);
  int64_t dim = pick(0, rankOf(x) - 1), total = shapeOf(x)[dim];
  SmallVector<Value> parts = {x};
  for (int64_t more = pick(1, 2); more > 0; --more) {
    Value other = find([&](Value v) {
      if (elementOf(v) != real_ || rankOf(v) != rankOf(x))
        return false;
      for (int64_t d = 0; d < rankOf(x); ++d)
        if (d != dim && shapeOf(v)[d] != shapeOf(x)[d])
          return false;
      return true;
    });
    if (!other || chance(40)) {
      Shape shape(shapeOf(x));
      shape[dim] = pick(1, 5);
      other = parameter(shape);
    }
    parts.insert(parts.begin() + pick(0, int64_t(parts.size())), other);
    total += shapeOf(other)[dim];
  }
  Shape shape(shapeOf(x));
  shape[dim] = total;
  return count(shape) <= kElements ? make<ConcatOp>(parts, i64(dim)) : Value();
}

Value Writer::gather() {
  Value table = real(1, 3);
  int64_t batch = chance(60) ? 0 : pick(0, rankOf(table) - 1), axis = pick(batch, rankOf(table) - 1);
  Value at = batch == 0 ? integer(0, 2) : Value();
  if (!at) {
    Shape shape(shapeOf(table).take_front(batch));
    shape.push_back(pick(1, 5));
    at = argument(shape, whole_, kInput);
  }
  if (count(shapeOf(table)) * count(shapeOf(at)) > 4 * kElements)
    return Value();
  return make<GatherOp>(table, below(at, shapeOf(table)[axis]), i64(axis), i64(0), i64(batch), i64(-1));
}

Value Writer::scatter() {
  Value updates = real(1, 3);
  int64_t batch = chance(60) ? 0 : pick(0, rankOf(updates) - 1), axis = pick(batch, rankOf(updates) - 1),
          size = pick(2, 7);
  Shape shape(shapeOf(updates).take_front(batch));
  shape.push_back(shapeOf(updates)[axis]);
  return make<ScatterAddOp>(below(argument(shape, whole_, kInput), size), updates, i64(axis), i64(size), i64(0),
                            i64(batch));
}

//===--------------------------------------------------------------------------------------------===//
// Reductions and products
//===--------------------------------------------------------------------------------------------===//

Value Writer::reduction() {
  bool integers = chance(15);
  Value x = integers ? integer(1) : real(1);
  Shape dims;
  int64_t n = 1;
  for (int64_t d = 0; d < rankOf(x); ++d)
    if (chance(50)) {
      dims.push_back(d);
      n *= shapeOf(x)[d];
    }
  BoolAttr kept = flag(chance(50));
  switch (pick(0, 3)) {
  case 0:
    return make<ReduceMaxOp>(integers ? x : generic(x), array(dims), kept);
  case 1:
    return make<ReduceMinOp>(integers ? x : generic(x), array(dims), kept);
  default:
    Value sum = make<ReduceSumOp>(x, array(dims), kept);
    return integers ? below(sum, kIds) : scaled(sum, 1 / std::sqrt(double(n)));
  }
}

Value Writer::position() {
  Value x = generic(real(1));
  int64_t dim = pick(0, rankOf(x) - 1);
  if (chance(50))
    return make<ArgMaxOp>(x, i64(dim), flag(chance(50)));
  Value at = make<TopKOp>(x, i64(pick(1, shapeOf(x)[dim])), i64(dim), flag(chance(50)));
  // The values themselves, where the indices' shape lets a gather take them.
  if (dim == rankOf(x) - 1 && chance(60))
    return make<GatherOp>(x, at, i64(dim), i64(0), i64(dim), i64(-1));
  return at;
}

Value Writer::matmul() {
  Value a = real(2);
  bool ta = chance(30), tb = chance(30);
  int64_t k = shapeOf(a)[rankOf(a) - (ta ? 2 : 1)], m = shapeOf(a)[rankOf(a) - (ta ? 1 : 2)];
  ArrayRef<int64_t> batch = shapeOf(a).drop_back(2);
  auto extentsOf = [&](ArrayRef<int64_t> b) { // of the product; nullopt: they do not fit
    std::optional<Shape> shape;
    if (b.size() < 2 || b[b.size() - (tb ? 1 : 2)] != k)
      return shape;
    if (auto both = broadcastShapes(batch, b.drop_back(2))) {
      shape.emplace(*both);
      shape->append({m, b[b.size() - (tb ? 2 : 1)]});
    }
    return shape;
  };
  Value b = find([&](Value v) {
    auto shape = extentsOf(shapeOf(v));
    return elementOf(v) == real_ && shape && count(*shape) <= kElements;
  });
  if (!b || chance(50)) {
    Shape shape = narrowed(batch);
    int64_t n = pick(1, 8);
    shape.append({k, n});
    if (tb)
      std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    b = parameter(shape);
  }
  if (count(*extentsOf(shapeOf(b))) > kElements)
    return Value();
  Value y = make<MatMulOp>(a, b, flag(ta), flag(tb), nullptr, nullptr);
  return scaled(y, 2 / std::sqrt(double(k)));
}

Value Writer::convolution() {
  Value x = real(3, 5);
  int64_t spatial = rankOf(x) - 2, channels = shapeOf(x)[1], groups = 1;
  if (chance(30))
    groups = channels;
  else if (channels % 2 == 0 && chance(30))
    groups = 2;
  Shape w = {groups * pick(1, groups > 4 ? 1 : 3), channels / groups}, strides, lo, hi, dilations;
  int64_t n = w[1];
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t extent = shapeOf(x)[2 + d], dilation = chance(25) ? 2 : 1, kernel = pick(1, 3);
    lo.push_back(pick(0, 1));
    hi.push_back(pick(0, 1));
    if ((kernel - 1) * dilation + 1 > extent + lo.back() + hi.back())
      kernel = 1;
    w.push_back(kernel);
    strides.push_back(chance(30) ? 2 : 1);
    dilations.push_back(dilation);
    n *= kernel;
  }
  lo.append(hi);
  Value y = make<ConvOp>(x, parameter(w), array(strides), array(lo), array(dilations), i64(groups), nullptr);
  return scaled(y, 2 / std::sqrt(double(n)));
}

/// ONNX's ConvTranspose.
Value Writer::transposed() {
  Value x = real(3, 4);
  int64_t spatial = rankOf(x) - 2, channels = shapeOf(x)[1], groups = channels % 2 == 0 && chance(40) ? 2 : 1;
  Shape w = {channels, pick(1, 3)}, strides, pads, dilations, sizes;
  for (int64_t d = 0; d < spatial; ++d) {
    w.push_back(pick(1, 3));
    strides.push_back(pick(1, 2));
    dilations.push_back(1);
    int64_t full = (shapeOf(x)[2 + d] - 1) * strides.back() + w.back();
    pads.push_back(full > 2 && w.back() > 1 ? pick(0, 1) : 0);
    sizes.push_back(full - pads.back());
  }
  pads.append(size_t(spatial), 0);
  if (count(sizes) * shapeOf(x)[0] * w[1] * groups > kElements)
    return Value();
  return make<ConvInputGradOp>(x, parameter(w), array(sizes), array(strides), array(pads), array(dilations),
                               i64(groups), nullptr);
}

Value Writer::pooling() {
  Value x = real(3, 5);
  Shape kernel, strides, lo, hi, dilations;
  for (int64_t d = 0; d < rankOf(x) - 2; ++d) {
    int64_t extent = shapeOf(x)[2 + d];
    kernel.push_back(std::min<int64_t>(pick(1, 3), extent));
    strides.push_back(pick(1, 2));
    lo.push_back(kernel.back() > 1 ? pick(0, 1) : 0);
    hi.push_back(kernel.back() > 1 ? pick(0, 1) : 0);
    dilations.push_back(1);
  }
  lo.append(hi);
  if (chance(50))
    return make<MaxPoolOp>(generic(x), array(kernel), array(strides), array(lo), array(dilations));
  return make<AvgPoolOp>(x, array(kernel), array(strides), array(lo), flag(chance(50)));
}

Value Writer::normalised() {
  Value x = generic(real(1));
  IntegerAttr dim = i64(pick(0, rankOf(x) - 1));
  return chance(50) ? make<SoftmaxOp>(x, dim) : make<LogSoftmaxOp>(x, dim);
}

Value Writer::batchNorm() {
  Value x = real(2, 5);
  if (count(shapeOf(x)) < 4 * shapeOf(x)[1]) // variances of hardly anything are ill-conditioned
    return Value();
  Shape channels = {shapeOf(x)[1]};
  auto norm =
      BatchNormOp::create(builder_, loc_, x, parameter(channels), parameter(channels), builder_.getF64FloatAttr(1e-2));
  if (step_) { // running statistics, of which only training knows
    Value state = argument(channels, real_, kState);
    updates_.push_back(
        {cast<BlockArgument>(state).getArgNumber(), make<AddOp>(scaled(state, 0.9), scaled(norm.getMean(), 0.1))});
  }
  return norm.getY();
}

/// A state that is read and moves towards what the graph computes.
Value Writer::running() {
  Value x = real(0, 3);
  if (!step_)
    return Value();
  Value state = argument(shapeOf(x), real_, kState);
  updates_.push_back(
      {cast<BlockArgument>(state).getArgNumber(), make<AddOp>(scaled(state, 0.8), scaled(make<TanhOp>(x), 0.2))});
  return make<AddOp>(x, state);
}

} // namespace tessera::test
