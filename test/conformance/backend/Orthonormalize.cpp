// Bases of columns that are well apart, and of columns that are not columns at all (1e-5: the reference computes with
// the same rounded numbers, in F64).
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("bases of random matrices", "[conformance]") {
  Random random(61);
  for (const Shape &shape : {Shape{1, 1}, Shape{3, 3}, Shape{40, 3}, Shape{2, 3, 64, 5}, Shape{1000, 8}, Shape{2, 5}})
    for (plan::DType type : {plan::F32, plan::F64, plan::BF16, plan::F16}) {
      const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
      Values x = random.reals(elementCount(shape), -0.125, 0.125);
      for (size_t i = 0; i < x.size(); ++i) // a diagonal keeps columns apart
        if (int64_t(i) / columns % rows == int64_t(i) % columns)
          x[i] += 2;
      Case c;
      c.tolerance = type == plan::F32 || type == plan::F64 ? 1e-5 : 0x1p-6;
      c.what = "orthonormalize " + dtypeName(type) + " " + str(shape);
      const uint32_t in = c.plan.buffer(type, shape);
      c.inputs[in] = x;
      c.plan.kernel("orthonormalize", {in}, {c.output(type, shape)});
      check(c);
    }
}

TEST_CASE("bases of columns that depend on each other", "[conformance]") {
  Random random(62);
  for (int64_t rows : {4, 50, 700}) {
    Case c;
    c.tolerance = 1e-5;
    const Shape shape = {rows, 4};
    c.what = "orthonormalize dependent " + str(shape);
    Values x = random.reals(elementCount(shape), -1, 1);
    for (int64_t i = 0; i < rows; ++i) {
      x[size_t(i * 4 + 1)] = 2 * x[size_t(i * 4)];
      x[size_t(i * 4 + 2)] = 0;
    }
    const uint32_t in = c.plan.buffer(plan::F32, shape);
    c.inputs[in] = x;
    c.plan.kernel("orthonormalize", {in}, {c.output(plan::F32, shape)});
    check(c);
  }
}
