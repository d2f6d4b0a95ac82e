#include "strategies/modes/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/PassBases.h"

using namespace mlir;

namespace tessera::strategies {

#define GEN_PASS_DEF_ASSIGNSTRATEGIESPASS
#include "strategies/modes/Passes.h.inc"

/// Seconds of the clock per unit of counted work. Work should end the search, so that it gives the same plan each time;
/// a unit takes about one second, and the clock ends the search only on a machine that is far slower.
static constexpr double kSecondsPerWork = 20;

llvm::Expected<AssignOptions> parseAssign(const AssignStrategiesPassOptions &from) {
  AssignOptions to;
  to.mode = from.mode;
  if (llvm::Error e = Mesh::parse(from.mesh).moveInto(to.mesh))
    return e;
  if (llvm::Error e = Topology::load(from.topology).moveInto(to.topology))
    return e;
  if (!from.strategy.empty())
    if (llvm::Error e = UserStrategies::load(from.strategy).moveInto(to.user))
      return e;
  if (!from.profile.empty())
    if (llvm::Error e = ProfileTable::load(from.profile).moveInto(to.profile))
      return e;
  if (!from.memory.empty())
    if (llvm::Error e = parseBytes(from.memory).moveInto(to.memoryLimit))
      return e;
  if (llvm::Error e = parseJoin(from.fusion).moveInto(to.join))
    return e;
  if (llvm::Error e = parseOverlap(from.overlap).moveInto(to.join.overlap))
    return e;
  to.searchWork = from.searchBudget;
  to.searchSeconds = std::max(to.searchSeconds, kSecondsPerWork * from.searchBudget);
  to.searchGap = from.searchGap;
  to.splitGroups = from.splitGroups;
  to.searchThreads = from.searchThreads;
  to.searcher = from.searcher;
  to.dumpGraph = from.dumpGraph;
  return to;
}

namespace {

struct AssignStrategies : graph::FalliblePass<impl::AssignStrategiesPassBase<AssignStrategies>> {
  using FalliblePass::FalliblePass;
  AssignStrategies(AssignOptions options, AssignReport &report) : given_(std::move(options)), report_(&report) {}

  llvm::Error run() override {
    AssignReport unused;
    if (given_)
      return assignStrategies(getOperation(), *given_, *report_);
    auto options = parseAssign({.mesh = mesh,
                                .mode = mode,
                                .strategy = strategy,
                                .topology = topology,
                                .profile = profile,
                                .memory = memory,
                                .fusion = fusion,
                                .overlap = overlap,
                                .searchBudget = searchBudget,
                                .searchGap = searchGap,
                                .splitGroups = splitGroups,
                                .searchThreads = searchThreads,
                                .searcher = searcher,
                                .dumpGraph = dumpGraph});
    return options ? assignStrategies(getOperation(), *options, unused) : options.takeError();
  }

private:
  std::optional<AssignOptions> given_;
  AssignReport *report_ = nullptr;
};

} // namespace

std::unique_ptr<Pass> createAssignStrategiesPass(AssignOptions options, AssignReport &report) {
  return std::make_unique<AssignStrategies>(std::move(options), report);
}

} // namespace tessera::strategies
