//===- PlanBuilder.h - small plans by hand, for tests of backends -----------------------------===//
//
//   PlanBuilder p;
//   uint32_t x = p.buffer(plan::F32, {2, 3}), y = p.buffer(plan::F32, {2, 3});
//   p.kernel("relu", {x}, {y});
//   Outputs out = p.run("reference", {{x, values}}, {y});     // out[0] = contents of y as doubles
//
// Values travel as doubles: every F32, I32 and small I64 is exact.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_BACKEND_PLANBUILDER_H
#define TESSERA_TEST_CONFORMANCE_BACKEND_PLANBUILDER_H

#include "runtime/backend/Tensor.h"

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tessera::rt::test {

using Values = std::vector<double>;
using AttributeValue = std::variant<int64_t, double, Shape>;
using Attributes = std::map<std::string, AttributeValue>;

void setAttributes(google::protobuf::RepeatedPtrField<plan::Attribute> &to, const Attributes &attributes);

class PlanBuilder {
public:
  PlanBuilder();
  uint32_t buffer(plan::DType dtype, const Shape &shape);
  uint32_t alias(uint32_t of, const Shape &shape);
  /// A view of `count` rows from row `first` on. They begin at a multiple of 64 bytes.
  uint32_t rows(uint32_t of, int64_t first, int64_t count);
  plan::Kernel &kernel(const std::string &name, const std::vector<uint32_t> &inputs,
                       const std::vector<uint32_t> &outputs, const Attributes &attributes = {});
  plan::Plan &plan() { return plan_; }
  const Shape &shapeOf(uint32_t buffer) const { return shapes_[buffer]; }

  /// Loads the plan, writes the inputs, runs the program, and reads `wanted`. Steps run one by one if the backend has
  /// no whole programs, or with `apart`. Throws std::runtime_error on failure. `descriptions`, if not null, gets
  /// describe() of every step.
  std::vector<Values> run(const std::string &backend, const std::map<uint32_t, Values> &inputs,
                          const std::vector<uint32_t> &wanted, const LoadOptions &options = {},
                          std::vector<std::string> *descriptions = nullptr, bool apart = false) const;
  /// The message with which `backend` refuses the plan; empty if it does not.
  std::string refusal(const std::string &backend) const;

private:
  plan::Plan plan_;
  std::vector<Shape> shapes_;
};

/// Element conversions between a buffer's memory and doubles.
void encode(plan::DType dtype, const Values &values, void *to);
Values decode(plan::DType dtype, const void *from, size_t count);

} // namespace tessera::rt::test

#endif
