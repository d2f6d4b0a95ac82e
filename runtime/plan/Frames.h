//===- Frames.h - where a buffer lies in a call -----------------------------------------------===//
//
// A buffer of a frame lies in place index mod slots of it (plan.proto). Every other buffer lies where the plan says.
//
//   Frames frames(plan);                     // frame {offset: 0, bytes: 256, slots: 3}
//   frames.shift(64, 4)                      // 256: a buffer at offset 64 begins at 320 in calls with index 4
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_FRAMES_H
#define TESSERA_RUNTIME_PLAN_FRAMES_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <vector>

namespace tessera::rt {

struct PlacedFrame {
  uint64_t offset = 0, bytes = 0;
  uint32_t slots = 1;
};

/// Checks that frames lie in the arena and apart from each other.
Status checkFrames(const plan::Plan &plan);

/// The frames of a plan that passed checkFrames. Keeps nothing of the plan.
class Frames {
public:
  explicit Frames(const plan::Plan &plan);

  bool empty() const { return frames_.empty(); }
  /// The frame in which this byte of the arena lies, as an index in order of offsets; -1: none.
  int frameOf(uint64_t offset) const;
  /// The first frame that begins behind this byte; -1: none.
  int frameBehind(uint64_t offset) const;
  const PlacedFrame &operator[](int frame) const { return frames_[size_t(frame)]; }
  /// How many bytes behind its offset a buffer begins in calls with this index.
  uint64_t shift(uint64_t offset, uint32_t index) const;
  /// After so many indices a buffer lies in the same place again.
  uint32_t slots(uint64_t offset) const;

private:
  std::vector<PlacedFrame> frames_; // in order of offsets
};

} // namespace tessera::rt

#endif
