//===- RandomGraphWriter.h - how RandomGraph.h's graphs are written (private) ---------------------===//
//
// A pool of values grows operator by operator: each takes values that fit from the pool (first those that
// nothing has used), or reshapes one, or makes a new input or parameter.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_E2E_RANDOMGRAPHWRITER_H
#define TESSERA_TEST_E2E_RANDOMGRAPHWRITER_H

#include "dialects/graph/Graph.h"
#include "runtime/support/Scalar.h"
#include "test/e2e/RandomGraph.h"

#include <functional>
#include <random>

namespace tessera::test {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using mlir::BlockArgument;
using mlir::BoolAttr;
using mlir::DenseI64ArrayAttr;
using mlir::IntegerAttr;
using mlir::Location;
using mlir::MLIRContext;
using mlir::OpBuilder;
using mlir::RankedTensorType;
using mlir::Type;
using mlir::Value;

using Shape = SmallVector<int64_t>;

/// The most elements that a value of the graph has.
inline constexpr int64_t kElements = 600;

inline int64_t count(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

class Writer {
public:
  Writer(MLIRContext &context, unsigned seed)
      : random_(seed), builder_(&context), loc_(builder_.getUnknownLoc()), real_(builder_.getF32Type()),
        whole_(builder_.getI64Type()), truth_(builder_.getI1Type()) {}

  RandomGraph write();

private:
  // Random choices and helpers that operators use.
  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random_() % uint64_t(high - low + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  double between(double low, double high) { return low + (high - low) * double(random_()) / double(UINT32_MAX); }
  static ArrayRef<int64_t> shapeOf(Value v) { return mlir::cast<RankedTensorType>(v.getType()).getShape(); }
  static int64_t rankOf(Value v) { return int64_t(shapeOf(v).size()); }
  static Type elementOf(Value v) { return mlir::cast<RankedTensorType>(v.getType()).getElementType(); }
  RankedTensorType type(ArrayRef<int64_t> shape, Type element) { return RankedTensorType::get(shape, element); }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(builder_, loc_, std::forward<Args>(args)...)->getResult(0);
  }
  Value splat(Type element, double value) { return make<graph::ConstantOp>(type({}, element), value); }
  IntegerAttr i64(int64_t v) { return builder_.getI64IntegerAttr(v); }
  DenseI64ArrayAttr array(ArrayRef<int64_t> v) { return builder_.getDenseI64ArrayAttr(v); }
  BoolAttr flag(bool v) { return builder_.getBoolAttr(v); }
  Shape randomShape(int64_t low, int64_t high) {
    Shape shape;
    for (int64_t rank = pick(low, high); int64_t(shape.size()) < rank;)
      shape.push_back(chance(12) ? 1 : pick(2, rank > 3 ? 5 : 8));
    return shape;
  }

  Value argument(ArrayRef<int64_t> shape, Type element, StringRef role) {
    names_.push_back(role.str() + std::to_string(names_.size()));
    roles_.push_back(role.str());
    return func_.getBody().front().addArgument(type(shape, element), loc_);
  }
  Value parameter(ArrayRef<int64_t> shape) { return argument(shape, real_, graph::kParameter); }

  // The pool of values.
  Value keep(Value v) {
    pool_.push_back(v);
    return v;
  }
  /// A value that fits: one that nothing has used yet if there is any. Null if none fits.
  Value find(const std::function<bool(Value)> &fits) {
    SmallVector<Value> all, fresh;
    for (Value v : pool_)
      if (fits(v)) {
        all.push_back(v);
        if (v.use_empty())
          fresh.push_back(v);
      }
    if (all.empty())
      return Value();
    const auto &from = !fresh.empty() && chance(75) ? fresh : all;
    return from[size_t(pick(0, int64_t(from.size()) - 1))];
  }
  Value anyOf(Type element, int64_t lowRank = 0, int64_t highRank = 5) {
    return find([&](Value v) { return elementOf(v) == element && rankOf(v) >= lowRank && rankOf(v) <= highRank; });
  }
  /// A real value with a rank in this range: one of the pool, one reshaped, or a new input or parameter.
  Value real(int64_t lowRank = 0, int64_t highRank = 4) {
    if (chance(80))
      if (Value v = anyOf(real_, lowRank, highRank))
        return v;
    if (chance(50))
      if (Value v = anyOf(real_))
        return reshaped(v, pick(std::max<int64_t>(lowRank, 1), std::max<int64_t>(highRank, 1)));
    return argument(randomShape(lowRank, highRank), real_, chance(50) ? graph::kInput : graph::kParameter);
  }
  Value integer(int64_t lowRank = 0, int64_t highRank = 3) {
    if (chance(60))
      if (Value v = anyOf(whole_, lowRank, highRank))
        return v;
    return argument(randomShape(lowRank, highRank), whole_, graph::kInput);
  }
  Value boolean() {
    if (chance(60))
      if (Value v = anyOf(truth_, 0, 4))
        return v;
    return compared(generic(real()));
  }
  /// The value's elements in another shape of so many dimensions.
  Value reshaped(Value v, int64_t rank) {
    int64_t rest = count(shapeOf(v));
    Shape shape;
    for (int64_t d = 0; d + 1 < rank; ++d) {
      SmallVector<int64_t> divisors;
      for (int64_t n = 1; n <= rest; ++n)
        if (rest % n == 0)
          divisors.push_back(n);
      shape.push_back(divisors[size_t(pick(0, int64_t(divisors.size()) - 1))]);
      rest /= shape.back();
    }
    shape.insert(shape.begin() + pick(0, int64_t(shape.size())), rest);
    return make<graph::ReshapeOp>(type(shape, elementOf(v)), v);
  }
  /// A shape that broadcasts to `shape`: some dimensions are 1, some leading ones are left out.
  Shape narrowed(ArrayRef<int64_t> shape) {
    Shape s(shape.drop_front(pick(0, int64_t(shape.size()))));
    for (int64_t &extent : s)
      if (chance(30))
        extent = 1;
    return s;
  }
  /// A real value that broadcasts with `a` (to no more than kElements), of the pool or a new parameter.
  Value partner(Value a) {
    if (chance(65))
      if (Value v = find([&](Value v) {
            auto both = graph::broadcastShapes(shapeOf(a), shapeOf(v));
            return elementOf(v) == elementOf(a) && both && count(*both) <= kElements;
          }))
        return v;
    Shape shape = narrowed(shapeOf(a));
    if (elementOf(a) == real_)
      return parameter(shape);
    return elementOf(a) == whole_ ? argument(shape, whole_, graph::kInput) : compared(generic(parameter(shape)));
  }

  // The value times a number.
  Value scaled(Value v, double by) { return make<graph::MulOp>(v, splat(elementOf(v), by)); }
  /// The value, brought to a size of about 1 if it is larger.
  Value bounded(Value v) {
    switch (pick(0, 3)) {
    case 0:
      return make<graph::TanhOp>(v);
    case 1:
      return make<graph::SinOp>(v);
    case 2:
      return make<graph::SigmoidOp>(v);
    default:
      return make<graph::ErfOp>(v);
    }
  }
  Value positive(Value v) {
    Value least = splat(elementOf(v), between(0.3, 0.8));
    switch (pick(0, 2)) {
    case 0:
      return make<graph::AddOp>(make<graph::SigmoidOp>(v), least);
    case 1:
      return make<graph::AddOp>(make<graph::AbsOp>(make<graph::TanhOp>(v)), least);
    default:
      return make<graph::ExpOp>(make<graph::TanhOp>(v));
    }
  }
  /// The value, moved away from special numbers (0, 1, whole numbers).
  Value generic(Value v) {
    return make<graph::AddOp>(scaled(v, between(1.3, 2.9)), splat(elementOf(v), between(0.11, 0.47)));
  }
  Value compared(Value v) {
    Value threshold = splat(elementOf(v), between(-0.4, 0.6));
    return chance(50) ? make<graph::LtOp>(v, threshold) : make<graph::LeOp>(threshold, v);
  }
  /// Indices below n, made from any integers.
  Value below(Value v, int64_t n) { return make<graph::ModOp>(v, splat(whole_, double(n))); }

  // Operators, one function per kind; each returns what it made.
  Value elementwise(const rt::ElementwiseFunction &f, ArrayRef<Value> operands);
  Value unary();
  Value rounding();
  Value binary();
  Value division();
  Value power();
  Value remainder();
  Value extremum();
  Value comparison();
  Value logic();
  Value selection();
  Value conversion();
  Value integers();
  Value source();
  Value dropout();
  Value broadcast();
  Value reshape();
  Value transpose();
  Value slice();
  Value pad();
  Value concat();
  Value gather();
  Value scatter();
  Value reduction();
  Value position();
  Value matmul();
  Value convolution();
  Value transposed();
  Value pooling();
  Value normalised();
  Value batchNorm();
  Value running();

  void body();
  Value output(RandomGraph &graph);
  bool everyInputHasRows();
  void finish(RandomGraph &graph, Value out);

  std::mt19937 random_;
  OpBuilder builder_;
  Location loc_;
  Type real_, whole_, truth_;
  mlir::func::FuncOp func_;
  bool trained_ = false;
  Value step_;
  SmallVector<Value> pool_;
  std::vector<std::string> names_, roles_;          // of arguments
  SmallVector<std::pair<unsigned, Value>> updates_; // state argument, its new value
  SmallVector<Value> others_;                       // further outputs
};

} // namespace tessera::test

#endif
