// Attention and its gradient: 1e-5, exponentials in F32. With operands of 16 bits 3e-5: a device multiplies
// probabilities of which it keeps 16 bits. Where results are stored in 16 bits, a device's library may round
// probabilities and what is made of them to the operands' type: as is the result they are half a last digit away, and
// 4 such roundings are allowed.
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <limits>
#include <tuple>

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

/// Attention, or its gradient. With `kept` it keeps statistics, or reads them and y: what the reference makes.
struct AttentionCase : Case {
  AttentionCase(const AttentionShape &s, Attributes a, plan::DType type, bool wide)
      : s_(s), attributes_(std::move(a)), type_(type), wide_(wide) {
    attributes_["rows_first"] = int64_t(s.rowsFirst);
    if (type != plan::F32)
      attributes_["wide"] = int64_t(1); // the bias may be F32
    tolerance = type == plan::F32 ? 1e-5 : wide ? 3e-5 : 4 * (type == plan::BF16 ? 0x1p-9 : 0x1p-12);
  }
  Shape q() const { return s_.tensor(s_.heads * s_.group, s_.rows, s_.depth); }
  Shape k() const { return s_.tensor(s_.heads, s_.keys, s_.depth); }
  Shape v() const { return s_.tensor(s_.heads, s_.keys, s_.width); }
  Shape y() const { return s_.tensor(s_.heads * s_.group, s_.rows, s_.width); }
  Shape scores() const {
    Shape scores = lines();
    scores.push_back(s_.keys);
    return scores;
  }
  Shape lines() const {
    Shape lines = s_.batch;
    lines.insert(lines.end(), {s_.heads * s_.group, s_.rows});
    return lines;
  }

  /// `operands`: q, k, v, perhaps a bias, and perhaps what dropout keeps.
  void forward(const std::vector<uint32_t> &operands, bool kept) {
    std::vector<uint32_t> results = {output(wide_ ? plan::F32 : type_, y())};
    if (kept)
      results.push_back(output(plan::F32, lines()));
    plan.kernel("attention", operands, results, attributes_);
  }
  void backward(uint32_t dy, std::vector<uint32_t> operands, bool kept) {
    if (kept) {
      AttentionCase before(s_, attributes_, type_, wide_);
      std::vector<uint32_t> copies;
      for (size_t i = 0; i < operands.size(); ++i) {
        if (i > 0 && operands[i] == operands[0]) {
          copies.push_back(copies[0]);
          continue;
        }
        copies.push_back(before.plan.buffer(plan.plan().buffers(int(operands[i])).dtype(), plan.shapeOf(operands[i])));
        before.inputs[copies.back()] = inputs[operands[i]];
      }
      before.forward(copies, true);
      LoadOptions wide;
      wide.widen = true;
      const std::vector<Values> made = before.plan.run("reference", before.inputs, before.wanted, wide);
      const uint32_t found = plan.buffer(type_, y()), statistics = plan.buffer(plan::F32, lines());
      inputs[found] = made[0];
      for (double x : made[1])
        inputs[statistics].push_back(double(float(x)));
      operands.insert(operands.begin() + 3, {found, statistics});
    }
    operands.insert(operands.begin(), dy);
    std::vector<uint32_t> results;
    for (const Shape &shape : {q(), k(), v()})
      results.push_back(output(wide_ ? plan::F32 : type_, shape));
    plan.kernel("attention_grad", operands, results, attributes_);
  }

private:
  const AttentionShape s_;
  Attributes attributes_;
  const plan::DType type_;
  const bool wide_;
};

/// `type`: of q, k, v and dy. Of 16 bits, the bias is F32 nevertheless, and so are the results if they are `wide`. With
/// dropout, what is kept is `keep` of that type or of BOOL.
void checkAttention(Random &random, const AttentionShape &s, Attributes a, const Shape *bias,
                    plan::DType type = plan::F32, bool wide = true, plan::DType keep = plan::BOOL) {
  const bool dropout = a.contains("keep_scale");
  for (const bool grad : {false, true})
    for (const bool kept : {false, true}) {
      if (grad && dropout && !kept)
        continue; // no plan has it
      AttentionCase c(s, a, type, wide);
      c.what = std::string(grad ? "attention_grad" : "attention") + " q " + str(c.q()) + " k " + str(c.k()) + " v " +
               str(c.v()) + (bias ? " bias " + str(*bias) : "") + (s.rowsFirst ? " rows first" : "") +
               (dropout ? " keeps " + dtypeName(keep) : "") + (kept ? " with statistics" : "");
      std::vector<uint32_t> operands;
      for (const Shape &shape : {c.q(), c.k(), c.v()})
        operands.push_back(c.input(random, type, shape));
      if (bias)
        operands.push_back(c.input(random, plan::F32, *bias));
      if (dropout) {
        operands.push_back(c.input(random, keep, c.scores()));
        c.inputs[operands.back()] = random.integers(elementCount(c.scores()), 0, 1);
      }
      if (grad)
        c.backward(c.input(random, type, c.y()), operands, kept);
      else
        c.forward(operands, kept);
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

TEST_CASE("attention with dropout", "[conformance]") {
  Random random(28);
  const Attributes plain = {{"scale", 0.125}, {"keep_scale", 1 / 0.9}};
  Attributes causal = plain;
  causal.insert({{"causal", int64_t(1)}, {"outside", -1e9}, {"start", int64_t(0)}});
  const Shape mask = {2, 1, 1, 70};
  bool rowsFirst = false;
  for (const auto &[type, keep, wide] :
       {std::tuple(plan::F32, plan::BOOL, true), std::tuple(plan::F32, plan::F32, true),
        std::tuple(plan::BF16, plan::BF16, false), std::tuple(plan::BF16, plan::BOOL, true),
        std::tuple(plan::BF16, plan::BOOL, false), std::tuple(plan::F16, plan::F16, false),
        std::tuple(plan::F16, plan::BOOL, false)}) {
    rowsFirst = !rowsFirst;
    checkAttention(random, {{2}, 2, 1, 128, 128, 64, 64, rowsFirst}, causal, nullptr, type, wide, keep);
    // Heads that share keys, rows and keys that fill no tile, a bias.
    checkAttention(random, {{2}, 2, 3, 50, 70, 16, 8, rowsFirst}, plain, &mask, type, wide, keep);
    checkAttention(random, {{3, 1}, 1, 1, 5, 17, 12, 20, rowsFirst}, causal, nullptr, type, wide, keep);
  }
}

TEST_CASE("attention of parts of larger tensors", "[conformance]") {
  Random random(26);
  for (const plan::DType type : {plan::F32, plan::BF16})
    for (const bool rowsFirst : {false, true})
      for (const bool columns : {false, true})
        for (const bool grad : {false, true}) {
          // 3 batches, 4 heads of queries for 2 of keys, 33 rows, 16 columns, side by side as columns or as heads.
          const AttentionShape s = {{3}, 2, columns ? 1 : 2, 33, 33, 16, 16, rowsFirst};
          const int64_t heads = s.heads * s.group;
          AttentionCase c(s,
                          {{"scale", 0.25},
                           {"causal", int64_t(1)},
                           {"outside", -1e9},
                           {"start", int64_t(0)},
                           {"operand_parts", columns ? Shape{0, 2, 0, 16, 0, 2, 16, 16, 0, 2, 32, 16}
                                                     : Shape{0, heads, 0, 16, heads, 2, 0, 16, heads + 2, 2, 0, 16}}},
                          type, false);
          c.what = std::string(grad ? "attention_grad" : "attention") + " of parts" +
                   (rowsFirst ? ", rows first" : "") + (columns ? ", columns" : ", heads");
          const uint32_t x = c.input(random, type, s.tensor(columns ? 2 : heads + 4, 33, columns ? 48 : 16));
          if (grad)
            c.backward(c.input(random, type, c.y()), {x, x, x}, true);
          else
            c.forward({x, x, x}, true);
          check(c);
        }
}

TEST_CASE("causal masks to which a bias is added", "[conformance]") {
  // Several tiles lie beyond the diagonal. The bias lifts the masked scores of some keys, so that these count and the
  // others do not.
  Random random(27);
  for (const plan::DType type : {plan::F32, plan::BF16})
    for (const bool rowsFirst : {false, true})
      for (const double outside : {-1e9, -200.0})
        for (const bool grad : {false, true}) {
          const AttentionShape s = {{2}, 2, 1, 100, 300, 16, 16, rowsFirst};
          AttentionCase c(s, {{"scale", 0.25}, {"causal", int64_t(1)}, {"outside", outside}, {"start", int64_t(0)}},
                          type, true);
          c.what = std::string(grad ? "attention_grad" : "attention") + " with a lifted mask" +
                   (rowsFirst ? ", rows first" : "");
          std::vector<uint32_t> operands;
          for (const Shape &shape : {c.q(), c.k(), c.v()})
            operands.push_back(c.input(random, type, shape));
          operands.push_back(c.input(random, plan::F32, {2, 1, 1, 300}));
          for (size_t i = 0; i < 600 && outside == -200; ++i)
            c.inputs[operands.back()][i] += i % 300 >= 220 && i % 300 < 230 ? 198 : 0;
          if (grad)
            c.backward(c.input(random, type, c.y()), operands, true);
          else
            c.forward(operands, true);
          check(c);
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

TEST_CASE("the gradient of rows that see masked keys alone", "[conformance]") {
  // F32 holds these scores, but not the logarithms of their sums.
  Random random(25);
  for (const bool rowsFirst : {false, true})
    for (const int64_t rows : {3, 40}) {
      const AttentionShape s = {{2}, 2, 2, rows, 33, 8, 8, rowsFirst};
      AttentionCase c(s, {{"scale", 0.5}}, plan::F32, true);
      c.what = "masked rows";
      std::vector<uint32_t> operands;
      for (const Shape &shape : {c.q(), c.k(), c.v()}) {
        operands.push_back(c.input(random, plan::F32, shape));
        c.inputs[operands.back()] = random.integers(elementCount(shape), -1, 1);
      }
      operands.push_back(c.input(random, plan::F32, {rows, 1}));
      for (int64_t row = 0; row < rows; ++row)
        c.inputs[operands.back()][size_t(row)] = row % 3 == 1 ? -4096 : 0;
      c.backward(c.input(random, plan::F32, c.y()), operands, true);
      check(c);
    }
}
