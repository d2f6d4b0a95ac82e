// What large products of 16 bits read or write is held in rows that begin at multiples of 16 bytes, or copied to such
// rows, and they are what they are without.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"
#include "test/conformance/backend/Loops.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera::rt;
using namespace tessera::rt::test;
using namespace tessera::rt::cuda;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

const char *kOnCopies = "on aligned copies";

/// A product of whole numbers, which no order of sums rounds. There is memory for tensors with rows further apart.
struct Product {
  PlanBuilder p;
  const uint32_t large = p.buffer(plan::F32, {1 << 23});
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> outputs;
  std::mt19937 random{11};

  uint32_t input(plan::DType type, const Shape &shape) {
    const uint32_t b = p.buffer(type, shape);
    Values &values = inputs[b];
    for (int64_t i = elementCount(shape); i > 0; --i)
      values.push_back(double(int(random() % 5) - 2));
    return b;
  }
  uint32_t output(plan::DType type, const Shape &shape) {
    outputs.push_back(p.buffer(type, shape));
    return outputs.back();
  }
  /// From now on all tensors so far can be seen from outside, so that they lie as the plan says.
  void show() {
    for (int b = 0; b < p.plan().buffers_size(); ++b) {
      plan::Binding &binding = *p.plan().add_bindings();
      binding.set_role(plan::OUTPUT);
      binding.set_buffer(uint32_t(b));
    }
  }
  std::vector<int64_t> pitches() {
    const auto calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    const PaddedRows rows(p.plan(), *calls, std::vector<Layout>(size_t(p.plan().buffers_size())));
    std::vector<int64_t> list;
    for (const Layout &layout : rows.layouts())
      list.push_back(layout.pitch);
    return list;
  }
  /// What each step runs as, in whole programs or one by one.
  std::vector<std::string> run(double tolerance = 0, bool apart = false) const {
    std::vector<std::string> steps;
    const std::vector<Values> found = p.run("cuda", inputs, outputs, {}, &steps, apart),
                              expected = p.run("cpu", inputs, outputs, {});
    for (size_t o = 0; o < found.size(); ++o) {
      REQUIRE(found[o].size() == expected[o].size());
      size_t wrong = 0;
      for (size_t i = 0; i < found[o].size(); ++i)
        wrong += found[o][i] != Approx(expected[o][i]).epsilon(tolerance).margin(tolerance);
      CHECK(wrong == 0);
    }
    return steps;
  }
};

struct Form {
  Shape a, b, y;
  bool transposeA, transposeB;
  plan::DType type = plan::BF16, result = plan::F32;
};

std::string runForm(const Form &f, bool shown = true) {
  Product c;
  const uint32_t a = c.input(f.type, f.a), b = c.input(f.type, f.b), y = c.output(f.result, f.y);
  c.p.kernel("matmul", {a, b}, {y},
             {{"transpose_a", int64_t(f.transposeA)},
              {"transpose_b", int64_t(f.transposeB)},
              {"wide", int64_t(f.result == plan::F32)}});
  if (shown)
    c.show();
  // A result of 16 bits is rounded once.
  return c.run(f.result == plan::F32 ? 0 : 1e-2)[0];
}

} // namespace

TEST_CASE("products with unaligned rows run on aligned rows") {
  // With the result, as that of a projection to the words of a vocabulary.
  const Form forms[] = {{{512, 1024}, {1031, 1024}, {512, 1031}, false, true},
                        {{512, 1024}, {1031, 1024}, {512, 1031}, false, true, plan::F16, plan::F16},
                        // With its gradients' operands.
                        {{512, 1031}, {1031, 1024}, {512, 1024}, false, false},
                        {{1024, 1031}, {1024, 512}, {1031, 512}, true, false},
                        // Batches of matrices, of which an operand may be shared; rows begin at multiples of 4 bytes.
                        {{2, 512, 522}, {1, 522, 1024}, {2, 512, 1024}, false, false},
                        {{2, 522, 514}, {2, 1024, 522}, {2, 514, 1024}, true, true}};
  for (const Form &form : forms) {
    CHECK_THAT(runForm(form), Contains(kOnCopies));
    CHECK_THAT(runForm(form, false), !Contains("copies"));
  }
}

TEST_CASE("products that are aligned, or too small for copies, take operands as they are") {
  CHECK_THAT(runForm({{512, 1024}, {1032, 1024}, {512, 1032}, false, true}), !Contains("copies"));
  CHECK_THAT(runForm({{64, 65}, {65, 66}, {64, 66}, false, false}), !Contains("copies"));
  // Every byte of a thin operand is used too seldom.
  CHECK_THAT(runForm({{65536, 1031}, {1031, 8}, {65536, 8}, false, false}), !Contains("copies"));
  Product single; // no tensor cores
  single.p.kernel("matmul", {single.input(plan::F32, {512, 1024}), single.input(plan::F32, {1024, 1031})},
                  {single.output(plan::F32, {512, 1031})});
  CHECK_THAT(single.run()[0], !Contains("copies"));
}

TEST_CASE("products on copies have their epilogues") {
  Product c;
  const uint32_t x = c.input(plan::BF16, {512, 1024}), w = c.input(plan::BF16, {1024, 1031}),
                 bias = c.input(plan::F32, {1031}), t = c.p.buffer(plan::F32, {512, 1031}),
                 y = c.output(plan::F32, {512, 1031});
  c.show();
  c.p.plan().mutable_bindings()->RemoveLast(); // y
  c.p.plan().mutable_bindings()->RemoveLast(); // t
  c.p.kernel("matmul", {x, w}, {t}, {{"wide", int64_t(1)}});
  Loop loop(c.p, {512, 1031});
  loop.in(t).in(bias, {1, 1031}).op("add", {0, 1}).op("relu", {2}).out(y, 3);
  CHECK(c.pitches()[y] == 1032);
  CHECK_THAT(c.run()[1], Contains("on aligned copies + bias + relu")); // of w

  Product d; // the gradient of a bias
  const uint32_t h = d.input(plan::BF16, {1024, 512}), dy = d.input(plan::BF16, {1024, 1031}),
                 dw = d.output(plan::F32, {512, 1031}), sums = d.output(plan::F32, {1031});
  d.p.kernel("matmul", {h, dy}, {dw}, {{"transpose_a", int64_t(1)}, {"wide", int64_t(1)}});
  Loop(d.p, {1024, 1031}).in(dy).out(sums, 0, plan::SUM, {1, 1031});
  CHECK_THAT(d.run()[1], Contains("cuBLASLt bf16 + sums of columns"));
  d.show();
  CHECK_THAT(d.run()[1], Contains("on aligned copies + sums of columns"));
}

TEST_CASE("what runs along rows reads and writes them where they are held apart") {
  Product c;
  const Shape rows = {4, 128, 1031};
  const uint32_t x = c.input(plan::BF16, {4, 128, 1024}), w = c.input(plan::BF16, {1031, 1024}),
                 scale = c.input(plan::F32, {4, 128, 1}), logits = c.p.buffer(plan::F32, rows),
                 logs = c.p.buffer(plan::F32, rows), gradient = c.p.buffer(plan::BF16, rows),
                 flat = c.p.alias(gradient, {512, 1031}), flatX = c.p.alias(x, {512, 1024}),
                 dx = c.output(plan::F32, {4, 128, 1024}), dw = c.output(plan::F32, {1031, 1024}),
                 sums = c.output(plan::F32, {4, 128, 1}), other = c.output(plan::F32, rows);
  c.show();
  for (int b : {int(logits), int(logs), int(gradient), int(flat)})
    for (int i = c.p.plan().bindings_size(); i-- > 0;)
      if (c.p.plan().bindings(i).buffer() == uint32_t(b))
        c.p.plan().mutable_bindings()->DeleteSubrange(i, 1);
  c.p.kernel("matmul", {x, w}, {logits}, {{"transpose_b", int64_t(1)}, {"wide", int64_t(1)}});
  c.p.kernel("softmax", {logits}, {logs}, {{"dim", int64_t(2)}});
  Loop loop(c.p, rows);
  loop.in(logs).in(scale, {4, 128, 1}).op("mul", {0, 1}).out(gradient, 2).out(sums, 0, plan::SUM, {4, 128, 1});
  c.p.kernel("matmul", {gradient, w}, {dx}, {{"wide", int64_t(1)}});
  c.p.kernel("matmul", {flat, flatX}, {dw}, {{"transpose_a", int64_t(1)}, {"wide", int64_t(1)}});
  c.p.kernel("neg", {logits}, {other}); // of plain rows
  const std::vector<int64_t> pitches = c.pitches();
  CHECK(pitches[logits] == 1032);
  CHECK(pitches[gradient] == 1032);
  CHECK(pitches[flat] == 1032);
  CHECK(pitches[logs] == 0); // no product reads or writes them
  CHECK(pitches[other] == 0);
  CHECK(pitches[x] == 0);
  for (const bool apart : {false, true})
    for (const std::string &step : c.run(2e-2, apart))
      CHECK_THAT(step, !Contains("copies"));
}

TEST_CASE("tensors that others cannot read row by row lie as the plan says") {
  for (const bool whole : {false, true}) {
    Product c;
    const uint32_t x = c.input(plan::BF16, {512, 1024}), w = c.input(plan::BF16, {1031, 1024}),
                   y = c.p.buffer(plan::F32, {512, 1031}), z = c.output(plan::F32, {1031, 512});
    c.p.kernel("matmul", {x, w}, {y}, {{"transpose_b", int64_t(1)}, {"wide", int64_t(1)}});
    if (whole)
      c.p.kernel("transpose", {y}, {z}, {{"perm", Shape{1, 0}}});
    CHECK(c.pitches()[y] == (whole ? 0 : 1032));
    if (whole)
      CHECK_THAT(c.run()[0], Contains(kOnCopies));
  }
}

TEST_CASE("rows that are held apart take at most half as much memory as the arena") {
  for (const int64_t rows : {8192, 16384}) { // 34 MB of 70, or 68 of 104
    Product c;
    const uint32_t y = c.p.buffer(plan::F32, {rows, 1031});
    c.p.kernel("matmul", {c.p.buffer(plan::BF16, {rows, 64}), c.p.buffer(plan::BF16, {64, 1031})}, {y},
               {{"wide", int64_t(1)}});
    CHECK(c.pitches()[y] == (rows == 8192 ? 1032 : 0));
  }
}

TEST_CASE("a size along rows that is no multiple of 8 is multiplied in parts") {
  LibraryMatMul product = {};
  TesseraMatMul &w = product.what;
  w.dtype = plan::BF16;
  w.resultType = plan::F32;
  w.m = 8192, w.n = 50257, w.k = 768, w.batch = 1;
  w.ldA = w.ldB = 768, w.ldY = 50264, w.transposeB = 1;
  w.epilogue = TESSERA_EPILOGUE_BIAS;
  auto parts = [&] {
    std::vector<TesseraMatMul> list;
    for (const Action &action : inAlignedParts({product}))
      list.push_back(std::get<LibraryMatMul>(action).what);
    return list;
  };
  REQUIRE(parts().size() == 2);
  CHECK(parts()[0].n == 1);
  CHECK(parts()[1].n == 50256);
  CHECK(parts()[1].accumulate == 0);
  const auto beyond = std::get<LibraryMatMul>(inAlignedParts({product})[0]);
  CHECK(beyond.y.value == 4 * 50256);
  CHECK(beyond.bias.value == 4 * 50256);
  CHECK(beyond.b.value == uint64_t(2) * 50256 * 768);
  w.ldY = 50257; // its rows are not aligned, so that nothing is gained
  CHECK(parts().size() == 1);
  // The sum over k: the part beyond is there when the bias comes.
  w.n = w.ldB = w.ldY = 768, w.k = 50257, w.ldA = 50264, w.transposeB = 0;
  REQUIRE(parts().size() == 2);
  CHECK(parts()[0].k == 1);
  CHECK(parts()[0].epilogue == 0);
  CHECK(parts()[0].accumulate == 0);
  CHECK(parts()[1].k == 50256);
  CHECK(parts()[1].epilogue == TESSERA_EPILOGUE_BIAS);
  CHECK(parts()[1].accumulate == 1);
  w.epilogue = TESSERA_EPILOGUE_SUM; // of all of b
  CHECK(parts().size() == 1);
  // Of rows that are no dimension along rows, any number will do.
  w.m = 8191, w.k = w.ldA = 50256, w.epilogue = 0;
  CHECK(parts().size() == 1);
}
