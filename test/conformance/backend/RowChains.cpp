// Loops and reductions along the same rows: norms and softmax as they come decomposed, with their gradients.
#include "test/conformance/backend/Loops.h"
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// Activations have the type `type` and the shape [rows, columns]. What a row keeps has the type `wide`.
struct Net {
  Net(Random &random, plan::DType type, const Shape &leading, int64_t columns)
      : random(random), type(type), wide(type == plan::F64 ? plan::F64 : plan::F32), full(leading), row(leading),
        column(leading.size(), 1), columns(columns) {
    full.push_back(columns);
    row.push_back(1);
    column.push_back(columns);
    c.tolerance = type == plan::F64 ? 1e-12 : type == plan::F32 ? 3e-5 : type == plan::F16 ? 4e-3 : 3e-2;
    c.what = dtypeName(type) + " " + str(full);
  }
  Loop loop(const Shape &domain) { return Loop(c.plan, domain, wide); }
  /// The results of the plan.
  uint32_t output(plan::DType t, const Shape &shape) {
    const uint32_t b = c.output(t, shape);
    plan::Binding &binding = *c.plan.plan().add_bindings();
    binding.set_role(plan::OUTPUT);
    binding.set_buffer(b);
    return b;
  }
  uint32_t perRow() { return c.plan.buffer(wide, row); }

  Random &random;
  Case c;
  const plan::DType type, wide;
  Shape full, row, column;
  const int64_t columns;
};

/// y = (x + r - mean) / sqrt(var + eps) * scale + bias, and its gradients from dy.
void layerNorm(Net &n) {
  Case &c = n.c;
  const double share = 1.0 / double(n.columns);
  const uint32_t x = c.input(n.random, n.type, n.full), r = c.input(n.random, n.type, n.full),
                 scale = c.input(n.random, n.wide, {n.columns}), bias = c.input(n.random, n.wide, {n.columns}),
                 dy = c.input(n.random, n.type, n.full);
  const uint32_t sum = n.output(n.type, n.full), total = n.perRow(), mean = n.perRow(),
                 centered = c.plan.buffer(n.wide, n.full), squares = n.perRow(), rstd = n.output(n.wide, n.row),
                 hat = c.plan.buffer(n.wide, n.full), y = n.output(n.type, n.full);
  n.loop(n.full).in(x).in(r).op("add", {0, 1}).out(sum, 2).out(total, 2, plan::SUM, n.row);
  n.loop(n.row).in(total).constant(share).op("mul", {0, 1}).out(mean, 2);
  n.loop(n.full)
      .in(sum)
      .in(mean, n.row)
      .op("sub", {0, 1})
      .op("mul", {2, 2})
      .out(centered, 2)
      .out(squares, 3, plan::SUM, n.row);
  n.loop(n.row)
      .in(squares)
      .constant(share)
      .op("mul", {0, 1})
      .constant(1e-2)
      .op("add", {2, 3})
      .op("rsqrt", {4})
      .out(rstd, 5);
  n.loop(n.full)
      .in(centered)
      .in(rstd, n.row)
      .in(scale, n.column)
      .in(bias, n.column)
      .op("mul", {0, 1})
      .op("mul", {4, 2})
      .op("add", {5, 3})
      .out(hat, 4)
      .out(y, 6);
  // The gradient passes through the scale, the deviation and the mean. Scale, bias and an earlier bias have
  // gradients, too.
  const uint32_t dbias = n.output(n.wide, {n.columns}), dscale = n.output(n.wide, {n.columns}),
                 back = c.plan.buffer(n.wide, n.full), dots = n.perRow(), slope = n.perRow(),
                 dsum = c.plan.buffer(n.wide, n.full), dmean = n.perRow(), shift = n.perRow(),
                 dx = n.output(n.type, n.full), before = n.output(n.wide, {n.columns});
  n.loop(n.full)
      .in(dy)
      .in(scale, n.column)
      .in(hat)
      .in(rstd, n.row)
      .in(centered)
      .op("mul", {0, 1})
      .op("mul", {2, 0})
      .op("mul", {5, 3})
      .op("mul", {4, 5})
      .out(dbias, 0, plan::SUM, n.column)
      .out(dscale, 6, plan::SUM, n.column)
      .out(back, 7)
      .out(dots, 8, plan::SUM, n.row);
  n.loop(n.row)
      .in(rstd)
      .in(dots)
      .op("mul", {0, 0})
      .op("mul", {2, 0})
      .constant(-share)
      .op("mul", {3, 4})
      .op("mul", {5, 1})
      .out(slope, 6);
  n.loop(n.full)
      .in(slope, n.row)
      .in(centered)
      .in(back)
      .op("mul", {0, 1})
      .op("add", {2, 3})
      .op("neg", {4})
      .out(dsum, 4)
      .out(dmean, 5, plan::SUM, n.row);
  n.loop(n.row).in(dmean).constant(share).op("mul", {0, 1}).out(shift, 2);
  n.loop(n.full).in(dsum).in(shift, n.row).op("add", {0, 1}).out(dx, 2).out(before, 2, plan::SUM, n.column);
}

/// y = x / sqrt(mean x^2 + eps) * scale and its gradients.
void rmsNorm(Net &n) {
  Case &c = n.c;
  const double share = 1.0 / double(n.columns);
  const uint32_t x = c.input(n.random, n.type, n.full), scale = c.input(n.random, n.type, {n.columns}),
                 dy = c.input(n.random, n.type, n.full);
  const uint32_t squares = n.perRow(), r = n.perRow(), y = n.output(n.type, n.full),
                 dscale = n.output(n.type, {n.columns}), dots = n.perRow(), k = n.perRow(),
                 dx = n.output(n.type, n.full);
  n.loop(n.full).in(x).op("mul", {0, 0}).out(squares, 1, plan::SUM, n.row);
  n.loop(n.row)
      .in(squares)
      .constant(share)
      .op("mul", {0, 1})
      .constant(1e-2)
      .op("add", {2, 3})
      .op("rsqrt", {4})
      .out(r, 5);
  n.loop(n.full).in(x).in(r, n.row).in(scale, n.column).op("mul", {0, 1}).op("mul", {3, 2}).out(y, 4);
  n.loop(n.full)
      .in(dy)
      .in(scale, n.column)
      .in(x)
      .in(r, n.row)
      .op("mul", {0, 1})
      .op("mul", {4, 2})
      .op("mul", {2, 3})
      .op("mul", {6, 0})
      .out(dots, 5, plan::SUM, n.row)
      .out(dscale, 7, plan::SUM, n.column);
  n.loop(n.row)
      .in(dots)
      .in(r)
      .op("mul", {1, 1})
      .op("mul", {2, 1})
      .op("mul", {0, 3})
      .constant(-share)
      .op("mul", {4, 5})
      .out(k, 6);
  n.loop(n.full)
      .in(dy)
      .in(scale, n.column)
      .in(x)
      .in(r, n.row)
      .in(k, n.row)
      .op("mul", {0, 1})
      .op("mul", {5, 3})
      .op("mul", {2, 4})
      .op("add", {6, 7})
      .out(dx, 8);
}

/// The softmax of x with a mask and dropout, and its gradient.
void softmax(Net &n) {
  Case &c = n.c;
  const uint32_t x = c.input(n.random, n.type, n.full), mask = c.input(n.random, plan::BOOL, {n.columns}),
                 step = c.input(n.random, plan::I64, {}), dy = c.input(n.random, n.type, n.full);
  c.inputs[step] = {3};
  const Shape one(n.full.size(), 1);
  const uint32_t top = n.perRow(), e = c.plan.buffer(n.type, n.full), sum = n.perRow(), inverse = n.perRow(),
                 y = c.plan.buffer(n.type, n.full), kept = n.output(n.type, n.full), dots = n.perRow(),
                 dx = n.output(n.type, n.full);
  n.loop(n.full).in(x).in(mask, n.column).constant(-3).op("select", {1, 0, 2}).out(top, 3, plan::MAX, n.row);
  n.loop(n.full)
      .in(x)
      .in(mask, n.column)
      .in(top, n.row)
      .constant(-3)
      .op("select", {1, 0, 3})
      .op("sub", {4, 2})
      .op("exp", {5})
      .out(e, 6)
      .out(sum, 6, plan::SUM, n.row);
  n.loop(n.row).in(sum).op("reciprocal", {0}).out(inverse, 1);
  n.loop(n.full)
      .in(e)
      .in(inverse, n.row)
      .in(step, one)
      .op("mul", {0, 1})
      .op("random", {2}, n.wide, 0, {{"seed", int64_t(5)}, {"stream", int64_t(7)}})
      .constant(0.25)
      .op("lt", {4, 5}, plan::BOOL)
      .op("iota", {}, plan::I64, 0, {{"dim", int64_t(n.full.size() - 1)}, {"start", int64_t(2)}})
      .op("cast", {7}, n.wide)
      .constant(0)
      .op("mul", {8, 9})
      .op("select", {6, 10, 3})
      .out(y, 3)
      .out(kept, 11);
  n.loop(n.full).in(dy).in(y).op("mul", {0, 1}).out(dots, 2, plan::SUM, n.row);
  n.loop(n.full).in(dy).in(y).in(dots, n.row).op("sub", {0, 2}).op("mul", {1, 3}).out(dx, 4);
}

void checkAll(void (*make)(Net &), const std::vector<std::pair<plan::DType, int64_t>> &rows) {
  Random random(41);
  for (const auto &[type, columns] : rows) {
    Net n(random, type, columns % 2 ? Shape{3, 7} : Shape{21}, columns);
    make(n);
    check(n.c);
  }
}

} // namespace

TEST_CASE("layer normalisation in pieces and its gradient", "[conformance]") {
  checkAll(layerNorm, {{plan::F32, 1},
                       {plan::F32, 31},
                       {plan::F32, 33},
                       {plan::F32, 768},
                       {plan::F32, 1000},
                       {plan::F32, 5000},
                       {plan::F64, 31},
                       {plan::F64, 1000},
                       {plan::BF16, 33},
                       {plan::BF16, 768},
                       {plan::F16, 31},
                       {plan::F16, 1000}});
}

TEST_CASE("RMS normalisation in pieces and its gradient", "[conformance]") {
  checkAll(rmsNorm, {{plan::F32, 2},
                     {plan::F32, 33},
                     {plan::F32, 1000},
                     {plan::F32, 5000},
                     {plan::F64, 768},
                     {plan::BF16, 1000},
                     {plan::F16, 33}});
}

TEST_CASE("softmax in pieces and its gradient", "[conformance]") {
  checkAll(softmax, {{plan::F32, 5},
                     {plan::F32, 31},
                     {plan::F32, 768},
                     {plan::F32, 5000},
                     {plan::F64, 33},
                     {plan::BF16, 1000},
                     {plan::F16, 768}});
}
