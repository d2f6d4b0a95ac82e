#include "strategies/modes/Trial.h"

#include "strategies/modes/Modes.h"

#include <cassert>

namespace tessera::strategies {

llvm::Error tryStrategies(const Program &program, const AssignOptions &options, Trial &trial,
                          const SharedShardings &shared) {
  assert(options.mode == "auto" && options.user.empty() && "a trial is a search that nobody has a say in");
  trial = {};
  if (llvm::Error e = checkMesh(options))
    return e;
  const std::shared_ptr<Prices> prices = pricesOf(options);
  BesideBound bound; // nobody asks for it
  return assignAuto(trial.function.emplace(program), options, *prices, shared, trial.search, trial.cost, bound,
                    nullptr);
}

} // namespace tessera::strategies
