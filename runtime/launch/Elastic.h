//===- Elastic.h - going on with the ranks that are left ------------------------------------------===//
//
// A plan is made for one number of ranks. When ranks are lost, the model is compiled again for those that are left, as
// the plan's recipe says (runtime/plan/Recipe.h), with the same global batch. Training goes on from the last
// checkpoint, which any plan of the model can read. The compiler is the program tessera-compile beside this one.
//
//   Result<Elastic> elastic = Elastic::open("plan", "run");       // at the start: errors show now
//   Result<Elastic::Next> next = elastic->compile(3);             // makes run/plan-3 with the mesh data=3,model=1
//   keepRanks(context, {0, 1, 3}, next->plan);
//
// Where a launcher starts other ranks than the plan's, each of them asks for a plan that fits, and one compiles it:
//
//   Result<std::string> plan = elastic->fitting(3);               // run/plan-3
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_ELASTIC_H
#define TESSERA_RUNTIME_LAUNCH_ELASTIC_H

#include "runtime/launch/LaunchContext.h"
#include "runtime/plan/Recipe.h"

#include <optional>

namespace tessera::rt {

class Elastic {
public:
  struct Next {
    std::string plan, mesh;
    int ranks = 0;
    std::string note; // why the plan has fewer ranks than are left; empty if it has not
  };

  /// Returns an error if the plan could not be compiled again: there is no recipe or compiler, or the model is gone or
  /// has changed. New plans are written into `folder`.
  static Result<Elastic> open(const std::string &plan, const std::string &folder);
  /// Compiles for `ranks` ranks, or for the next smaller number that the compiler accepts.
  Result<Next> compile(int ranks) const;
  /// A plan for exactly so many: the one that is there, if it was compiled in the same way. Processes that ask at once,
  /// on any machine that sees the folder, get the same.
  Result<std::string> fitting(int ranks) const;

private:
  /// What the compiler says if it fails, with its exit code.
  struct Refusal {
    std::string why;
    bool lasting = false; // of any number of ranks
  };
  Result<std::optional<Refusal>> compileFor(const Next &next) const;

  Recipe recipe_;
  std::string compiler_, folder_;
};

/// Keeps the children of these ranks and removes all others. A child's new rank is its position in `ranks`. The
/// children run `plan`, or the same plan as before if it is empty. Each keeps its place on its machine and thereby its
/// device. The context may have no children afterwards.
void keepRanks(LaunchContext &context, const std::vector<int> &ranks, const std::string &plan);

} // namespace tessera::rt

#endif
