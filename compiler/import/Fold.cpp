//===- Fold.cpp - the graph dialect's operators on known values -------------------------------===//
//
// There is one small interpreter per family of operators. All data movement is the function `remap` with different
// index maps.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Constant.h"
#include "runtime/support/Scalar.h"

#include <cmath>

using namespace tessera;
using namespace tessera::compiler;
using llvm::ArrayRef;
using Kind = rt::ElementwiseKind;

namespace tessera::compiler {

template <typename Fn> Constant Constant::remap(Shape shape, Fn index) const {
  int64_t n = elementCount(shape).value_or(0);
  if (splat_) {
    Constant c = *this;
    c.shape_ = std::move(shape);
    c.size_ = n;
    c.splat_ = n > 0;
    return c;
  }
  if (compiler::isFloat(type_)) {
    std::vector<double> v(n);
    for (int64_t i = 0; i < n; ++i)
      v[i] = floats_[index(i)];
    return floats(type_, std::move(shape), std::move(v));
  }
  std::vector<int64_t> v(n);
  for (int64_t i = 0; i < n; ++i)
    v[i] = ints_[index(i)];
  return ints(type_, std::move(shape), std::move(v));
}

} // namespace tessera::compiler

/// Row-major strides.
static Shape stridesOf(ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (int64_t i = int64_t(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// Maps a linear index of `shape` to the offset plus the sum of each coordinate times its weight.
static auto affine(ArrayRef<int64_t> shape, Shape weights, int64_t offset = 0) {
  return [shape = Shape(shape), weights = std::move(weights), offset](int64_t i) {
    int64_t result = offset;
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0; --d) {
      result += (i % shape[d]) * weights[d];
      i /= shape[d];
    }
    return result;
  };
}

/// The operand's stride per dimension of the broadcast result: 0 where the operand is repeated.
static Shape broadcastWeights(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  Shape strides = stridesOf(from), weights(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1)
      weights[to.size() - from.size() + i] = strides[i];
  return weights;
}

static Shape broadcastShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}

Constant tessera::compiler::foldBroadcast(const Constant &x, ArrayRef<int64_t> shape) {
  return x.remap(Shape(shape), affine(shape, broadcastWeights(x.shape(), shape)));
}

Constant tessera::compiler::foldTranspose(const Constant &x, ArrayRef<int64_t> perm) {
  Shape strides = stridesOf(x.shape()), shape, weights;
  for (int64_t p : perm) {
    shape.push_back(x.shape()[p]);
    weights.push_back(strides[p]);
  }
  return x.remap(shape, affine(shape, weights));
}

Constant tessera::compiler::foldSlice(const Constant &x, ArrayRef<int64_t> starts, ArrayRef<int64_t> strides,
                                      Shape shape) {
  Shape weights = stridesOf(x.shape());
  int64_t offset = 0;
  for (size_t d = 0; d < weights.size(); ++d) {
    offset += starts[d] * weights[d];
    weights[d] *= strides[d];
  }
  auto index = affine(shape, weights, offset);
  return x.remap(std::move(shape), index);
}

template <typename T, typename At>
static std::vector<T> padded(const Constant &x, ArrayRef<int64_t> lo, T value, ArrayRef<int64_t> shape, At at) {
  std::vector<T> v(*elementCount(shape), value);
  Shape strides = stridesOf(shape);
  int64_t offset = 0;
  for (size_t d = 0; d < lo.size(); ++d)
    offset += lo[d] * strides[d];
  auto index = affine(x.shape(), strides, offset);
  for (int64_t i = 0; i < x.size(); ++i)
    v[index(i)] = at(i);
  return v;
}

Constant tessera::compiler::foldPad(const Constant &x, ArrayRef<int64_t> lo, double value, Shape shape) {
  if (isFloat(x.type()))
    return Constant::floats(x.type(), shape,
                            padded<double>(x, lo, value, shape, [&](int64_t i) { return x.floatAt(i); }));
  return Constant::ints(x.type(), shape,
                        padded<int64_t>(x, lo, int64_t(value), shape, [&](int64_t i) { return x.intAt(i); }));
}

Constant tessera::compiler::foldConcat(ArrayRef<const Constant *> xs, int64_t dim, Shape shape) {
  DType type = xs.front()->type();
  int64_t n = *elementCount(shape), inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d)
    inner *= shape[d];
  std::vector<int64_t> ints(isFloat(type) ? 0 : n);
  std::vector<double> floats(isFloat(type) ? n : 0);
  int64_t row = shape[dim] * inner, done = 0;
  for (const Constant *x : xs) {
    int64_t part = x->shape()[dim] * inner;
    for (int64_t i = 0; i < x->size(); ++i) {
      int64_t to = (i / part) * row + done + i % part;
      if (isFloat(type))
        floats[to] = x->floatAt(i);
      else
        ints[to] = x->intAt(i);
    }
    done += part;
  }
  return isFloat(type) ? Constant::floats(type, std::move(shape), std::move(floats))
                       : Constant::ints(type, std::move(shape), std::move(ints));
}

Constant tessera::compiler::foldGather(const Constant &table, const Constant &indices, int64_t axis) {
  Shape shape(table.shape().begin(), table.shape().begin() + axis);
  shape.append(indices.shape().begin(), indices.shape().end());
  shape.append(table.shape().begin() + axis + 1, table.shape().end());
  int64_t inner = 1, extent = table.shape()[axis], n = indices.size();
  for (size_t d = axis + 1; d < table.shape().size(); ++d)
    inner *= table.shape()[d];
  return table.remap(shape, [&](int64_t i) {
    int64_t in = i % inner, at = (i / inner) % n, out = i / inner / n;
    return (out * extent + indices.intAt(at)) * inner + in;
  });
}

Constant tessera::compiler::foldIota(DType type, Shape shape, int64_t dim) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < shape.size(); ++d)
    inner *= shape[d];
  std::vector<int64_t> v(*elementCount(shape));
  for (size_t i = 0; i < v.size();)
    for (int64_t k = 0; k < shape[dim]; ++k)
      for (int64_t same = 0; same < inner; ++same)
        v[i++] = k;
  if (isFloat(type))
    return Constant::floats(type, std::move(shape), std::vector<double>(v.begin(), v.end()));
  return Constant::ints(type, std::move(shape), std::move(v));
}

//===----------------------------------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------------------------------===//

/// The function that the operator graph.NAME computes on one element; null if the operator is not elementwise.
static const rt::ElementwiseFunction *functionOf(llvm::StringRef op) {
  return op.consume_front("graph.") ? rt::elementwiseFunction(std::string_view(op)) : nullptr;
}

std::optional<Constant> tessera::compiler::foldUnary(llvm::StringRef op, const Constant &x) {
  const rt::ElementwiseFunction *f = functionOf(op);
  if (!f || f->operands != 1)
    return std::nullopt;
  if (isFloat(x.type())) {
    if (f->kind == Kind::LogicUnary)
      return std::nullopt;
    std::vector<double> v(x.stored());
    for (int64_t i = 0; i < x.stored(); ++i)
      v[i] = f->real(x.floatAt(i), 0, 0);
    if (x.isSplat())
      return Constant::splat(x.type(), x.shape(), v[0]);
    return Constant::floats(x.type(), x.shape(), std::move(v));
  }
  if (f->kind == Kind::FloatUnary || (f->kind == Kind::LogicUnary) != (x.type() == DType::I1))
    return std::nullopt;
  std::vector<int64_t> v(x.stored());
  for (int64_t i = 0; i < x.stored(); ++i)
    v[i] = f->whole(x.intAt(i), 0, 0);
  if (x.isSplat())
    return Constant::splatInt(x.type(), x.shape(), v[0]);
  return Constant::ints(x.type(), x.shape(), std::move(v));
}

/// Applies fn(element of a, element of b) over the broadcast shape, and only once if both are splats.
template <typename T, typename Fn>
static std::vector<T> zip(const Constant &a, const Constant &b, const Shape &shape, Fn fn) {
  bool splat = a.isSplat() && b.isSplat();
  std::vector<T> v(splat ? 1 : *elementCount(shape));
  auto ia = affine(shape, broadcastWeights(a.shape(), shape));
  auto ib = affine(shape, broadcastWeights(b.shape(), shape));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = splat ? fn(0, 0) : fn(ia(i), ib(i));
  return v;
}

static Constant makeInts(DType type, bool splat, const Shape &shape, std::vector<int64_t> v) {
  return splat ? Constant::splatInt(type, shape, v[0]) : Constant::ints(type, shape, std::move(v));
}

std::optional<Constant> tessera::compiler::foldBinary(llvm::StringRef op, const Constant &a, const Constant &b) {
  const rt::ElementwiseFunction *f = functionOf(op);
  if (!f || f->operands != 2)
    return std::nullopt;
  Shape shape = broadcastShape(a.shape(), b.shape());
  bool splat = a.isSplat() && b.isSplat() && *elementCount(shape) > 0;
  if (isFloat(a.type())) {
    if (f->kind == Kind::Logic || f->kind == Kind::Whole)
      return std::nullopt;
    auto v = zip<double>(a, b, shape, [&](int64_t i, int64_t j) { return f->real(a.floatAt(i), b.floatAt(j), 0); });
    if (f->kind == Kind::Compare)
      return makeInts(DType::I1, splat, shape, std::vector<int64_t>(v.begin(), v.end()));
    return splat ? Constant::splat(a.type(), shape, v[0]) : Constant::floats(a.type(), shape, std::move(v));
  }
  if (op == "graph.pow") // fractions are no integers, and 64 factors are enough for shapes
    for (int64_t i = 0; i < b.stored(); ++i)
      if (b.intAt(i) < 0 || b.intAt(i) > 64)
        return std::nullopt;
  if (op == "graph.div" || op == "graph.mod")
    for (int64_t i = 0; i < b.stored(); ++i)
      if (b.intAt(i) == 0)
        return std::nullopt;
  auto v = zip<int64_t>(a, b, shape, [&](int64_t i, int64_t j) { return f->whole(a.intAt(i), b.intAt(j), 0); });
  return makeInts(f->kind == Kind::Compare ? DType::I1 : a.type(), splat, shape, std::move(v));
}

Constant tessera::compiler::foldSelect(const Constant &cond, const Constant &a, const Constant &b) {
  Shape shape = broadcastShape(broadcastShape(cond.shape(), a.shape()), b.shape());
  int64_t n = *elementCount(shape);
  auto ic = affine(shape, broadcastWeights(cond.shape(), shape));
  auto ia = affine(shape, broadcastWeights(a.shape(), shape));
  auto ib = affine(shape, broadcastWeights(b.shape(), shape));
  if (isFloat(a.type())) {
    std::vector<double> v(n);
    for (int64_t i = 0; i < n; ++i)
      v[i] = cond.intAt(ic(i)) ? a.floatAt(ia(i)) : b.floatAt(ib(i));
    return Constant::floats(a.type(), shape, std::move(v));
  }
  std::vector<int64_t> v(n);
  for (int64_t i = 0; i < n; ++i)
    v[i] = cond.intAt(ic(i)) ? a.intAt(ia(i)) : b.intAt(ib(i));
  return Constant::ints(a.type(), shape, std::move(v));
}

std::optional<Constant> tessera::compiler::foldCast(const Constant &x, DType type) {
  if (x.isSplat())
    return isFloat(x.type()) ? Constant::splat(type, x.shape(), x.floatAt(0))
                             : Constant::splatInt(type, x.shape(), x.intAt(0));
  if (isFloat(type)) {
    std::vector<double> v(x.size());
    for (int64_t i = 0; i < x.size(); ++i)
      v[i] = x.floatAt(i);
    return Constant::floats(type, x.shape(), std::move(v));
  }
  std::vector<int64_t> v(x.size());
  for (int64_t i = 0; i < x.size(); ++i)
    v[i] = type == DType::I1 && isFloat(x.type()) ? x.floatAt(i) != 0 : x.intAt(i);
  return Constant::ints(type, x.shape(), std::move(v));
}

//===----------------------------------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------------------------------===//

std::optional<Constant> tessera::compiler::foldReduce(llvm::StringRef op, const Constant &x, ArrayRef<int64_t> dims,
                                                      Shape shape) {
  if (x.size() == 0)
    return std::nullopt;
  Shape kept = x.shape();
  for (int64_t d : dims)
    kept[d] = 1;
  auto index = affine(x.shape(), [&] {
    Shape weights = stridesOf(kept);
    for (int64_t d : dims)
      weights[d] = 0;
    return weights;
  }());
  int64_t n = *elementCount(kept);
  std::vector<double> floats(n);
  std::vector<int64_t> ints(n);
  std::vector<bool> seen(n, false);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t to = index(i), v = x.intAt(i);
    double f = x.floatAt(i);
    if (!seen[to]) {
      floats[to] = f;
      ints[to] = v;
    } else if (op == "graph.reduce_sum") {
      floats[to] += f;
      ints[to] = rt::scalar::Add::of(ints[to], v);
    } else if (op == "graph.reduce_max") {
      floats[to] = std::isnan(floats[to]) || floats[to] > f ? floats[to] : f;
      ints[to] = std::max(ints[to], v);
    } else if (op == "graph.reduce_min") {
      floats[to] = std::isnan(floats[to]) || floats[to] < f ? floats[to] : f;
      ints[to] = std::min(ints[to], v);
    } else {
      return std::nullopt;
    }
    seen[to] = true;
  }
  return isFloat(x.type()) ? Constant::floats(x.type(), std::move(shape), std::move(floats))
                           : Constant::ints(x.type(), std::move(shape), std::move(ints));
}
