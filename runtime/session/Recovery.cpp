#include "runtime/session/Recovery.h"

#include "runtime/plan/PlanInfo.h"

#include <atomic>
#include <cmath>

namespace tessera::rt {

Recovery::Recovery(Session &session, RunCheckpoints &checkpoints) : s_(session), checkpoints_(checkpoints) {
  if (s_.options.numerics != NumericsPolicy::Ignore)
    numerics_.emplace(s_.executor, "train", s_.options.threads);
}

Status Recovery::begin(const Place &place) {
  if (!numerics_ || (copied_ && place.step < copied_->step + kCopyEvery))
    return Status();
  copied_ = place;
  return numerics_->keep();
}

Status Recovery::returnTo(Feed &feed, const Place &place) {
  TESSERA_RETURN_IF_ERROR(numerics_->restore());
  const int program = findProgram(s_.executor.plan(), "train");
  // No batch was left out since the copy was made.
  TESSERA_RETURN_IF_ERROR(feed.seek(copied_->batches()));
  for (int64_t step = copied_->step; step < place.step; ++step) {
    TESSERA_RETURN_IF_ERROR(feed.next());
    TESSERA_RETURN_IF_ERROR(s_.executor.feedStep("train", step));
    TESSERA_RETURN_IF_ERROR(s_.executor.run(program));
  }
  TESSERA_RETURN_IF_ERROR(feed.next());
  TESSERA_RETURN_IF_ERROR(s_.executor.feedStep("train", place.step));
  if (std::exchange(copied_, place)->step == place.step)
    return Status();
  return numerics_->keep();
}

void Recovery::pass(Place &place, int64_t batches) const {
  place.ahead += batches;
  if (s_.options.steps == 0)
    place.last -= batches;
}

Status Recovery::goBack(Place &place) {
  Result<std::string> folder = checkpoints_.last();
  if (!folder)
    return folder.status();
  Result<RunPosition> position = reload(s_, *folder);
  if (!position)
    return position.status();
  // The next batch is the same as without going back: undone steps count as batches that were
  // passed over.
  const int64_t undone = place.step - position->step;
  place.step = position->step;
  pass(place, undone + 1);
  if (s_.leader())
    s_.console.line("went back to " + *folder);
  return Status();
}

Status Recovery::handle(Feed &feed, double loss, Place &place) {
  const bool skip = s_.options.numerics == NumericsPolicy::Skip;
  Executor::Observer trace = s_.executor.observe(nullptr);
  TESSERA_RETURN_IF_ERROR(returnTo(feed, place));
  Result<std::string> why = numerics_->explain();
  s_.executor.observe(std::move(trace));
  if (!why)
    return why.status();
  std::string text = "step " + std::to_string(place.step + 1) + ", batch " + std::to_string(place.batches()) + ": " +
                     (std::isfinite(loss) ? "a gradient or an update is not finite"
                      : std::isnan(loss)  ? "the loss is a NaN"
                                          : "the loss is infinite") +
                     ": " + *why;
  std::string given;
  if (s_.options.numerics == NumericsPolicy::Stop)
    given = "--check-numerics skip or rollback would go on";
  else if (skip && inARow_ >= kMostSkipped)
    given = std::to_string(kMostSkipped) + " steps before it were left out, too";
  else if (!skip && rollbacks_ >= kMostRollbacks)
    given = "the run has gone back " + std::to_string(kMostRollbacks) + " times before";
  if (!given.empty()) {
    std::atomic_ref(s_.result.notFinite) = true; // ranks may be threads
    // No rank leaves before all have agreed: leaving would end the others with another error.
    static_cast<void>(s_.executor.everyone().barrier());
    return Status::error(text + "; " + given);
  }
  ++inARow_;
  ++(skip ? skipped_ : rollbacks_);
  if (s_.leader())
    s_.console.line("WARNING: " + text + (skip ? "; its update is left out" : ""));
  if (skip) {
    pass(place, 1);
    copied_ = place; // the parameters are the same, only the next batch is another
  } else {
    TESSERA_RETURN_IF_ERROR(goBack(place));
    copied_.reset();
  }
  if (!s_.leader())
    return Status();
  return s_.console.log(
      {{"step", double(place.step)}, {"loss", loss}, {skip ? "skipped" : "rollbacks", skip ? skipped_ : rollbacks_}});
}

std::string Recovery::summary() const {
  if (skipped_ > 0)
    return "updates left out, since numbers were not finite: " + std::to_string(skipped_);
  if (rollbacks_ > 0)
    return "returns to a checkpoint, since numbers were not finite: " + std::to_string(rollbacks_);
  return "";
}

} // namespace tessera::rt
