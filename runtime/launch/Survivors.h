//===- Survivors.h - machines agree on who is left ------------------------------------------------===//
//
// After a failure the supervisors of several machines must go on with the same ranks, though each knows only its own,
// and some may be gone. They meet in a folder that all of them see: that of the checkpoints, without which none could
// go on. Every supervisor leaves a file with its ranks that are left, and renews it while it waits: another may begin
// later. When all have, or after `waitSeconds`, the first of those that came decides and publishes it under a name that
// can be given once: a machine that was cut off, and comes later, finds that the others went on without it.
//
//   Survivors survivors("run", "10.0.0.2", 40);
//   survivors.begin(/*first=*/false);                                // before the first attempt
//   Result<Survivors::Decision> next = survivors.agree(0, {2, 3}, {"10.0.0.1", "10.0.0.2"}, decide);
//   next->ranks;                                                    // {0, 2, 3}: what these are called from now on
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_SURVIVORS_H
#define TESSERA_RUNTIME_LAUNCH_SURVIVORS_H

#include "runtime/support/Status.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tessera::rt {

class Survivors {
public:
  struct Decision {
    std::vector<int> ranks; // as they were called before; a new rank is the place in this list
    std::string plan;       // that they run; empty: as before
    std::string text;       // what there is to say
  };
  using Decide = std::function<Result<Decision>(const std::set<int> &left)>;

  Survivors(const std::string &folder, std::string address, double waitSeconds);
  /// `first`: this machine has rank 0, and removes what earlier runs have left.
  void begin(bool first) const;
  /// On every machine. `left`: its ranks; `machines`: all that had some. `decide` is called on one of them, with the
  /// ranks of all; an error of it is everybody's.
  Result<Decision> agree(int attempt, const std::set<int> &left, const std::set<std::string> &machines,
                         const Decide &decide) const;
  /// Nothing is left to agree on.
  void end() const;

private:
  std::string reportPath(int attempt, const std::string &address) const;
  /// A file of this run, not of an earlier one.
  bool isFresh(const std::string &path) const;
  Result<Decision> readDecision(const std::string &path) const;
  Status publish(const std::string &path, const std::string &text) const;

  const std::string folder_, address_;
  const double waitSeconds_;
};

} // namespace tessera::rt

#endif
