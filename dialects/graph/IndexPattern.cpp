//===- IndexPattern.cpp ---------------------------------------------------------------------------===//
#include "dialects/graph/IndexPattern.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/OpWriter.h"
#include "runtime/support/Scalar.h"

#include "mlir/IR/Matchers.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <functional>

using namespace mlir;
namespace tessera::graph {

namespace {

/// Beyond it, float32 does not hold every whole number: sums of indices would be rounded.
constexpr int64_t kExact = int64_t(1) << 24;
/// Operators in a row. Masks are made by some ten.
constexpr int kMaxDepth = 64;

IndexPattern number(int64_t rank, double value) { return {llvm::SmallVector<int64_t>(rank, 0), 0, true, value, value}; }

/// Makes the last weight negative, and the offset of a number 0.
IndexPattern normal(IndexPattern p) {
  if (!p.hasValues)
    return p;
  auto last = llvm::find_if(llvm::reverse(p.weights), [](int64_t w) { return w != 0; });
  if (last == p.weights.rend() || p.met == p.unmet) {
    double value = p.offset >= 0 ? p.met : p.unmet;
    return number(int64_t(p.weights.size()), value);
  }
  if (*last > 0) { // not (s >= 0) is -s - 1 >= 0
    for (int64_t &w : p.weights)
      w = -w;
    p.offset = -p.offset - 1;
    std::swap(p.met, p.unmet);
  }
  return p;
}

/// Whether every s of the tensor is a whole number that float32 holds.
bool isExact(const IndexPattern &p, ArrayRef<int64_t> shape) {
  int64_t most = std::abs(p.offset);
  for (auto [w, n] : llvm::zip_equal(p.weights, shape)) {
    if (n > kExact || std::abs(w) > kExact)
      return false;
    most += std::abs(w) * n;
  }
  return most <= kExact;
}

bool hasSupportedElements(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && (type.getElementType().isF32() || type.getElementType().isF64() || type.getElementType().isInteger());
}

double roundTo(Type element, double value) { return element.isF32() ? double(float(value)) : value; }

/// The elements of a constant as doubles.
std::function<double(int64_t)> elementsOf(DenseElementsAttr attr) {
  if (isa<FloatType>(attr.getElementType()))
    return [attr](int64_t i) { return APFloat(*(attr.value_begin<APFloat>() + i)).convertToDouble(); };
  bool isUnsigned = attr.getElementType().isInteger(1) || attr.getElementType().isUnsignedInteger();
  return [attr, isUnsigned](int64_t i) {
    APInt value = *(attr.value_begin<APInt>() + i);
    return isUnsigned ? double(value.getZExtValue()) : double(value.getSExtValue());
  };
}

/// A vector of equally spaced whole numbers along dimension d.
std::optional<IndexPattern> progression(llvm::function_ref<double(int64_t)> at, ArrayRef<int64_t> shape, int64_t d) {
  double first = at(0), step = at(1) - first;
  if (first != std::nearbyint(first) || step != std::nearbyint(step) || std::abs(first) > double(kExact) ||
      std::abs(step) > double(kExact))
    return std::nullopt;
  for (int64_t i = 2; i < shape[d]; ++i)
    if (at(i) != first + double(i) * step)
      return std::nullopt;
  IndexPattern p{llvm::SmallVector<int64_t>(shape.size(), 0), int64_t(first)};
  p.weights[d] = int64_t(step);
  return p;
}

/// A matrix, along the dimensions r and d, of two numbers that meet along a diagonal.
std::optional<IndexPattern> dividedMatrix(llvm::function_ref<double(int64_t)> at, ArrayRef<int64_t> shape, int64_t r,
                                          int64_t d) {
  int64_t rows = shape[r], keys = shape[d];
  // Row i begins with `inside` for seen(i) keys and goes on with `outside`; seen grows by one from row to row, between
  // 0 and the number of keys. The lower left corner is inside, the upper right one outside.
  double inside = at((rows - 1) * keys), outside = at(keys - 1);
  if (inside == outside)
    return std::nullopt;
  auto seen = [&](int64_t i) {
    int64_t n = 0;
    while (n < keys && at(i * keys + n) == inside)
      ++n;
    for (int64_t j = n; j < keys; ++j)
      if (at(i * keys + j) != outside)
        return int64_t(-1);
    return n;
  };
  std::optional<int64_t> start;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t n = seen(i);
    if (n < 0)
      return std::nullopt;
    // Rows that see no or all keys do not tell the start; any other does.
    if (!start && n > 0 && n < keys)
      start = n - 1 - i;
  }
  // A first row that sees nothing before one that sees everything: the step lies between them.
  for (int64_t i = 0; i < rows && !start; ++i)
    if (seen(i) == keys)
      start = keys - 1 - i;
  if (!start)
    return std::nullopt;
  for (int64_t i = 0; i < rows; ++i)
    if (seen(i) != std::clamp<int64_t>(i + *start + 1, 0, keys))
      return std::nullopt;
  IndexPattern p{llvm::SmallVector<int64_t>(shape.size(), 0), *start, true, inside, outside};
  p.weights[r] = 1;
  p.weights[d] = -1;
  return p;
}

/// Whether the integer type holds the number.
bool fits(Type element, double value) {
  if (!element.isInteger() || element.isInteger(1))
    return true;
  unsigned bits = element.getIntOrFloatBitWidth();
  double limit = std::ldexp(1.0, int(std::min(bits, 53u)) - 1);
  return element.isUnsignedInteger() ? value >= 0 && value < 2 * limit : value >= -limit && value < limit;
}

/// The pattern of a tensor of another shape whose dimension d is the source's dimension from[d]; -1: a new one, along
/// which nothing changes.
IndexPattern moved(const IndexPattern &p, ArrayRef<int64_t> from) {
  IndexPattern result = p;
  result.weights.assign(from.size(), 0);
  for (auto [d, source] : llvm::enumerate(from))
    if (source >= 0)
      result.weights[d] = p.weights[source];
  return result;
}

std::optional<IndexPattern> reshaped(const IndexPattern &p, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  // Only dimensions of extent 1 may come or go.
  llvm::SmallVector<int64_t> sources;
  size_t next = 0;
  for (int64_t n : to) {
    if (n == 1) {
      sources.push_back(-1);
      continue;
    }
    while (next < from.size() && from[next] == 1)
      ++next;
    if (next == from.size() || from[next] != n)
      return p.isNumber() ? std::optional(number(int64_t(to.size()), p.met)) : std::nullopt;
    sources.push_back(int64_t(next++));
  }
  return moved(p, sources);
}

/// As NumPy stretches a tensor of the rank of `p` to `shape`.
IndexPattern stretched(const IndexPattern &p, ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> sources(shape.size(), -1);
  for (size_t d = 0; d < p.weights.size(); ++d)
    sources[shape.size() - p.weights.size() + d] = int64_t(d);
  return moved(p, sources); // dimensions of extent 1 have weight 0
}

} // namespace

std::optional<IndexPattern> patternOfElements(llvm::function_ref<double(int64_t)> at, ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> wide;
  for (auto [d, n] : llvm::enumerate(shape)) {
    if (n == 0)
      return std::nullopt;
    if (n > 1)
      wide.push_back(int64_t(d));
  }
  if (wide.empty())
    return number(int64_t(shape.size()), at(0));
  if (wide.size() == 1)
    return progression(at, shape, wide[0]);
  return wide.size() == 2 ? dividedMatrix(at, shape, wide[0], wide[1]) : std::nullopt;
}

std::optional<IndexPattern> IndexPatterns::of(Value v) {
  if (auto it = found_.find(v); it != found_.end())
    return it->second;
  std::optional<IndexPattern> p;
  if (++depth_ <= kMaxDepth && hasSupportedElements(v))
    p = find(v);
  --depth_;
  if (p)
    p = normal(*p);
  found_[v] = p;
  return p;
}

std::optional<IndexPattern> IndexPatterns::find(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return std::nullopt;
  DenseElementsAttr attr;
  if (matchPattern(v, m_Constant(&attr)))
    return attr.isSplat() ? number(rankOf(v), elementsOf(attr)(0)) : patternOfElements(elementsOf(attr), shapeOf(v));
  ArrayRef<int64_t> shape = shapeOf(v);
  if (auto iota = dyn_cast<IotaOp>(op)) {
    IndexPattern p{llvm::SmallVector<int64_t>(shape.size(), 0), int64_t(iota.getStart())};
    if (shape[iota.getDim()] > 1)
      p.weights[iota.getDim()] = 1;
    return isExact(p, shape) ? std::optional(p) : std::nullopt;
  }
  if (isElementwise(op))
    return elementwise(op);
  if (op->getNumOperands() != 1)
    return std::nullopt;
  bool moves = isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp>(op);
  std::optional<IndexPattern> p = moves ? of(op->getOperand(0)) : std::nullopt;
  if (!p)
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0));
  if (isa<BroadcastOp>(op))
    return stretched(*p, shape);
  if (isa<ReshapeOp>(op))
    return reshaped(*p, from, shape);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return moved(*p, transpose.getPerm());
  auto slice = cast<SliceOp>(op);
  for (auto [d, n] : llvm::enumerate(shape)) {
    p->offset += p->weights[d] * slice.getStarts()[d];
    p->weights[d] = n > 1 ? p->weights[d] * slice.getStrides()[d] : 0;
  }
  return p;
}

std::optional<IndexPattern> IndexPatterns::elementwise(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  Type element = elementTypeOf(op->getResult(0));
  llvm::SmallVector<IndexPattern> operands;
  for (Value v : op->getOperands()) {
    std::optional<IndexPattern> p = of(v);
    if (!p)
      return std::nullopt;
    operands.push_back(stretched(*p, shape));
  }
  auto whole = [](const IndexPattern &p) { return p.isNumber() && p.met == std::nearbyint(p.met); };
  if (isa<CastOp>(op)) {
    IndexPattern p = operands[0];
    if (!p.hasValues)
      return element.isInteger(1) || !isExact(p, shape) ? std::nullopt : std::optional(p);
    for (double *x : {&p.met, &p.unmet})
      *x = element.isInteger(1) ? double(*x != 0) : element.isInteger() ? std::trunc(*x) : roundTo(element, *x);
    return fits(element, p.met) && fits(element, p.unmet) ? std::optional(p) : std::nullopt;
  }
  // Sums and multiples of indices, and comparisons of such.
  if (llvm::any_of(operands, [](const IndexPattern &p) { return !p.hasValues; })) {
    if (operands.size() != 2)
      return std::nullopt;
    IndexPattern a = operands[0], b = operands[1];
    // a + factor * b, where a number is a sum without indices.
    auto sum = [&](int64_t factor) -> std::optional<IndexPattern> {
      IndexPattern result{llvm::SmallVector<int64_t>(shape.size(), 0)};
      for (auto [p, times] : {std::pair(&a, int64_t(1)), std::pair(&b, factor)}) {
        if (p->hasValues && (!whole(*p) || std::abs(p->met) > double(kExact)))
          return std::nullopt;
        result.offset += times * (p->hasValues ? int64_t(p->met) : p->offset);
        for (size_t d = 0; !p->hasValues && d < shape.size(); ++d)
          result.weights[d] += times * p->weights[d];
      }
      return isExact(result, shape) ? std::optional(result) : std::nullopt;
    };
    if (isa<AddOp>(op))
      return sum(1);
    if (isa<SubOp>(op))
      return sum(-1);
    if (!isa<LtOp, LeOp>(op))
      return std::nullopt;
    // a < b is the opposite of a - b >= 0, a <= b that of a - b - 1 >= 0.
    std::optional<IndexPattern> p = sum(-1);
    if (!p)
      return std::nullopt;
    p->offset -= isa<LeOp>(op);
    p->hasValues = true;
    p->unmet = 1;
    return p;
  }
  // Values under one condition: the operator is applied on both sides of it.
  const rt::ElementwiseFunction *function = rt::elementwiseFunction(op->getName().stripDialect());
  if (!function)
    return std::nullopt;
  IndexPattern result = number(int64_t(shape.size()), 0);
  for (const IndexPattern &p : operands) {
    if (p.isNumber())
      continue;
    if (!result.isNumber() && !p.sameCondition(result))
      return std::nullopt;
    result.weights = p.weights;
    result.offset = p.offset;
  }
  bool real = isa<FloatType>(elementTypeOf(op->getOperands().back()));
  auto apply = [&](auto side) {
    double x[3] = {};
    for (auto [i, p] : llvm::enumerate(operands))
      x[i] = side(p);
    if (real)
      return roundTo(element, function->real(x[0], x[1], x[2]));
    return double(function->whole(int64_t(x[0]), int64_t(x[1]), int64_t(x[2])));
  };
  result.met = apply([](const IndexPattern &p) { return p.met; });
  result.unmet = apply([](const IndexPattern &p) { return p.unmet; });
  return fits(element, result.met) && fits(element, result.unmet) ? std::optional(result) : std::nullopt;
}

std::optional<Triangle> triangle(const IndexPattern &pattern, int64_t rows, int64_t keys) {
  size_t rank = pattern.weights.size();
  if (!pattern.hasValues || pattern.isNumber() || rank < 2 || keys < 2)
    return std::nullopt;
  for (size_t d = 0; d + 2 < rank; ++d)
    if (pattern.weights[d] != 0)
      return std::nullopt;
  if (pattern.weights[rank - 1] != -1 || pattern.weights[rank - 2] != (rows > 1 ? 1 : 0))
    return std::nullopt;
  return Triangle{pattern.offset, pattern.met, pattern.unmet};
}

} // namespace tessera::graph
