//===- InterpreterElementwise.cpp - one value from one value of each operand ---------------------===//
#include "test/support/InterpreterDetail.h"

#include <cmath>

using namespace mlir;

namespace tessera::test::detail {

template <typename Fn> static void unary(Call &c, Fn fn) {
  for (size_t i = 0; i < c.out[0].data.size(); ++i)
    c.out[0].data[i] = fn(c.in[0]->data[i]);
}

template <typename Fn> static void binary(Call &c, Fn fn) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    c.out[0].data[i++] = fn(broadcastAt(*c.in[0], index), broadcastAt(*c.in[1], index));
  });
}

static double extremum(double a, double b, bool larger) {
  if (std::isnan(a) || std::isnan(b))
    return std::nan("");
  return larger == (a > b) ? a : b;
}

static void castTo(Call &c) {
  auto type = dyn_cast<IntegerType>(c.resultElement());
  unary(c, [&](double x) {
    if (!type)
      return x;
    return type.getWidth() == 1 ? double(x != 0) : std::trunc(x);
  });
}

static void divide(Call &c) {
  bool integers = c.integerOperand(0);
  binary(c, [=](double a, double b) { return integers ? std::trunc(a / b) : a / b; });
}

static void select(Call &c) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    bool cond = broadcastAt(*c.in[0], index) != 0;
    c.out[0].data[i++] = broadcastAt(*c.in[cond ? 1 : 2], index);
  });
}

static void iota(Call &c) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    c.out[0].data[i++] = double(c.integer("start") + index[size_t(c.integer("dim"))]);
  });
}

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): first
// word.
static uint32_t philox(uint64_t counterLow, uint64_t counterHigh, uint32_t key0, uint32_t key1) {
  uint32_t x[4] = {uint32_t(counterLow), uint32_t(counterLow >> 32), uint32_t(counterHigh),
                   uint32_t(counterHigh >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * x[0], b = uint64_t(0xCD9E8D57) * x[2];
    uint32_t next[4] = {uint32_t(b >> 32) ^ x[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key1, uint32_t(a)};
    std::copy(next, next + 4, x);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x[0];
}

static void random(Call &c) {
  auto seed = uint64_t(c.integer("seed")), stream = uint64_t(c.integer("stream"));
  SmallVector<int64_t> shape = c.list("global_shape"), from = c.list("offset");
  if (shape.empty())
    shape.assign(c.out[0].shape.begin(), c.out[0].shape.end());
  from.resize(shape.size(), 0);
  auto step = uint64_t(int64_t(c.in[0]->data[0]));
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> global(index);
    for (size_t d = 0; d < global.size(); ++d)
      global[d] += from[d];
    uint32_t word =
        philox(uint64_t(offset(shape, global)), step, uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(stream));
    c.out[0].data[i++] = double(word >> 8) * 0x1p-24;
  });
}

void addElementwise(Table &t) {
  t["neg"] = [](Call &c) { unary(c, [](double x) { return -x; }); };
  t["abs"] = [](Call &c) { unary(c, [](double x) { return std::fabs(x); }); };
  t["sign"] = [](Call &c) { unary(c, [](double x) { return double(x > 0) - double(x < 0); }); };
  t["exp"] = [](Call &c) { unary(c, [](double x) { return std::exp(x); }); };
  t["expm1"] = [](Call &c) { unary(c, [](double x) { return std::expm1(x); }); };
  t["log"] = [](Call &c) { unary(c, [](double x) { return std::log(x); }); };
  t["log1p"] = [](Call &c) { unary(c, [](double x) { return std::log1p(x); }); };
  t["sqrt"] = [](Call &c) { unary(c, [](double x) { return std::sqrt(x); }); };
  t["rsqrt"] = [](Call &c) { unary(c, [](double x) { return 1 / std::sqrt(x); }); };
  t["reciprocal"] = [](Call &c) { unary(c, [](double x) { return 1 / x; }); };
  t["tanh"] = [](Call &c) { unary(c, [](double x) { return std::tanh(x); }); };
  t["sigmoid"] = [](Call &c) { unary(c, [](double x) { return 1 / (1 + std::exp(-x)); }); };
  t["atan"] = [](Call &c) { unary(c, [](double x) { return std::atan(x); }); };
  t["erf"] = [](Call &c) { unary(c, [](double x) { return std::erf(x); }); };
  t["sin"] = [](Call &c) { unary(c, [](double x) { return std::sin(x); }); };
  t["cos"] = [](Call &c) { unary(c, [](double x) { return std::cos(x); }); };
  t["relu"] = [](Call &c) { unary(c, [](double x) { return x < 0 ? 0.0 : x; }); };
  t["floor"] = [](Call &c) { unary(c, [](double x) { return std::floor(x); }); };
  t["ceil"] = [](Call &c) { unary(c, [](double x) { return std::ceil(x); }); };
  t["round"] = [](Call &c) { unary(c, [](double x) { return std::nearbyint(x); }); };
  t["not"] = [](Call &c) { unary(c, [](double x) { return double(x == 0); }); };
  t["cast"] = castTo;

  t["add"] = [](Call &c) { binary(c, [](double a, double b) { return a + b; }); };
  t["sub"] = [](Call &c) { binary(c, [](double a, double b) { return a - b; }); };
  t["mul"] = [](Call &c) { binary(c, [](double a, double b) { return a * b; }); };
  t["div"] = divide;
  t["pow"] = [](Call &c) { binary(c, [](double a, double b) { return std::pow(a, b); }); };
  t["max"] = [](Call &c) { binary(c, [](double a, double b) { return extremum(a, b, true); }); };
  t["min"] = [](Call &c) { binary(c, [](double a, double b) { return extremum(a, b, false); }); };
  t["mod"] = [](Call &c) { binary(c, [](double a, double b) { return a - std::floor(a / b) * b; }); };
  t["eq"] = [](Call &c) { binary(c, [](double a, double b) { return double(a == b); }); };
  t["lt"] = [](Call &c) { binary(c, [](double a, double b) { return double(a < b); }); };
  t["le"] = [](Call &c) { binary(c, [](double a, double b) { return double(a <= b); }); };
  t["and"] = [](Call &c) { binary(c, [](double a, double b) { return double(a != 0 && b != 0); }); };
  t["or"] = [](Call &c) { binary(c, [](double a, double b) { return double(a != 0 || b != 0); }); };
  t["xor"] = [](Call &c) { binary(c, [](double a, double b) { return double((a != 0) != (b != 0)); }); };
  t["select"] = select;
  t["iota"] = iota;
  t["random"] = random;
}

} // namespace tessera::test::detail
