#include "runtime/backend/BufferUses.h"

#include "runtime/backend/ResolvedPlan.h"

namespace tessera::rt {

BufferUses::BufferUses(const plan::Plan &plan)
    : root_(wholeBuffers(plan)), reads_(root_.size(), 0), writes_(root_.size(), 0), kept_(root_.size(), false) {
  for (uint32_t b = 0; b < root_.size(); ++b) {
    if (plan.buffers(int(b)).persistent())
      kept_[root_[b]] = true;
  }
  for (const plan::Binding &binding : plan.bindings())
    kept_[root(binding.buffer())] = true;
  for (const plan::Program &program : plan.programs())
    for (const plan::Step &step : program.steps()) {
      for (uint32_t b : readsOf(step))
        ++reads_[root(b)];
      for (uint32_t b : writesOf(step))
        ++writes_[root(b)];
    }
}

} // namespace tessera::rt
