//===- Splits.h - kernels in parts, held against the whole ----------------------------------------------===//
//
// What a kernel of a backend computes on parts of its operands, as the ranks of a mesh have them, against those
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

/// A product of matrices, whose rows, columns and batch are cut.
Case product(plan::DType type, int64_t m, int64_t n, int64_t k, bool transposeA, bool transposeB,
             const Shape &batch = {});

struct ConvSizes {
  int64_t n, c, f, h, kernel, stride, groups = 1, dilation = 1;

  int64_t pad() const { return (kernel - 1) * dilation / 2; }
  int64_t out() const { return (h + 2 * pad() - (kernel - 1) * dilation - 1) / stride + 1; }
  Attributes attributes() const {
    return {{"strides", Shape{stride, stride}},
            {"pads", Shape{pad(), pad(), pad(), pad()}},
            {"dilations", Shape{dilation, dilation}},
            {"groups", groups}};
  }
};
/// The convolution and its gradients. Of each, the factors are cut that it does not sum over; of several groups, these.
std::vector<Case> convolutions(plan::DType type, const ConvSizes &g);

/// Numbers of many magnitudes, so that another order of adding shows in the last bits.
Values numbers(int64_t n, uint64_t seed, plan::DType type);

/// Part `part` of `parts` of the dimension `dim`. Where they do not divide it, parts are as long as the first one, and
/// what lies behind the dimension's end is padding.
Values slice(const Values &values, const Shape &shape, size_t dim, int64_t parts, int64_t part);

struct Setting {
  int threads = 1;
  bool reproducible = true;
  std::string backend = "cpu";
};
std::vector<Values> run(const Case &c, const std::vector<Operand> &in, const std::vector<Operand> &out,
                        const std::vector<Values> &values, const Setting &setting,
                        std::vector<std::string> *descriptions = nullptr);

bool sameBits(const Values &a, const Values &b);

/// A product whose sum over k has leaves.
struct LeafSizes {
  int64_t m, n, k, leaves;
  Shape batch = {};
};
/// The product is the tree of its leaves' products, each of which is a call of its own here.
void checkLeaves(const LeafSizes &s, plan::DType type, bool transposeA, bool transposeB, const Setting &setting);

/// Every case in every part, with one and with several threads, on the backend cpu in plans that are reproducible and
/// in others.
void check(const std::vector<Case> &cases);
/// The same in reproducible plans on the backend cuda, where there is nothing that changes bits.
void checkOnDevice(const std::vector<Case> &cases);

} // namespace tessera::rt::test

#endif
