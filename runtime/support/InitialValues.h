//===- InitialValues.h - random values of parameters ------------------------------------------===//
//
// Element i of a tensor is a function of (seed, name, i) alone, so whoever needs a part of it makes that part:
// the compiler, which stores small sets of weights in a file, or each rank, for what it holds.
//
//   uint64_t stream = streamOf("fc.weight");
//   normalValue(seed, stream, 7);              // standard normal
//   uniformValue(seed, stream, 7);             // in [-1, 1)
//
// The generator is Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_INITIALVALUES_H
#define TESSERA_RUNTIME_SUPPORT_INITIALVALUES_H

#include <cstdint>
#include <string_view>

namespace tessera::rt {

/// The stream of random numbers that belongs to a tensor's name.
uint64_t streamOf(std::string_view name);
double uniformValue(uint64_t seed, uint64_t stream, uint64_t element);
double normalValue(uint64_t seed, uint64_t stream, uint64_t element);

} // namespace tessera::rt

#endif
