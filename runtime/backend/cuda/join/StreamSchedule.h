//===- StreamSchedule.h - which step runs on which stream, and what waits for what ------------------===//
//
// Kernels run on the compute stream, what ranks do together on the communication stream. Within a stream steps run in
// order; between streams a step waits for the latest earlier step of the other stream that it conflicts with:
// one writes bytes of the arena that the other reads or writes.
//
//   steps: 0 kernel writes g1 · 1 collective g1 -> r1 · 2 kernel writes g2 · 3 kernel reads r1
//   =>  compute: 0, record A, 2, wait B, 3        communication: wait A, 1, record B
//
// The order is that of time (TimeOrder.h): a step of a section that is called twice stands in it twice, and its bytes
// are those of the places in which each call finds its buffers (Frames.h).
//
// A program becomes segments. If collectives and messages only enqueue device work, there is one segment, which can be
// recorded as a graph. If they go through the host (ranks that share a device), each is a segment of its own
// and the kernels between are segments. A segment begins and ends on the compute stream alone: the other is
// forked from it by event 0 and joined at the end, as graph recording demands.
//
// Pure functions on plain data.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_STREAMSCHEDULE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_STREAMSCHEDULE_H

#include "runtime/plan/TimeOrder.h"

#include <cstdint>
#include <vector>

namespace tessera::rt::cuda {

struct ByteRange {
  uint64_t begin = 0, end = 0;
};
struct StepAccess {
  bool amongRanks = false; // a collective, a send or a receive
  std::vector<ByteRange> reads, writes;
  bool changed = false; // these are not the bytes of the plan's step
};

/// Whether one writes bytes that the other reads or writes.
bool conflict(const StepAccess &a, const StepAccess &b);
bool meet(const std::vector<ByteRange> &a, const std::vector<ByteRange> &b);

struct ScheduledStep {
  StepInTime at;
  int stream = 0;    // TESSERA_COMPUTE_STREAM or TESSERA_COMM_STREAM
  int waitsFor = -1; // an event, before the step
  int records = -1;  // an event, after the step
};
struct Segment {
  bool onHost = false; // one step among ranks that goes through host memory: the device is idle meanwhile
  std::vector<ScheduledStep> steps;
  int events = 0; // numbered from 0; 0 is recorded on the compute stream before the first step
  int joins = -1; // the compute stream waits for this event after the last step
};

/// `order`: which steps run, and when. `inTime`: what each of them reads and writes then.
std::vector<Segment> scheduleProgram(const std::vector<StepAccess> &inTime, const std::vector<StepInTime> &order,
                                     bool ranksMeetOnHost);

/// The bytes that every step of a program reads and writes; `buffers` are their places in the arena.
std::vector<StepAccess> accessesOf(const plan::Program &program, const std::vector<ByteRange> &buffers);

} // namespace tessera::rt::cuda

#endif
