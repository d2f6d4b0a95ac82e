//===- Suite.h - every backend against the reference in F64 --------------------------------------------===//
//
// (What loading, copies and capabilities promise is Contract.cpp; docs/adding-a-backend.md says how to run it all.)
//
// A case is a small plan with inputs. `check` computes it on the reference backend with every F32 held as
// F64, then on every other backend in F32 with one and with two threads, and compares.
//
// A tolerance is relative to the largest magnitude of the expected tensor, or to 1; 0 demands equality, for cases
// made of small integers.
//
// TESSERA_CONFORMANCE_BACKEND=cuda tests that backend alone. TESSERA_CONFORMANCE_TF32=1 lets the backend round F32 to
// TF32, with the same tolerances. That is for the emulator, which does not round and lays tensors as a device does.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_BACKEND_SUITE_H
#define TESSERA_TEST_CONFORMANCE_BACKEND_SUITE_H

#include "test/conformance/backend/PlanBuilder.h"

#include <random>

namespace tessera::rt::test {

class Random {
public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) { // both included
    return low + int64_t(engine_() % uint64_t(high - low + 1));
  }
  bool coin() { return integer(0, 1) == 1; }
  template <typename T> const T &pick(const std::vector<T> &from) {
    return from[size_t(integer(0, int64_t(from.size()) - 1))];
  }
  Values integers(int64_t n, int64_t low, int64_t high);
  /// Multiples of 2^-20 in [low, high], which F32 and F64 hold exactly.
  Values reals(int64_t n, double low, double high);

private:
  std::mt19937_64 engine_;
};

struct Case {
  PlanBuilder plan;
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> wanted;
  double tolerance = 0;
  std::string what; // printed if the case fails

  /// A buffer filled with small integers (tolerance 0) or reals in [-1, 1].
  uint32_t input(Random &random, plan::DType dtype, const Shape &shape);
  uint32_t output(plan::DType dtype, const Shape &shape);
};

/// All backends that compute on any machine, or only that of TESSERA_CONFORMANCE_BACKEND.
std::vector<std::string> backendsUnderTest();

void check(const Case &c);

} // namespace tessera::rt::test

#endif
