//===- OtherFunctions.h - the functions after the first one, all at once ---------------------------===//
//
// The first function, the training step, decides how parameters lie; none of the others depends on another. So they
// are searched at once, and they may begin before the first one has ended: its searches go on after a first answer that
// they seldom change, on one thread. Where they change how parameters lie after all, what was found is thrown away.
//
//   OtherFunctions others(count, options, prices, likely, choose);
//   ...                              // the first function goes on
//   if (others.shared() == decided)
//     others.finish();               // others.found
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_OTHERFUNCTIONS_H
#define TESSERA_STRATEGIES_MODES_OTHERFUNCTIONS_H

#include "strategies/modes/Assign.h"
#include "strategies/modes/BesideSearch.h"
#include "strategies/space/FunctionAssignment.h"
#include "strategies/space/InParallel.h"

#include <optional>

namespace tessera::strategies {

/// What one function takes, which is not written to it yet, and what that costs.
struct ChosenFunction {
  FunctionAssignment function;
  FunctionReport report;
};

class OtherFunctions {
public:
  struct Found {
    std::optional<llvm::Expected<ChosenFunction>> chosen;
    SearchReport search;
    BesideBound bound;
  };
  /// Sets what was found for a function, by its number.
  using Choose = std::function<void(size_t, const AssignOptions &, Prices &, const SharedShardings &, Found &)>;
  /// Begins to choose for functions 1 to `count`, where parameters lie as `shared` says, on other threads. What `choose`
  /// and `prices` refer to must outlive this.
  OtherFunctions(size_t count, const AssignOptions &options, const Prices &prices, SharedShardings shared,
                 Choose choose);
  ~OtherFunctions();

  const SharedShardings &shared() const { return shared_; }
  /// Takes part, and returns once all of `found` are there.
  void finish() { pieces_->finish(); }

  std::vector<Found> found; // function 1 first; their bounds may refer to this

private:
  const SharedShardings shared_;
  std::atomic<bool> outdated_{false};
  std::vector<std::unique_ptr<Prices>> prices_; // by thread: a function is priced with what those before it asked for
  std::unique_ptr<PiecesBeside> pieces_;
};

} // namespace tessera::strategies

#endif
