// Some steps along the same rows run as one kernel. They give the same results together and apart.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "test/conformance/backend/Loops.h"
#include "test/unit/device/JoinedProgram.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

struct Rows : JoinedProgram {
  Rows() : JoinedProgram(11, {"in whole programs: generated rows", "with loops over the results"}) {}

  /// Small integers, which sums keep exactly.
  uint32_t input(const Shape &shape, plan::DType type = plan::F32) {
    const uint32_t b = p.buffer(type, shape);
    Values &values = inputs[b];
    for (int64_t i = elementCount(shape); i > 0; --i)
      values.push_back(double(int(random() % 7) - 3));
    return b;
  }
};

using Places = std::vector<size_t>;

/// sum of x along rows -> half of it -> x minus that; what stands between is given by the caller.
struct Centred : Rows {
  Shape full, row;
  uint32_t x, sum, half, y;

  explicit Centred(const Shape &leading = {6}, int64_t columns = 40, int64_t rowColumns = 1)
      : full(leading), row(leading) {
    full.push_back(columns);
    row.push_back(rowColumns);
    x = input(full);
    sum = p.buffer(plan::F32, row);
    half = p.buffer(plan::F32, row);
    y = output(full);
  }
  void sums() { Loop(p, full).in(x).out(sum, 0, plan::SUM, row); }
  void halves() { Loop(p, row).in(sum).constant(0.5).op("mul", {0, 1}).out(half, 2); }
  void differences() { Loop(p, full).in(x).in(half, row).op("sub", {0, 1}).out(y, 2); }
};

} // namespace

TEST_CASE("a reduction, the steps that use it and a loop over the rows are one kernel") {
  Centred c;
  c.sums();
  c.halves();
  c.differences();
  CHECK(c.places() == Places{2, 2, 2});
  // A value that only the chain reads is not stored.
  c.wanted = {c.sum, c.half};
  const std::vector<Values> whole = c.p.run("cuda", c.inputs, c.wanted);
  CHECK(whole == std::vector<Values>(2, Values(6, 0)));
}

TEST_CASE("rows may be several dimensions and views of other shapes") {
  Centred c({2, 3}, 33);
  const uint32_t flat = c.p.alias(c.sum, {6});
  c.sums();
  Loop(c.p, {6}).in(flat).constant(0.5).op("mul", {0, 1}).out(c.p.alias(c.half, {6}), 2);
  c.differences();
  CHECK(c.places() == Places{2, 2, 2});
}

TEST_CASE("several dimensions can be a row") {
  Centred c;
  const Shape full = {5, 3, 7}, row = {5, 1, 1};
  const uint32_t x = c.input(full), top = c.p.buffer(plan::F32, row), y = c.output(full);
  Loop(c.p, full).in(x).out(top, 0, plan::MAX, row);
  Loop(c.p, full).in(x).in(top, row).op("sub", {0, 1}).out(y, 2);
  CHECK(c.places() == Places{1, 1});
}

TEST_CASE("a value that another step reads is stored") {
  Centred c;
  c.sums();
  c.halves();
  c.differences();
  c.p.kernel("neg", {c.half}, {c.output(c.row)});
  // A transposition is no loop along the rows.
  c.p.kernel("transpose", {c.y}, {c.output({40, 6})}, {{"perm", Shape{1, 0}}});
  CHECK(c.places() == Places{3, 3, 3, 3, 4});
  Centred d;
  d.sums();
  d.halves();
  d.differences();
  d.p.kernel("reshape", {d.half}, {d.output({2, 3})});
  d.wanted.push_back(d.half);
  CHECK(d.places() == Places{2, 2, 2, 3});
}

TEST_CASE("a reader between takes the chain apart where it must") {
  // The step reads the sums and makes the operand of the last loop.
  Centred c;
  c.sums();
  const uint32_t turned = c.p.buffer(plan::F32, {1, 6});
  c.p.kernel("transpose", {c.sum}, {turned}, {{"perm", Shape{1, 0}}});
  c.p.kernel("reshape", {turned}, {c.half});
  c.differences();
  CHECK(c.places() == Places{0, 1, 2, 3});
  // The step reads the sums for itself, so the chain runs before it.
  Centred d;
  d.sums();
  d.p.kernel("reshape", {d.sum}, {d.output({2, 3})});
  d.halves();
  d.differences();
  CHECK(d.places() == Places{0, 1, 0, 0});
}

TEST_CASE("operands that change between keep the steps apart") {
  Centred c;
  c.sums();
  c.halves();
  c.p.kernel("neg", {c.x}, {c.x});
  c.differences();
  CHECK(c.places() == Places{1, 1, 2, 3});
}

TEST_CASE("an update in place is done by the thread that reads") {
  Centred c;
  c.sums();
  c.halves();
  c.differences();
  c.move(c.y, c.x);
  c.move(c.half, c.sum);
  c.wanted = {c.y};
  CHECK(c.places() == Places{2, 2, 2});
}

TEST_CASE("a step does not write memory that other rows still read") {
  // The second loop writes where the first one reads, but further on.
  for (uint64_t further : {uint64_t(0), uint64_t(192)}) {
    Centred c;
    const uint32_t z = c.input(c.full), room = c.input({80}), scaled = c.p.buffer(plan::F32, c.full);
    static_cast<void>(room);
    Loop(c.p, c.full).in(c.x).in(z).op("mul", {0, 1}).out(scaled, 2).out(c.sum, 2, plan::SUM, c.row);
    c.halves();
    Loop(c.p, c.full).in(scaled).in(c.half, c.row).op("sub", {0, 1}).out(c.y, 2);
    c.move(c.y, z, further);
    CHECK(c.places() == (further ? Places{1, 1, 2} : Places{2, 2, 2}));
  }
  // One number per row is put aside until all have read.
  Centred d;
  const uint32_t bias = d.input(d.row), seen = d.output(d.row);
  Loop(d.p, d.full).in(d.x).in(bias, d.row).op("mul", {0, 1}).out(d.sum, 2, plan::SUM, d.row);
  d.halves();
  Loop(d.p, d.row).in(d.half).op("neg", {0}).out(seen, 1);
  d.differences();
  d.move(seen, bias);
  d.wanted = {seen, d.y};
  CHECK(d.places() == Places{3, 3, 3, 3});
}

TEST_CASE("loops over other rows stay apart") {
  Centred c({12}, 20);
  c.sums();
  c.halves();
  // The same memory as 24 rows of 10.
  const uint32_t other = c.p.alias(c.x, {24, 10}), y = c.output({24, 10});
  const uint32_t more = c.p.alias(c.half, {6, 2});
  Loop(c.p, {6, 2, 20})
      .in(c.p.alias(c.x, {6, 2, 20}))
      .in(more, {6, 2, 1})
      .op("sub", {0, 1})
      .out(c.p.alias(c.y, {6, 2, 20}), 2);
  Loop(c.p, {6, 2, 10}).in(more, {6, 2, 1}).out(c.output({6, 2, 10}), 0);
  Loop(c.p, {24, 10}).in(other).op("neg", {0}).out(y, 1);
  CHECK(c.places() == Places{2, 2, 2, 3, 4});
}

TEST_CASE("a value that is read at other points than it is made is not taken over") {
  const Shape square = {8, 8}, row = {8, 1}, column = {1, 8};
  Rows c;
  const uint32_t x = c.input(square), sum = c.p.buffer(plan::F32, {8}), y = c.output(square);
  Loop(c.p, square).in(x).out(sum, 0, plan::SUM, row);
  Loop(c.p, square).in(x).in(sum, column).op("sub", {0, 1}).out(y, 2);
  CHECK(c.places() == Places{0, 1});
}

TEST_CASE("sums over the rows are made on the way") {
  for (int64_t rows : {3, 50, 1056, 3000, 30000}) { // of one block to 234, of which 15 groups add up first
    // Many columns take groups of groups: 132 blocks, of which 22 groups add up, and 4 of these.
    Centred c({rows}, rows == 50 ? 300 : rows == 1056 ? 1101 : 12);
    const Shape column = {1, c.full[1]};
    const uint32_t sums = c.output({c.full[1]}), least = c.output({c.full[1]}), z = c.output({c.full[1]});
    c.sums();
    c.halves();
    Loop(c.p, c.full)
        .in(c.x)
        .in(c.half, c.row)
        .op("mul", {0, 1})
        .op("sub", {0, 1})
        .out(sums, 0, plan::SUM, column)
        .out(c.y, 3)
        .out(least, 2, plan::MIN, column);
    Loop(c.p, {c.full[1]}).in(sums).op("neg", {0}).out(z, 1); // in the kernel that ends the sums
    CHECK(c.places() == Places{3, 3, 3, 3});
  }
}

TEST_CASE("sums over the rows take no launch more, however many rows a block does at a time") {
  for (int64_t columns : {3, 64, 300, 768, 2048}) {
    PlanBuilder p;
    const Shape full = {100000, columns}, column = {1, columns};
    const uint32_t x = p.buffer(plan::F32, full), y = p.buffer(plan::F32, full), sums = p.buffer(plan::F32, column);
    Loop(p, full).in(x).op("mul", {0, 0}).out(y, 1).out(sums, 0, plan::SUM, column);
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda((*calls)[0][0], {});
    REQUIRE(choices.ok());
    CHECK(choices->front().description == "generated rows");
    CHECK(choices->front().actions.size() == 1);
  }
}

TEST_CASE("where nothing is reduced along rows, parts of them end their sums by themselves") {
  for (const int64_t rows : {3, 200, 3000}) {
    Rows c;
    const int64_t columns = rows == 200 ? 768 : 512;
    const Shape full = {rows, columns}, column = {1, columns};
    const uint32_t x = c.input(full), b = c.input({columns}), y = c.output(full), sums = c.output({columns}),
                   z = c.output({columns});
    Loop(c.p, full).in(x).in(b, column).op("mul", {0, 1}).out(y, 2).out(sums, 2, plan::SUM, column);
    Loop(c.p, {columns}).in(sums).op("neg", {0}).out(z, 1); // in the kernel that ends the sums
    CHECK(c.places() == Places{1, 1});
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(c.p.plan(), {});
    REQUIRE(calls.ok());
    const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda((*calls)[0][0], {});
    REQUIRE(choices.ok());
    const auto &launch = std::get<cuda::Launch>(choices->front().actions.front());
    CHECK_THAT(launch.source, Contains("blockIdx.x % " + std::to_string(columns / 256) + "u"));
    const std::vector<Values> expected = c.p.run("reference", c.inputs, {y, sums});
    for (const std::vector<Values> &found : c.runAgain(2, {{y, 1}, {sums, -1}}))
      CHECK(bool(found == expected));
    // Sums that lie over what other parts still read are made by blocks of whole rows.
    c.move(sums, b);
    calls = resolveCalls(c.p.plan(), {});
    const Result<std::vector<cuda::CudaKernel>> whole = cuda::bindCuda((*calls)[0][0], {});
    REQUIRE(whole.ok());
    for (const cuda::Action &action : whole->front().actions)
      if (const auto *other = std::get_if<cuda::Launch>(&action))
        CHECK_THAT(other->source, !Contains("blockIdx.x % "));
  }
}

TEST_CASE("blocks that add sums over the rows count themselves anew in every run") {
  for (int64_t rows : {200, 30000}) { // in one group, and in several
    Centred c({rows}, 12);
    const Shape column = {1, 12};
    const uint32_t sums = c.output(column), least = c.output({1, 1});
    Loop(c.p, c.full)
        .in(c.x)
        .op("mul", {0, 0})
        .out(c.y, 1)
        .out(sums, 0, plan::SUM, column)
        .out(least, 0, plan::MIN, {1, 1});
    const std::vector<Values> expected = c.p.run("reference", c.inputs, {sums, least});
    for (const std::vector<Values> &found : c.runAgain(3, {{sums, -1}, {least, 5}}))
      CHECK(found == expected);
  }
}

TEST_CASE("sums over everything, of loops and of one number per row are made on the way, too") {
  for (int64_t rows : {6, 700}) {
    Centred c({rows});
    const Shape one = {1, 1};
    const uint32_t z = c.output({});
    c.sums();
    Loop(c.p, c.row).in(c.sum).constant(0.5).op("mul", {0, 1}).out(c.half, 2).out(c.output({}), 0, plan::MAX, one);
    Loop(c.p, c.full)
        .in(c.x)
        .in(c.half, c.row)
        .op("sub", {0, 1})
        .out(c.y, 2)
        .out(c.output({}), 2, plan::SUM, one)
        .out(z, 0, plan::MIN, one);
    c.p.kernel("neg", {z}, {c.output({})}); // in the kernel that ends the sums
    CHECK(c.places() == Places{3, 3, 3, 3});
  }
}

TEST_CASE("a loop with results of several kinds is one kernel by itself") {
  for (int64_t columns : {1, 40, 20000}) {
    Centred c({6}, columns);
    const Shape column = {1, columns};
    Loop(c.p, c.full).in(c.x).op("mul", {0, 0}).out(c.y, 1).out(c.output(column), 0, plan::SUM, column);
    std::vector<std::string> steps;
    const std::vector<Values> found = c.p.run("cuda", c.inputs, c.wanted, {}, &steps, true),
                              expected = c.p.run("reference", c.inputs, c.wanted);
    CHECK(found == expected);
    CHECK((steps[0].find("generated rows") != std::string::npos) == (columns < 20000));
  }
}

TEST_CASE("softmax takes the loops around it along") {
  const Shape full = {2, 3, 40}, row = {2, 3, 1};
  for (int64_t dim : {2, 1}) { // along another dimension it is no loop over rows
    Rows c;
    c.tolerance = 1e-5;
    const uint32_t x = c.input(full), mask = c.input({40}, plan::BOOL), masked = c.p.buffer(plan::F32, full),
                   y = c.p.buffer(plan::F32, full), half = c.output(full, plan::BF16);
    for (double &m : c.inputs[mask])
      m = m > 0;
    Loop(c.p, full).in(x).in(mask, {1, 1, 40}).constant(-100).op("select", {1, 0, 2}).out(masked, 3);
    c.p.kernel("softmax", {masked}, {y}, {{"dim", dim}});
    Loop(c.p, full).in(y).out(half, 0);
    // The gradient follows.
    const uint32_t dy = c.input(full), dx = c.output(full), sums = c.output({40});
    c.p.kernel("softmax_grad", {dy, y}, {dx}, {{"dim", dim}});
    Loop(c.p, full).in(dx).in(x).op("mul", {0, 1}).out(sums, 2, plan::SUM, {1, 1, 40});
    CHECK(c.places() == (dim == 2 ? Places{4, 4, 4, 4, 4} : Places{0, 1, 2, 3, 4}));
  }
}

TEST_CASE("layer normalisation and its gradient are a kernel each, with the sums over rows") {
  Rows c;
  const Shape full = {40, 24}, row = {40, 1}, column = {1, 24};
  auto whole = [&] { return c.p.buffer(plan::F32, full); };
  auto perRow = [&] { return c.p.buffer(plan::F32, row); };
  const uint32_t x = c.input(full), scale = c.input({24}), sum = perRow(), mean = perRow(), centred = whole(),
                 squares = perRow(), rstd = perRow(), hat = whole(), y = whole();
  Loop(c.p, full).in(x).out(sum, 0, plan::SUM, row);
  Loop(c.p, row).in(sum).constant(0.125).op("mul", {0, 1}).out(mean, 2);
  Loop(c.p, full)
      .in(x)
      .in(mean, row)
      .op("sub", {0, 1})
      .op("mul", {2, 2})
      .out(centred, 2)
      .out(squares, 3, plan::SUM, row);
  Loop(c.p, row).in(squares).constant(1).op("max", {0, 1}).op("rsqrt", {2}).out(rstd, 3);
  Loop(c.p, full).in(centred).in(rstd, row).in(scale, column).op("mul", {0, 1}).op("mul", {3, 2}).out(hat, 3).out(y, 4);
  const uint32_t z = c.p.buffer(plan::F32, {24, 40}), dy = whole(), dscale = c.output({24}), back = whole(),
                 dots = perRow(), slope = perRow(), dx = c.output(full);
  c.p.kernel("transpose", {y}, {z}, {{"perm", Shape{1, 0}}});
  c.p.kernel("transpose", {z}, {dy}, {{"perm", Shape{1, 0}}});
  Loop(c.p, full)
      .in(dy)
      .in(scale, column)
      .in(hat)
      .in(centred)
      .op("mul", {0, 1})
      .op("mul", {2, 0})
      .op("mul", {3, 4})
      .out(dscale, 5, plan::SUM, column)
      .out(back, 4)
      .out(dots, 6, plan::SUM, row);
  Loop(c.p, row).in(dots).in(rstd).op("mul", {0, 1}).out(slope, 2);
  Loop(c.p, full).in(back).in(slope, row).in(centred).op("mul", {1, 2}).op("sub", {0, 3}).out(dx, 4);
  std::vector<std::string> steps;
  const std::vector<Values> together = c.p.run("cuda", c.inputs, c.wanted, {}, &steps),
                            expected = c.p.run("reference", c.inputs, c.wanted);
  for (size_t o = 0; o < c.wanted.size(); ++o)
    for (size_t i = 0; i < expected[o].size(); ++i)
      REQUIRE(together[o][i] == Approx(expected[o][i]).epsilon(1e-4).margin(1e-3));
  int own = 0; // of ten steps
  for (const std::string &s : steps)
    own += s.find("with step") == std::string::npos;
  CHECK(steps.size() == 10);
  CHECK(own == 4);
  CHECK_THAT(steps[4], Contains("generated rows"));
  CHECK_THAT(steps[9], Contains("generated rows"));
}

TEST_CASE("rows too long for registers are computed again") {
  const Shape full = {140, 16400}, row = {140, 1};
  Centred c({140}, 16400);
  c.sums();
  c.halves();
  c.differences();
  c.move(c.y, c.x); // the last to read is the first to write
  c.wanted = {c.y};
  CHECK(c.places() == Places{2, 2, 2});
  // What is overwritten cannot be computed again.
  Centred d({140}, 16400);
  const uint32_t twice = d.output(full);
  Loop(d.p, full).in(d.x).constant(2).op("mul", {0, 1}).out(twice, 2).out(d.sum, 2, plan::SUM, row);
  d.halves();
  Loop(d.p, full).in(twice).in(d.half, row).op("sub", {0, 1}).out(d.y, 2);
  d.move(twice, d.x);
  d.wanted = {twice, d.y};
  const std::vector<size_t> places = d.places();
  CHECK(places[2] != places[0]);
  // The sum of a column would take a register for each.
  Centred e({140}, 16400);
  e.sums();
  e.halves();
  Loop(e.p, full)
      .in(e.x)
      .in(e.half, row)
      .op("sub", {0, 1})
      .out(e.y, 2)
      .out(e.output({16400}), 2, plan::SUM, {1, 16400});
  const std::vector<size_t> apart = e.places();
  CHECK(apart[2] != apart[0]);
}

TEST_CASE("the loss over a large vocabulary and its gradient are one kernel, and store no probabilities") {
  // Rows begin at multiples of 16 bytes, of four or of two elements, or anywhere.
  const int64_t columns = GENERATE(16504, 16500, 16502, 16501);
  Rows c;
  const Shape full = {136, columns}, row = {136, 1};
  const uint32_t x = c.input(full, plan::BF16), wide = c.p.buffer(plan::F32, full), target = c.input(row, plan::I64),
                 top = c.p.buffer(plan::F32, row), low = c.p.buffer(plan::F32, row), total = c.p.buffer(plan::F32, row),
                 log = c.p.buffer(plan::F32, row), loss = c.output({}), sum = c.p.buffer(plan::F32, row),
                 half = c.output(full, plan::BF16);
  for (double &t : c.inputs[target])
    t = double(c.random() % uint64_t(columns));
  c.inputs[target][0] = 0; // in the columns before the first whole access and behind the last
  c.inputs[target][3] = c.inputs[target][5] = double(columns - 1);
  Loop(c.p, full).in(x).out(wide, 0);
  Loop(c.p, full).in(wide).out(top, 0, plan::MAX, row);
  Loop(c.p, full).in(top, row).in(wide).op("sub", {0, 1}).op("neg", {2}).op("exp", {3}).out(total, 4, plan::SUM, row);
  c.p.kernel("log", {total}, {log});
  c.p.kernel("neg", {top}, {low});
  Loop(c.p, full)
      .in(wide)
      .in(low, row)
      .in(log, row)
      .in(target, row)
      .op("add", {0, 1})
      .op("sub", {4, 2})
      .op("iota", {}, plan::I64, 0, {{"dim", int64_t(1)}})
      .op("eq", {3, 6}, plan::BOOL)
      .constant(0)
      .op("select", {7, 5, 8})
      .constant(-0.5)
      .op("select", {7, 10, 8})
      .out(loss, 9, plan::SUM, {1, 1})
      .out(sum, 11, plan::SUM, row);
  Loop(c.p, full)
      .in(wide)
      .in(low, row)
      .in(log, row)
      .in(target, row)
      .in(sum, row)
      .op("add", {0, 1})
      .op("sub", {5, 2})
      .op("exp", {6})
      .op("mul", {7, 4})
      .op("iota", {}, plan::I64, 0, {{"dim", int64_t(1)}})
      .op("eq", {3, 9}, plan::BOOL)
      .constant(-0.5)
      .constant(0)
      .op("select", {10, 11, 12})
      .op("sub", {13, 8})
      .out(half, 14);
  std::vector<std::string> steps;
  c.wanted = {loss, half, wide};
  const std::vector<Values> found = c.p.run("cuda", c.inputs, c.wanted, {}, &steps),
                            expected = c.p.run("reference", c.inputs, c.wanted);
  for (size_t s = 0; s + 1 < steps.size(); ++s)
    CHECK_THAT(steps[s], Contains("with step 6"));
  CHECK(found[0][0] == Approx(expected[0][0]));
  for (size_t i = 0; i < found[1].size(); ++i)
    REQUIRE(found[1][i] == Approx(expected[1][i]).epsilon(0.01).margin(1e-9));
  CHECK(found[2] == Values(found[2].size(), 0));
}

TEST_CASE("rows that take the memory of others are written where nothing is read, and copied") {
  for (const Shape &full : {Shape{6, 40}, Shape{140, 16500}}) { // in registers, and computed again
    for (const bool free : {true, false}) {
      Rows c;
      c.tolerance = 0.01;
      const uint32_t x = c.input(full), y = free ? c.p.buffer(plan::F32, full) : c.output(full),
                     half = c.output(full, plan::BF16);
      c.p.kernel("softmax", {x}, {y}, {{"dim", int64_t(1)}});
      Loop(c.p, full).in(y).out(half, 0);
      c.move(half, x); // of twice the size: its first rows would overwrite others of x
      CHECK(c.places() == (free ? Places{1, 1} : Places{0, 1}));
    }
  }
}

TEST_CASE("what reads the results of rows, and stands between them, runs behind them") {
  Centred c({3}, 40);
  const Shape one = {1, 1};
  const uint32_t total = c.output({}), twice = c.output({}), factor = c.output(one);
  Loop(c.p, c.full).in(c.x).out(c.sum, 0, plan::SUM, c.row).out(total, 0, plan::SUM, one);
  c.p.kernel("add", {total, total}, {twice});  // such as the loss, from its sum
  c.p.kernel("neg", {c.input(one)}, {factor}); // the rows wait for this
  Loop(c.p, c.full).in(c.x).in(c.sum, c.row).in(factor, one).op("sub", {0, 1}).op("mul", {3, 2}).out(c.y, 4);
  CHECK(c.places() == Places{3, 3, 2, 3});
  // The rows wait for what stands between.
  Centred d({3}, 40);
  const uint32_t sum = d.output({}), half = d.output(one);
  Loop(d.p, d.full).in(d.x).out(d.sum, 0, plan::SUM, d.row).out(sum, 0, plan::SUM, one);
  d.p.kernel("add", {sum, sum}, {half});
  Loop(d.p, d.full).in(d.x).in(d.sum, d.row).in(half, one).op("sub", {0, 1}).op("mul", {3, 2}).out(d.y, 4);
  const std::vector<size_t> places = d.places();
  CHECK(places[2] != places[0]);
}

TEST_CASE("long rows stay apart where there are few") {
  for (int64_t columns : {16384, 16385}) {
    Centred c({2}, columns);
    c.sums();
    c.halves();
    c.differences();
    CHECK(c.places() == (columns == 16384 ? Places{2, 2, 2} : Places{1, 1, 2}));
  }
}

namespace {

/// Random loops over rows, of small integers; memory is used again as soon as the plan's rules allow it.
class RandomRows : public Rows {
public:
  explicit RandomRows(unsigned seed) : rows_(pick({5, 24, 61})), columns_(pick({3, 33, 140})) {
    random.seed(seed);
    for (const Shape &view : {full(), full(), Shape{rows_, 1}, Shape{1, columns_}})
      define(input(view), view, -1);
    const int steps = pick({3, 5, 8});
    for (int s = 0; s < steps; ++s)
      step(s);
    for (Value &v : values_)
      if (v.last == v.made || pick({0, 0, 0, 1})) { // seen from outside
        v.last = steps;
        plan::Binding &binding = *p.plan().add_bindings();
        binding.set_role(plan::OUTPUT);
        binding.set_buffer(v.buffer);
        wanted.push_back(v.buffer);
      }
    place();
  }

private:
  struct Value {
    uint32_t buffer;
    Shape view;
    int made, last; // steps
    bool elementwise = false;
  };

  Shape full() const { return {rows_, columns_}; }
  template <typename T> T pick(std::initializer_list<T> from) { return from.begin()[random() % from.size()]; }
  void define(uint32_t b, const Shape &view, int s, bool elementwise = false) {
    values_.push_back({b, view, s, s, elementwise});
  }

  void step(int s) {
    const bool narrow = pick({0, 0, 1});
    const Shape domain = narrow ? Shape{rows_, 1} : full(), row = {rows_, 1}, one = {1, 1}, column = {1, columns_};
    Loop loop(p, domain);
    uint32_t count = 0;
    const size_t known = values_.size();
    for (int tries = pick({2, 3, 5}); tries > 0 || count == 0; --tries) {
      // The value that was made last is more likely.
      Value &v = values_[known - 1 - random() % std::min<size_t>(known, pick({3, 8}))];
      if (narrow && v.view[1] != 1)
        continue;
      loop.in(v.buffer, v.view);
      v.last = s;
      ++count;
    }
    for (int n = pick({1, 2, 4}); n > 0; --n, ++count)
      loop.op(pick({"add", "sub", "mul", "max"}), {uint32_t(random() % count), uint32_t(random() % count)});
    loop.constant(-3).op("max", {count - 1, count}).constant(3).op("min", {count + 1, count + 2});
    const uint32_t y = count + 3;
    for (int n = pick({1, 2, 3}); n > 0; --n) {
      const int kind = pick({0, 0, 1, 1, 2, 3});
      const Shape view = kind == 0 ? domain : kind == 1 ? row : kind == 2 ? column : one;
      if (kind != 0 && (view == domain || (narrow && kind != 3)))
        continue;
      const uint32_t b = p.buffer(plan::F32, view);
      loop.out(b, y, kind == 0 ? plan::NONE : pick({plan::SUM, plan::SUM, plan::MAX, plan::MIN}), view);
      define(b, view, s, kind == 0);
    }
    if (values_.size() == known) {
      const uint32_t b = p.buffer(plan::F32, domain);
      loop.out(b, y);
      define(b, domain, s, true);
    }
  }

  uint64_t sizeOf(const Value &v) const { return (uint64_t(elementCount(v.view)) * 4 + 63) / 64 * 64; }
  /// Draws offsets at which no other buffer lives at the same time. An elementwise result may take the place of an
  /// operand.
  void place() {
    std::vector<uint64_t> offsets;
    uint64_t end = 0;
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value &v = values_[i];
      auto free = [&](uint64_t at) {
        for (size_t j = 0; j < i; ++j) {
          const Value &w = values_[j];
          if (v.made > w.last || w.made > v.last || at >= offsets[j] + sizeOf(w) || offsets[j] >= at + sizeOf(v))
            continue;
          if (!(w.last == v.made && w.made < v.made && v.elementwise && at == offsets[j] && w.view == v.view))
            return false;
        }
        return true;
      };
      uint64_t at = end;
      for (int tries = 0; tries < 40 && at == end; ++tries) {
        const uint64_t candidate = i > 0 && tries < 20 ? offsets[random() % i] : random() % (end / 64 + 1) * 64;
        if (free(candidate))
          at = candidate;
      }
      offsets.push_back(at);
      end = std::max(end, at + sizeOf(v));
      p.plan().mutable_buffers(int(v.buffer))->set_offset(at);
    }
    p.plan().set_arena_bytes(end);
  }

  const int64_t rows_, columns_;
  std::vector<Value> values_;
};

} // namespace

TEST_CASE("random loops over rows give the same together and apart") {
  size_t joined = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    RandomRows r(seed);
    INFO("seed " << seed << ": " << r.p.plan().ShortDebugString());
    const std::vector<Values> expected = r.p.run("reference", r.inputs, r.wanted),
                              whole = r.p.run("cuda", r.inputs, r.wanted);
    REQUIRE(whole == expected);
    const std::vector<size_t> places = r.places();
    for (size_t s = 0; s < places.size(); ++s)
      joined += places[s] != s;
  }
  CHECK(joined >= 12);
}
