//===- CheckSteps.h - parts of checkPlan ------------------------------------------------------===//
//
// Internal to the checker. Each part relies on the ones before it: frames and buffers, then bindings, then
// the operands of every step, then sections, messages and resources, then the simulation.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_CHECKSTEPS_H
#define TESSERA_RUNTIME_PLAN_CHECKSTEPS_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::rt {

/// A buffer's place after the first checks; `root` is the buffer that an alias is a view of.
struct BufferRange {
  uint64_t begin = 0, end = 0;
  uint32_t root = 0;
  std::vector<int64_t> shape;
  bool overlaps(const BufferRange &other) const { return begin < other.end && other.begin < end; }
  bool same(const BufferRange &other) const { return begin == other.begin && end == other.end; }
};

/// The buffers that a step reads, and those that it writes.
struct Operands {
  std::span<const uint32_t> read, written;
};
/// `own` is memory for the result.
Operands operandsOf(const plan::Step &step, std::array<uint32_t, 2> &own);

/// What a plan shares with one that was found good. These parts need not be checked again.
struct Likeness {
  const std::vector<BufferRange> *ranges = nullptr; // where the buffers lie, if they are the same
  std::vector<std::vector<bool>> steps;             // by program: which steps are the same, given the same buffers
  bool flow = false; // every program reads and writes the same buffers in the same time order
  bool step(size_t program, size_t index) const {
    return program < steps.size() && index < steps[program].size() && steps[program][index];
  }
};

/// checkPlan without the parts that `like` covers. Fills `ranges` where `like` has none.
Status checkPlan(const plan::Plan &plan, const Likeness &like, std::vector<BufferRange> &ranges);

/// "buffer 3 'x'".
std::string bufferText(const plan::Plan &plan, uint32_t buffer);

/// Checks that buffers of frames lie in the first places, and that none of them is persistent or bound.
Status checkFramedBuffers(const plan::Plan &plan, const std::vector<BufferRange> &ranges);
/// Sizes, offsets, alignment, aliases, persistence and constants; fills `ranges`.
Status checkBuffers(const plan::Plan &plan, std::vector<BufferRange> &ranges);
/// Checks roles, blocks and names of the bindings.
Status checkBindings(const plan::Plan &plan, const std::vector<BufferRange> &ranges);
/// Checks the operands of one step's kernel, collective, send or receive. The message does not name the step.
Status checkStep(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Step &step);
/// Checks the body of a kernel "fused".
Status checkExpression(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Kernel &kernel);
/// Checks that the sections are parts of the steps in order, that calls name sections, that no step "micro_rows" runs
/// with an index that it has no rows for, and that the calls are no more steps than can be walked.
Status checkSections(const plan::Program &program);
/// Checks that what is sent as one message lies so, and that joining changes no result.
Status checkMessages(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program);
/// Checks which steps run on which resource, that waits name steps that can be waited for, and that every timing gives
/// what the steps give one after the other: two steps of which one writes what the other reads or writes, and two
/// collectives of one group, begin and end one after the other.
Status checkLanes(const plan::Plan &plan, const std::vector<BufferRange> &ranges, const plan::Program &program);
/// Simulates every program, call by call, and checks that everything that is read was written.
Status checkDefinedness(const plan::Plan &plan, const std::vector<BufferRange> &ranges);

/// How many operands the elementwise operator `name` has; -1 if there is no such operator.
int elementwiseOperands(const std::string &name);

} // namespace tessera::rt

#endif
