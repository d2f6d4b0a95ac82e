//===- Numerics.h - steps whose numbers are not finite --------------------------------------------===//
//
// What a rank does for --check-numerics: now and then it copies parameters and states, after each training step it
// looks for NaNs and infinities in the loss and in what the step has made of them. (An update carries what is not
// finite in a gradient into the parameter or the optimizer's state.) When any rank has found one, all put the copy
// back, do the good steps since then once more, run the bad one again, slowly, and say where the first such number came
// from:
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
// What a program keeps itself where gradients overflow, as one with loss scaling does, is finite afterwards and is
// nobody's business here.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_NUMERICS_H
#define TESSERA_RUNTIME_SESSION_NUMERICS_H

#include "runtime/backend/Finite.h"
#include "runtime/executor/Executor.h"

namespace tessera::rt {

class Numerics {
public:
  /// The executor outlives it.
  Numerics(Executor &executor, std::string program, int threads);

  /// Copies parameters and states.
  Status keep();
  /// Whether this rank's loss, parameters or states have something that is not finite.
  Result<bool> bad(double loss);
  /// Parameters and states are as keep() found them.
  Status restore();
  /// All ranks, where restore() has led and a bad step's batch and number are fed: where the first number that is not
  /// finite comes from, the same sentence on all. Restores once more.
  Result<std::string> explain();

private:
  struct Held {
    uint32_t buffer;
    plan::DType type;
    size_t count;
    bool watched;           // by who writes it (FiniteWatch)
    std::vector<char> copy; // in host memory
  };
  size_t bytesOf(const Held &held) const;
  /// What a buffer holds; on a device through `fetched_`.
  Result<NonFinite> look(uint32_t buffer);
  /// Notes where buffers first get what is not finite.
  Status lookAtInputs();
  Status lookAt(const StepDone &done);
  void found(int64_t place, std::string what);
  NonFinite &at(uint32_t buffer);

  Executor &executor_;
  const std::string program_;
  const int threads_;
  std::vector<Held> held_;
  std::unique_ptr<Snapshot> snapshot_; // null: the copies are in `held_`
  const std::shared_ptr<std::atomic<bool>> found_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<char> fetched_;

  // Of explain().
  std::vector<NonFinite> seen_; // by buffer, of views at what they show
  int64_t place_ = -1;          // in program order; -1: nothing found
  std::string what_;
};

} // namespace tessera::rt

#endif
