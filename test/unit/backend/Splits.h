//===- Splits.h - kernels in parts, held against the whole ----------------------------------------------===//
//
// What a kernel of the backend cpu computes on parts of its operands, as the ranks of a mesh have them, against those
// parts of what it computes on the whole, to the bit; and on several threads against one.
//
//   Case c{"matmul", {{"mk", {256, 64}}, {"kn", {64, 128}}}, {{"mn", {256, 128}}}, "mn"};
//   check({c});                             // m and n are cut in 2, 3, 4 and 8; fails with the cuts that change bits
//
// What does not keep its bits is named in Splits.cpp. In a reproducible plan (Plan.leaves) it does, but for cuts that
// rules do not allow there.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_BACKEND_SPLITS_H
#define TESSERA_TEST_UNIT_BACKEND_SPLITS_H

#include "test/conformance/backend/PlanBuilder.h"

namespace tessera::rt::test {

/// A tensor of a kernel. `dims` names each dimension by a letter. A cut of a letter cuts every dimension of this name.
struct Operand {
  std::string dims;
  Shape shape;
};

struct Case {
  std::string kernel;
  std::vector<Operand> in, out;
  std::string cuts; // the letters that are cut, one at a time; 'g' also divides the attribute "groups"
  Attributes attributes = {};
  plan::DType type = plan::F32;
  /// Builds the kernel where it is a loop; else it is made of `kernel` and `attributes`.
  void (*build)(PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) = nullptr;
};

/// Numbers of many magnitudes, so that another order of adding shows in the last bits.
Values numbers(int64_t n, uint64_t seed, plan::DType type);

/// Part `part` of `parts` of the dimension `dim`. Where they do not divide it, parts are as long as the first one, and
/// what lies behind the dimension's end is padding.
Values slice(const Values &values, const Shape &shape, size_t dim, int64_t parts, int64_t part);

std::vector<Values> run(const Case &c, const std::vector<Operand> &in, const std::vector<Operand> &out,
                        const std::vector<Values> &values, int threads, bool reproducible,
                        std::vector<std::string> *descriptions = nullptr);

bool sameBits(const Values &a, const Values &b);

/// Every case in every part, with one and with several threads, in plans that are reproducible and in others.
void check(const std::vector<Case> &cases);

} // namespace tessera::rt::test

#endif
