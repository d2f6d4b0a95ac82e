//===- ZeroedPlan.h - a plan whose kernels are measured ------------------------------------------------===//
//
//   ZeroedPlan plan;                                       // on each of `ranks` threads
//   TESSERA_RETURN_IF_ERROR(plan.load(message, "cpu", ranks));
//   plan->launch(0, step);
//
//===----------------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_ZEROEDPLAN_H
#define TESSERA_TOOLS_PROFILE_ZEROEDPLAN_H

#include "runtime/comm/threads/ThreadWorld.h"
#include "runtime/session/Platform.h"

namespace tessera {

/// A rank's plan without the other ranks. All that is bound is zeros, which are valid numbers and indices.
class ZeroedPlan {
public:
  /// `ranks` share this machine's cores. `plan` outlives this.
  rt::Status load(const plan::Plan &plan, const std::string &backend, int ranks);
  rt::LoadedPlan &operator*() const { return *loaded_; }
  rt::LoadedPlan *operator->() const { return loaded_.get(); }
  const rt::LoadOptions &options() const { return options_; }

private:
  std::vector<std::unique_ptr<rt::World>> alone_;
  std::optional<rt::Platform> platform_;
  rt::LoadOptions options_;
  std::unique_ptr<rt::LoadedPlan> loaded_; // the last member: it uses the others
};

} // namespace tessera

#endif
