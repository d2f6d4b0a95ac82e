#include "dialects/dist/ShardingRule.h"

#include "dialects/dist/leaves/LeafRule.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tessera::dist {

Cut dimensionCut(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, ArrayRef<int> dim) {
  if (dim.size() == 1)
    return strategy.factors[dim[0]];
  Cut cut;
  int64_t extent = 1, inner = 1; // of the whole, and of a unit
  for (int f : dim) {
    const Cut &own = strategy.factors[f];
    int64_t size = rule.factors[f].size;
    extent *= size;
    inner *= size;
    if (own.empty())
      continue;
    cut.append(own.begin(), own.end());
    inner = own.unit; // what stands behind it follows
  }
  auto isEven = [&](int f) {
    const Cut &own = strategy.factors[f];
    return own.unit == 1 && rule.factors[f].size % mesh.size(own) == 0;
  };
  if (all_of(dim, isEven))
    return cut;
  cut.unit = inner;
  return cut.canonical(mesh, extent);
}

namespace {
Sharding fromFactors(const Mesh &mesh, const ShardingRule &rule, const ShardingRule::TensorFactors &tensor,
                     const Strategy &strategy) {
  Sharding sharding;
  for (const auto &dim : tensor)
    sharding.dims.push_back(dimensionCut(mesh, rule, strategy, dim));
  return sharding;
}

/// Calls visit(dimension's factors, extent) for every dimension of an operand or result in which the factor occurs.
template <typename Visit>
void eachUse(const ShardingRule &rule, int factor, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes,
             Visit visit) {
  auto side = [&](const SmallVector<ShardingRule::TensorFactors> &tensors, ArrayRef<Shape> shapes) {
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t d = 0; d < tensors[t].size(); ++d)
        if (is_contained(tensors[t][d], factor))
          visit(tensors[t][d], shapes[t][d]);
  };
  side(rule.operands, operandShapes);
  side(rule.results, resultShapes);
}
} // namespace

Sharding operandSharding(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int operand) {
  Sharding sharding = fromFactors(mesh, rule, rule.operands[operand], strategy);
  if (strategy.linear >= 0 && is_contained(rule.linear[strategy.linear], operand)) {
    sharding.partial = strategy.partial;
    sharding.reduction = strategy.partial.empty() ? Reduction::None : Reduction::Sum;
  }
  return sharding;
}

Sharding naturalResult(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int result) {
  Sharding sharding = fromFactors(mesh, rule, rule.results[result], strategy);
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

Sharding resultSharding(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int result) {
  return strategy.results.empty() ? naturalResult(mesh, rule, strategy, result) : strategy.results[result];
}

AxisList statisticsAxes(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh) {
  AxisList axes;
  for (size_t f = 0; f < rule.factors.size() && f < strategy.factors.size(); ++f)
    if (rule.factors[f].kind == FactorKind::Stat && mesh.size(strategy.factors[f]) > 1)
      axes.append(strategy.factors[f]);
  llvm::sort(axes);
  return axes;
}

bool mayPad(const ShardingRule &rule, int factor, ArrayRef<Shape> operandShapes, ArrayRef<Shape> resultShapes) {
  const Factor &f = rule.factors[factor];
  if (f.kind == FactorKind::Whole || f.padding == Factor::Padding::Refused ||
      any_of(rule.windows, [&](const Window &window) { return window.factor == factor; }))
    return false;
  // Behind another factor, or before elements that no factor has (a reshape of [6, 7, 8] to [24, 14]), padding would lie
  // between elements of the dimension.
  bool major = true;
  eachUse(rule, factor, operandShapes, resultShapes, [&](ArrayRef<int> dim, int64_t extent) {
    for (int before : dim.take_while([&](int other) { return other != factor; }))
      major &= rule.factors[before].size == 1;
    for (int own : dim)
      extent = extent % rule.factors[own].size == 0 ? extent / rule.factors[own].size : 0;
    major &= extent == 1;
  });
  return major;
}

bool canShard(const ShardingRule &rule, int factor, int64_t shards, ArrayRef<Shape> operandShapes,
              ArrayRef<Shape> resultShapes, int64_t unit) {
  if (shards == 1)
    return unit == 1;
  const Factor &f = rule.factors[factor];
  if (f.kind == FactorKind::Whole)
    return false;
  bool divides = unit == 1 && f.size % shards == 0;
  eachUse(rule, factor, operandShapes, resultShapes,
          [&](ArrayRef<int>, int64_t extent) { divides &= extent % shards == 0; });
  if (!divides && !(Sharding::canCut(f.size, shards, unit) && mayPad(rule, factor, operandShapes, resultShapes)))
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
           factor.size / strategy.factors[f].unit % mesh.size(strategy.factors[f]) != 0;
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
  if (Error e = verifyLeaves(rule, strategy, mesh))
    return e;
  Reduction reduction = Reduction::None;
  for (size_t i = 0; i < rule.factors.size(); ++i) {
    const Factor &f = rule.factors[i];
    if (Error e = use(strategy.factors[i]))
      return e;
    const int64_t shards = mesh.size(strategy.factors[i]), unit = strategy.factors[i].unit;
    if (shards == 1 && unit == 1)
      continue;
    if (f.kind == FactorKind::Whole)
      return createStringError("factor '" + f.name + "' cannot be cut (rule " + rule.str() + ")");
    if (unit < 1 || !canShard(rule, int(i), shards, operandShapes, resultShapes, unit))
      return createStringError("factor '" + f.name + "' of extent " + Twine(f.size) + " cannot be cut in " +
                               Twine(shards) + " parts" + (unit == 1 ? "" : " of units of " + std::to_string(unit)) +
                               " (rule " + rule.str() + ")");
    if (int64_t least = strategy.factors[i].canonical(mesh, f.size).unit; least != unit)
      return createStringError("factor '" + f.name + "' of extent " + Twine(f.size) +
                               " has the same blocks in units of " + Twine(least) + " as in units of " + Twine(unit) +
                               ": write the smaller unit" + (least == 1 ? ", which is none" : "") + " (rule " +
                               rule.str() + ")");
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
      Sharding natural = naturalResult(mesh, rule, strategy, int(r));
      for (int axis : strategy.results[r].partial)
        if (!is_contained(natural.partial, axis) || natural.reduction != strategy.results[r].reduction)
          return createStringError("result " + Twine(r) + " cannot be partial over '" + mesh.axisName(axis) + "'");
    }
  }
  return Error::success();
}

bool Strategy::operator<(const Strategy &o) const {
  if (factors != o.factors)
    return factors < o.factors;
  if (linear != o.linear)
    return linear < o.linear;
  if (partial != o.partial)
    return std::lexicographical_compare(partial.begin(), partial.end(), o.partial.begin(), o.partial.end());
  return std::lexicographical_compare(results.begin(), results.end(), o.results.begin(), o.results.end());
}

} // namespace tessera::dist
