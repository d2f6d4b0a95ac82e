//===- RankTimes.h - which rank is slow -----------------------------------------------------------===//
//
// Ranks meet in collectives, so that a slow one makes the steps of all ranks equally long. What tells ranks apart is
// their own time: reading the batch and computing, without the time in collectives. After each step every rank sends
// its own time to all others.
//
//   RankTimes times({"a", "a", "b", "b"});                         // ranks by host
//   times.step({0.010, 0.011, 0.031, 0.010}, 0.035);               // of a step that took 35 ms
//   if (std::string text = times.warning(); !text.empty()) ...     // after a second of these, once:
//       // "rank 2 (on b) is slow: 31 ms of its own a step, 3.1 times the others' (10 ms)"
//   times.summary();
//
// Figures are means over windows of at least twenty steps and half a second, which is longer than the period of a
// processor quota. A rank is reported once it was slow in two windows in a row. "The others'" time is the median over
// all ranks; of two ranks it is the faster one's. The first step, in which much is set up, does not count.
//
// In a pipeline stages have work of their own, so a rank is compared with those of its stage. Stages are compared as
// well, by what was predicted of each:
//
//   RankTimes stages = RankTimes::ofStages({{"stage 0", 0.010}, {"stage 1", 0.020}});
//   stages.step({0.011, 0.066}, 0.1);      // "stage 1 is slow: 66 ms of its own a step, 3 times what was predicted
//                                          //  beside the other stages (22 ms)"
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_RANKTIMES_H
#define TESSERA_RUNTIME_TELEMETRY_RANKTIMES_H

#include "runtime/plan/stages/Stages.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class RankTimes {
public:
  /// The host's name of every rank. Messages leave hosts out if all are the same.
  explicit RankTimes(const std::vector<std::string> &hosts, const Stages &stages = Stages());
  /// Of stages with these names, of which these own times were predicted, more than 0 in any unit. What is said of ranks
  /// below is then of stages.
  static RankTimes ofStages(const std::vector<std::pair<std::string, double>> &predicted);

  /// Notes a step: every rank's own time, and the time of the whole step, in seconds.
  void step(const std::vector<double> &seconds, double whole);
  /// A warning once a rank is so slow that it holds up the steps, and again once another rank is; else empty.
  std::string warning();
  /// One line about all steps: the slowest rank if it stands out, else the range of own times. Empty if no step
  /// counted.
  std::string summary() const;
  /// The same for one rank: "9.8 ms of its own a step, 0.99 times the others'".
  std::string summary(int rank) const;

  /// The slowest rank's time relative to the others'.
  double skew(const std::vector<double> &seconds) const;

private:
  struct Timed {
    std::string name;
    uint32_t group = 0;  // with whom it is compared
    double expected = 1; // what it takes, relative to those
  };
  struct Total {
    std::vector<double> seconds; // by rank
    double whole = 0;
    int64_t steps = 0;

    void add(const std::vector<double> &more, double moreWhole);
    double mean(size_t rank) const;
  };
  /// `slow`: so many times the others' time is slow. `measure`: what that time is called.
  RankTimes(std::vector<Timed> timed, double slow, std::string measure);
  static std::vector<Timed> ranksOf(const std::vector<std::string> &hosts, const Stages &stages);
  void closeWindow();
  /// What every rank takes if it is as fast as the others of its group.
  std::vector<double> others(const std::vector<double> &seconds) const;
  /// Relative to that.
  std::vector<double> ratios(const std::vector<double> &seconds) const;
  std::string text(const Total &total, size_t rank) const;

  std::vector<Timed> timed_;
  double slow_;
  std::string measure_;
  bool first_ = true;
  Total all_, window_;
  std::vector<int64_t> slowest_; // in how many windows each rank was the slowest
  int64_t windows_ = 0;
  std::optional<size_t> suspect_, warned_; // the rank that was slow in the last window; the one that was warned of
  std::string warning_;
};

} // namespace tessera::rt

#endif
