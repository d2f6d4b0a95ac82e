#include "strategies/search/bound/MemoryPrices.h"

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Length of the price steps, relative to Polyak's:
constexpr double kFirstStep = 0.5;     // at first; 0/+3.0 %
constexpr double kLongerStep = 1.05;   // factor after a pass that raised the bound; bound +0.2/-0.3 %
constexpr double kLongestStep = 1.5;   // at most; 0/+0.6 %
constexpr int kPatience = 12;          // passes without a better bound before the steps shorten; bound 0/+0.5 %
constexpr double kShorterStep = 0.75;  // factor, then; -0.9/+20.0 %
constexpr double kShortestStep = 1e-6; // at least; same
constexpr double kNewDirection = 0.15; // part of a step's direction that is new, beside the old one; bound -0.6/0 %
// How far above the best bound the target is, relative to the bound:
constexpr double kNearestTarget = 1e-7;  // at least; same
constexpr double kFarthestTarget = 0.02; // at most; bound +0.4/0 %
constexpr double kOvershoot = 3;         // times as long a step at most, after one that lowered the bound; -0.9/+20.0 %
// Steps that lowered the bound very much are taken back:
constexpr double kAfterFall = 0.6; // factor of the length; +2.5/+20.0 %
} // namespace

MemoryPrices::MemoryPrices(const FlatProblem &flat)
    : factor(kFirstStep), flat_(flat), price_(flat.room.size(), 0), direction_(flat.room.size(), 0) {}

void MemoryPrices::price(std::vector<double> &unary) const {
  std::vector<double> cumulated(price_.size() + 1, 0);
  for (size_t p = 0; p < price_.size(); ++p)
    cumulated[p + 1] = cumulated[p] + price_[p];
  unary = flat_.costs;
  for (int32_t v = 0; v < flat_.count(); ++v)
    for (size_t k = flat_.firstPiece[size_t(v)]; k < flat_.firstPiece[size_t(v) + 1]; ++k) {
      const FlatPiece &piece = flat_.pieces[k];
      const double rate = cumulated[size_t(piece.to)] - cumulated[size_t(piece.from)];
      if (rate > 0)
        for (int32_t s = 0, n = flat_.size(v); s < n; ++s)
          unary[flat_.first[size_t(v)] + size_t(s)] += rate * flat_.extras[piece.extra + size_t(s)];
    }
}

double MemoryPrices::constant() const {
  double sum = 0;
  for (size_t p = 0; p < price_.size(); ++p)
    sum -= price_[p] * flat_.room[p];
  return sum;
}

void MemoryPrices::rose() { factor = std::min(kLongerStep * factor, kLongestStep); }

void MemoryPrices::stalled(int passes) {
  if (passes % kPatience == 0)
    factor = std::max(kShorterStep * factor, kShortestStep);
}

void MemoryPrices::retreat() {
  factor *= kAfterFall;
  std::fill(direction_.begin(), direction_.end(), 0.0);
}

bool MemoryPrices::step(const std::vector<int32_t> &answer, double last, double best, double target) {
  const std::vector<double> load = flat_.load(answer);
  double norm = 0;
  for (size_t p = 0; p < price_.size(); ++p) {
    direction_[p] = (1 - kNewDirection) * direction_[p] + kNewDirection * (load[p] - flat_.room[p]);
    if (price_[p] <= 0 && direction_[p] < 0)
      continue;
    norm += direction_[p] * direction_[p];
  }
  if (norm <= 0)
    return false;
  // Polyak's step, with two guards, as the answers are not exact minima: the target is never far above the
  // best bound, and a step that overshot does not make the next one longer.
  const double reach =
      std::min(std::max(target - best, kNearestTarget * std::abs(best)), kFarthestTarget * std::abs(best) + 1);
  const double step = factor * std::min(reach + best - last, kOvershoot * reach) / norm;
  for (size_t p = 0; p < price_.size(); ++p)
    price_[p] = std::max(0.0, price_[p] + step * direction_[p]);
  return true;
}

} // namespace tessera::strategies
