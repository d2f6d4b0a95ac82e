//===- RunCheckpoints.h - the checkpoints of a training run ------------------------------------===//
//
// Decides when a checkpoint is due, notes the run's position in it, and knows the last one, to which a run can go back.
// Without --checkpoint-dir the functions do nothing.
//
//   RunCheckpoints checkpoints(session, feed.source());
//   TESSERA_RETURN_IF_ERROR(checkpoints.check());
//   ... a step; the ranks agree on due() and ready() ...
//   TESSERA_RETURN_IF_ERROR(checkpoints.step(step, batches, due, everyoneReady));
//   TESSERA_RETURN_IF_ERROR(checkpoints.finish(step, batches));
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_RUNCHECKPOINTS_H
#define TESSERA_RUNTIME_SESSION_RUNCHECKPOINTS_H

#include "runtime/session/Checkpointer.h"
#include "runtime/session/Session.h"

namespace tessera::rt {

class RunCheckpoints {
public:
  /// Both arguments outlive this object.
  RunCheckpoints(Session &session, const DataSource &data);

  /// Checks that the folder can be written and holds no checkpoint of a later step than the run begins with. A later
  /// --resume would take such a checkpoint for this run's.
  Status check() const;

  /// Whether rank 0 finds a checkpoint due by time; the ranks must agree on it.
  bool due() const;
  bool ready() const { return !writer_ || writer_->ready(); }

  /// Called after a step. `batches` is the number of batches used since the first of epoch 0.
  Status step(int64_t step, int64_t batches, bool due, bool everyoneReady);
  Status finish(int64_t step, int64_t batches);

  /// Called by all ranks before the first step: writes a checkpoint that the run can go back to, if there is none.
  Status begin(int64_t step, int64_t batches);
  /// Called by all ranks. Waits for the last checkpoint and returns its folder.
  Result<std::string> last();

private:
  Status start(int64_t step, int64_t batches);
  /// The step of the last checkpoint; if the run has written none, that of the one that it began with.
  int64_t lastStep() const;
  /// Whether the checkpoint that the run begins with is in the folder.
  bool hasFirst() const;

  Session &s_;
  const DataSource &data_;
  std::optional<Checkpointer> writer_;
  double lastTime_ = now();
};

} // namespace tessera::rt

#endif
