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
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_RANKTIMES_H
#define TESSERA_RUNTIME_TELEMETRY_RANKTIMES_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

class RankTimes {
public:
  /// The host's name of every rank. Messages leave hosts out if all are the same.
  explicit RankTimes(std::vector<std::string> hosts);

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
  static double skew(const std::vector<double> &seconds);

private:
  struct Total {
    std::vector<double> seconds; // by rank
    double whole = 0;
    int64_t steps = 0;

    void add(const std::vector<double> &more, double moreWhole);
    size_t slowest() const;
    double mean(size_t rank) const;
    double others() const; // mean
    double ratio(size_t rank) const;
  };
  void closeWindow();
  std::string name(size_t rank) const;
  std::string text(const Total &total, size_t rank) const;

  std::vector<std::string> hosts_; // empty: all the same
  bool first_ = true;
  Total all_, window_;
  std::vector<int64_t> slowest_; // in how many windows each rank was the slowest
  int64_t windows_ = 0;
  std::optional<size_t> suspect_, warned_; // the rank that was slow in the last window; the one that was warned of
  std::string warning_;
};

} // namespace tessera::rt

#endif
