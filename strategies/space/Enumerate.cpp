#include "strategies/space/Enumerate.h"

namespace tessera::strategies {

namespace {

/// Axes longer than one: the others cut nothing.
AxisList realAxes(const Mesh &mesh) {
  AxisList axes;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1)
      axes.push_back(axis);
  return axes;
}

class Enumerator {
public:
  Enumerator(const OperatorClass &cls, const Mesh &mesh, size_t limit)
      : cls_(cls), mesh_(mesh), limit_(limit), axes_(realAxes(mesh)) {
    strategy_.factors.resize(cls.rule.factors.size());
  }

  std::vector<Strategy> run() {
    visit(0);
    return std::move(found_);
  }

private:
  void visit(size_t at) {
    if (found_.size() >= limit_)
      return;
    if (at == axes_.size()) {
      inUnits(0);
      return;
    }
    int axis = axes_[at];
    visit(at + 1);
    for (size_t f = 0; f < cls_.rule.factors.size(); ++f) {
      AxisList &list = strategy_.factors[f];
      int64_t shards = mesh_.size(list) * mesh_.axisSize(axis);
      auto can = [&](int64_t unit) { return canShard(f, shards, unit); };
      if (!can(1) && llvm::none_of(unitsOf(f), can))
        continue;
      list.push_back(axis);
      visit(at + 1);
      list.pop_back();
    }
    for (int g = 0; g < int(cls_.rule.linear.size()); ++g) {
      if (strategy_.linear >= 0 && strategy_.linear != g)
        continue;
      int before = strategy_.linear;
      strategy_.linear = g;
      strategy_.partial.push_back(axis);
      visit(at + 1);
      strategy_.partial.pop_back();
      strategy_.linear = before;
    }
  }

  bool canShard(size_t f, int64_t shards, int64_t unit) const {
    return dist::canShard(cls_.rule, int(f), shards, cls_.operandShapes, cls_.resultShapes, unit);
  }

  llvm::ArrayRef<int64_t> unitsOf(size_t f) const {
    return cls_.units.empty() ? llvm::ArrayRef<int64_t>() : cls_.units[f];
  }

  /// The factors from `f` on in plain blocks, and in each of their units that gives other blocks.
  void inUnits(size_t f) {
    while (f < strategy_.factors.size() && (strategy_.factors[f].empty() || unitsOf(f).empty()))
      ++f;
    if (f == strategy_.factors.size()) {
      leaf();
      return;
    }
    inUnits(f + 1);
    Cut &cut = strategy_.factors[f];
    for (int64_t unit : unitsOf(f)) {
      cut.unit = unit;
      if (canShard(f, mesh_.size(cut), unit) && cut.canonical(mesh_, cls_.rule.factors[f].size).unit == unit)
        inUnits(f + 1);
    }
    cut.unit = 1;
  }

  void leaf() {
    // Some combinations are not valid: one cuts a minor factor whose major one is not cut completely, or needs two kinds
    // of reduction at once.
    if (llvm::Error e = dist::verifyStrategy(cls_.rule, strategy_, mesh_, cls_.operandShapes, cls_.resultShapes)) {
      llvm::consumeError(std::move(e));
      return;
    }
    for (Strategy &s : resultVariants(cls_, mesh_, strategy_))
      if (found_.size() < limit_)
        found_.push_back(std::move(s));
  }

  const OperatorClass &cls_;
  const Mesh &mesh_;
  size_t limit_;
  AxisList axes_;
  Strategy strategy_;
  std::vector<Strategy> found_;
};

} // namespace

size_t mostStrategies(const Mesh &mesh) { return realAxes(mesh).size() <= 3 ? 65'536 : 4'096; }

std::vector<Strategy> enumerateStrategies(const OperatorClass &cls, const Mesh &mesh) {
  return Enumerator(cls, mesh, mostStrategies(mesh)).run();
}

std::vector<Strategy> resultVariants(const OperatorClass &cls, const Mesh &mesh, const Strategy &strategy) {
  std::vector<Strategy> variants = {strategy};
  llvm::SmallVector<Sharding> reduced;
  AxisList partial;
  for (size_t r = 0; r < cls.rule.results.size(); ++r) {
    Sharding natural = dist::naturalResult(mesh, cls.rule, strategy, int(r));
    if (natural.isPartial())
      partial = natural.partial; // the axes matter below only where there is one result
    reduced.push_back(natural.withoutPartial());
  }
  if (partial.empty())
    return variants;
  variants.push_back(strategy);
  variants.back().results = reduced;
  if (reduced.size() != 1)
    return variants;
  // Each partial axis is scattered over a dimension or reduced. The variant that reduces all of them is there already.
  Sharding current = reduced[0];
  auto visit = [&](auto &&self, size_t at) -> void {
    if (at == partial.size()) {
      if (current == reduced[0])
        return;
      variants.push_back(strategy);
      variants.back().results = {current};
      return;
    }
    self(self, at + 1);
    for (size_t d = 0; d < current.dims.size(); ++d) {
      const Cut before = current.dims[d];
      Cut further = before;
      further.push_back(partial[at]);
      if (!Sharding::canCut(cls.resultShapes[0][d], mesh.size(further), further.unit))
        continue;
      current.dims[d] = further.canonical(mesh, cls.resultShapes[0][d]);
      self(self, at + 1);
      current.dims[d] = before;
    }
  };
  visit(visit, 0);
  return variants;
}

std::vector<Sharding> enumerateShardings(llvm::ArrayRef<int64_t> shape, const Mesh &mesh, uint64_t mayPad,
                                         llvm::ArrayRef<llvm::SmallVector<int64_t, 2>> units, size_t limit) {
  std::vector<Sharding> found;
  AxisList axes = realAxes(mesh);
  Sharding current = Sharding::replicated(int64_t(shape.size()));
  auto unitsOf = [&](size_t d) { return units.empty() ? llvm::ArrayRef<int64_t>() : llvm::ArrayRef(units[d]); };
  auto isPlain = [&](size_t d, int64_t shards) {
    return shape[d] % shards == 0 || ((mayPad >> d & 1) && Sharding::canCut(shape[d], shards));
  };
  // Every dimension in plain blocks, and in each of its units that gives other blocks.
  auto inUnits = [&](auto &&self, size_t d) -> void {
    if (found.size() >= limit)
      return;
    if (d == shape.size()) {
      found.push_back(current);
      return;
    }
    Cut &cut = current.dims[d];
    if (isPlain(d, mesh.size(cut)))
      self(self, d + 1);
    for (int64_t unit : unitsOf(d)) {
      cut.unit = unit;
      if (!cut.empty() && Sharding::canCut(shape[d], mesh.size(cut), unit) &&
          cut.canonical(mesh, shape[d]).unit == unit)
        self(self, d + 1);
    }
    cut.unit = 1;
  };
  auto visit = [&](auto &&self, size_t at) -> void {
    if (found.size() >= limit)
      return;
    if (at == axes.size()) {
      inUnits(inUnits, 0);
      return;
    }
    self(self, at + 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t shards = mesh.size(current.dims[d]) * mesh.axisSize(axes[at]);
      auto can = [&](int64_t unit) { return Sharding::canCut(shape[d], shards, unit); };
      if (!isPlain(d, shards) && llvm::none_of(unitsOf(d), can))
        continue;
      current.dims[d].push_back(axes[at]);
      self(self, at + 1);
      current.dims[d].pop_back();
    }
  };
  visit(visit, 0);
  return found;
}

} // namespace tessera::strategies
