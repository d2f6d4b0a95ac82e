// Attention writes its results where the step behind it would put them, and gives the same bits as both apart.

#include "test/unit/device/JoinedProgram.h"
#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

using Places = std::vector<size_t>;

struct Program : JoinedProgram {
  Program() : JoinedProgram(3, {}) {}
};

/// Two batches, 3 heads, 20 rows, 4 elements of q and k and 6 of v to a head.
struct Attention : Program {
  const bool rowsFirst;
  const plan::DType type;
  uint32_t q, k, v;
  explicit Attention(bool rowsFirst, plan::DType type = plan::F32) : rowsFirst(rowsFirst), type(type) {
    q = input(shape(4), type);
    k = input(shape(4), type);
    v = input(shape(6), type);
  }
  Shape shape(int64_t width) const { return rowsFirst ? Shape{2, 20, 3, width} : Shape{2, 3, 20, width}; }
  Attributes attributes() const {
    return {{"scale", 0.5},
            {"causal", int64_t(1)},
            {"outside", -1e9},
            {"start", int64_t(0)},
            {"rows_first", int64_t(rowsFirst)}};
  }
  void forward(uint32_t y) { p.kernel("attention", {q, k, v}, {y}, attributes()); }
  void forward(uint32_t y, uint32_t statistics) { p.kernel("attention", {q, k, v}, {y, statistics}, attributes()); }
  /// dq, dk, dv
  std::vector<uint32_t> backward(const std::vector<uint32_t> &kept = {}) {
    const std::vector<uint32_t> results = {p.buffer(type, shape(4)), p.buffer(type, shape(4)),
                                           p.buffer(type, shape(6))};
    std::vector<uint32_t> operands = {input(shape(6), type), q, k, v};
    operands.insert(operands.end(), kept.begin(), kept.end());
    p.kernel("attention_grad", operands, results, attributes());
    return results;
  }
};

} // namespace

TEST_CASE("attention stores the 16 bits that its only reader wants") {
  for (const bool rowsFirst : {false, true})
    for (const plan::DType type : {plan::BF16, plan::F16}) {
      Attention a(rowsFirst);
      const uint32_t t = a.p.buffer(plan::F32, a.shape(6));
      a.forward(t);
      a.p.kernel("cast", {a.p.alias(t, {120, 6})}, {a.output({120, 6}, type)});
      CHECK(a.places() == Places{1, 1});
    }
}

TEST_CASE("attention that keeps statistics stores 16 bits, too, and its gradient reads both") {
  for (const bool rowsFirst : {false, true}) {
    Attention a(rowsFirst);
    const uint32_t t = a.p.buffer(plan::F32, a.shape(6)), y = a.output(a.shape(6), plan::BF16),
                   statistics = a.output({2, 3, 20});
    a.forward(t, statistics);
    a.p.kernel("cast", {t}, {y});
    CHECK(a.places() == Places{1, 1});
    Attention b(rowsFirst, plan::BF16);
    const uint32_t z = b.output(b.shape(6), plan::BF16), lines = b.output({2, 3, 20});
    b.forward(z, lines);
    const std::vector<uint32_t> d = b.backward({z, lines});
    b.p.kernel("concat", {d[0], d[1], d[2]}, {b.output(b.shape(14), plan::BF16)}, {{"dim", int64_t(3)}});
    CHECK(b.places() == Places{0, 2, 2});
  }
  // Statistics that nobody reads may have given up their memory when the conversion writes.
  Attention c(true);
  const uint32_t t = c.p.buffer(plan::F32, c.shape(6)), y = c.output(c.shape(6), plan::BF16),
                 statistics = c.p.buffer(plan::F32, {2, 3, 20});
  c.forward(t, statistics);
  c.p.kernel("cast", {t}, {y});
  c.move(statistics, y);
  CHECK(c.places() == Places{0, 1});
}

TEST_CASE("attention that somebody else reads, too, or in another way, stays apart") {
  Attention a(true);
  const uint32_t t = a.p.buffer(plan::F32, a.shape(6));
  a.forward(t);
  a.p.kernel("cast", {t}, {a.output(a.shape(6), plan::BF16)});
  a.p.kernel("neg", {t}, {a.output(a.shape(6))});
  CHECK(a.places() == Places{0, 1, 2});
  Attention b(true);
  const uint32_t u = b.p.buffer(plan::F32, b.shape(6));
  b.forward(u);
  b.p.kernel("neg", {u}, {b.output(b.shape(6))});
  CHECK(b.places() == Places{0, 1});
  // What would be written first is still read.
  Attention c(true);
  const uint32_t w = c.p.buffer(plan::F32, c.shape(6));
  c.forward(w);
  const uint32_t y = c.output(c.shape(6), plan::BF16);
  c.p.kernel("cast", {w}, {y});
  c.move(y, c.k);
  CHECK(c.places() == Places{0, 1});
}

TEST_CASE("the gradients of queries, keys and values are written side by side") {
  for (const bool rowsFirst : {false, true})
    for (const std::vector<size_t> &order : {std::vector<size_t>{0, 1, 2}, {2, 0, 1}}) {
      Attention a(rowsFirst);
      const std::vector<uint32_t> d = a.backward();
      a.p.kernel("concat", {d[order[0]], d[order[1]], d[order[2]]}, {a.output(a.shape(14))}, {{"dim", int64_t(3)}});
      CHECK(a.places() == Places{1, 1});
    }
}

TEST_CASE("gradients side by side in other views") {
  // [2, 20, 3, n] as rows of all heads, and whole batches one after the other.
  for (const int64_t dim : {1, 2}) {
    Attention a(true);
    const std::vector<uint32_t> d = a.backward();
    const Shape whole = dim == 2 ? Shape{2, 20, 42} : Shape{2, 20 * 42};
    std::vector<uint32_t> views;
    for (size_t i = 0; i < 3; ++i)
      views.push_back(a.p.alias(d[i], dim == 2 ? Shape{2, 20, i < 2 ? 12 : 18} : Shape{2, 20 * (i < 2 ? 12 : 18)}));
    a.p.kernel("concat", views, {a.output(whole)}, {{"dim", dim}});
    CHECK(a.places() == Places{1, 1});
  }
  // Pieces of a row and a half.
  Attention b(true);
  const std::vector<uint32_t> d = b.backward();
  std::vector<uint32_t> views;
  for (size_t i = 0; i < 3; ++i)
    views.push_back(b.p.alias(d[i], {40, i < 2 ? 12 : 18}));
  b.p.kernel("concat", {b.p.alias(d[0], {80, 6}), b.p.alias(d[1], {80, 6}), b.p.alias(d[2], {80, 9})},
             {b.output({80, 21})}, {{"dim", int64_t(1)}});
  CHECK(b.places() == Places{0, 1});
}

TEST_CASE("attention of 16 bits reads and writes them, in bfloat16 by tensor cores") {
  for (const plan::DType type : {plan::BF16, plan::F16}) {
    Attention a(true, type);
    const std::vector<uint32_t> d = a.backward();
    a.p.kernel("concat", {d[0], d[1], d[2]}, {a.output(a.shape(14), type)}, {{"dim", int64_t(3)}});
    a.forward(a.output(a.shape(6), type));
    CHECK(a.places() == Places{1, 1, 2});
    std::vector<std::string> steps;
    a.p.run("cuda", a.inputs, a.wanted, {}, &steps);
    for (size_t s : {1, 2})
      CHECK((steps[s].find("tensor cores") != std::string::npos) == (type == plan::BF16));
    for (const std::string &step : steps)
      CHECK(step.find("copies") == std::string::npos);
  }
}

TEST_CASE("the library writes the gradients of 16 bits side by side") {
  // In parts of the batch where it refuses the whole (emulator/Library.cpp), and generated where it refuses both.
  struct Sizes {
    int64_t depth, width;
    const char *by;
  };
  for (const auto &[depth, width, by] : {Sizes{24, 8, "cuDNN"}, {24, 24, "cuDNN bf16, a batch"}, {40, 8, "generated"}})
    for (const plan::DType type : {plan::BF16, plan::F16}) {
      Program c;
      auto shape = [](int64_t n) { return Shape{2, 20, 3, n}; };
      const Attributes attributes = {
          {"scale", 0.5}, {"causal", int64_t(1)}, {"outside", -1e9}, {"start", int64_t(0)}, {"rows_first", int64_t(1)}};
      const std::vector<uint32_t> results = {c.p.buffer(type, shape(depth)), c.p.buffer(type, shape(depth)),
                                             c.p.buffer(type, shape(width))};
      const uint32_t q = c.input(shape(depth), type), k = c.input(shape(depth), type), v = c.input(shape(width), type);
      c.p.kernel("attention_grad", {c.input(shape(width), type), q, k, v}, results, attributes);
      c.p.kernel("concat", {results[0], results[1], results[2]}, {c.output(shape(2 * depth + width), type)},
                 {{"dim", int64_t(3)}});
      c.p.kernel("attention", {q, k, v}, {c.output(shape(width), type)}, attributes);
      CHECK(c.places() == Places{1, 1, 2});
      std::vector<std::string> steps;
      c.p.run("cuda", c.inputs, c.wanted, {}, &steps);
      INFO(steps[1]);
      CHECK(steps[1].find(type == plan::BF16 || width == 8 ? by : "cuDNN f16, a batch") != std::string::npos);
      LoadOptions tiles;
      tiles.device.tiledAttention = true;
      std::vector<std::string> tiled;
      c.p.run("cuda", c.inputs, c.wanted, tiles, &tiled);
      for (const std::string &step : tiled)
        CHECK(step.find("cuDNN") == std::string::npos);
    }
}

TEST_CASE("the library computes the gradient with dropout, below a causal mask by a bias") {
  for (const bool causal : {false, true})
    for (const plan::DType type : {plan::BF16, plan::F16})
      for (const plan::DType keepType : {plan::BOOL, type}) {
        Program c;
        auto shape = [](int64_t n) { return Shape{2, 20, 3, n}; };
        Attributes attributes = {{"scale", 0.5}, {"rows_first", int64_t(1)}, {"keep_scale", 1.25}};
        if (causal)
          attributes.insert({{"causal", int64_t(1)}, {"outside", -1e9}, {"start", int64_t(0)}});
        const std::vector<uint32_t> results = {c.p.buffer(type, shape(24)), c.p.buffer(type, shape(24)),
                                               c.p.buffer(type, shape(8))};
        std::vector<uint32_t> operands;
        for (int64_t n : {8, 24, 24, 8, 8})
          operands.push_back(c.input(shape(n), type));
        operands.push_back(c.input({2, 3, 20}, plan::F32, 6));
        operands.push_back(c.p.buffer(keepType, {2, 3, 20, 20}));
        for (int64_t i = 0; i < int64_t(2) * 3 * 20 * 20; ++i)
          c.inputs[operands.back()].push_back(double(c.random() % 2));
        c.p.kernel("attention_grad", operands, results, attributes);
        c.p.kernel("concat", {results[0], results[1], results[2]}, {c.output(shape(56), type)}, {{"dim", int64_t(3)}});
        CHECK(c.places() == Places{1, 1});
        std::vector<std::string> steps;
        const std::vector<Values> found = c.p.run("cuda", c.inputs, c.wanted, {}, &steps),
                                  expected = c.p.run("reference", c.inputs, c.wanted);
        INFO(steps[1]);
        CHECK(steps[1].find("cuDNN") != std::string::npos);
        for (size_t i = 0; i < expected[0].size(); ++i)
          REQUIRE(found[0][i] == Approx(expected[0][i]).epsilon(0.01).margin(1e-3));
      }
}

TEST_CASE("gradients that are not all beside each other stay apart") {
  Attention a(true);
  std::vector<uint32_t> d = a.backward();
  a.p.kernel("concat", {d[0], d[1]}, {a.output(a.shape(8))}, {{"dim", int64_t(3)}});
  a.p.kernel("neg", {d[2]}, {a.output(a.shape(6))});
  CHECK(a.places() == Places{0, 1, 2});
  Attention b(true);
  d = b.backward();
  b.p.kernel("concat", {d[0], d[1], d[2], b.input(b.shape(2))}, {b.output(b.shape(16))}, {{"dim", int64_t(3)}});
  CHECK(b.places() == Places{0, 1});
}
