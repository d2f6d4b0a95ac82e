// The functions that loops call, against those of F64, and lines of numbers whatever their length.
#include "runtime/backend/cpu/fused/VectorOps.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace tessera::rt;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// In units of the last digit of what is wanted.
double error(double wanted, float got) {
  int exponent = 0;
  std::frexp(wanted, &exponent);
  return std::abs(double(got) - wanted) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

std::vector<float> apply(VectorOp op, const std::vector<float> &x) {
  std::vector<float> y(x.size());
  vectorOps().find(op, 0)(y.data(), x.data(), nullptr, nullptr, int64_t(x.size()));
  return y;
}

std::vector<float> between(float low, float high, int count) {
  std::vector<float> x;
  for (int i = 0; i <= count; ++i)
    x.push_back(low + (high - low) * float(i) / float(count));
  return x;
}

} // namespace

TEST_CASE("exp, erf and sigmoid are wrong by a few last digits at most") {
  const auto check = [](VectorOp op, const std::vector<float> &x, double most, double (*exact)(double)) {
    const std::vector<float> y = apply(op, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, error(exact(double(x[i])), y[i]));
    CHECK(worst < most);
  };
  check(VectorOp::Exp, between(-87, 88, 20011), 4, [](double x) { return std::exp(x); });
  check(VectorOp::Erf, between(-5, 5, 20011), 5, [](double x) { return std::erf(x); });
  check(VectorOp::Erf, between(-1e-6f, 1e-6f, 201), 5, [](double x) { return std::erf(x); });
  check(VectorOp::Sigmoid, between(-80, 80, 20011), 5, [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST_CASE("exp, erf and sigmoid at their ends") {
  const std::vector<float> x = {0, -0.0f, kInf, -kInf, kNan, 200, -200};
  const std::vector<float> exp = apply(VectorOp::Exp, x), erf = apply(VectorOp::Erf, x);
  const std::vector<float> sigmoid = apply(VectorOp::Sigmoid, x);
  CHECK(exp[0] == 1);
  CHECK(exp[2] == kInf);
  CHECK(exp[3] == 0);
  CHECK(exp[5] == kInf);
  CHECK(exp[6] == 0);
  CHECK(erf[0] == 0);
  CHECK(std::signbit(erf[1]));
  for (const size_t i : {2, 5}) {
    CHECK(erf[i] == 1);
    CHECK(erf[i + 1] == -1);
  }
  CHECK(sigmoid[2] == 1);
  CHECK(sigmoid[3] == 0);
  for (const std::vector<float> *y : {&exp, &erf, &sigmoid})
    CHECK(std::isnan((*y)[4]));
}

TEST_CASE("an element's function does not depend on its place") {
  const std::vector<float> x = between(-3, 3, 46);
  for (const VectorOp op : {VectorOp::Exp, VectorOp::Erf, VectorOp::Sigmoid}) {
    const std::vector<float> all = apply(op, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const float alone = apply(op, {x[i]})[0];
      CHECK(std::memcmp(&alone, &all[i], sizeof alone) == 0);
    }
  }
}

TEST_CASE("lines of any length have a largest number and a sum of exponentials") {
  for (const int64_t n : {1, 5, 15, 16, 17, 31, 32, 197, 4096, 4097, 9000}) {
    INFO(n);
    std::vector<float> x, y(size_t(n) + 1, 7.0f);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(float((i * 37 + 11) % 101) / 16 - 4);
      sum += std::exp(double(x.back()) - 2);
    }
    CHECK(vectorOps().largest(x.data(), n) == *std::max_element(x.begin(), x.end()));
    CHECK(vectorOps().expSum(y.data(), x.data(), 2, n) == Approx(sum).epsilon(1e-6));
    for (int64_t i = 0; i < n; ++i)
      CHECK(y[size_t(i)] == Approx(std::exp(double(x[size_t(i)]) - 2)).epsilon(1e-6));
    CHECK(y.back() == 7); // nothing is written behind the line
    x.back() = kNan;
    CHECK(std::isnan(vectorOps().largest(x.data(), n)));
    CHECK(std::isnan(vectorOps().expSum(y.data(), x.data(), 0, n)));
  }
  const std::vector<float> none(20, -kInf);
  CHECK(vectorOps().largest(none.data(), 20) == -kInf);
}
