#include "strategies/search/bound/BothSides.h"

namespace tessera::strategies {

namespace {
// Counted work, steps:
constexpr double kEdgeWork = 4;  // per edge
constexpr double kPieceWork = 4; // per piece
constexpr double kPointWork = 4; // per memory point
} // namespace

/// The cost with priced memory: at the prices of a bound no answer has less than the bound.
double BothSides::Side::beside(const std::vector<double> &prices) const {
  double sum = cost;
  for (size_t p = 0; p < prices.size(); ++p)
    sum += prices[p] * over[p];
  return sum;
}

double BothSides::see(const Dual &dual) {
  Side now{dual.answer(), flat_.price(dual.answer()), flat_.load(dual.answer())};
  bool fits = true;
  for (size_t p = 0; p < now.over.size(); ++p) {
    now.over[p] -= flat_.room[p];
    fits &= now.over[p] <= 0;
  }
  if (now.cost < kFlatForbidden) {
    Side &side = fits ? fitting_ : exceeding_;
    if (side.answer.empty() || now.beside(dual.bestPrices()) < side.beside(dual.bestPrices()))
      side = std::move(now);
  }
  return kEdgeWork * double(flat_.edges.size()) + kPieceWork * double(flat_.pieces.size()) +
         kPointWork * double(flat_.room.size());
}

} // namespace tessera::strategies
