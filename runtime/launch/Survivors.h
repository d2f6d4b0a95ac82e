//===- Survivors.h - machines agree on who is left ------------------------------------------------===//
//
// After a failure the supervisors of several machines must go on with the same ranks, though each knows only its own,
// and some machines may be gone. They agree by files in the folder of the checkpoints, which all of them see. Every
// supervisor writes a report with its ranks that are left, and renews it while it waits, since another supervisor may
// start later. When all machines have reported, or after `waitSeconds`, the first machine that has reported decides. It
// publishes the decision under a name that can be given only once. A machine that was cut off and comes later finds
// that the others went on without it.
//
//   Survivors survivors("run", "10.0.0.2", 40);
//   survivors.begin(/*first=*/false);                                // before the first attempt
//   Result<Survivors::Decision> next = survivors.agree(0, {2, 3}, {"10.0.0.1", "10.0.0.2"}, decide);
//   next->ranks;                                                    // {0, 2, 3}: these are ranks 0, 1, 2 from now on
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
    std::vector<int> ranks; // their old numbers; the new number is the position in this list
    std::string plan;       // the plan that they run; empty: as before
    std::string text;       // for the message about it
  };
  using Decide = std::function<Result<Decision>(const std::set<int> &left)>;

  Survivors(const std::string &folder, std::string address, double waitSeconds);
  /// `first`: this machine has rank 0, and removes what earlier runs have left. Called before the first attempt.
  void begin(bool first) const;
  /// Called on every machine. `left` are its ranks that are left; `machines` are all that had ranks. `decide` is called
  /// on one of them, with the ranks of all; if it fails, all machines get its error.
  Result<Decision> agree(int attempt, const std::set<int> &left, const std::set<std::string> &machines,
                         const Decide &decide) const;
  /// Called after success: removes the files.
  void end() const;

private:
  std::string reportPath(int attempt, const std::string &address) const;
  /// Whether the file is of this run and not of an earlier one.
  bool isFresh(const std::string &path) const;
  Result<Decision> readDecision(const std::string &path) const;
  Status publish(const std::string &path, const std::string &text) const;

  const std::string folder_, address_;
  const double waitSeconds_;
};

} // namespace tessera::rt

#endif
