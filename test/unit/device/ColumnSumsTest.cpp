// The gradient of a bias is summed by the product that reads the same rows.
#include "test/conformance/backend/Loops.h"
#include "test/unit/device/JoinedProgram.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

using Places = std::vector<size_t>;

/// x [40, 6] and dy [40, 10], of which a step makes dw = x^T dy and another the sums of dy's rows.
struct Gradients : JoinedProgram {
  const plan::DType type;
  uint32_t x, dy, w, sums;

  explicit Gradients(plan::DType type = plan::BF16) : JoinedProgram(9, {}), type(type) {
    x = input({40, 6}, type);
    dy = p.buffer(type, {4, 10, 10});
    p.kernel("concat", {input({3, 10, 10}, type), input({1, 10, 10}, type)}, {dy}, {{"dim", int64_t(0)}});
    w = output({6, 10});
    sums = output({10});
  }
  uint32_t rows() { return p.alias(dy, {40, 10}); }
  void product() {
    Attributes attributes = {{"transpose_a", int64_t(1)}};
    if (type != plan::F32)
      attributes["wide"] = int64_t(1);
    p.kernel("matmul", {x, rows()}, {w}, attributes);
  }
  void sum() { Loop(p, {4, 10, 10}).in(dy).out(sums, 0, plan::SUM, {1, 1, 10}); }
};

} // namespace

TEST_CASE("a product sums the columns of its right operand") {
  for (const plan::DType type : {plan::BF16, plan::F16}) {
    Gradients a(type);
    a.product();
    a.sum();
    CHECK(a.places() == Places{0, 2, 2});
    // The sum may stand first, and be read in between.
    Gradients b(type);
    b.sum();
    b.p.kernel("neg", {b.sums}, {b.output({10})});
    b.product();
    CHECK(b.places() == Places{0, 1, 2, 1});
    // Whatever else reads the sums or the rows.
    Gradients c(type);
    c.p.kernel("relu", {c.dy}, {c.output({4, 10, 10}, type)});
    c.product();
    c.sum();
    c.p.kernel("neg", {c.sums}, {c.output({10})});
    const Places found = c.places();
    CHECK(found[2] == found[3]);
  }
}

TEST_CASE("sums that the library would not make stay apart") {
  Gradients a(plan::F32); // it would add them in F32
  a.product();
  a.sum();
  CHECK(a.places() == Places{0, 1, 2});

  Gradients b; // sums of one batch each
  b.product();
  b.sums = b.output({4, 1, 10});
  Loop(b.p, {4, 10, 10}).in(b.dy).out(b.sums, 0, plan::SUM, {4, 1, 10});
  CHECK(b.places() == Places{0, 1, 2});

  Gradients c; // the largest
  c.product();
  Loop(c.p, {4, 10, 10}).in(c.dy).out(c.sums, 0, plan::MAX, {1, 1, 10});
  CHECK(c.places() == Places{0, 1, 2});

  Gradients d; // of the squares
  d.product();
  Loop(d.p, {4, 10, 10}).in(d.dy).op("mul", {0, 0}).out(d.sums, 1, plan::SUM, {1, 1, 10});
  CHECK(d.places() == Places{0, 1, 2});

  Gradients e; // sums of 16 bits beside a product of F32
  e.product();
  e.sums = e.output({10}, plan::BF16);
  e.sum();
  CHECK(e.places() == Places{0, 1, 2});

  Gradients f; // the sums lie where the product reads
  f.product();
  f.sum();
  f.move(f.sums, f.x);
  CHECK(f.places() == Places{0, 1, 2});

  Gradients g; // rows in another order
  const uint32_t turned = g.p.alias(g.dy, {10, 40});
  g.p.kernel("matmul", {g.x, turned}, {g.output({6, 10})},
             {{"transpose_a", int64_t(1)}, {"transpose_b", int64_t(1)}, {"wide", int64_t(1)}});
  g.sum();
  CHECK(g.places() == Places{0, 1, 2});
}

TEST_CASE("of two products one makes the sums") {
  Gradients a;
  a.product();
  a.p.kernel("matmul", {a.input({40, 7}, a.type), a.rows()}, {a.output({7, 10})},
             {{"transpose_a", int64_t(1)}, {"wide", int64_t(1)}});
  a.sum();
  CHECK(a.places() == Places{0, 3, 2, 3});
}

TEST_CASE("a loop that has the rows at hand makes their sum") {
  Gradients a;
  const uint32_t z = a.input({40, 10}, a.type), y = a.p.buffer(a.type, {40, 10});
  Loop(a.p, {40, 10}).in(z).op("neg", {0}).out(y, 1);
  a.p.kernel("matmul", {a.x, y}, {a.w}, {{"transpose_a", int64_t(1)}, {"wide", int64_t(1)}});
  Loop(a.p, {40, 10}).in(y).out(a.sums, 0, plan::SUM, {1, 10});
  const Places found = a.places();
  CHECK((found[1] == found[3] && found[2] == 2));
}
