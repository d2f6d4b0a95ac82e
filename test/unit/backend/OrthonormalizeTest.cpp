// What orthonormalize promises, on the reference backend.
#include "runtime/backend/Orthonormalize.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

Values orthonormal(const Shape &shape, const Values &x, plan::DType type = plan::F32) {
  PlanBuilder p;
  const uint32_t in = p.buffer(type, shape), out = p.buffer(type, shape);
  p.kernel("orthonormalize", {in}, {out});
  return p.run("reference", {{in, x}}, {out})[0];
}

/// In [-1, 1), multiples of 2^-20.
Values reals(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  Values x;
  for (int64_t i = 0; i < n; ++i)
    x.push_back(double(random() >> 11) * 0x1p-20 - 1);
  return x;
}

/// Columns a of x and b of y, of n rows and r columns each.
double product(const Values &x, int64_t a, const Values &y, int64_t b, int64_t n, int64_t r) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x[size_t(i * r + a)] * y[size_t(i * r + b)];
  return sum;
}

void checkBasis(const Values &y, int64_t n, int64_t r, double within = 1e-6) {
  for (int64_t a = 0; a < r; ++a)
    for (int64_t b = 0; b <= a; ++b) {
      INFO(a << " " << b);
      CHECK(product(y, a, y, b, n, r) == Approx(a == b && a < n ? 1 : 0).margin(within));
    }
}

} // namespace

TEST_CASE("columns become orthogonal, of length 1, and span what they spanned") {
  for (auto [n, r] : {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {7, 3}, {300, 8}}) {
    const Values x = reals(n * r, 3), y = orthonormal({n, r}, x);
    checkBasis(y, n, r);
    // Column j is a sum of the first j of the result, and has a part of its own.
    for (int64_t j = 0; j < r; ++j) {
      double square = 0;
      for (int64_t k = 0; k <= j; ++k)
        square += std::pow(product(x, j, y, k, n, r), 2);
      CHECK(square == Approx(product(x, j, x, j, n, r)).epsilon(1e-5));
      CHECK(product(x, j, y, j, n, r) > 0);
    }
  }
}

TEST_CASE("a basis is whole where columns depend on each other, and the same every time") {
  const int64_t n = 9, r = 4;
  Values x = reals(n * r, 4);
  for (int64_t i = 0; i < n; ++i) {
    x[size_t(i * r + 1)] = 3 * x[size_t(i * r)]; // a multiple
    x[size_t(i * r + 3)] = 0;
  }
  const Values y = orthonormal({n, r}, x);
  checkBasis(y, n, r);
  CHECK(orthonormal({n, r}, x) == y);
  // Of nothing at all it is fixed: the first column is the filler's.
  const Values none = orthonormal({n, r}, Values(size_t(n * r), 0));
  checkBasis(none, n, r);
  double length = 0;
  for (int64_t i = 0; i < n; ++i)
    length += std::pow(orthonormalFiller(uint32_t(i), 0, 0), 2);
  for (int64_t i = 0; i < n; ++i)
    CHECK(none[size_t(i * r)] == Approx(orthonormalFiller(uint32_t(i), 0, 0) / std::sqrt(length)));
}

TEST_CASE("columns for which there is no room are zero") {
  const Values y = orthonormal({2, 3}, {1, 2, 3, 4, 5, 7});
  checkBasis(y, 2, 3);
  CHECK(y[2] == 0);
  CHECK(y[5] == 0);
}

TEST_CASE("sizes do not matter, and what is no number spoils the matrix") {
  const Values x = {1, 2, 3, 4, 5, 7}, y = orthonormal({3, 2}, x);
  for (double size : {1e-36, 1e36}) {
    Values other;
    for (double v : x)
      other.push_back(v * size);
    const Values found = orthonormal({3, 2}, other);
    for (size_t i = 0; i < y.size(); ++i)
      CHECK(found[i] == Approx(y[i]).margin(1e-5));
  }
  for (double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    Values spoilt = x;
    spoilt.insert(spoilt.end(), x.begin(), x.end());
    spoilt[3] = bad;
    const Values found = orthonormal({2, 3, 2}, spoilt); // the second matrix is none of its business
    for (size_t i = 0; i < 6; ++i) {
      CHECK(std::isnan(found[i]));
      CHECK(found[6 + i] == y[i]);
    }
  }
}

TEST_CASE("orthonormalize refuses what is no matrix of floating-point numbers") {
  auto refused = [](plan::DType type, const Shape &in, const Shape &out) {
    PlanBuilder p;
    p.kernel("orthonormalize", {p.buffer(type, in)}, {p.buffer(type, out)});
    return p.refusal("reference");
  };
  CHECK(refused(plan::F32, {4}, {4}).find("a matrix is wanted") != std::string::npos);
  CHECK(refused(plan::I32, {4, 2}, {4, 2}).find("not defined for i32") != std::string::npos);
  CHECK(refused(plan::F32, {4, 2}, {2, 4}).find("has the shape") != std::string::npos);
}
