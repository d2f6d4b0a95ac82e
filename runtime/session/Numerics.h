//===- Numerics.h - steps whose numbers are not finite --------------------------------------------===//
//
// This is how a rank checks numbers for --check-numerics. Now and then it copies parameters and states. After each
// training step it looks for NaNs and infinities in the loss and in the new parameters and states. (An update carries a
// NaN or infinity of a gradient into the parameter or the optimizer's state.) When any rank has found one, all ranks
// put the copy back, repeat the good steps since then, run the bad step again operator by operator, and say where the
// first such number came from:
//
//   Numerics numerics(executor, "train", threads);
//   TESSERA_RETURN_IF_ERROR(numerics.keep());
//   ... the step ...
//   Result<bool> mine = numerics.bad(loss);       // agreed with the other ranks:
//   TESSERA_RETURN_IF_ERROR(numerics.restore());  // and the step's batch and number fed again
//   Result<std::string> why = numerics.explain(); // "the operator 'head/Log' (log) on rank 1 makes an infinity
//                                                 // of finite operands"
//   // parameters and states are as before the step
//
// A program with loss scaling leaves out updates whose gradients overflow. Its parameters stay finite, so such steps
// are not bad.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_NUMERICS_H
#define TESSERA_RUNTIME_SESSION_NUMERICS_H

#include "runtime/backend/Finite.h"
#include "runtime/executor/Executor.h"
#include "runtime/plan/Frames.h"

namespace tessera::rt {

class Numerics {
public:
  /// The executor outlives this object.
  Numerics(Executor &executor, std::string program, int threads);

  /// Copies parameters and states.
  Status keep();
  /// Whether this rank's loss, parameters or states have a number that is not finite.
  Result<bool> bad(double loss);
  /// Sets parameters and states to the copies of keep().
  Status restore();
  /// Called by all ranks, where parameters and states are those before a bad step and its batch and number are fed.
  /// Says where the first number that is not finite comes from, in the same words on all ranks. Restores once more.
  Result<std::string> explain();

private:
  struct Held {
    uint32_t buffer;
    plan::DType type;
    size_t count;
    bool watched;           // the backend notes when it gets such a number (FiniteWatch)
    std::vector<char> copy; // in host memory
  };
  size_t bytesOf(const Held &held) const;
  /// Looks at a buffer's contents; those of a device are fetched first.
  Result<NonFinite> look(uint32_t buffer, uint32_t index = 0);
  /// Notes where buffers first get a number that is not finite.
  Status lookAtInputs();
  Status lookAt(const StepDone &done);
  void found(int64_t place, std::string what);
  NonFinite &at(uint32_t buffer, uint32_t index = 0);

  Executor &executor_;
  const std::string program_;
  const int threads_;
  const Frames frames_;
  std::vector<Held> held_;
  std::unique_ptr<Snapshot> snapshot_; // null: the copies are in `held_`
  const std::shared_ptr<std::atomic<bool>> found_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<char> fetched_;

  // The members below belong to explain().
  std::map<std::pair<uint32_t, uint32_t>, NonFinite>
      seen_;           // by buffer, of views at what they show, and place in its frame
  int64_t place_ = -1; // in time; -1: nothing found
  std::string what_;
};

} // namespace tessera::rt

#endif
