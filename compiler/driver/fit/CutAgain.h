//===- CutAgain.h - under which limits a pipeline is cut again, if its arena is too large -----------===//
//
// A cut counts what stages hold. An arena also has what is there briefly, so that a cut within a rank's memory may need
// more. The same strategies are then cut again under what the last cut counted, less what was too much; and if there is
// no such cut, half way back. A cut that counts less and needs no less is the last.
//
//   CutAgain again(limit, counted, needed);
//   while (std::optional<int64_t> within = again.next())
//     if (cut within that)
//       again.found(counted, needed);      // ends if that fits
//     else
//       again.none();
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_CUTAGAIN_H
#define TESSERA_COMPILER_DRIVER_FIT_CUTAGAIN_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

namespace tessera {

/// What a cut may need of a rank's memory, and what it counts.
struct CutMemory {
  int64_t limit = 0;
  bool isHard = false; // else a cut exceeds it where nothing fits
  int64_t counted = 0; // by the cut, on the fullest rank; 0: it was not searched
};

class CutAgain {
public:
  /// `limit`: of a rank's arena. The cut that counts `counted` bytes needs more.
  CutAgain(int64_t limit, int64_t counted, int64_t needed) : limit_(limit) { found(counted, needed); }

  std::optional<int64_t> next() {
    if (fits_ || inVain_ || tries_++ == kMostCuts)
      return std::nullopt;
    last_ = tooSmall_ > 0 ? tooSmall_ + (counted_ - tooSmall_) / 2 : std::max<int64_t>(1, counted_ - tooMuch_);
    return last_ > tooSmall_ && last_ < counted_ ? std::optional(last_) : std::nullopt;
  }
  void found(int64_t counted, int64_t needed) {
    inVain_ = needed >= needed_;
    needed_ = needed;
    counted_ = counted;
    tooMuch_ = std::max<int64_t>(1, needed - limit_);
    fits_ = needed <= limit_;
  }
  void none() { tooSmall_ = last_; }

private:
  static constexpr int kMostCuts = 5;

  const int64_t limit_;
  int64_t counted_ = 0, tooMuch_ = 0, last_ = 0;
  int64_t tooSmall_ = 0; // a limit within which there is no cut
  int64_t needed_ = std::numeric_limits<int64_t>::max();
  int tries_ = 0;
  bool fits_ = false, inVain_ = false;
};

} // namespace tessera

#endif
