#include "strategies/search/bound/MemoryPrices.h"

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

MemoryPrices::MemoryPrices(const FlatProblem &flat)
    : flat_(flat), price_(flat.room.size(), 0), direction_(flat.room.size(), 0) {}

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

void MemoryPrices::stalled(int passes) {
  constexpr int kPatience = 12; // passes without a better bound before the steps shorten
  if (passes % kPatience == 0)
    factor = std::max(0.75 * factor, 1e-6);
}

void MemoryPrices::retreat() {
  factor *= 0.6;
  std::fill(direction_.begin(), direction_.end(), 0.0);
}

void MemoryPrices::step(const std::vector<int32_t> &answer, double last, double best, double target) {
  const std::vector<double> load = flat_.load(answer);
  double norm = 0;
  for (size_t p = 0; p < price_.size(); ++p) {
    direction_[p] = 0.85 * direction_[p] + 0.15 * (load[p] - flat_.room[p]);
    if (price_[p] <= 0 && direction_[p] < 0)
      continue;
    norm += direction_[p] * direction_[p];
  }
  if (norm <= 0)
    return;
  // Polyak's step, with two guards, as the answers are not exact minima: the target is never far above the
  // best bound, and a step that overshot does not make the next one longer.
  const double reach = std::min(std::max(target - best, 1e-7 * std::abs(best)), 0.02 * std::abs(best) + 1);
  const double step = factor * std::min(reach + best - last, 3 * reach) / norm;
  for (size_t p = 0; p < price_.size(); ++p)
    price_[p] = std::max(0.0, price_[p] + step * direction_[p]);
}

} // namespace tessera::strategies
