//===- RankTimes.h - which rank is slow -----------------------------------------------------------===//
//
// Ranks meet in collectives, so that a slow one makes all steps equally long. What tells them apart is the time
// that each works by itself: reading the batch and computing, without what it spends in collectives. Every rank
// tells all of them after each step.
//
//   RankTimes times({"a", "a", "b", "b"});                         // ranks by host
//   times.step({0.010, 0.011, 0.031, 0.010}, 0.035);               // of a step that took 35 ms
//   if (std::string text = times.warning(); !text.empty()) ...     // after a second of these, once:
//       // "rank 2 (on b) is slow: 31 ms of its own a step, 3.1 times the others' (10 ms)"
//   times.summary();
//
// Figures are means over windows of at least twenty steps and half a second, longer than the period of a processor
// quota; a rank that is slow in one window has had a hiccup, in two in a row it is slow. "The others'" is the
// median of all ranks, of two the faster one's. The first step, in which much is set up, does not count.
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
  /// A host's name by rank; where all are the same, messages leave it out.
  explicit RankTimes(std::vector<std::string> hosts);

  /// By rank, and what the whole step took.
  void step(const std::vector<double> &seconds, double whole);
  /// Not empty once a rank is slow so that it holds up the steps; again only for another rank.
  std::string warning();
  /// One line over all steps: the slowest rank if it stands out, else the range. Empty where there is none.
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
  std::vector<int64_t> slowest_; // in so many windows
  int64_t windows_ = 0;
  std::optional<size_t> suspect_, warned_; // slow in the last window; warned of
  std::string warning_;
};

} // namespace tessera::rt

#endif
