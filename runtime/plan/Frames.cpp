#include "runtime/plan/Frames.h"

#include <algorithm>

namespace tessera::rt {

Frames::Frames(const plan::Plan &plan) {
  for (const plan::Frame &frame : plan.frames())
    frames_.push_back({frame.offset(), frame.bytes(), frame.slots()});
  std::ranges::sort(frames_, {}, &PlacedFrame::offset);
}

int Frames::frameOf(uint64_t offset) const {
  const auto behind = std::ranges::upper_bound(frames_, offset, {}, &PlacedFrame::offset);
  if (behind == frames_.begin())
    return -1;
  const PlacedFrame &frame = *std::prev(behind);
  return offset - frame.offset < frame.bytes * frame.slots ? int(behind - frames_.begin()) - 1 : -1;
}

int Frames::frameBehind(uint64_t offset) const {
  const auto behind = std::ranges::upper_bound(frames_, offset, {}, &PlacedFrame::offset);
  return behind == frames_.end() ? -1 : int(behind - frames_.begin());
}

uint64_t Frames::shift(uint64_t offset, uint32_t index) const {
  const int frame = frameOf(offset);
  return frame < 0 ? 0 : index % frames_[size_t(frame)].slots * frames_[size_t(frame)].bytes;
}

uint32_t Frames::slots(uint64_t offset) const {
  const int frame = frameOf(offset);
  return frame < 0 ? 1 : frames_[size_t(frame)].slots;
}

} // namespace tessera::rt
