//===- SquaredDistances.h - sums of squared distances from the sums of the numbers ---------------------===//
//
// A variance comes as a second pass over what a mean was made of. But
//
//   sum of (x - m)^2  =  sum of x^2  -  2 m sum of x  +  n m^2            for any m
//
// so that one pass makes both. The sums are in F64: each square of an F32 is exact there, and what cancels costs
// 2^-53 (mean / deviation)^2 of the result. Of F32 numbers that differ at all this is less than what rounding x - m and
// its square to F32 costs, but for a mean beyond 10^4 deviations, where the numbers themselves have few digits of the
// difference. Numbers in F64 keep the second pass.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_SQUAREDDISTANCES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_SQUAREDDISTANCES_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/text/PointLoop.h"

#include <optional>

namespace tessera::rt::cuda {

/// A loop whose only result is the sum of (x - m)^2: its inputs x, at every point, and m, one for each result.
struct SquaredDistances {
  size_t x = 0, centre = 0;
};
std::optional<SquaredDistances> squaredDistancesOf(const ExpressionCode &code);

/// Whether the value is the input as it is, and that has a number for every point.
bool isWhole(const ExpressionCode &code, uint32_t value, size_t input);

/// Appends the sum of the squares of a value, whose sum is result number `sum`. It has the same view and is not stored.
void addSquares(ExpressionCode &code, size_t sum);

/// The loop over the results that makes the distances of `code` of `n` points each, behind sums numbered `sum` and
/// `squares` (SumEnd.h). Its parameters are the centre and the result.
PointLoop distancesFromSums(const ExpressionCode &code, const SquaredDistances &distances, int64_t n, size_t sum,
                            size_t squares);

} // namespace tessera::rt::cuda

#endif
