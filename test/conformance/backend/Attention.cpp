// Attention and its gradient: 1e-5, exponentials in F32. With operands of 16 bits 3e-5: a device multiplies
// probabilities of which it keeps 16 bits. Where results are stored in 16 bits, a device's library may round
// probabilities and what is made of them to the operands' type: as is the result they are half a last digit away, and
// 4 such roundings are allowed.
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct AttentionShape {
  Shape batch;
  int64_t heads, group, rows, keys, depth, width;
  bool rowsFirst;
  Shape tensor(int64_t h, int64_t r, int64_t d) const {
    Shape s = batch;
    s.insert(s.end(), {rowsFirst ? r : h, rowsFirst ? h : r, d});
    return s;
  }
};

/// `type`: of q, k, v and dy. Of 16 bits, the bias is F32 nevertheless, and so are the results if they are `wide`.
void checkAttention(Random &random, const AttentionShape &s, Attributes a, const Shape *bias,
                    plan::DType type = plan::F32, bool wide = true) {
  a["rows_first"] = int64_t(s.rowsFirst);
  if (type != plan::F32)
    a["wide"] = int64_t(1); // the bias may be F32
  Shape q = s.tensor(s.heads * s.group, s.rows, s.depth), k = s.tensor(s.heads, s.keys, s.depth);
  Shape v = s.tensor(s.heads, s.keys, s.width), y = s.tensor(s.heads * s.group, s.rows, s.width);
  for (bool grad : {false, true}) {
    Case c;
    c.tolerance = type == plan::F32 ? 1e-5 : wide ? 3e-5 : 4 * (type == plan::BF16 ? 0x1p-9 : 0x1p-12);
    c.what = std::string(grad ? "attention_grad" : "attention") + " q " + str(q) + " k " + str(k) + " v " + str(v) +
             (bias ? " bias " + str(*bias) : "") + (s.rowsFirst ? " rows first" : "");
    std::vector<uint32_t> in, out;
    for (const Shape &shape : grad ? std::vector<Shape>{y, q, k, v} : std::vector<Shape>{q, k, v})
      in.push_back(c.input(random, type, shape));
    if (bias)
      in.push_back(c.input(random, plan::F32, *bias));
    for (const Shape &shape : grad ? std::vector<Shape>{q, k, v} : std::vector<Shape>{y})
      out.push_back(c.output(wide ? plan::F32 : type, shape));
    c.plan.kernel(grad ? "attention_grad" : "attention", in, out, a);
    check(c);
  }
}

void checkRandomShapes(Random &random, int count, plan::DType type) {
  for (int i = 0; i < count; ++i) {
    AttentionShape s;
    for (int64_t d = random.integer(0, 2); d > 0; --d)
      s.batch.push_back(random.integer(1, 3));
    s.heads = random.integer(1, 3);
    s.group = random.pick<int64_t>({1, 1, 2, 3});
    s.rows = random.pick<int64_t>({1, 2, 5, 17, 40});
    s.keys = random.pick<int64_t>({1, 3, 16, 33, 70});
    s.depth = random.pick<int64_t>({1, 3, 8, 20});
    s.width = random.pick<int64_t>({1, 4, 16});
    s.rowsFirst = random.coin();
    Attributes a = {{"scale", random.pick<double>({0.25, 1, 3})}};
    if (random.coin()) {
      a["causal"] = int64_t(1);
      // Scores lie far outside, so that probabilities are 0, or less far.
      a["outside"] = random.pick<double>({-std::numeric_limits<double>::infinity(), -1e9, -1e4, -2, 0.5});
      a["start"] = random.pick<int64_t>({0, 0, 1, -1, s.keys - s.rows, 100});
      // A row without any allowed score is NaN with -inf. With finite numbers far outside, F32 has no digits left for a
      // bias.
      if (std::get<int64_t>(a["start"]) < 0)
        a["outside"] = -2.0;
    }
    Shape bias = s.batch;
    bias.insert(bias.end(), {s.heads * s.group, s.rows, s.keys});
    for (int64_t &extent : bias)
      if (random.integer(0, 2) == 0)
        extent = 1;
    bias.erase(bias.begin(), bias.begin() + random.integer(0, int64_t(bias.size()) - 1));
    checkAttention(random, s, a, random.coin() ? &bias : nullptr, type);
  }
}

} // namespace

TEST_CASE("attention of random shapes", "[conformance]") {
  Random random(21);
  checkRandomShapes(random, 40, plan::F32);
}

TEST_CASE("attention of 16 bits", "[conformance]") {
  Random random(23);
  for (const plan::DType type : {plan::BF16, plan::F16}) {
    checkRandomShapes(random, 12, type);
    // Whole tiles of a device's tensor cores, and rows that they do not fill.
    const Attributes causal = {{"scale", 0.125}, {"causal", int64_t(1)}, {"outside", -1e9}};
    checkAttention(random, {{2}, 2, 1, 128, 128, 64, 64, true}, causal, nullptr, type);
    checkAttention(random, {{1}, 1, 2, 100, 70, 40, 136, false}, {{"scale", 0.25}}, nullptr, type);
    const Shape mask = {2, 1, 1, 130};
    checkAttention(random, {{2}, 1, 1, 65, 130, 24, 16, true}, {{"scale", 0.125}}, &mask, type);
  }
}

TEST_CASE("attention that is stored in 16 bits", "[conformance]") {
  Random random(24);
  const Attributes plain = {{"scale", 0.125}},
                   causal = {{"scale", 0.125}, {"causal", int64_t(1)}, {"outside", -1e9}, {"start", int64_t(0)}};
  for (const plan::DType type : {plan::BF16, plan::F16})
    for (const bool rowsFirst : {false, true}) {
      checkAttention(random, {{2}, 2, 1, 128, 128, 64, 64, rowsFirst}, causal, nullptr, type, false);
      checkAttention(random, {{2}, 2, 1, 128, 128, 32, 24, rowsFirst}, plain, nullptr, type, false);
      // Heads that share keys, rows and keys that fill no tile, several dimensions of batches.
      checkAttention(random, {{2, 2}, 2, 3, 50, 70, 16, 8, rowsFirst}, plain, nullptr, type, false);
      checkAttention(random, {{2}, 1, 2, 100, 40, 16, 16, rowsFirst}, causal, nullptr, type, false);
      // A row for each batch that leaves keys out, and a bias of everything.
      const Shape mask = {2, 1, 1, 130}, every = {2, 2, 3, 33, 40}, heads = {3, 1, 40};
      checkAttention(random, {{2}, 1, 1, 65, 130, 24, 16, rowsFirst}, plain, &mask, type, false);
      checkAttention(random, {{2, 2}, 3, 1, 33, 40, 16, 16, rowsFirst}, plain, &every, type, false);
      checkAttention(random, {{2, 2}, 3, 1, 33, 40, 16, 16, rowsFirst}, plain, &heads, type, false);
      // What a library cannot say.
      Attributes shifted = causal, near = causal;
      shifted["start"] = int64_t(7);
      near["outside"] = -2.0;
      checkAttention(random, {{2}, 2, 1, 33, 40, 16, 16, rowsFirst}, shifted, nullptr, type, false);
      checkAttention(random, {{2}, 2, 1, 33, 40, 16, 16, rowsFirst}, near, nullptr, type, false);
      checkAttention(random, {{2}, 2, 1, 33, 33, 12, 20, rowsFirst}, causal, nullptr, type, false);
    }
}

TEST_CASE("attention of transformers", "[conformance]") {
  Random random(22);
  Attributes causal = {{"scale", 0.125}, {"causal", int64_t(1)}, {"outside", -1e4}};
  Shape mask = {2, 1, 1, 128};
  checkAttention(random, {{2}, 3, 1, 128, 128, 64, 64, true}, {{"scale", 0.125}}, &mask);
  checkAttention(random, {{2}, 2, 2, 300, 300, 64, 64, false}, causal, nullptr);
  // There are more keys than a block with the most rows holds.
  checkAttention(random, {{1}, 1, 1, 40, 3000, 16, 16, true}, causal, nullptr);
  checkAttention(random, {{}, 1, 1, 200, 1500, 16, 16, true}, {{"scale", 0.25}}, nullptr);
}
