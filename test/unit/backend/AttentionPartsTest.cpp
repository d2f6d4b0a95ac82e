// Attention of parts of a tensor gives what attention of their copies gives, bit by bit.
#include "test/conformance/backend/PlanBuilder.h"

#include "runtime/backend/KernelChecks.h"

#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <tuple>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// {first head, heads, first column, columns}
using Part = std::array<int64_t, 4>;

struct Setting {
  Shape whole; // [batch, rows, heads, columns] or with heads before rows
  bool rowsFirst;
  std::array<Part, 3> parts; // q, k, v
};

/// The results of attention and its gradient, which read `s.whole`, or slices of it.
std::vector<Values> run(const Setting &s, bool sliced, plan::DType type, const std::string &backend) {
  PlanBuilder p;
  std::mt19937 random(5);
  std::map<uint32_t, Values> inputs;
  auto input = [&](const Shape &shape) {
    const uint32_t b = p.buffer(type, shape);
    for (int64_t i = elementCount(shape); i > 0; --i)
      inputs[b].push_back(double(random() % 16) / 8 - 1); // exact in 16 bits
    return b;
  };
  const uint32_t x = input(s.whole);
  const size_t head = s.rowsFirst ? 2 : 1;
  std::vector<uint32_t> operands;
  std::vector<Shape> shapes;
  Shape numbers;
  for (const Part &part : s.parts) {
    Shape starts(4, 0), limits = s.whole, shape = s.whole;
    for (auto [d, first, size] : {std::tuple(head, part[0], part[1]), std::tuple(size_t(3), part[2], part[3])}) {
      starts[d] = first;
      limits[d] = first + size;
      shape[d] = size;
    }
    shapes.push_back(shape);
    numbers.insert(numbers.end(), part.begin(), part.end());
    operands.push_back(sliced ? p.buffer(type, shape) : x);
    if (sliced)
      p.kernel("slice", {x}, {operands.back()}, {{"starts", starts}, {"limits", limits}, {"strides", Shape(4, 1)}});
  }
  Attributes attributes = {{"scale", 0.5}, {"rows_first", int64_t(s.rowsFirst)}};
  if (!sliced)
    attributes["operand_parts"] = numbers;
  Shape y = shapes[0], lines = {s.whole[0], shapes[0][head], s.whole[3 - head]};
  y[3] = shapes[2][3];
  const uint32_t mixed = p.buffer(type, y), statistics = p.buffer(plan::F32, lines);
  p.kernel("attention", operands, {mixed, statistics}, attributes);
  std::vector<uint32_t> wanted = {mixed, statistics}, gradients;
  for (const Shape &shape : shapes)
    gradients.push_back(p.buffer(type, shape));
  operands.insert(operands.begin(), input(y));
  operands.insert(operands.end(), {mixed, statistics});
  p.kernel("attention_grad", operands, gradients, attributes);
  wanted.insert(wanted.end(), gradients.begin(), gradients.end());
  return p.run(backend, inputs, wanted);
}

const Setting kSettings[] = {
    {{2, 5, 3, 24}, true, {{{0, 3, 0, 8}, {0, 3, 8, 8}, {0, 3, 16, 8}}}},  // columns beside each other
    {{2, 5, 9, 8}, true, {{{0, 3, 0, 8}, {3, 3, 0, 8}, {6, 3, 0, 8}}}},    // heads behind each other
    {{2, 8, 5, 6}, false, {{{0, 4, 0, 6}, {4, 2, 0, 6}, {6, 2, 0, 6}}}},   // heads before rows, shared keys
    {{2, 6, 5, 20}, false, {{{2, 4, 7, 6}, {0, 2, 1, 6}, {3, 2, 13, 7}}}}, // anything
};

} // namespace

TEST_CASE("attention of parts is attention of their copies") {
  for (const Setting &s : kSettings)
    for (const plan::DType type : {plan::F32, plan::BF16}) {
      INFO(str(s.whole) << (s.rowsFirst ? ", rows first" : ""));
      CHECK(run(s, false, type, "reference") == run(s, true, type, "reference"));
      const std::vector<Values> parts = run(s, false, type, "cpu"), copies = run(s, true, type, "cpu");
      REQUIRE(parts.size() == copies.size());
      for (size_t i = 0; i < parts.size(); ++i) // the products of other strides may be added in another order
        for (size_t j = 0; j < parts[i].size(); ++j)
          CHECK(parts[i][j] == Approx(copies[i][j]).margin(type == plan::F32 ? 1e-5 : 0x1p-7));
    }
}

TEST_CASE("parts outside of a tensor are refused") {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {2, 5, 3, 24}), y = p.buffer(plan::F32, {2, 5, 3, 8});
  auto refusal = [&](const Shape &parts) {
    plan::Kernel kernel =
        p.kernel("attention", {x, x, x}, {y}, {{"scale", 1.0}, {"rows_first", int64_t(1)}, {"operand_parts", parts}});
    KernelCall call;
    call.kernel = &kernel;
    std::vector<float> from(2 * 5 * 3 * 24), to(2 * 5 * 3 * 8);
    TensorView view;
    view.dtype = plan::F32;
    view.shape = {2, 5, 3, 24};
    view.data = from.data();
    call.inputs = {view, view, view};
    view.shape.back() = 8;
    view.data = to.data();
    call.outputs = {view};
    return checkKernel(call).message();
  };
  CHECK(refusal({0, 3, 0, 8, 0, 3, 8, 8, 0, 3, 16, 8}).empty());
  CHECK(refusal({0, 3, 0, 8}).find("4 numbers of parts, not 12") != std::string::npos);
  for (const Shape &bad :
       {Shape{0, 3, 0, 8, 0, 3, 8, 8, 0, 3, 17, 8}, Shape{-1, 3, 0, 8, 0, 3, 8, 8, 0, 3, 16, 8},
        Shape{0, 3, 0, 8, 0, 0, 8, 8, 0, 3, 16, 8}, Shape{0, 3, 0, 8, 0, 3, INT64_MAX, 8, 0, 3, 16, 8}})
    CHECK(refusal(bad).find("lies outside of [2, 5, 3, 24]") != std::string::npos);
}
