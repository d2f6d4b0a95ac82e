//===- Pace.h - how closely a rank looks whether its device is done ------------------------------------===//
//
// A driver can tell a thread when a device is done, but not while the thread looks after communicators, too. So a rank
// asks now and then. Steps take about as long as those before: it sleeps through most of a wait, which leaves the core
// to others, asks closely around the time when the device should be done, and then from time to time.
//
//   Pace pace;                      // waits took 10 ms and 11 ms
//   pace.pause(0ms) = 7.5ms;  pace.pause(8ms) = 0;  pace.pause(20ms) = 20us
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_PACE_H
#define TESSERA_RUNTIME_DEVICE_PACE_H

#include <algorithm>
#include <chrono>
#include <utility>

namespace tessera::rt {

class Pace {
public:
  using Time = std::chrono::nanoseconds;

  /// How long to sleep before the next question; zero: not at all, others may have the core. `waited`: since the wait
  /// began.
  Time pause(Time waited) const {
    using namespace std::chrono_literals;
    const Time expected = std::min(last_, before_), asleep = expected * 3 / 4;
    // A sleep takes up to a tenth of a millisecond longer than it should.
    if (expected > 500us && waited < asleep)
      return std::min<Time>(asleep - waited, 20ms);
    return waited < expected + expected / 4 + 2ms ? Time(0) : Time(20us);
  }
  /// A wait has ended. The shorter one of two counts, so that one long step keeps no short one waiting.
  void ended(Time waited) { before_ = std::exchange(last_, waited); }

private:
  Time last_ = {}, before_ = {};
};

} // namespace tessera::rt

#endif
