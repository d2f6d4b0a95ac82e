#include "strategies/search/bound/Annealing.h"

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

namespace {
// Tuning, on instances K, M and S of the contest (docs/benchmarks.md).
constexpr int kSoftPasses = 25, kHardPasses = 2; // of a round; twice as many of both: a course is half as fast
// Temperatures. Smoothing takes about a degree from the bound for each variable.
constexpr double kFirstTemperature = 2;  // of the distance from the target, for each variable; 6: half as fast
constexpr double kFarthestTarget = 0.02; // relative: a target counts as no farther from the bound
constexpr double kColdest = 1e-4;        // of the first
constexpr double kCooling = 0.7;         // factor, after a round that raised the bound by too little
constexpr double kLeastRise = 0.003;     // of the distance: less is too little
constexpr double kReheated = 0.3;        // factor of the first temperature in the next course
constexpr double kMorePatience = 0.3;    // factor of the least rise in the next course
// Prices:
constexpr double kFirstStep = 0.05;                      // of the mean price, at the first temperature; 0.1: the same
constexpr double kMeanDecay = 0.95, kSquareDecay = 0.99; // 0.9 for the mean: the same
} // namespace

void Annealing::reheat() {
  renumber(); // it begins at the best bound
  temperature_ = -1;
  heat_ *= kReheated;
  impatience_ *= kMorePatience;
}

void Annealing::stepPrices(Dual &dual) {
  std::vector<double> prices = dual.prices();
  double sum = 0, room = 0;
  size_t priced = 0;
  for (size_t p = 0; p < prices.size(); ++p) {
    sum += prices[p];
    priced += prices[p] > 0;
    room += std::abs(dual.room()[p]);
  }
  if (mean_.size() != prices.size()) {
    mean_.assign(prices.size(), 0);
    square_.assign(prices.size(), 0);
    meanLeft_ = squareLeft_ = 1;
  }
  meanLeft_ *= kMeanDecay;
  squareLeft_ *= kSquareDecay;
  // Where no memory has a price yet, all points together may say as much as the distance.
  const double scale = priced ? sum / double(priced) : distance_ / std::max(1.0, room);
  for (size_t p = 0; p < prices.size(); ++p) {
    const double now = excess_[p];
    mean_[p] = kMeanDecay * mean_[p] + (1 - kMeanDecay) * now;
    square_[p] = kSquareDecay * square_[p] + (1 - kSquareDecay) * now * now;
    const double size = std::sqrt(square_[p] / (1 - squareLeft_));
    if (size > 0)
      prices[p] = std::max(0.0, prices[p] + step_ * scale * (mean_[p] / (1 - meanLeft_)) / size);
  }
  dual.setPrices(std::move(prices));
}

double Annealing::round(Dual &dual, double target) {
  const double known = target < kFlatForbidden ? std::abs(target) : 0;
  distance_ = std::clamp(target - dual.best(), 0.0, kFarthestTarget * std::max(known, std::abs(dual.best())));
  if (temperature_ < 0) {
    temperature_ = heat_ * kFirstTemperature * distance_ / double(dual.variables());
    coldest_ = kColdest * temperature_;
    step_ = kFirstStep;
    last_ = -std::numeric_limits<double>::infinity();
  }
  if (temperature_ <= 0)
    return 0;
  if (!here_.messages.empty())
    dual.goTo(here_);
  for (int k = 0; k < kSoftPasses; ++k) {
    dual.softPass(temperature_, excess_);
    if (!excess_.empty())
      stepPrices(dual);
  }
  here_ = dual.position();
  double bound = 0;
  for (int k = 0; k < kHardPasses; ++k)
    bound = dual.pass();
  if (bound < last_ + impatience_ * kLeastRise * distance_) {
    temperature_ *= kCooling;
    step_ *= std::sqrt(kCooling);
    if (temperature_ < coldest_)
      temperature_ = 0;
  }
  last_ = bound;
  return roundWork(dual);
}

double Annealing::roundWork(const Dual &dual) {
  return kSoftPasses * dual.softPassWork() + kHardPasses * dual.passWork();
}

} // namespace tessera::strategies
