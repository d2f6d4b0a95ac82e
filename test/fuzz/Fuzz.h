//===- Fuzz.h - what a fuzz target provides -------------------------------------------------------===//
//
// A target is one file that defines the three functions below. It is linked either with libFuzzer
// (-DTESSERA_FUZZ=ON, clang) or with Driver.cpp, which needs no special compiler: it mutates the seeds
// by a fixed random sequence, so that a failure comes again, and is a CTest of some seconds.
//
//   build/bin/fuzz_plan --runs 20000 --seed 1            # Driver.cpp
//   build-fuzz/bin/fuzz_plan -max_total_time=60          # libFuzzer: tools/fuzz.sh
//   build/bin/fuzz_plan crash-file                       # both: once, on that input
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_FUZZ_FUZZ_H
#define TESSERA_TEST_FUZZ_FUZZ_H

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

/// Must return for every input; a crash, a hang or a sanitizer's report is a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace tessera::fuzz {

using Random = std::mt19937_64;

/// Valid inputs to start from.
std::vector<std::string> seeds();
/// Changes an input a little, knowing its format if that helps.
void mutate(std::string &input, Random &random);

/// Flips, inserts, removes, repeats and overwrites bytes, for targets that do not know their format better.
void mutateBytes(std::string &input, Random &random);

/// An integer to replace `old`: a neighbour (which wraps around), a small one, or one near a usual limit.
int64_t interesting(int64_t old, Random &random);

} // namespace tessera::fuzz

#endif
