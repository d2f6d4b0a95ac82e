//===- PlanInfo.h - small facts about the parts of a plan -------------------------------------===//
//
// Names for messages and overflow-checked sizes. Everything here is safe on a hostile plan.
//
//   typeName(plan::F32) == "f32"; shapeText({2, 3}) == "[2, 3]"; bytesOf({2, 3}, plan::F32) == 24
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_PLANINFO_H
#define TESSERA_RUNTIME_PLAN_PLANINFO_H

#include "runtime/plan/ElementType.h"
#include "runtime/plan/plan.pb.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// "f32", "bf16", "bool"; "?" for an unknown type.
std::string typeName(plan::DType type);
bool isFloatType(plan::DType type);
std::string roleName(plan::Role role);                 // "parameter"
std::string collectiveName(plan::CollectiveKind kind); // "all-reduce"
std::string reductionName(plan::Reduction reduction);  // "sum"

/// A name from a file, in quotes: made printable (Printable.h) and shortened.
std::string quoted(const std::string &name);

/// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);
template <typename Repeated> std::vector<int64_t> toVector(const Repeated &values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

/// The number of elements; nothing if a size is not positive or the product exceeds 2^62.
std::optional<int64_t> elementsOf(const std::vector<int64_t> &shape);
/// The number of bytes; nothing if elementsOf gives nothing or the type is unknown.
std::optional<uint64_t> bytesOf(const std::vector<int64_t> &shape, plan::DType type);

/// The size of this rank's block of the bound tensor, per dimension: the binding's `extent`, or
/// else the buffer's shape. `isEmpty` tells whether the block has no elements.
std::vector<int64_t> extentOf(const plan::Plan &plan, const plan::Binding &binding);
bool isEmpty(const std::vector<int64_t> &extent);

/// How many bytes this rank sends in one execution of a collective, by the usual algorithms
/// (ring all-reduce: 2 (n-1)/n of the tensor).
uint64_t bytesSent(const plan::Plan &plan, const plan::Collective &collective);

/// How many of the steps behind a collective are sent with it.
inline uint32_t followers(const plan::Collective &collective) {
  return std::max(collective.joined(), collective.along());
}

/// For every step of a program the first step of the message that it is a part of: the step itself if it is a
/// collective that is sent alone, -1 if it is a kernel.
std::vector<int> messagesOf(const plan::Program &program);

/// The buffers that a step reads or writes: a kernel's operands, what a collective takes and gives, what a Send or a
/// Receive moves.
std::vector<uint32_t> readsOf(const plan::Step &step);
std::vector<uint32_t> writesOf(const plan::Step &step);

/// The index of the program called `name`, or -1.
int findProgram(const plan::Plan &plan, const std::string &name);

} // namespace tessera::rt

#endif
