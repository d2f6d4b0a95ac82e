#include "runtime/telemetry/RankTimes.h"

#include "runtime/telemetry/Progress.h"

#include <algorithm>
#include <map>

namespace tessera::rt {
namespace {

constexpr int64_t kSteps = 20;
constexpr double kSeconds = 0.5;
/// A rank is slow if its own time is kSlow times the others', and the difference is more than the share kShare of the
/// steps' time. The second rule spares ranks that mostly communicate: nobody waits long for those. For stages it is
/// kSlowStage, since predictions of different operators may be off by different factors.
constexpr double kSlow = 1.5, kSlowStage = 2, kShare = 0.1;
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

double RankTimes::Total::mean(size_t rank) const { return seconds[rank] / double(steps); }

RankTimes::RankTimes(std::vector<Timed> timed, double slow, std::string measure)
    : timed_(std::move(timed)), slow_(slow), measure_(std::move(measure)) {
  all_.seconds.assign(timed_.size(), 0.0);
  window_ = all_;
  slowest_.assign(timed_.size(), 0);
}

RankTimes::RankTimes(const std::vector<std::string> &hosts, const Stages &stages)
    : RankTimes(ranksOf(hosts, stages), kSlow, "the others'") {}

RankTimes RankTimes::ofStages(const std::vector<std::pair<std::string, double>> &predicted) {
  std::vector<Timed> timed;
  for (const auto &[name, time] : predicted)
    timed.push_back({name, 0, time});
  return RankTimes(std::move(timed), kSlowStage, "what was predicted beside the other stages");
}

std::vector<RankTimes::Timed> RankTimes::ranksOf(const std::vector<std::string> &hosts, const Stages &stages) {
  const bool named = std::count(hosts.begin(), hosts.end(), hosts[0]) != long(hosts.size());
  std::vector<Timed> timed;
  for (size_t r = 0; r < hosts.size(); ++r)
    timed.push_back({"rank " + std::to_string(r) + (named ? " (on " + hosts[r] + ")" : ""), stages.of(uint32_t(r))});
  return timed;
}

std::vector<double> RankTimes::others(const std::vector<double> &seconds) const {
  std::map<uint32_t, std::vector<double>> groups;
  for (size_t r = 0; r < seconds.size(); ++r)
    groups[timed_[r].group].push_back(seconds[r] / timed_[r].expected);
  for (auto &[group, values] : groups)
    values = {median(values)};
  std::vector<double> found;
  for (const Timed &timed : timed_)
    found.push_back(timed.expected * groups[timed.group].front());
  return found;
}

std::vector<double> RankTimes::ratios(const std::vector<double> &seconds) const {
  std::vector<double> found = others(seconds);
  for (size_t r = 0; r < found.size(); ++r)
    found[r] = found[r] > 0 ? seconds[r] / found[r] : 1;
  return found;
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
  const std::vector<double> ratios = this->ratios(window_.seconds);
  const size_t rank = largest(ratios);
  const double more = window_.seconds[rank] - others(window_.seconds)[rank];
  const bool slow = ratios[rank] > slow_ && more > kShare * window_.whole;
  ++slowest_[rank];
  ++windows_;
  if (slow && suspect_ == rank && warned_ != rank) {
    warned_ = rank;
    warning_ = timed_[rank].name + " is slow: " + text(window_, rank);
  }
  suspect_ = slow ? std::optional(rank) : std::nullopt;
  window_ = {std::vector<double>(slowest_.size(), 0.0)};
}

double RankTimes::skew(const std::vector<double> &seconds) const { return std::ranges::max(ratios(seconds)); }

std::string RankTimes::warning() { return std::exchange(warning_, ""); }

std::string RankTimes::text(const Total &total, size_t rank) const {
  return timeText(total.mean(rank)) + " of its own a step, " + numberText(ratios(total.seconds)[rank], 3) + " times " +
         measure_ + " (" + timeText(others(total.seconds)[rank] / double(total.steps)) + ")";
}

std::string RankTimes::summary() const {
  if (all_.steps == 0)
    return "";
  const std::vector<double> ratios = this->ratios(all_.seconds);
  const size_t rank = largest(ratios);
  if (windows_ > 0 && ratios[rank] > kNamed && double(slowest_[rank]) >= kOften * double(windows_))
    return timed_[rank].name + " was the slowest: " + text(all_, rank);
  const auto [least, most] = std::ranges::minmax_element(all_.seconds);
  return "ranks took " + timeText(*least / double(all_.steps)) + " to " + timeText(*most / double(all_.steps)) +
         " of their own a step";
}

std::string RankTimes::summary(int rank) const { return all_.steps == 0 ? "" : text(all_, size_t(rank)); }

} // namespace tessera::rt
