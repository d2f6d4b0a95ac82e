#include "runtime/telemetry/StageTimes.h"

#include "runtime/telemetry/Progress.h"

#include <algorithm>
#include <numeric>

namespace tessera::rt {
namespace {

std::string milliseconds(double seconds) { return numberText(seconds * 1e3, 4) + " ms"; }
std::string percent(double part) { return numberText(part * 100, 3) + " %"; }
double seconds(int64_t ns) { return double(ns) / 1e9; }

} // namespace

/// Before the micro-batches, what one stage does of each, and behind them.
constexpr size_t kSectionsOfOneStage = 5;

StageTimes::StageTimes(const plan::Plan &plan, int program, std::vector<Prediction> predicted)
    : stages_(stagesOf(plan)), predicted_(std::move(predicted)), own_(stages_.count(), 0.0), waited_(own_) {
  // A rank with several stages has a place among the ranks, and no stage.
  const bool several = TimeOrder(plan.programs(program)).sections().size() > kSectionsOfOneStage;
  std::vector<std::pair<std::string, double>> expected;
  for (uint32_t s = 0; s < stages_.count(); ++s) {
    const uint32_t first = stages_.firstOf(s), last = first + stages_.ranksOf(s) - 1;
    names_.push_back((several ? "place " : "stage ") + std::to_string(s) +
                     (first == last ? " (rank " : " (ranks " + std::to_string(first) + " to ") + std::to_string(last) +
                     ")");
    if (s < predicted_.size() && predicted_[s].kernels > 0)
      expected.emplace_back(names_.back(), double(predicted_[s].kernels));
  }
  if (expected.size() == stages_.count())
    slow_ = RankTimes::ofStages(expected);
}

std::vector<double> StageTimes::ofStages(const std::vector<double> &ranks) const {
  std::vector<double> means;
  for (uint32_t s = 0; s < stages_.count(); ++s) {
    const auto first = ranks.begin() + long(stages_.firstOf(s));
    means.push_back(std::accumulate(first, first + long(stages_.ranksOf(s)), 0.0) / stages_.ranksOf(s));
  }
  return means;
}

double StageTimes::bubble(const std::vector<double> &waited, const std::vector<double> &whole) {
  const double all = std::accumulate(whole.begin(), whole.end(), 0.0);
  return all > 0 ? std::accumulate(waited.begin(), waited.end(), 0.0) / all : 0;
}

void StageTimes::step(const std::vector<double> &own, const std::vector<double> &waited,
                      const std::vector<double> &whole) {
  const std::vector<double> stages = ofStages(own);
  if (slow_)
    slow_->step(stages, std::ranges::max(whole));
  if (++steps_ == 0)
    return;
  for (size_t s = 0; s < stages.size(); ++s)
    own_[s] += stages[s];
  if (waited.empty()) {
    waited_.clear();
    return;
  }
  bubbles_ += bubble(waited, whole);
  const std::vector<double> means = ofStages(waited);
  for (size_t s = 0; s < waited_.size(); ++s)
    waited_[s] += means[s];
}

std::vector<std::string> StageTimes::summary() const {
  if (steps_ < 1)
    return {};
  std::vector<std::string> lines;
  if (!waited_.empty()) {
    std::string &line = lines.emplace_back("bubble: " + percent(bubbles_ / double(steps_)) + " of the ranks' time");
    int64_t waiting = 0, all = 0;
    for (uint32_t s = 0; s < predicted_.size(); ++s) {
      waiting += predicted_[s].waiting * stages_.ranksOf(s);
      all += predicted_[s].end * stages_.ranksOf(s);
    }
    if (all > 0)
      line += ", predicted " + percent(double(waiting) / double(all));
  }
  for (size_t s = 0; s < own_.size(); ++s) {
    std::string &line =
        lines.emplace_back(names_[s] + ": " + milliseconds(own_[s] / double(steps_)) + " of its own a step");
    if (!predicted_.empty())
      line += ", predicted " + milliseconds(seconds(predicted_[s].kernels));
    if (waited_.empty())
      continue;
    line += "; " + milliseconds(waited_[s] / double(steps_)) + " waiting for others";
    if (!predicted_.empty())
      line += ", predicted " + milliseconds(seconds(predicted_[s].waiting));
  }
  return lines;
}

} // namespace tessera::rt
