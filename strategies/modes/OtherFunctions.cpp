#include "strategies/modes/OtherFunctions.h"

namespace tessera::strategies {

OtherFunctions::OtherFunctions(size_t count, const AssignOptions &options, const Prices &prices, SharedShardings shared,
                               Choose choose)
    : found(count), shared_(std::move(shared)) {
  const int threads = int(std::min(size_t(std::max(1, options.exactThreads)), count + 1));
  for (int thread = 0; thread < threads; ++thread)
    prices_.push_back(std::make_unique<Prices>(prices, thread));
  AssignOptions with = options;
  with.outdated = &outdated_;
  auto work = [this, with = std::move(with), choose = std::move(choose)](size_t i, size_t thread) {
    AssignOptions own = with;
    if (i > 0)
      own.watch = nullptr; // it is told of one search
    choose(i + 1, own, *prices_[thread], shared_, found[i]);
  };
  pieces_ = std::make_unique<PiecesBeside>(threads - 1, count, std::move(work));
}

OtherFunctions::~OtherFunctions() {
  outdated_ = true; // for what is not done yet, nobody waits any more
  pieces_.reset();
  for (Found &one : found)
    if (one.chosen && !*one.chosen)
      llvm::consumeError(one.chosen->takeError());
  found.clear(); // waits for bounds that are still looked for
}

} // namespace tessera::strategies
