//===- Fold.cpp - the graph dialect's operators on known values -------------------------------===//
//
// One small interpreter per family. Data movement is one function, `remap`, under different index
// maps.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/Constant.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace tessera::compiler;
using llvm::ArrayRef;

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
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// The linear map from an index of `shape` to offset + sum of coordinate times weight.
static auto affine(ArrayRef<int64_t> shape, Shape weights, int64_t offset = 0) {
  return [shape = Shape(shape), weights = std::move(weights), offset](int64_t i) {
    int64_t result = offset;
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      result += (i % shape[d]) * weights[d];
      i /= shape[d];
    }
    return result;
  };
}

/// Weights by which an index of the broadcast result reads an operand: 0 where it is stretched.
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
  return Constant::ints(x.type(), shape, padded<int64_t>(x, lo, static_cast<int64_t>(value), shape, [&](int64_t i) {
                          return x.intAt(i);
                        }));
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
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = (static_cast<int64_t>(i) / inner) % shape[dim];
  if (isFloat(type))
    return Constant::floats(type, std::move(shape), std::vector<double>(v.begin(), v.end()));
  return Constant::ints(type, std::move(shape), std::move(v));
}

//===----------------------------------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------------------------------===//

// Integer arithmetic wraps: done on unsigned numbers.
static int64_t wrapAdd(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
static int64_t wrapSub(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
static int64_t wrapMul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }

std::optional<Constant> tessera::compiler::foldUnary(llvm::StringRef op, const Constant &x) {
  using FloatFn = double (*)(double);
  using IntFn = int64_t (*)(int64_t);
  if (isFloat(x.type())) {
    FloatFn fn = llvm::StringSwitch<FloatFn>(op)
                     .Case("graph.neg", [](double v) { return -v; })
                     .Case("graph.abs", [](double v) { return std::fabs(v); })
                     .Case("graph.sign", [](double v) { return v > 0   ? 1.0
                                                               : v < 0 ? -1.0
                                                                       : v; })
                     .Case("graph.exp", [](double v) { return std::exp(v); })
                     .Case("graph.expm1", [](double v) { return std::expm1(v); })
                     .Case("graph.log", [](double v) { return std::log(v); })
                     .Case("graph.log1p", [](double v) { return std::log1p(v); })
                     .Case("graph.sqrt", [](double v) { return std::sqrt(v); })
                     .Case("graph.rsqrt", [](double v) { return 1 / std::sqrt(v); })
                     .Case("graph.reciprocal", [](double v) { return 1 / v; })
                     .Case("graph.tanh", [](double v) { return std::tanh(v); })
                     .Case("graph.sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); })
                     .Case("graph.erf", [](double v) { return std::erf(v); })
                     .Case("graph.sin", [](double v) { return std::sin(v); })
                     .Case("graph.cos", [](double v) { return std::cos(v); })
                     .Case("graph.atan", [](double v) { return std::atan(v); })
                     .Case("graph.relu", [](double v) { return v > 0 || std::isnan(v) ? v : 0.0; })
                     .Case("graph.floor", [](double v) { return std::floor(v); })
                     .Case("graph.ceil", [](double v) { return std::ceil(v); })
                     .Case("graph.round", [](double v) { return std::nearbyint(v); })
                     .Default(nullptr);
    if (!fn)
      return std::nullopt;
    std::vector<double> v(x.stored());
    for (int64_t i = 0; i < x.stored(); ++i)
      v[i] = fn(x.floatAt(i));
    if (x.isSplat())
      return Constant::splat(x.type(), x.shape(), v[0]);
    return Constant::floats(x.type(), x.shape(), std::move(v));
  }
  IntFn fn = llvm::StringSwitch<IntFn>(op)
                 .Case("graph.neg", [](int64_t v) { return wrapSub(0, v); })
                 .Case("graph.abs", [](int64_t v) { return v < 0 ? wrapSub(0, v) : v; })
                 .Case("graph.sign", [](int64_t v) { return int64_t(v > 0) - int64_t(v < 0); })
                 .Case("graph.relu", [](int64_t v) { return v > 0 ? v : 0; })
                 .Case("graph.not", [](int64_t v) { return int64_t(v == 0); })
                 .Default(nullptr);
  if (!fn || (op == "graph.not") != (x.type() == DType::I1))
    return std::nullopt;
  std::vector<int64_t> v(x.stored());
  for (int64_t i = 0; i < x.stored(); ++i)
    v[i] = fn(x.intAt(i));
  if (x.isSplat())
    return Constant::splatInt(x.type(), x.shape(), v[0]);
  return Constant::ints(x.type(), x.shape(), std::move(v));
}

/// Applies fn(i of a, i of b) over the broadcast shape; once, if both are splats.
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
  Shape shape = broadcastShape(a.shape(), b.shape());
  bool splat = a.isSplat() && b.isSplat() && *elementCount(shape) > 0;
  bool floating = isFloat(a.type());

  using Compare = bool (*)(double, double);
  using CompareInt = bool (*)(int64_t, int64_t);
  if (op == "graph.eq" || op == "graph.lt" || op == "graph.le") {
    Compare f = op == "graph.eq"   ? [](double x, double y) { return x == y; }
                : op == "graph.lt" ? [](double x, double y) { return x < y; }
                                   : [](double x, double y) { return x <= y; };
    CompareInt g = op == "graph.eq"   ? [](int64_t x, int64_t y) { return x == y; }
                   : op == "graph.lt" ? [](int64_t x, int64_t y) { return x < y; }
                                      : [](int64_t x, int64_t y) { return x <= y; };
    auto v = zip<int64_t>(a, b, shape, [&](int64_t i, int64_t j) -> int64_t {
      return floating ? f(a.floatAt(i), b.floatAt(j)) : g(a.intAt(i), b.intAt(j));
    });
    return makeInts(DType::I1, splat, shape, std::move(v));
  }

  if (floating) {
    using Fn = double (*)(double, double);
    Fn fn = llvm::StringSwitch<Fn>(op)
                .Case("graph.add", [](double x, double y) { return x + y; })
                .Case("graph.sub", [](double x, double y) { return x - y; })
                .Case("graph.mul", [](double x, double y) { return x * y; })
                .Case("graph.div", [](double x, double y) { return x / y; })
                .Case("graph.pow", [](double x, double y) { return std::pow(x, y); })
                .Case("graph.max", [](double x, double y) { return std::isnan(x) || x > y ? x : y; })
                .Case("graph.min", [](double x, double y) { return std::isnan(x) || x < y ? x : y; })
                .Default(nullptr);
    if (!fn)
      return std::nullopt;
    auto v = zip<double>(a, b, shape, [&](int64_t i, int64_t j) { return fn(a.floatAt(i), b.floatAt(j)); });
    return splat ? Constant::splat(a.type(), shape, v[0]) : Constant::floats(a.type(), shape, std::move(v));
  }

  using Fn = int64_t (*)(int64_t, int64_t);
  Fn fn = llvm::StringSwitch<Fn>(op)
              .Case("graph.add", wrapAdd)
              .Case("graph.sub", wrapSub)
              .Case("graph.mul", wrapMul)
              .Case("graph.div", [](int64_t x, int64_t y) { return y == -1 ? wrapSub(0, x) : x / y; })
              .Case("graph.pow",
                    [](int64_t x, int64_t e) {
                      int64_t y = 1;
                      for (int64_t i = 0; i < e; ++i)
                        y = wrapMul(y, x);
                      return y;
                    })
              .Case("graph.mod",
                    [](int64_t x, int64_t y) {
                      int64_t r = y == -1 ? 0 : x % y;
                      return r != 0 && (r < 0) != (y < 0) ? r + y : r;
                    })
              .Case("graph.max", [](int64_t x, int64_t y) { return std::max(x, y); })
              .Case("graph.min", [](int64_t x, int64_t y) { return std::min(x, y); })
              .Case("graph.and", [](int64_t x, int64_t y) { return x & y; })
              .Case("graph.or", [](int64_t x, int64_t y) { return x | y; })
              .Case("graph.xor", [](int64_t x, int64_t y) { return x ^ y; })
              .Default(nullptr);
  if (!fn)
    return std::nullopt;
  if (op == "graph.pow") // fractions are no integers, and 64 factors are enough for shapes
    for (int64_t i = 0; i < b.stored(); ++i)
      if (b.intAt(i) < 0 || b.intAt(i) > 64)
        return std::nullopt;
  if (op == "graph.div" || op == "graph.mod")
    for (int64_t i = 0; i < b.stored(); ++i)
      if (b.intAt(i) == 0)
        return std::nullopt;
  auto v = zip<int64_t>(a, b, shape, [&](int64_t i, int64_t j) { return fn(a.intAt(i), b.intAt(j)); });
  return makeInts(a.type(), splat, shape, std::move(v));
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
      ints[to] = wrapAdd(ints[to], v);
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
