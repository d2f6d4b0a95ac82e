//===- InterpreterElementwise.cpp - one value from one value of each operand ---------------------===//
#include "runtime/support/Scalar.h"
#include "test/support/InterpreterDetail.h"

#include <array>
#include <cmath>

using namespace mlir;

namespace tessera::test::detail {

template <typename Fn> static void unary(Call &c, Fn fn) {
  for (size_t i = 0; i < c.out[0].data.size(); ++i)
    c.out[0].data[i] = fn(c.in[0]->data[i]);
}

/// The operators of Elementwise.def. Integers are held in doubles.
static void elementwise(Call &c) {
  const rt::ElementwiseFunction &f = *rt::elementwiseFunction(std::string_view(c.op->getName().stripDialect()));
  bool whole = c.integerOperand(f.kind == rt::ElementwiseKind::Select ? 1 : 0);
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    double x[3] = {};
    for (int o = 0; o < f.operands; ++o)
      x[o] = broadcastAt(*c.in[size_t(o)], index);
    c.out[0].data[i++] =
        whole ? double(f.whole(int64_t(x[0]), int64_t(x[1]), int64_t(x[2]))) : f.real(x[0], x[1], x[2]);
  });
}

static void castTo(Call &c) {
  auto type = dyn_cast<IntegerType>(c.resultElement());
  unary(c, [&](double x) {
    if (!type)
      return x;
    return type.getWidth() == 1 ? double(x != 0) : std::trunc(x);
  });
}

static void iota(Call &c) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    c.out[0].data[i++] = double(c.integer("start") + index[size_t(c.integer("dim"))]);
  });
}

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
static std::array<uint32_t, 4> philox(uint64_t counterLow, uint64_t counterHigh, uint32_t key0, uint32_t key1) {
  std::array<uint32_t, 4> x = {uint32_t(counterLow), uint32_t(counterLow >> 32), uint32_t(counterHigh),
                               uint32_t(counterHigh >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * x[0], b = uint64_t(0xCD9E8D57) * x[2];
    x = {uint32_t(b >> 32) ^ x[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key1, uint32_t(a)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
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
    auto element = uint64_t(offset(shape, global));
    uint32_t word = philox(element / 4, step, uint32_t(seed), uint32_t(seed >> 32) ^ uint32_t(stream))[element % 4];
    c.out[0].data[i++] = double(word >> 8) * 0x1p-24;
  });
}

void addElementwise(Table &t) {
  for (const rt::ElementwiseFunction &f : rt::elementwiseFunctions())
    t[std::string(f.name)] = elementwise;
  t["cast"] = castTo;
  t["iota"] = iota;
  t["random"] = random;
}

} // namespace tessera::test::detail
