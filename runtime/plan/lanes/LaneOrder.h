//===- LaneOrder.h - steps that run beside each other, as numbers -------------------------------===//
//
// A rank's steps run on lanes. A lane runs its steps in order, one after the other; a step may also wait for earlier
// steps of other lanes. Everything else may happen at the same time. firstUnordered() tells whether two steps that must
// take turns may be under way at once.
//
//   std::vector<LaneStep> steps(3);
//   steps[0].writes = {{0, 64}};                       // a kernel makes a gradient
//   steps[1].lane = 1;                                 // a collective sums it beside kernels
//   steps[1].reads = {{0, 64}};
//   steps[1].writes = {{64, 128}};
//   steps[1].waits = {0};
//   steps[2].reads = {{64, 128}};                      // an update reads the sum
//   firstUnordered(steps);                             // 1 and 2: the update may begin too early
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_LANES_LANEORDER_H
#define TESSERA_RUNTIME_PLAN_LANES_LANEORDER_H

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::rt {

inline constexpr uint32_t kMostLanes = 2;

/// The bytes [begin, end) of the arena.
struct LaneBytes {
  uint64_t begin = 0, end = 0;
};

struct LaneStep {
  uint32_t lane = 0;           // below kMostLanes
  int64_t group = -1;          // of a collective: it has one order with the others of its group; -1: no collective
  std::vector<uint32_t> waits; // earlier steps, in any order
  std::vector<LaneBytes> reads, writes;
};

/// By lane: how many of its steps have surely ended when a step begins.
using LaneClock = std::array<uint32_t, kMostLanes>;

struct Unordered {
  enum Why { Read, Overwritten, Group } why = Read; // of what the first writes; of what it reads or writes; of a group
  uint32_t first = 0, second = 0;                   // steps, in order
};

/// Two steps that must take turns and may be under way at once; nothing if there are none. Then every timing gives what
/// the steps give one after the other. Takes n log n time for n ranges of bytes.
std::optional<Unordered> firstUnordered(const std::vector<LaneStep> &steps);

/// Gives steps that have no waits those that they need. Whichever of them is taken out is missed.
void addWaits(std::vector<LaneStep> &steps);

} // namespace tessera::rt

#endif
