#include "compiler/driver/fit/Fitting.h"

#include "runtime/support/BytesText.h"

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

/// The next search gets this part of the proportional limit, because packing differs from one assignment to the next.
static constexpr double kMargin = 0.97;

/// The part of the limit that a search counts at most if it has memory to spare.
static constexpr double kSpare = 0.9;

bool memoryWasShort(const strategies::AssignReport &report) {
  const strategies::FunctionReport *step = report.step();
  return !step || double(std::max(step->search.counted, step->peakBytes)) > kSpare * double(report.memoryLimit);
}

/// Whether there is a better answer but for copies that the search did not see.
static bool heldTooMuch(const FittedProgram &fitted) {
  const strategies::FunctionReport *step = fitted.report.step();
  return step && step->search.heldTooMuch;
}

Fitting::Fitting(Compilation &run, const AssignOptions &assign, Candidates &candidates, FittedProgram &fitted,
                 Attempt attempt, llvm::function_ref<llvm::Error(int64_t)> tooMuch, strategies::PipelineShare share,
                 std::optional<int64_t> first)
    : run_(run), assign_(assign), candidates_(candidates), fitted_(fitted), attempt_(attempt), tooMuch_(tooMuch),
      share_(share), first_(first), limit_(strategies::memoryOf(assign)) {}

llvm::Error Fitting::run() {
  llvm::Expected<int64_t> needed = first_ ? *first_ : attempt_(assign_);
  if (!needed)
    return needed.takeError();
  if (*needed <= limit_)
    return llvm::Error::success();
  if (assign_.mode != "auto" || !assign_.user.saved.empty())
    return tooMuch_(limit_);
  if (run_.onlyOnce)
    return llvm::make_error<NotAtOnce>(std::move(fitted_));
  if (isLongEnough())
    return llvm::make_error<NoBetter>(/*inAnyMemory=*/!memoryWasShort(fitted_.report));
  const int64_t counted = used();
  if (share_.stages > 1) {
    llvm::Expected<bool> fits = countHeld(*needed);
    if (!fits || *fits)
      return fits.takeError();
  }
  llvm::Expected<Expiring> expiring = expire(*needed);
  if (!expiring)
    return expiring.takeError();
  // The search for a pipeline counts less than its stages hold, so that copies expire only under a smaller limit. Then
  // strategies for the same memory take less.
  if (run_.pipeline && !expiring->fits && expiring->needed) {
    if (llvm::Error e = lowerExpiring(*expiring))
      return e;
    if (isLong_) // and so it is all the more where copies are kept
      return llvm::make_error<NoBetter>();
  }
  candidates_.keep();
  llvm::Expected<bool> fits =
      lower(*needed, counted, expiring->fits ? expiring->fits->report.total() : strategies::kForbidden);
  if (!fits)
    return fits.takeError();
  if (*fits)
    return llvm::Error::success();
  if (expiring->fits) {
    fitted_ = std::move(*expiring->fits);
    return llvm::Error::success();
  }
  if (!run_.pipeline && expiring->needed)
    if (llvm::Error e = lowerExpiring(*expiring))
      return e;
  if (!expiring->fits)
    return isLong_ ? llvm::make_error<NoBetter>() : tooMuch_(limit_);
  fitted_ = std::move(*expiring->fits);
  return llvm::Error::success();
}

/// The error, unless it says that there is no program that fits or is better.
static llvm::Error unlessNotFound(llvm::Error error) {
  if (error && !error.isA<DoesNotFit>() && !error.isA<NoBetter>())
    return error;
  llvm::consumeError(std::move(error));
  return llvm::Error::success();
}

/// Whether what was found takes no less than what fits elsewhere, as strategies that fit do all the more.
bool Fitting::isLongEnough() const {
  const strategies::FunctionReport *step = fitted_.report.step();
  return step && step->predicted() >= std::min(run_.longEnough, run_.longEnoughHere);
}

/// Searches once more for a pipeline. Returns whether that fits, and leaves the last program where it does not.
llvm::Expected<bool> Fitting::countHeld(int64_t needed) {
  run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_) +
           " with " + std::to_string(share_.held) + " micro-batches in a stage");
  FittedProgram last = std::move(fitted_);
  fitted_ = {};
  AssignOptions counted = assign_;
  counted.share = share_;
  run_.hurry(counted);
  llvm::Expected<int64_t> found = attempt_(counted);
  if (found && *found <= limit_)
    return true;
  fitted_ = std::move(last);
  if (found)
    return false;
  if (llvm::Error e = unlessNotFound(found.takeError()))
    return e;
  return false;
}

/// Copies of parameters may expire, and where that is not enough, those of activations do, too. Where the search for a
/// pipeline has memory to spare, nothing expires: then one search tells what both would need and count.
llvm::Expected<Fitting::Expiring> Fitting::expire(int64_t needed) {
  Expiring expiring;
  const bool spares = run_.pipeline && !memoryWasShort(fitted_.report);
  for (bool activations : {spares, !spares}) {
    llvm::Expected<bool> expired = candidates_.expire(activations);
    if (!expired)
      return expired.takeError();
    if (!*expired)
      continue;
    run_.say("the plan needs " + bytesText(expiring.needed ? expiring.needed : needed) +
             ", searching again with copies " + (activations ? "of activations " : "of parameters ") +
             "that may expire");
    AssignOptions again = assign_;
    run_.hurry(again);
    int64_t bytes = 0;
    if (llvm::Error e = attempt_(again).moveInto(bytes)) {
      if (llvm::Error other = unlessNotFound(std::move(e)))
        return other;
    } else if (bytes > limit_) {
      if (activations || !expiring.needed) {
        expiring.needed = bytes;
        expiring.counted = used();
        expiring.ofActivations = activations;
      }
      if (spares && !memoryWasShort(fitted_.report))
        break;
    } else if (!expiring.fits || fitted_.report.predicted() < expiring.fits->report.predicted()) {
      expiring.fits = std::move(fitted_);
    }
    if (expiring.fits && !heldTooMuch(*expiring.fits))
      break;
  }
  return expiring;
}

/// Smaller limits where copies may expire.
llvm::Error Fitting::lowerExpiring(Expiring &expiring) {
  if (llvm::Error e = candidates_.expire(expiring.ofActivations).takeError())
    return e;
  llvm::Expected<bool> fits = lower(expiring.needed, expiring.counted, strategies::kForbidden);
  if (fits && *fits)
    expiring.fits = std::move(fitted_);
  return fits.takeError();
}

/// What the last search took to be needed. A stage holds several micro-batches, so that it may need far more than its
/// part of that, and a limit that is above it changes nothing.
int64_t Fitting::used() const {
  const strategies::FunctionReport *step = fitted_.report.step();
  if (!run_.pipeline || !step)
    return limit_;
  const int64_t bytes = step->search.counted ? step->search.counted : step->peakBytes;
  return std::max<int64_t>(1, bytes / run_.pipeline->mesh.axisSize(0));
}

/// Searches with smaller limits, after a search that needed so many bytes, of which it counted `counted`: first one in
/// proportion, then by bisection between a limit that was too small for any assignment and one under which too much was
/// needed. Returns whether something was found that fits and is predicted to take less than `most`.
llvm::Expected<bool> Fitting::lower(int64_t needed, int64_t counted, strategies::Cost most) {
  AssignOptions assign = assign_;
  assign.tooDear = most;
  int64_t tooSmall = 0, tooLarge = limit_;
  run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_));
  for (int tries = 0; tries < kMaxAttempts; ++tries) {
    const double proportion = double(limit_) / double(needed) * kMargin;
    assign.memoryLimit = tooSmall ? tooSmall + (tooLarge - tooSmall) / 2
                                  : std::max<int64_t>(1, int64_t(double(std::min(tooLarge, counted)) * proportion));
    run_.hurry(assign);
    llvm::Expected<int64_t> found = attempt_(assign);
    if (!found) {
      const bool isLong = found.errorIsA<NoBetter>();
      if (llvm::Error e = unlessNotFound(found.takeError()))
        return e;
      if (isLong) {
        isLong_ = true;
        return false;
      }
      if (most < strategies::kForbidden) // something else fits: larger limits are not worth more searches
        return false;
      tooSmall = assign.memoryLimit;
      continue;
    }
    if (fitted_.report.total() >= most)
      return false;
    if (*found <= limit_)
      return true;
    if (isLongEnough()) {
      isLong_ = true;
      return false;
    }
    needed = *found;
    counted = used();
    tooLarge = assign.memoryLimit;
    if (tries + 1 < kMaxAttempts)
      run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_));
  }
  return false;
}

} // namespace tessera
