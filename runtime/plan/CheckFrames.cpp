// checkFrames: frames lie in the arena, apart from each other, and buffers lie in their first places.
#include "runtime/plan/Alignment.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt {
namespace {

std::string frameText(const PlacedFrame &frame) {
  return "the frame of " + std::to_string(frame.slots) + " x " + std::to_string(frame.bytes) + " bytes at offset " +
         std::to_string(frame.offset);
}

} // namespace

Status checkFrames(const plan::Plan &plan) {
  for (const plan::Frame &frame : plan.frames()) {
    const std::string what = frameText({frame.offset(), frame.bytes(), frame.slots()});
    if (frame.slots() == 0 || frame.bytes() == 0)
      return Status::error(what + " has no place");
    if (frame.offset() % kAlignment != 0 || frame.bytes() % kAlignment != 0)
      return Status::error(what + " is not aligned to " + std::to_string(kAlignment) + " bytes");
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(frame.bytes(), uint64_t(frame.slots()), &bytes) || bytes > plan.arena_bytes() ||
        frame.offset() > plan.arena_bytes() - bytes)
      return Status::error(what + " lies outside the arena of " + std::to_string(plan.arena_bytes()) + " bytes");
  }
  const Frames frames(plan);
  for (int f = 1; f < plan.frames_size(); ++f)
    if (frames[f].offset - frames[f - 1].offset < frames[f - 1].bytes * frames[f - 1].slots)
      return Status::error(frameText(frames[f]) + " overlaps " + frameText(frames[f - 1]));
  return Status();
}

Status checkFramedBuffers(const plan::Plan &plan, const std::vector<BufferRange> &ranges) {
  const Frames frames(plan);
  if (frames.empty())
    return Status();
  for (uint32_t b = 0; b < ranges.size(); ++b) {
    const BufferRange &range = ranges[b];
    // Whether the buffer touches a frame: that of its first byte, of its last, or one that it covers.
    const int first = frames.frameOf(range.begin), last = frames.frameOf(range.end - 1);
    if (first < 0 && last < 0) {
      if (const int f = frames.frameBehind(range.begin); f >= 0 && frames[f].offset < range.end)
        return Status::error(bufferText(plan, b) + " covers " + frameText(frames[f]));
      continue;
    }
    const PlacedFrame &frame = frames[first >= 0 ? first : last];
    if (first != last || range.end > frame.offset + frame.bytes)
      return Status::error(bufferText(plan, b) + " does not lie in the first place of " + frameText(frame));
    if (plan.buffers(int(b)).persistent() || !plan.buffers(int(b)).constant().empty())
      return Status::error(bufferText(plan, b) + " is persistent, but lies in " + frameText(frame));
  }
  for (const plan::Binding &binding : plan.bindings())
    if (binding.buffer() < ranges.size() && frames.frameOf(ranges[binding.buffer()].begin) >= 0)
      return Status::error(bufferText(plan, binding.buffer()) + " is bound to " + quoted(binding.name()) +
                           ", but lies in " + frameText(frames[frames.frameOf(ranges[binding.buffer()].begin)]));
  return Status();
}

} // namespace tessera::rt
