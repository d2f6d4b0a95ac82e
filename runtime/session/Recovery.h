//===- Recovery.h - what --check-numerics does about a bad step --------------------------------===//
//
// A step is bad where any rank's loss, gradients or updates are not finite (Numerics.h). Then all ranks do the same:
// stop, leave the step's update out and go on with the next batch, or return to the last checkpoint and go on with the
// next batch. Every bad batch is told with the operator that spoilt it.
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
  int64_t step = 0;  // so many updates lie behind it,
  int64_t ahead = 0; // and `step + ahead` batches, counted from the first of epoch 0
  int64_t last = 0;  // the run ends after this step
  int64_t batches() const { return step + ahead; }
};

class Recovery {
public:
  /// In a row left out, and how often the run goes back, before it is given up.
  static constexpr int kMostSkipped = 10, kMostRollbacks = 3;
  /// Parameters and states are copied before every so manieth step. From there the steps before a bad one are done once
  /// more, which gives the same bits: copies would otherwise cost most of what the check costs.
  static constexpr int64_t kCopyEvery = 16;

  /// Both outlive it.
  Recovery(Session &session, RunCheckpoints &checkpoints);

  /// Before a step.
  Status begin(const Place &place);
  Result<bool> bad(double loss) { return numerics_ ? numerics_->bad(loss) : false; }
  void good() { inARow_ = 0; }
  /// All ranks, after a step that was bad anywhere: `place` becomes where the run goes on.
  Status handle(Feed &feed, double loss, Place &place);
  /// Nothing, or what happened, for people.
  std::string summary() const;

private:
  /// Parameters and states as before the step at `place`, and a copy of them; the feed has its batch again.
  Status returnTo(Feed &feed, const Place &place);
  Status goBack(Place &place);
  /// The batch was used up; a run over epochs makes one step fewer.
  void pass(Place &place, int64_t batches) const;

  Session &s_;
  RunCheckpoints &checkpoints_;
  std::optional<Numerics> numerics_; // none: nothing is checked
  std::optional<Place> copied_;      // where the copy was made
  int inARow_ = 0, skipped_ = 0, rollbacks_ = 0;
};

} // namespace tessera::rt

#endif
