#include "runtime/telemetry/RankTimes.h"

#include "runtime/telemetry/Progress.h"

#include <algorithm>

namespace tessera::rt {
namespace {

constexpr int64_t kSteps = 20;
constexpr double kSeconds = 0.5;
/// A rank is slow if its own time is kSlow times the others', and the difference is more than the share kShare of the
/// steps' time. The second rule spares ranks that mostly communicate: nobody waits long for those.
constexpr double kSlow = 1.5, kShare = 0.1;
/// The summary names a rank whose own time is kNamed times the others' if it was the slowest in the share kOften of the
/// windows.
constexpr double kNamed = 1.1, kOften = 0.75;

/// The median; of an even number of values, the lower one in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + long((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

size_t largest(const std::vector<double> &values) {
  return size_t(std::max_element(values.begin(), values.end()) - values.begin());
}

/// "9.8 ms", and "1.04 s" from a second on.
std::string timeText(double seconds) {
  return seconds < 1 ? numberText(seconds * 1e3, 3) + " ms" : numberText(seconds, 3) + " s";
}

} // namespace

void RankTimes::Total::add(const std::vector<double> &more, double moreWhole) {
  for (size_t r = 0; r < seconds.size(); ++r)
    seconds[r] += more[r];
  whole += moreWhole;
  ++steps;
}

size_t RankTimes::Total::slowest() const { return largest(seconds); }
double RankTimes::Total::mean(size_t rank) const { return seconds[rank] / double(steps); }
double RankTimes::Total::others() const { return median(seconds) / double(steps); }
double RankTimes::Total::ratio(size_t rank) const {
  const double base = median(seconds);
  return base > 0 ? seconds[rank] / base : 1;
}

RankTimes::RankTimes(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {
  const size_t ranks = hosts_.size();
  all_.seconds.assign(ranks, 0.0);
  window_ = all_;
  slowest_.assign(ranks, 0);
  if (std::count(hosts_.begin(), hosts_.end(), hosts_[0]) == long(ranks))
    hosts_.clear();
}

void RankTimes::step(const std::vector<double> &seconds, double whole) {
  if (std::exchange(first_, false))
    return;
  all_.add(seconds, whole);
  window_.add(seconds, whole);
  if (window_.steps >= kSteps && window_.whole >= kSeconds)
    closeWindow();
}

void RankTimes::closeWindow() {
  const size_t rank = window_.slowest();
  const double more = window_.seconds[rank] - median(window_.seconds);
  const bool slow = window_.ratio(rank) > kSlow && more > kShare * window_.whole;
  ++slowest_[rank];
  ++windows_;
  if (slow && suspect_ == rank && warned_ != rank) {
    warned_ = rank;
    warning_ = name(rank) + " is slow: " + text(window_, rank);
  }
  suspect_ = slow ? std::optional(rank) : std::nullopt;
  window_ = {std::vector<double>(slowest_.size(), 0.0)};
}

double RankTimes::skew(const std::vector<double> &seconds) {
  const double base = median(seconds);
  return base > 0 ? seconds[largest(seconds)] / base : 1;
}

std::string RankTimes::warning() { return std::exchange(warning_, ""); }

std::string RankTimes::name(size_t rank) const {
  return "rank " + std::to_string(rank) + (hosts_.empty() ? "" : " (on " + hosts_[rank] + ")");
}

std::string RankTimes::text(const Total &total, size_t rank) const {
  return timeText(total.mean(rank)) + " of its own a step, " + numberText(total.ratio(rank), 3) +
         " times the others' (" + timeText(total.others()) + ")";
}

std::string RankTimes::summary() const {
  if (all_.steps == 0)
    return "";
  const size_t rank = all_.slowest();
  if (windows_ > 0 && all_.ratio(rank) > kNamed && double(slowest_[rank]) >= kOften * double(windows_))
    return name(rank) + " was the slowest: " + text(all_, rank);
  const auto least = std::min_element(all_.seconds.begin(), all_.seconds.end());
  return "ranks took " + timeText(*least / double(all_.steps)) + " to " + timeText(all_.mean(rank)) +
         " of their own a step";
}

std::string RankTimes::summary(int rank) const { return all_.steps == 0 ? "" : text(all_, size_t(rank)); }

} // namespace tessera::rt
