#include "strategies/modes/CoarserPlans.h"

#include "strategies/modes/Trial.h"
#include "strategies/space/InParallel.h"

namespace tessera::strategies {

/// The effort of the search on each coarser mesh, as a part of the whole one. Set by hand.
static constexpr double kCoarserWork = 0.1;
/// Of a program with more operators only the coarsest mesh is searched: the three of a mesh with three axes would
/// together take as long as the search of that one. BERT-large has 8,144. Set by hand.
static constexpr size_t kManyOperators = 4000;

namespace {

/// Axes of a joined mesh as those that they consist of.
class Apart {
public:
  explicit Apart(const JoinedMesh &joined) : joined_(joined) {}

  Sharding of(Sharding sharding) const {
    for (dist::Cut &cut : sharding.dims)
      cut = of(cut);
    sharding.partial = of(sharding.partial);
    return sharding;
  }
  Strategy of(Strategy strategy) const {
    for (dist::Cut &cut : strategy.factors)
      cut = of(cut);
    strategy.partial = of(strategy.partial);
    for (Sharding &result : strategy.results)
      result = of(std::move(result));
    return strategy;
  }

private:
  dist::Cut of(const dist::Cut &cut) const { return dist::Cut(of(cut.axes()), cut.unit); }
  dist::AxisList of(const dist::AxisList &axes) const {
    dist::AxisList apart;
    for (int axis : axes)
      llvm::append_range(apart, joined_.axes[size_t(axis)]);
    return apart;
  }

  const JoinedMesh &joined_;
};

/// Axes of a finer mesh as the joined ones. Nothing where those that one consists of are not all there, in their order.
class Together {
public:
  explicit Together(const JoinedMesh &joined) : joined_(joined) {
    for (auto [axis, parts] : llvm::enumerate(joined.axes))
      joinedOf_.insert(joinedOf_.end(), parts.size(), int(axis));
  }

  std::optional<Sharding> of(Sharding sharding) const {
    for (dist::Cut &cut : sharding.dims) {
      std::optional<dist::AxisList> axes = of(cut.axes());
      if (!axes)
        return std::nullopt;
      cut = dist::Cut(*axes, cut.unit);
    }
    std::optional<dist::AxisList> partial = of(sharding.partial);
    if (!partial)
      return std::nullopt;
    sharding.partial = *partial;
    return sharding;
  }

private:
  std::optional<dist::AxisList> of(llvm::ArrayRef<int> axes) const {
    dist::AxisList joined;
    while (!axes.empty()) {
      const int axis = joinedOf_[size_t(axes.front())];
      const llvm::ArrayRef<int> parts = joined_.axes[size_t(axis)];
      if (axes.take_front(parts.size()) != parts)
        return std::nullopt;
      joined.push_back(axis);
      axes = axes.drop_front(parts.size());
    }
    return joined;
  }

  const JoinedMesh &joined_;
  std::vector<int> joinedOf_; // by axis of the finer mesh
};

} // namespace

std::vector<JoinedMesh> joinedMeshes(const Mesh &mesh) {
  const int pairs = std::max(0, mesh.numAxes() - 1);
  std::vector<JoinedMesh> list;
  auto add = [&](int apartBehind) { // -1: all are joined
    JoinedMesh joined;
    std::vector<dist::MeshAxis> axes;
    for (int axis = 0; axis < mesh.numAxes(); ++axis) {
      if (axis == 0 || axis == apartBehind + 1) {
        axes.push_back(mesh.axes()[size_t(axis)]);
        joined.axes.emplace_back();
      } else {
        axes.back().size *= mesh.axisSize(axis);
      }
      joined.axes.back().push_back(axis);
    }
    joined.mesh = Mesh(axes);
    list.push_back(std::move(joined));
  };
  if (llvm::any_of(mesh.axes(), [](const dist::MeshAxis &axis) { return axis.size == 1; }))
    return list;
  if (pairs > 0)
    add(-1);
  for (int behind = 0; pairs > 1 && behind < pairs; ++behind)
    add(behind);
  return list;
}

FunctionAssignment onFinerMesh(FunctionAssignment function, const JoinedMesh &joined) {
  const Apart apart(joined);
  for (Strategy &strategy : function.assignment.strategies)
    strategy = apart.of(std::move(strategy));
  for (auto &[value, sharding] : function.assignment.values)
    sharding = apart.of(std::move(sharding));
  for (auto *list : {&function.args, &function.results})
    for (Sharding &sharding : *list)
      sharding = apart.of(std::move(sharding));
  return function;
}

std::optional<SharedShardings> onJoinedMesh(const SharedShardings &shared, const JoinedMesh &joined) {
  const Together together(joined);
  SharedShardings found;
  for (const auto &[name, sharding] : shared) {
    std::optional<Sharding> on = together.of(sharding);
    if (!on)
      return std::nullopt;
    found.emplace(name, std::move(*on));
  }
  return found;
}

CoarserPlans::CoarserPlans(const FunctionAssignment &function, const AssignOptions &options,
                           const SharedShardings &shared)
    : options_(options) {
  if (!options.user.empty() || !options.searcher.empty() || !options.proveBeside || options.known ||
      !options.topology.axes.empty())
    return;
  const bool isLarge = function.program.operators.size() > kManyOperators;
  for (JoinedMesh &joined : joinedMeshes(options.mesh)) {
    if (!problems_.empty() && (isLarge || !shared.empty()))
      break;
    if (std::optional<SharedShardings> on = onJoinedMesh(shared, joined))
      problems_.push_back({std::move(joined), std::move(*on)});
  }
  if (problems_.empty())
    return;
  const int threads = function.program.func->getContext()->isMultithreadingEnabled() ? options.exactThreads : 1;
  searching_ = std::async(besideCaller(threads), [this, &function] { return search(function.program); });
}

CoarserPlans::Searched CoarserPlans::search(const Program &program) const {
  AssignOptions with = options_;
  with.prices = nullptr; // every mesh has its own
  with.keep = nullptr;
  with.watch = nullptr;
  with.dumpGraph.clear();
  with.outdated = &outdated_;
  with.explain = with.proveBeside = with.splitGroups = false;
  with.exactThreads = with.searchThreads = 1;
  with.searchWork *= kCoarserWork;
  with.tooDear = std::numeric_limits<Cost>::max();
  Searched searched;
  for (const auto &[joined, shared] : problems_) {
    with.mesh = joined.mesh;
    Trial trial;
    llvm::Error e = tryStrategies(program, with, trial, shared);
    searched.work += trial.search.work;
    if (e) { // nothing fits, say
      llvm::consumeError(std::move(e));
      continue;
    }
    if (trial.cost.peakBytes <= memoryOf(options_))
      searched.found.push_back(
          {onFinerMesh(std::move(*trial.function), joined), std::move(trial.search), trial.cost.predicted()});
  }
  llvm::stable_sort(searched.found, [](const Found &a, const Found &b) { return a.predicted < b.predicted; });
  return searched;
}

llvm::Error CoarserPlans::takeIfShorter(FunctionAssignment &function, const CostModel &model, SearchReport &report,
                                        ProgramCost &planned) {
  if (!searching_.valid())
    return llvm::Error::success();
  Searched searched = searching_.get();
  report.work += searched.work;
  for (Found &found : searched.found) {
    if (found.predicted >= planned.predicted())
      break;
    std::optional<ProgramCost> other;
    if (llvm::Error e =
            priceIfShorter(chosenIn(found.function), model, joinOf(options_), planned.predicted()).moveInto(other))
      return e;
    if (!other || other->predicted() >= planned.predicted() || other->peakBytes > memoryOf(options_))
      continue;
    function.assignment = std::move(found.function.assignment);
    function.args = std::move(found.function.args);
    function.results = std::move(found.function.results);
    planned = std::move(*other);
    report.alternatives.clear(); // to the search's choice
    report.counted = found.search.counted;
    report.searcher = found.search.searcher + ", joined axes";
    report.cost = std::max(found.search.cost, report.lowerBound);
    report.optimal = report.cost == report.lowerBound && report.partly == 0;
  }
  return llvm::Error::success();
}

} // namespace tessera::strategies
