#include "dialects/dist/ShardingRule.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tessera::dist {

namespace {
Sharding fromFactors(const ShardingRule::TensorFactors &tensor, const Strategy &strategy) {
  Sharding sharding;
  for (const auto &dim : tensor) {
    AxisList axes;
    for (int f : dim)
      axes.append(strategy.factors[f]);
    sharding.dims.push_back(std::move(axes));
  }
  return sharding;
}

/// Calls visit(extent) for every dimension of an operand or result in which the factor occurs.
template <typename Visit>
void eachUse(const ShardingRule &rule, int factor, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes,
             Visit visit) {
  auto side = [&](const SmallVector<ShardingRule::TensorFactors> &tensors, ArrayRef<Shape> shapes) {
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t d = 0; d < tensors[t].size(); ++d)
        if (is_contained(tensors[t][d], factor))
          visit(shapes[t][d]);
  };
  side(rule.operands, operandShapes);
  side(rule.results, resultShapes);
}
} // namespace

Sharding operandSharding(const ShardingRule &rule, const Strategy &strategy, int operand) {
  Sharding sharding = fromFactors(rule.operands[operand], strategy);
  if (strategy.linear >= 0 && is_contained(rule.linear[strategy.linear], operand)) {
    sharding.partial = strategy.partial;
    sharding.reduction = strategy.partial.empty() ? Reduction::None : Reduction::Sum;
  }
  return sharding;
}

Sharding naturalResult(const ShardingRule &rule, const Strategy &strategy, int result) {
  Sharding sharding = fromFactors(rule.results[result], strategy);
  if (strategy.linear >= 0 && !strategy.partial.empty()) {
    sharding.partial = strategy.partial;
    sharding.reduction = Reduction::Sum;
  }
  auto has = [&](int factor) {
    return any_of(rule.results[result], [&](const auto &dim) { return is_contained(dim, factor); });
  };
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (rule.factors[f].kind == FactorKind::Reduce && !strategy.factors[f].empty() && !has(int(f))) {
      sharding.partial.append(strategy.factors[f]);
      sharding.reduction = rule.factors[f].reduction;
    }
  llvm::sort(sharding.partial);
  return sharding;
}

Sharding resultSharding(const ShardingRule &rule, const Strategy &strategy, int result) {
  return strategy.results.empty() ? naturalResult(rule, strategy, result) : strategy.results[result];
}

AxisList statisticsAxes(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh) {
  AxisList axes;
  for (size_t f = 0; f < rule.factors.size() && f < strategy.factors.size(); ++f)
    if (rule.factors[f].kind == FactorKind::Stat && mesh.size(strategy.factors[f]) > 1)
      axes.append(strategy.factors[f]);
  llvm::sort(axes);
  return axes;
}

/// Whether the factor may be cut into padded blocks. It must be the only factor of its dimensions and have their whole
/// extent. Otherwise the padding would lie between elements of the dimension (a reshape of [6, 7, 8] to [24, 14]).
static bool mayPad(const ShardingRule &rule, int factor, int64_t shards, ArrayRef<Shape> operandShapes,
                   ArrayRef<Shape> resultShapes) {
  const Factor &f = rule.factors[factor];
  if (f.padding == Factor::Padding::Refused || !Sharding::canCut(f.size, shards))
    return false;
  bool alone = true;
  eachUse(rule, factor, operandShapes, resultShapes, [&](int64_t extent) { alone &= extent == f.size; });
  return alone;
}

bool canShard(const ShardingRule &rule, int factor, int64_t shards, ArrayRef<Shape> operandShapes,
              ArrayRef<Shape> resultShapes) {
  if (shards == 1)
    return true;
  const Factor &f = rule.factors[factor];
  if (f.kind == FactorKind::Whole)
    return false;
  bool divides = f.size % shards == 0;
  eachUse(rule, factor, operandShapes, resultShapes, [&](int64_t extent) { divides &= extent % shards == 0; });
  if (!divides && !mayPad(rule, factor, shards, operandShapes, resultShapes))
    return false;
  for (const Window &window : rule.windows)
    if (window.factor == factor && !window.halo(shards))
      return false;
  return true;
}

SmallVector<PaddingMask> paddingMasks(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh) {
  SmallVector<PaddingMask> masks;
  auto padded = [&](int f) {
    const Factor &factor = rule.factors[f];
    return factor.kind == FactorKind::Reduce && factor.padding == Factor::Padding::Masked &&
           factor.size % mesh.size(strategy.factors[f]) != 0;
  };
  for (size_t i = 0; i < rule.operands.size(); ++i)
    for (size_t d = 0; d < rule.operands[i].size(); ++d)
      for (int f : rule.operands[i][d])
        if (padded(f))
          masks.push_back({int(i), int64_t(d), rule.factors[f].reduction});
  return masks;
}

Error verifyStrategy(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                     ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  if (strategy.factors.size() != rule.factors.size())
    return createStringError("a strategy of " + Twine(strategy.factors.size()) + " factors for the rule " + rule.str());
  SmallVector<bool> used(mesh.numAxes(), false);
  auto use = [&](ArrayRef<int> axes) -> Error {
    for (int axis : axes) {
      if (axis < 0 || axis >= mesh.numAxes())
        return createStringError("unknown mesh axis " + Twine(axis));
      if (used[axis])
        return createStringError("mesh axis '" + mesh.axisName(axis) + "' is used twice");
      used[axis] = true;
    }
    return Error::success();
  };
  Reduction reduction = Reduction::None;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const Factor &f = rule.factors[i];
    if (Error e = use(strategy.factors[i]))
      return e;
    int64_t shards = mesh.size(strategy.factors[i]);
    if (shards == 1)
      continue;
    if (f.kind == FactorKind::Whole)
      return createStringError("factor '" + f.name + "' cannot be cut (rule " + rule.str() + ")");
    if (!canShard(rule, int(i), shards, operandShapes, resultShapes))
      return createStringError("factor '" + f.name + "' of extent " + Twine(f.size) + " cannot be cut in " +
                               Twine(shards) + " parts (rule " + rule.str() + ")");
    if (f.kind == FactorKind::Reduce) {
      if (reduction != Reduction::None && reduction != f.reduction)
        return createStringError("two different reductions are cut at once (rule " + rule.str() + ")");
      reduction = f.reduction;
    }
  }
  if (strategy.linear >= 0) {
    if (strategy.linear >= int(rule.linear.size()))
      return createStringError("the rule " + rule.str() + " has no linear group " + Twine(strategy.linear));
    if (reduction != Reduction::None && reduction != Reduction::Sum)
      return createStringError("a partial sum cannot pass through another reduction");
    if (Error e = use(strategy.partial))
      return e;
  } else if (!strategy.partial.empty()) {
    return createStringError("partial axes without a linear group");
  }
  // A minor factor may only be cut if the major factors of its dimension are cut into blocks of one element. Only then
  // is a rank's part one contiguous block.
  auto contiguous = [&](const SmallVector<ShardingRule::TensorFactors> &tensors) {
    for (const auto &tensor : tensors)
      for (const auto &dim : tensor)
        for (size_t i = 0; i + 1 < dim.size(); ++i)
          if (mesh.size(strategy.factors[dim[i]]) != rule.factors[dim[i]].size)
            for (size_t j = i + 1; j < dim.size(); ++j)
              if (mesh.size(strategy.factors[dim[j]]) > 1)
                return false;
    return true;
  };
  if (!contiguous(rule.operands) || !contiguous(rule.results))
    return createStringError("a minor factor is cut while a major factor of its dimension has blocks of more than one "
                             "element (rule " +
                             rule.str() + ")");
  if (!strategy.results.empty()) {
    if (strategy.results.size() != rule.results.size())
      return createStringError("a strategy for " + Twine(strategy.results.size()) + " results");
    for (size_t r = 0; r < strategy.results.size(); ++r) {
      if (Error e = strategy.results[r].verify(mesh, resultShapes[r]))
        return e;
      Sharding natural = naturalResult(rule, strategy, int(r));
      for (int axis : strategy.results[r].partial)
        if (!is_contained(natural.partial, axis) || natural.reduction != strategy.results[r].reduction)
          return createStringError("result " + Twine(r) + " cannot be partial over '" + mesh.axisName(axis) + "'");
    }
  }
  return Error::success();
}

bool Strategy::operator<(const Strategy &o) const {
  if (factors != o.factors)
    return std::lexicographical_compare(factors.begin(), factors.end(), o.factors.begin(), o.factors.end(),
                                        [](const AxisList &a, const AxisList &b) {
                                          return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
                                        });
  if (linear != o.linear)
    return linear < o.linear;
  if (partial != o.partial)
    return std::lexicographical_compare(partial.begin(), partial.end(), o.partial.begin(), o.partial.end());
  return std::lexicographical_compare(results.begin(), results.end(), o.results.begin(), o.results.end());
}

} // namespace tessera::dist
