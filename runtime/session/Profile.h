//===- Profile.h - where a run's time went, and what it costs to be off the machine's limits -------------===//
//
// A step's limit is the longer of two times: its operations at the rate of a product of large matrices, its bytes at
// the rate of memory (MachineRates.h). What it took beyond is lost.
//
//   conv f32, 1e9 operations and 2e7 bytes, took 8 ms; products run at 3e11 a second, memory at 2e10 bytes a second:
//   limit max(3.3 ms, 1 ms) = 3.3 ms, lost 4.7 ms
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_PROFILE_H
#define TESSERA_RUNTIME_SESSION_PROFILE_H

#include "runtime/backend/MachineRates.h"

#include <string>
#include <vector>

namespace tessera::rt {

struct Session;

/// What all calls of a step took in a run, and what they did.
struct StepCost {
  std::string kind;           // "conv f32", "all-reduce"
  std::string implementation; // "cpu: conv oneDNN jit:avx512_core"
  plan::DType type = plan::F32;
  uint64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

/// Sums over steps of a kind or of an implementation.
struct CostSum {
  std::string name; // of a kind, or "KIND, IMPLEMENTATION"
  uint64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
  double computing = 0, moving = 0, limit = 0; // seconds at the machine's rates; `limit` takes each step's longer one
  double lost() const { return seconds > limit ? seconds - limit : 0; }
};

/// Sums by kind, the longest first.
std::vector<CostSum> sumByKind(const std::vector<StepCost> &steps, const MachineRates &rates);
/// The implementations that lose most, at most `count` of those that lose anything.
std::vector<CostSum> largestLosses(const std::vector<StepCost> &steps, const MachineRates &rates, size_t count);
/// The table of kinds and the three largest losses, line by line. `seconds`: of the whole run.
std::vector<std::string> limitsText(const std::vector<StepCost> &steps, const MachineRates &rates);

/// Called by all ranks: measures the machine, and rank 0 prints what every program's steps took.
Status showProfile(Session &session);

} // namespace tessera::rt

#endif
