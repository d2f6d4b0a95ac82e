//===- RunCheckpoints.h - the checkpoints of a training run ------------------------------------===//
//
// When one is due, what it says of where the run is, and the last one to go back to. Nothing happens where the run
// writes none.
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
  /// Both outlive it.
  RunCheckpoints(Session &session, const DataSource &data);

  /// The folder must be one that can be written, and what is already in it must not lie ahead of this run: a later
  /// --resume would take it for this run's.
  Status check() const;

  /// This rank's part of what is to be agreed on.
  bool due() const;
  bool ready() const { return !writer_ || writer_->ready(); }

  /// After a step: `batches` lie behind it since the first of epoch 0.
  Status step(int64_t step, int64_t batches, bool due, bool everyoneReady);
  Status finish(int64_t step, int64_t batches);

  /// All ranks, before the first step: the run has one to go back to.
  Status begin(int64_t step, int64_t batches);
  /// All ranks. Waits for the last one; its folder.
  Result<std::string> last();

private:
  Status start(int64_t step, int64_t batches);
  /// Of the last checkpoint: the one that the run began with where it has written none.
  int64_t lastStep() const;
  /// Whether the one that the run begins with is in the folder.
  bool hasFirst() const;

  Session &s_;
  const DataSource &data_;
  std::optional<Checkpointer> writer_;
  double lastTime_ = now();
};

} // namespace tessera::rt

#endif
