//===- Elastic.h - going on with the ranks that are left ------------------------------------------===//
//
// A plan is for a number of ranks. When some are lost, the model is compiled again for those that are left, as
// the plan's recipe says (runtime/plan/Recipe.h), with the same global batch; the last checkpoint, which any plan of
// the model can read, brings the rest. The compiler is a program of its own beside this one.
//
//   Result<Elastic> elastic = Elastic::open("plan", "run");       // now, not when the first rank is lost
//   Result<Elastic::Next> next = elastic->compile(3);             // run/plan-3, for data=3,model=1
//   keepRanks(context, {0, 1, 3}, next->plan);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_ELASTIC_H
#define TESSERA_RUNTIME_LAUNCH_ELASTIC_H

#include "runtime/launch/LaunchContext.h"
#include "runtime/plan/Recipe.h"

namespace tessera::rt {

class Elastic {
public:
  struct Next {
    std::string plan, mesh;
    int ranks = 0;
    std::string note; // why there are fewer than are left; empty: there are not
  };

  /// Errors if the plan could not be compiled again: no recipe, no compiler, a model that is gone or changed.
  /// New plans are written into `folder`.
  static Result<Elastic> open(const std::string &plan, const std::string &folder);
  /// For `ranks`, or as many fewer as the compiler takes.
  Result<Next> compile(int ranks) const;

private:
  Recipe recipe_;
  std::string compiler_, folder_;
};

/// Of the children those of `ranks`, called by their places in it; they run `plan` (empty: as before). Each keeps its
/// place on its machine and thereby its device. None may be left.
void keepRanks(LaunchContext &context, const std::vector<int> &ranks, const std::string &plan);

} // namespace tessera::rt

#endif
