//===- Assign.h - a strategy for every operator --------------------------------------------------===//
//
// Assignment leads from phase 2 to phase 3: the module gets its mesh (`dist.mesh`), every operator a strategy
// (`dist.strategy`), and every function argument and result a sharding (`dist.sharding`). The modes:
//
//   data       Parameters and states are whole on every rank. Inputs and targets are cut along dimension 0 over all
//              axes that divide it. The other tensors follow through the rules. A sum over the batch is reduced where
//              it arises.
//   semi-auto  Operators take the user's strategies (UserStrategies.h). An operator without one cuts its batch. The
//              gradients of an operator with a strategy are cut as its tensors are.
//   auto       A search takes the cheapest strategies under the cost model. The user's strategies are constraints.
//
//   AssignOptions options;
//   options.mesh = cantFail(Mesh::parse("data=2,model=2"));
//   options.topology = cantFail(Topology::load("cpu"));
//   AssignReport report;
//   if (llvm::Error e = assignStrategies(module, options, report)) ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_ASSIGN_H
#define TESSERA_STRATEGIES_MODES_ASSIGN_H

#include "strategies/graph/BuildGraph.h"
#include "strategies/report/Report.h"
#include "strategies/search/Search.h"
#include "strategies/user/UserStrategies.h"

#include <algorithm>
#include <thread>

namespace tessera::strategies {

/// What is known of prices on a mesh. Searches that share it plan equal reshards once, and price equal operators once.
/// The functions that are searched are of one context. One thread may use it at a time.
struct Prices {
  Prices(const Mesh &mesh, const Topology &topology, const ProfileTable &profile, bool reproducible, bool joins)
      : own_(std::make_unique<const CostModel>(mesh, topology, profile, reproducible, joins)), model(*own_) {}
  /// For thread `thread` of several that search functions at once: what `prices` know, which must outlive this, and the
  /// model of that thread alone. Thread 0 has the model of `prices`.
  Prices(const Prices &prices, int thread)
      : model(*prices.model.perThread(thread + 1).back()), known(prices.known), ofOneThread(true) {
    known.keepsOptions = true; // evaluation and inference have nearly the same
  }

private:
  const std::unique_ptr<const CostModel> own_;

public:
  const CostModel &model;
  KnownOptions known;
  const bool ofOneThread = false;
};

class KnownAnswer;

struct AssignOptions {
  std::string mode = "data"; // one of modeNames()
  Mesh mesh;
  Topology topology;
  ProfileTable profile;
  /// What is known of the first function on `mesh` (KnownAnswer.h); null: nothing.
  std::shared_ptr<KnownAnswer> known;
  /// Where that is kept, if another search would find it again; null: nowhere.
  std::shared_ptr<KnownAnswer> *keep = nullptr;
  /// The module is reproducible (dialects/dist/leaves/Leaves.h).
  bool reproducible = false;
  /// Those of `mesh`, `topology` and `profile`; null: they are made where they are needed.
  std::shared_ptr<Prices> prices;
  /// The user's strategies, or a saved assignment. Operators take a saved assignment as it is, whatever `mode` says.
  UserStrategies user;
  /// Bytes per rank; 0: what the topology says.
  int64_t memoryLimit = 0;
  /// Of a pipeline's stage; `memoryLimit` is that of all stages then.
  PipelineShare share;
  /// Effort of the search in 1e9 elementary steps, which take roughly as many seconds. Equal effort gives equal
  /// strategies.
  double searchWork = 2;
  /// The search also ends after this time of the clock.
  double searchSeconds = 120;
  /// Of the randomized phases, whose answer may depend on it.
  int searchThreads = 1;
  /// For what is the same whatever their number: stating a problem, exact reductions, searches that do not depend on
  /// each other.
  int exactThreads = int(std::max(1u, std::thread::hardware_concurrency()));
  /// The search also ends at this relative distance to the proven bound.
  double searchGap = 1e-3;
  /// For the first function an answer that costs as much is of no use: it may be said that none fits.
  Cost tooDear = std::numeric_limits<Cost>::max();
  /// What may follow another operator may also choose for itself: better plans, in 1.3 to 3 times the time. Meshes and
  /// stages are compared without.
  bool splitGroups = false;
  std::string searcher; // empty: the default one
  /// Becomes true: the search that runs ends now, with its best answer. One that begins later may do `searchWork`.
  const std::atomic<bool> *stop = nullptr;
  /// Becomes true: nobody waits for the answer any more, whatever it is.
  const std::atomic<bool> *outdated = nullptr;
  /// Is told what the search finds.
  SearchWatch *watch = nullptr;
  /// Where mode auto writes the search problem of the first function; empty: nowhere.
  std::string dumpGraph;
  /// Leaves out all functions but the first one (the training step).
  bool firstOnly = false;
  /// Proves how fast a step can be at best with what is hidden (BesideSearch.h). Comparing answers needs no proof.
  bool proveBeside = true;
  /// Leaves them out, too, where the first one is predicted to need more bytes per rank than this.
  int64_t firstWithin = std::numeric_limits<int64_t>::max();
  /// The report also says what else operators could have chosen (Explain.h).
  bool explain = false;
  /// Which collectives are sent as one message, and whether they run beside kernels. Its `memory` is ignored.
  JoinOptions join;
};

/// The effort of a search that begins after `stop` became true, at most: someone waits for it. Set by hand.
constexpr double kHurriedWork = 0.2;

/// `options.prices`, or new ones.
std::shared_ptr<Prices> pricesOf(const AssignOptions &options);
/// Bytes per rank: `memoryLimit`, or what the topology says.
int64_t memoryOf(const AssignOptions &options);
/// `join` with the memory of a rank.
JoinOptions joinOf(const AssignOptions &options);

const std::vector<std::string> &modeNames();

/// Assigns strategies to the functions of the module, the training step first, and prices them in `report`. Fails with
/// one sentence on options that do not fit together or the module, and on strategies that cannot be found.
llvm::Error assignStrategies(mlir::ModuleOp module, const AssignOptions &options, AssignReport &report);

} // namespace tessera::strategies

#endif
