//===- Model.h - what the collectives must compute, in plain loops ---------------------------===//
//
// Elements travel as bytes; values are doubles (every dtype but I64 fits exactly, and I64 test
// values are small). Shares no code with runtime/comm.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_COMM_MODEL_H
#define TESSERA_TEST_CONFORMANCE_COMM_MODEL_H

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::rt::conformance {

using Bytes = std::vector<uint8_t>;

size_t elementSize(plan::DType dtype);
/// Writes `value` as element `index`, rounded to the dtype (to nearest even); integers wrap.
void put(Bytes &bytes, plan::DType dtype, size_t index, double value);
double get(const Bytes &bytes, plan::DType dtype, size_t index);

/// Counter-based random bits: a hash of three numbers.
uint64_t mix(uint64_t a, uint64_t b = 0, uint64_t c = 0);

/// `count` test values of a rank: fractions for floats, both signs where the dtype has them.
Bytes values(plan::DType dtype, size_t count, int rank, uint64_t seed);

/// Element-wise reduction in the given order. Half types accumulate in F32 and round once.
Bytes reduce(std::span<const Bytes> inputs, plan::DType dtype, plan::Reduction reduction);
/// Element-wise reduction as a tree: neighbours, then neighbours of the results. Every result is rounded.
Bytes reduceAsTree(std::span<const Bytes> inputs, plan::DType dtype, plan::Reduction reduction);

/// Element offsets of a box in row-major order.
std::vector<int64_t> offsets(const Box &box);

extern const std::vector<plan::DType> kAllTypes;

} // namespace tessera::rt::conformance

#endif
