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
      leaf();
      return;
    }
    int axis = axes_[at];
    visit(at + 1);
    for (size_t f = 0; f < cls_.rule.factors.size(); ++f) {
      AxisList &list = strategy_.factors[f];
      int64_t shards = mesh_.size(list) * mesh_.axisSize(axis);
      if (!dist::canShard(cls_.rule, int(f), shards, cls_.operandShapes, cls_.resultShapes))
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

std::vector<Strategy> enumerateStrategies(const OperatorClass &cls, const Mesh &mesh, size_t limit) {
  return Enumerator(cls, mesh, limit).run();
}

std::vector<Strategy> resultVariants(const OperatorClass &cls, const Mesh &mesh, const Strategy &strategy) {
  std::vector<Strategy> variants = {strategy};
  llvm::SmallVector<Sharding> reduced;
  AxisList partial;
  for (size_t r = 0; r < cls.rule.results.size(); ++r) {
    Sharding natural = dist::naturalResult(cls.rule, strategy, int(r));
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
      int64_t shards = mesh.size(current.dims[d]) * mesh.axisSize(partial[at]);
      if (!Sharding::canCut(cls.resultShapes[0][d], shards))
        continue;
      current.dims[d].push_back(partial[at]);
      self(self, at + 1);
      current.dims[d].pop_back();
    }
  };
  visit(visit, 0);
  return variants;
}

std::vector<Sharding> enumerateShardings(llvm::ArrayRef<int64_t> shape, const Mesh &mesh, uint64_t mayPad,
                                         size_t limit) {
  std::vector<Sharding> found;
  AxisList axes = realAxes(mesh);
  Sharding current = Sharding::replicated(int64_t(shape.size()));
  auto visit = [&](auto &&self, size_t at) -> void {
    if (found.size() >= limit)
      return;
    if (at == axes.size()) {
      found.push_back(current);
      return;
    }
    self(self, at + 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t shards = mesh.size(current.dims[d]) * mesh.axisSize(axes[at]);
      if (shape[d] % shards != 0 && !((mayPad >> d & 1) && Sharding::canCut(shape[d], shards)))
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
