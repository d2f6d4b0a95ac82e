//===- Recovery.h - what --check-numerics does about a bad step --------------------------------===//
//
// A step is bad where any rank's loss, gradients or updates are not finite (Numerics.h). Then all ranks do the same, as
// the policy says. They stop, or leave the step's update out and go on with the next batch, or return to the last
// checkpoint and go on with the next batch. For every bad batch the run names the operator that made the first such
// number.
//
//   Recovery recovery(session, checkpoints);
//   Place place{step, ahead, last};
//   TESSERA_RETURN_IF_ERROR(recovery.begin(place));
//   ... the step ...
//   Result<bool> bad = recovery.bad(loss);              // this rank's part of what is agreed on
//   if (agreed.bad)
//     TESSERA_RETURN_IF_ERROR(recovery.handle(*feed, loss, place));
//   else
//     recovery.good();
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_RECOVERY_H
#define TESSERA_RUNTIME_SESSION_RECOVERY_H

#include "runtime/session/Numerics.h"
#include "runtime/session/RunCheckpoints.h"

namespace tessera::rt {

/// Where a training run is.
struct Place {
  int64_t step = 0;  // updates that were done
  int64_t ahead = 0; // `step + ahead` batches were used, counted from the first of epoch 0
  int64_t last = 0;  // the run ends after this step
  int64_t batches() const { return step + ahead; }
};

class Recovery {
public:
  /// A run gives up after so many steps in a row that it left out, or after going back so often.
  static constexpr int kMostSkipped = 10, kMostRollbacks = 3;
  /// Parameters and states are copied before every so many steps. After a bad step, the steps since the copy are
  /// repeated, which gives the same bits. A copy before every step would cost most of the check's time.
  static constexpr int64_t kCopyEvery = 16;

  /// Both arguments outlive this object.
  Recovery(Session &session, RunCheckpoints &checkpoints);

  /// Called before a step.
  Status begin(const Place &place);
  Result<bool> bad(double loss) { return numerics_ ? numerics_->bad(loss) : false; }
  void good() { inARow_ = 0; }
  /// Called by all ranks after a step that was bad on any of them. Sets `place` to where the run goes on.
  Status handle(Feed &feed, double loss, Place &place);
  /// A line about what was left out or undone; empty if nothing was.
  std::string summary() const;

private:
  /// Restores parameters and states as they were before the step at `place`, copies them, and feeds that step's batch
  /// again.
  Status returnTo(Feed &feed, const Place &place);
  Status goBack(Place &place);
  /// Counts batches that were used without an update; a run over epochs then has as many steps fewer.
  void pass(Place &place, int64_t batches) const;

  Session &s_;
  RunCheckpoints &checkpoints_;
  std::optional<Numerics> numerics_; // none: nothing is checked
  std::optional<Place> copied_;      // the place at which the copy was made
  int inARow_ = 0, skipped_ = 0, rollbacks_ = 0;
};

} // namespace tessera::rt

#endif
