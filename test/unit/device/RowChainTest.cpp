// Which steps along the same rows run as one kernel, and that they then give what they give apart.
#include "test/conformance/backend/Loops.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

struct Rows {
  PlanBuilder p;
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> wanted;
  std::mt19937 random{11};

  uint32_t input(const Shape &shape, plan::DType type = plan::F32) {
    const uint32_t b = p.buffer(type, shape);
    Values &values = inputs[b];
    for (int64_t i = elementCount(shape); i > 0; --i)
      values.push_back(static_cast<double>(static_cast<int>(random() % 7) - 3));
    return b;
  }
  /// A buffer that the outside sees.
  uint32_t output(const Shape &shape, plan::DType type = plan::F32) {
    const uint32_t b = p.buffer(type, shape);
    plan::Binding &binding = *p.plan().add_bindings();
    binding.set_role(plan::OUTPUT);
    binding.set_buffer(b);
    wanted.push_back(b);
    return b;
  }
  /// The place of `b` where `at` is.
  void move(uint32_t b, uint32_t at, uint64_t further = 0) {
    p.plan()
        .mutable_buffers(static_cast<int>(b))
        ->set_offset(p.plan().buffers(static_cast<int>(at)).offset() + further);
  }

  /// The step with which each step runs, itself if alone. As a whole the program gives what its steps give one by one.
  std::vector<size_t> places() const {
    std::vector<std::string> steps;
    const std::vector<Values> whole = p.run("cuda", inputs, wanted, {}, &steps),
                              apart = p.run("cuda", inputs, wanted, {}, nullptr, true);
    CHECK(whole == apart); // of small integers
    std::vector<size_t> found;
    for (size_t s = 0; s < steps.size(); ++s) {
      const std::string with = "(in whole programs: with step ";
      const size_t at = steps[s].find(with);
      found.push_back(at == std::string::npos ? s : std::stoul(steps[s].substr(at + with.size())));
      if (found.back() != s)
        CHECK_THAT(steps[found.back()], Contains("in whole programs: generated rows"));
    }
    return found;
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

TEST_CASE("a reduction, what is made of it, and a loop over the rows are one") {
  Centred c;
  c.sums();
  c.halves();
  c.differences();
  CHECK(c.places() == Places{2, 2, 2});
  // What is read inside alone is not stored.
  c.wanted = {c.sum, c.half};
  const std::vector<Values> whole = c.p.run("cuda", c.inputs, c.wanted);
  CHECK(whole == std::vector<Values>(2, Values(6, 0)));
}

TEST_CASE("rows need not be one dimension, nor views of one shape") {
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

TEST_CASE("a value that somebody else reads is stored") {
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
  // It reads the sums and makes what the last loop needs.
  Centred c;
  c.sums();
  const uint32_t turned = c.p.buffer(plan::F32, {1, 6});
  c.p.kernel("transpose", {c.sum}, {turned}, {{"perm", Shape{1, 0}}});
  c.p.kernel("reshape", {turned}, {c.half});
  c.differences();
  CHECK(c.places() == Places{0, 1, 2, 3});
  // It reads them for itself: the chain goes before it.
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

TEST_CASE("memory that other rows still read is not written") {
  // What the second loop writes lies where the first one reads, but further on.
  for (uint64_t further : {uint64_t(0), uint64_t(192)}) {
    Centred c;
    const uint32_t z = c.input(c.full), room = c.input({80}),
                   scaled = c.p.buffer(plan::F32, c.full);
    static_cast<void>(room);
    Loop(c.p, c.full)
        .in(c.x)
        .in(z)
        .op("mul", {0, 1})
        .out(scaled, 2)
        .out(c.sum, 2, plan::SUM, c.row);
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
  for (int64_t rows : {3, 50, 3000}) {
    Centred c({rows}, rows == 50 ? 300 : 12);
    const Shape column = {1, c.full[1]};
    const uint32_t sums = c.output({c.full[1]}), least = c.output({c.full[1]}),
                   z = c.output({c.full[1]});
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
    Loop(c.p, {c.full[1]}).in(sums).op("neg", {0}).out(z, 1); // has to wait
    CHECK(c.places() == Places{2, 2, 2, 3});
  }
}

TEST_CASE("a sum over everything ends a chain") {
  Centred c;
  c.sums();
  c.halves();
  Loop(c.p, c.full)
      .in(c.x)
      .in(c.half, c.row)
      .op("sub", {0, 1})
      .out(c.y, 2)
      .out(c.output({}), 2, plan::SUM, {1, 1});
  CHECK(c.places() == Places{1, 1, 2});
}

TEST_CASE("rows too long for registers stay apart") {
  for (int64_t columns : {16384, 16385}) {
    Centred c({2}, columns);
    c.sums();
    c.halves();
    c.differences();
    CHECK(c.places() == (columns == 16384 ? Places{2, 2, 2} : Places{0, 1, 2}));
  }
}
