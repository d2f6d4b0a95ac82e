// Elementwise operators, broadcast, reductions and "fused": evaluates the expression tile by tile,
// one instruction after the other over a tile of the domain in row-major order.
#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/Philox.h"
#include "runtime/backend/reference/ReferenceBackend.h"
#include "runtime/support/Scalar.h"

#include <cstring>

namespace tessera::rt {
namespace {

constexpr int64_t kTile = 512;

/// One value of a tile, in its class.
union alignas(64) Tile {
  float f[kTile];
  double d[kTile];
  int64_t i[kTile];
};
template <typename T> T *as(Tile &t) {
  if constexpr (std::is_same_v<T, float>)
    return t.f;
  else if constexpr (std::is_same_v<T, double>)
    return t.d;
  else
    return t.i;
}

template <typename F> void dispatchClass(plan::DType type, F &&f) {
  switch (valueClass(type)) {
  case ValueClass::F32:
    return f(float());
  case ValueClass::F64:
    return f(double());
  case ValueClass::I64:
    return f(int64_t());
  }
}

/// Loads elements from memory as values.
void load(plan::DType type, const void *data, const int64_t *at, int64_t n, Tile &out) {
  auto run = [&](auto element, auto *to, auto read) {
    const auto *from = static_cast<const decltype(element) *>(data);
    for (int64_t i = 0; i < n; ++i)
      to[i] = read(from[at[i]]);
  };
  auto asInt = [](auto x) { return int64_t(x); };
  switch (type) {
  case plan::F64:
    return run(double(), out.d, [](double x) { return x; });
  case plan::F16:
    return run(Half(), out.f, [](Half x) { return toFloat(x); });
  case plan::BF16:
    return run(Bfloat16(), out.f, [](Bfloat16 x) { return toFloat(x); });
  case plan::I64:
    return run(int64_t(), out.i, asInt);
  case plan::I32:
    return run(int32_t(), out.i, asInt);
  case plan::I8:
    return run(int8_t(), out.i, asInt);
  case plan::U8:
    return run(uint8_t(), out.i, asInt);
  case plan::BOOL:
    return run(uint8_t(), out.i, [](uint8_t x) { return int64_t(x != 0); });
  default:
    return run(float(), out.f, [](float x) { return x; });
  }
}

/// Stores values in memory: element i goes to data[at[i]].
void store(plan::DType type, void *data, const int64_t *at, int64_t n, const Tile &in) {
  auto run = [&](auto element, const auto *from, auto write) {
    auto *to = static_cast<decltype(element) *>(data);
    for (int64_t i = 0; i < n; ++i)
      to[at[i]] = write(from[i]);
  };
  switch (type) {
  case plan::F64:
    return run(double(), in.d, [](double x) { return x; });
  case plan::F16:
    return run(Half(), in.f, toHalf);
  case plan::BF16:
    return run(Bfloat16(), in.f, toBfloat16);
  case plan::I64:
    return run(int64_t(), in.i, [](int64_t x) { return x; });
  case plan::I32:
    return run(int32_t(), in.i, [](int64_t x) { return int32_t(x); });
  case plan::I8:
    return run(int8_t(), in.i, [](int64_t x) { return int8_t(x); });
  case plan::U8:
    return run(uint8_t(), in.i, [](int64_t x) { return uint8_t(x); });
  case plan::BOOL:
    return run(uint8_t(), in.i, [](int64_t x) { return uint8_t(x != 0); });
  default:
    return run(float(), in.f, [](float x) { return x; });
  }
}

/// An integer of a narrow type wraps when it is computed.
int64_t narrow(plan::DType type, int64_t x) {
  switch (type) {
  case plan::I32:
    return int32_t(x);
  case plan::I8:
    return int8_t(x);
  case plan::U8:
    return uint8_t(x);
  case plan::BOOL:
    return x != 0;
  default:
    return x;
  }
}

/// Applies one operator to values of one class T; comparisons and logic give I64. False if the operator does not take
/// that class.
template <typename F, typename T> bool apply(Tile &ta, Tile &tb, Tile &ty, int64_t n) {
  using Kind = ElementwiseKind;
  constexpr bool ofInts = F::kind == Kind::Logic || F::kind == Kind::LogicUnary || F::kind == Kind::Whole;
  if constexpr (F::kind == Kind::Select || (F::kind == Kind::FloatUnary && scalar::kIsInt<T>) ||
                (ofInts && !scalar::kIsInt<T>)) {
    return false;
  } else {
    using Result = std::conditional_t<F::kind == Kind::Compare, int64_t, T>;
    const T *a = as<T>(ta), *b = as<T>(tb);
    Result *y = as<Result>(ty);
    for (int64_t i = 0; i < n; ++i)
      if constexpr (F::operands == 1)
        y[i] = static_cast<Result>(F::of(a[i]));
      else
        y[i] = static_cast<Result>(F::of(a[i], b[i]));
    return true;
  }
}

template <typename T> bool applyNumber(Op op, Tile &ta, Tile &tb, Tile &ty, int64_t n) {
  switch (op) {
#define TESSERA_ELEMENTWISE(NAME, ...)                                                                                 \
  case Op::NAME:                                                                                                       \
    return apply<scalar::NAME, T>(ta, tb, ty, n);
#include "runtime/support/Elementwise.def"
  default:
    return false;
  }
}

/// The initial value of a reduction. An empty maximum is the lowest number.
template <typename T> T neutral(plan::Reduction r) {
  using L = std::numeric_limits<T>;
  if (r == plan::SUM)
    return 0;
  if constexpr (scalar::kIsInt<T>)
    return r == plan::MAX ? L::min() : L::max();
  else
    return r == plan::MAX ? -L::infinity() : L::infinity();
}
template <typename T> T combine(plan::Reduction r, T a, T b) {
  return r == plan::SUM ? scalar::Add::of(a, b) : r == plan::MAX ? scalar::Max::of(a, b) : scalar::Min::of(a, b);
}

class ReferenceExpression final : public BoundKernel {
public:
  ReferenceExpression(ExpressionCode code, const KernelCall &call, FloatFunctions functions)
      : e_(std::move(code)), inputs_(call.inputs), outputs_(call.outputs), exact_(call.exact && !call.widen),
        functions_(functions) {
    for (const ExpressionInput &in : e_.inputs)
      inputStrides_.push_back(broadcastStrides(in.view, e_.domain.size()));
    for (const ExpressionResult &r : e_.results)
      resultStrides_.push_back(broadcastStrides(r.view, e_.domain.size()));
    for (const ExpressionResult &r : e_.results)
      termStrides_.push_back(call.exact && r.reduction == plan::SUM ? termStrides(e_.domain, r.view) : Shape());
    domainStrides_ = rowMajorStrides(e_.domain);
  }

  std::string describe() const override { return functions_ ? "plain loops" : "reference"; }

  Status run(std::byte *) override {
    std::vector<Tile> values(e_.valueCount());
    // F32 is reduced in F64.
    std::vector<std::vector<double>> floatSums(e_.results.size());
    std::vector<std::vector<int64_t>> intSums(e_.results.size());
    for (size_t r = 0; r < e_.results.size(); ++r)
      if (plan::Reduction kind = e_.results[r].reduction; kind != plan::NONE) {
        size_t n = size_t(elementCount(e_.results[r].view));
        if (valueClass(e_.results[r].type) == ValueClass::I64)
          intSums[r].assign(n, neutral<int64_t>(kind));
        else
          floatSums[r].assign(isOrdered(r) ? n * kOrdered : n, neutral<double>(kind));
      }
    int64_t total = elementCount(e_.domain);
    std::vector<int64_t> at(kTile), terms(kTile);
    for (int64_t begin = 0; begin < total; begin += kTile) {
      int64_t n = std::min(kTile, total - begin);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        addresses(inputStrides_[i], begin, n, at);
        load(inputs_[i].dtype, inputs_[i].data, at.data(), n, values[i]);
      }
      for (size_t c = 0; c < e_.code.size(); ++c)
        evaluate(e_.code[c], values, values[inputs_.size() + c], begin, n, at);
      for (size_t r = 0; r < e_.results.size(); ++r) {
        const ExpressionResult &result = e_.results[r];
        addresses(resultStrides_[r], begin, n, at);
        if (isOrdered(r))
          addresses(termStrides_[r], begin, n, terms);
        Tile &v = values[result.value];
        if (result.reduction == plan::NONE)
          store(result.type, outputs_[r].data, at.data(), n, v);
        else
          dispatchClass(e_.typeOf(result.value), [&](auto tag) {
            const auto *x = as<decltype(tag)>(v);
            for (int64_t i = 0; i < n; ++i) {
              size_t j = size_t(at[size_t(i)]);
              if constexpr (!scalar::kIsInt<decltype(tag)>)
                if (isOrdered(r)) {
                  addInOrder(&floatSums[r][j * kOrdered], x[i], terms[size_t(i)]);
                  continue;
                }
              if constexpr (scalar::kIsInt<decltype(tag)>)
                intSums[r][j] = combine(result.reduction, intSums[r][j], x[i]);
              else
                floatSums[r][j] = combine(result.reduction, floatSums[r][j], double(x[i]));
            }
          });
      }
    }
    // Results are written last, since a reduction may overwrite an input.
    for (size_t r = 0; r < e_.results.size(); ++r)
      if (e_.results[r].reduction != plan::NONE) {
        if (isOrdered(r))
          dispatchClass(e_.typeOf(e_.results[r].value), [&](auto tag) { endSums<decltype(tag)>(floatSums[r]); });
        storeSums(r, floatSums[r], intSums[r]);
      }
    return Status();
  }

private:
  /// Whether the terms of a sum have an order (kPartialSums).
  bool isOrdered(size_t r) const {
    return !termStrides_[r].empty() && valueClass(e_.results[r].type) != ValueClass::I64;
  }

  // Of an ordered sum: the partial sums of a block, which are of type T, and the sum of all blocks before.
  static constexpr size_t kOrdered = size_t(kPartialSums) + 1;
  template <typename T> static void addInOrder(double *sums, T x, int64_t term) {
    double &partial = sums[term % kPartialSums];
    partial = double(T(T(partial) + x));
    if ((term + 1) % kTermsOfBlock == 0)
      endBlock<T>(sums);
  }
  template <typename T> static void endBlock(double *sums) {
    sums[kPartialSums] += double(sumOfPartials(T(sums[0]), T(sums[1]), T(sums[2]), T(sums[3])));
    std::fill_n(sums, kPartialSums, 0.0);
  }
  template <typename T> static void endSums(std::vector<double> &sums) {
    const size_t n = sums.size() / kOrdered;
    for (size_t i = 0; i < n; ++i) {
      endBlock<T>(&sums[i * kOrdered]);
      sums[i] = sums[i * kOrdered + size_t(kPartialSums)];
    }
    sums.resize(n);
  }

  /// at[i] = address of the domain's point begin + i under `strides`.
  void addresses(const Shape &strides, int64_t begin, int64_t n, std::vector<int64_t> &at) const {
    if (strides == domainStrides_) {
      for (int64_t i = 0; i < n; ++i)
        at[size_t(i)] = begin + i;
      return;
    }
    Shape index(e_.domain.size());
    int64_t rest = begin, address = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] = rest / domainStrides_[d];
      rest %= domainStrides_[d];
      address += index[d] * strides[d];
    }
    for (int64_t i = 0; i < n; ++i) {
      at[size_t(i)] = address;
      for (size_t d = index.size(); d-- > 0;) {
        address += strides[d];
        if (++index[d] < e_.domain[d])
          break;
        address -= index[d] * strides[d];
        index[d] = 0;
      }
    }
  }

  void evaluate(const Instr &instr, std::vector<Tile> &values, Tile &y, int64_t begin, int64_t n,
                std::vector<int64_t> &at) const {
    Tile &a = values[instr.operands[0]], &b = values[instr.operands[1]], &c = values[instr.operands[2]];
    switch (instr.op) {
    case Op::Cast:
      dispatchClass(e_.typeOf(instr.operands[0]), [&](auto from) {
        dispatchClass(instr.type, [&](auto to) {
          const auto *x = as<decltype(from)>(a);
          auto *r = as<decltype(to)>(y);
          for (int64_t i = 0; i < n; ++i)
            r[i] = instr.type == plan::BOOL ? decltype(to)(x[i] != 0) : scalar::convert<decltype(to)>(x[i]);
        });
      });
      break;
    case Op::Select:
      dispatchClass(instr.type, [&](auto tag) {
        const auto *p = as<decltype(tag)>(b), *q = as<decltype(tag)>(c);
        auto *r = as<decltype(tag)>(y);
        for (int64_t i = 0; i < n; ++i)
          r[i] = a.i[i] ? p[i] : q[i];
      });
      break;
    case Op::Constant:
      dispatchClass(instr.type, [&](auto tag) {
        auto value = scalar::convert<decltype(tag)>(instr.immediate);
        std::fill_n(as<decltype(tag)>(y), n, value);
      });
      break;
    case Op::Iota:
      dispatchClass(instr.type, [&](auto tag) {
        auto *r = as<decltype(tag)>(y);
        for (int64_t i = 0; i < n; ++i)
          r[i] = static_cast<decltype(tag)>(
              scalar::Add::of(instr.start, (begin + i) / domainStrides_[instr.dim] % e_.domain[instr.dim]));
      });
      break;
    case Op::Random: {
      addresses(instr.globalStrides, begin, n, at);
      uint64_t key = philoxKey(instr.seed, instr.stream);
      dispatchClass(instr.type, [&](auto tag) {
        auto *r = as<decltype(tag)>(y);
        for (int64_t i = 0; i < n; ++i)
          r[i] =
              static_cast<decltype(tag)>(uniform(key, uint64_t(instr.globalOffset + at[size_t(i)]), uint64_t(a.i[i])));
      });
      break;
    }
    default:
      if (functions_ && valueClass(e_.typeOf(instr.operands[0])) == ValueClass::F32 &&
          functions_(instr.op, a.f, b.f, y.f, n))
        break;
      dispatchClass(e_.typeOf(instr.operands[0]), [&](auto tag) { applyNumber<decltype(tag)>(instr.op, a, b, y, n); });
    }
    if (exact_ || instr.rounds) { // a value that stays in the loop is what memory would hold
      if (instr.type == plan::BF16)
        for (int64_t i = 0; i < n; ++i)
          y.f[i] = toFloat(toBfloat16(y.f[i]));
      if (instr.type == plan::F16)
        for (int64_t i = 0; i < n; ++i)
          y.f[i] = toFloat(toHalf(y.f[i]));
    }
    if (valueClass(instr.type) == ValueClass::I64 && instr.type != plan::I64)
      for (int64_t i = 0; i < n; ++i)
        y.i[i] = narrow(instr.type, y.i[i]);
  }

  void storeSums(size_t r, const std::vector<double> &floats, const std::vector<int64_t> &ints) {
    int64_t count = elementCount(e_.results[r].view);
    std::vector<int64_t> at(kTile);
    Tile t;
    for (int64_t begin = 0; begin < count; begin += kTile) {
      int64_t n = std::min(kTile, count - begin);
      dispatchClass(e_.results[r].type, [&](auto tag) {
        for (int64_t i = 0; i < n; ++i) {
          size_t j = size_t(begin + i);
          at[size_t(i)] = begin + i;
          as<decltype(tag)>(t)[i] = static_cast<decltype(tag)>(
              scalar::kIsInt<decltype(tag)> ? static_cast<decltype(tag)>(ints.empty() ? 0 : ints[j])
                                            : static_cast<decltype(tag)>(floats.empty() ? 0 : floats[j]));
        }
      });
      store(e_.results[r].type, outputs_[r].data, at.data(), n, t);
    }
  }

  ExpressionCode e_;
  std::vector<TensorView> inputs_, outputs_;
  bool exact_;
  FloatFunctions functions_;
  std::vector<Shape> inputStrides_, resultStrides_, termStrides_;
  Shape domainStrides_;
};

BindResult bindExpression(const KernelCall &call) { return bindReferenceExpression(call, nullptr); }

} // namespace

BindResult bindReferenceExpression(const KernelCall &call, FloatFunctions functions) {
  Result<ExpressionCode> code = lowerExpression(call);
  if (!code)
    return code.status();
  return BindResult(std::make_unique<ReferenceExpression>(std::move(*code), call, functions));
}

void registerReferenceExpressions(KernelRegistry &registry) {
  for (const std::string &name : expressionKernelNames())
    registry.add(name, {"reference", acceptsPlain, bindExpression});
}

} // namespace tessera::rt
