//===- CoarserPlans.h - the plans of coarser meshes beside a search ---------------------------------===//
//
// Two neighbouring axes that always cut together are one axis. So every plan of a mesh with joined axes is a plan of
// the mesh itself. The search sums what messages take alone and in line, so the best sum on more axes may be a plan
// that takes more time. Therefore its answer is held against those of coarser meshes, whose problems are far smaller:
// each is searched as if the mesh had been that one. Another thread does it, where there are several.
//
//   x=4,y=2     besides 8: "[x+y, -]" stands for "[8, -]"
//
//   CoarserPlans coarser(function, options);
//   ...                                                   // the search on the mesh itself
//   coarser.takeIfShorter(function, model, report, planned)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_COARSERPLANS_H
#define TESSERA_STRATEGIES_MODES_COARSERPLANS_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/modes/Assign.h"

#include <future>

namespace tessera::strategies {

/// A mesh in which neighbouring axes of a finer one are joined; by its axis those of the finer one.
struct JoinedMesh {
  Mesh mesh;
  std::vector<dist::AxisList> axes;
};

/// Those of at most two axes, the coarsest first. Axes of size 1 are not joined. The machine has no link of its own for
/// an axis.
std::vector<JoinedMesh> joinedMeshes(const Mesh &mesh);

/// What is chosen on the joined mesh, on the finer one: the same blocks on the same ranks.
FunctionAssignment onFinerMesh(FunctionAssignment function, const JoinedMesh &joined);
/// The other way round. Nothing where a joined axis does not cut as a whole.
std::optional<SharedShardings> onJoinedMesh(const SharedShardings &shared, const JoinedMesh &joined);

class CoarserPlans {
public:
  /// All must outlive this. Nothing is searched where a user has a say, and where meshes are compared
  /// (AssignOptions::proveBeside) or have been (AssignOptions::known): the coarser ones are among them. Where an earlier
  /// function has decided how parameters lie, the coarsest mesh is searched on which they can lie so.
  CoarserPlans(const FunctionAssignment &function, const AssignOptions &options, const SharedShardings &shared);
  ~CoarserPlans() { outdated_ = true; }

  /// Whether there are any.
  bool compares() const { return searching_.valid(); }

  /// Waits for them. Takes over the best of those that take less time than `planned` and fit. Reshards over several
  /// axes may be other collectives than over the joined one, so each is priced on the mesh itself.
  llvm::Error takeIfShorter(FunctionAssignment &function, const CostModel &model, SearchReport &report,
                            ProgramCost &planned);

private:
  struct Found {
    FunctionAssignment function; // on the mesh itself
    SearchReport search;
    Cost predicted;
  };
  struct Searched {
    std::vector<Found> found; // what takes the least time first
    double work = 0;
  };
  struct Problem {
    JoinedMesh joined;
    SharedShardings shared; // on the joined mesh
  };
  Searched search(const Program &program) const;

  const AssignOptions &options_;
  std::vector<Problem> problems_;
  std::atomic<bool> outdated_{false};
  std::future<Searched> searching_;
};

} // namespace tessera::strategies

#endif
