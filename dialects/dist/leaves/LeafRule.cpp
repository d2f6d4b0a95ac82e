#include "dialects/dist/leaves/LeafRule.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace llvm;

namespace tessera::dist {

/// What follows a factor's name in that of the elements of a leaf.
static constexpr StringLiteral kInside = ".leaf";
/// And in that of what is kept together in a block.
static constexpr StringLiteral kInBlock = ".block";
/// Found by test/unit/backend/SplitsTest.cpp: fewer output channels are computed by other code, with other bits.
static constexpr int64_t kChannels = 16;
/// And so is one group of channels.
static constexpr int64_t kGroups = 2;

/// The leaves that the factor can have; 1 where its dimensions do not allow any.
static int64_t leavesFor(const ShardingRule &rule, int factor, int64_t most) {
  if (any_of(rule.windows, [&](const Window &window) { return window.factor == factor; }))
    return 1;
  for (const auto *tensors : {&rule.operands, &rule.results})
    for (const ShardingRule::TensorFactors &tensor : *tensors)
      for (const auto &dim : tensor) {
        const auto at = find(dim, factor);
        // Behind another factor, a leaf would be several pieces of the dimension.
        if (at != dim.end() && any_of(make_range(dim.begin(), at), [&](int f) { return rule.factors[f].size > 1; }))
          return 1;
      }
  int64_t leaves = 1;
  while (leaves < most && rule.factors[factor].size % (2 * leaves) == 0)
    leaves *= 2;
  return leaves;
}

/// Splits a factor: from now on it counts runs of `length` elements, which stay together.
static void split(ShardingRule &rule, int factor, int64_t length, StringRef suffix) {
  const int inside = rule.addFactor(rule.factors[factor].name + suffix.str(), length, FactorKind::Whole);
  rule.factors[factor].size /= length;
  rule.factors[factor].padding = Factor::Padding::Refused;
  for (auto *tensors : {&rule.operands, &rule.results})
    for (ShardingRule::TensorFactors &tensor : *tensors)
      for (auto &dim : tensor)
        if (auto *at = find(dim, factor); at != dim.end())
          dim.insert(std::next(at), inside);
}

static bool has(const ShardingRule::TensorFactors &tensor, int f) {
  return any_of(tensor, [&](const auto &dim) { return is_contained(dim, f); });
}

/// Whether windows slide over a result, as in a convolution. They reach no result of a gradient of weights.
static bool windowsReachResults(const ShardingRule &rule) {
  return any_of(rule.windows, [&](const Window &window) {
    return any_of(rule.results, [&](const auto &result) { return has(result, window.factor); });
  });
}

/// Keeps elements of a factor together in blocks, or all of them where blocks do not divide it.
static void keepTogether(ShardingRule &rule, int factor, int64_t block) {
  if (rule.factors[factor].size % block == 0)
    split(rule, factor, block, kInBlock);
  else
    rule.factors[factor].kind = FactorKind::Whole;
}

/// Whether a factor counts groups of channels: it is the major one of a dimension of every operand.
static bool countsGroups(const ShardingRule &rule, int f) {
  return rule.factors[f].size > 1 && all_of(rule.operands, [&](const auto &operand) {
           return any_of(operand, [&](const auto &dim) { return dim.size() > 1 && dim.front() == f; });
         });
}

/// Lets the output channels of an operator with windows be cut in blocks of kChannels only. They are the factors that
/// the other operand has and the windows' operand lacks. A gradient of weights has nothing but channels. Groups of
/// channels are cut in blocks of kGroups.
static void keepChannels(ShardingRule &rule) {
  if (rule.windows.empty())
    return;
  const bool ofWeights = !windowsReachResults(rule);
  const int slid = rule.windows[0].operand, count = int(rule.factors.size());
  for (int f = 0; f < count; ++f) {
    if (rule.factors[f].kind != FactorKind::PassThrough)
      continue;
    const bool inAll = all_of(rule.operands, [&](const auto &operand) { return has(operand, f); });
    if (countsGroups(rule, f))
      keepTogether(rule, f, kGroups);
    else if (!inAll && (ofWeights || !has(rule.operands[slid], f)))
      keepTogether(rule, f, kChannels);
  }
}

void giveLeaves(ShardingRule &rule, int64_t most) {
  rule.linear.clear();
  keepChannels(rule);
  // What a convolution sums over are channels. A leaf of them would copy its part of the image, and every leaf would
  // write the whole result.
  bool given = windowsReachResults(rule);
  const int count = int(rule.factors.size());
  for (int f = 0; f < count; ++f) {
    const bool sum = rule.factors[f].kind == FactorKind::Reduce && rule.factors[f].reduction == Reduction::Sum;
    if (!sum && rule.factors[f].kind != FactorKind::Stat)
      continue;
    const int64_t leaves = sum && !given ? leavesFor(rule, f, most) : 1;
    if (leaves == 1) {
      rule.factors[f].kind = FactorKind::Whole;
      rule.factors[f].reduction = Reduction::None;
      rule.factors[f].statistics.clear();
      continue;
    }
    given = true;
    split(rule, f, rule.factors[f].size / leaves, kInside);
  }
}

int leafFactor(const ShardingRule &rule) {
  for (const Factor &factor : rule.factors)
    if (StringRef name = factor.name; name.consume_back(kInside))
      return rule.findFactor(name);
  return -1;
}

Error verifyLeaves(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh) {
  const int factor = leafFactor(rule);
  if (factor < 0)
    return Error::success();
  const Factor &f = rule.factors[factor];
  const Cut &cut = strategy.factors[factor];
  if (f.size % mesh.size(cut) != 0 || cut.unit != 1)
    return createStringError("factor '" + f.name + "' has " + Twine(f.size) + " leaves and cannot be cut in " +
                             Twine(mesh.size(cut)) + " parts: a reproducible plan gives every rank as many leaves");
  int before = -1;
  for (int axis : cut) {
    if (mesh.axisSize(axis) == 1)
      continue;
    if (axis < before)
      return createStringError("factor '" + f.name + "' has leaves and cannot be cut by '" + mesh.axisName(before) +
                               "' before '" + mesh.axisName(axis) +
                               "': a reproducible plan adds in the order of the mesh");
    before = axis;
  }
  return Error::success();
}

int64_t LeafCut::dim(const Sharding &part) const {
  for (int64_t d = 0; d < part.rank(); ++d)
    if (is_contained(part.dims[d], axis))
      return d;
  return -1;
}

std::optional<LeafCut> leafCut(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh) {
  const int factor = leafFactor(rule);
  if (factor < 0)
    return std::nullopt;
  const int64_t count = rule.factors[factor].size / mesh.size(strategy.factors[factor]);
  if (count <= 1)
    return std::nullopt;
  SmallVector<MeshAxis> axes(mesh.axes());
  axes.push_back({"(leaves)", count}); // no name that a user could give an axis
  LeafCut cut{Mesh(axes), strategy, count, mesh.numAxes()};
  cut.strategy.factors[factor].push_back(cut.axis);
  cut.strategy.results.clear();
  return cut;
}

/// Whether a collective keeps the tree: those that add do so along minor axes first.
static bool keepsTree(const Collective &c) {
  if (c.reduction != Reduction::Sum)
    return true;
  if (c.kind == CollectiveKind::Fold) // adds one term after the other; does not say along which axes
    return c.localIn[c.dim] / c.localOut[c.dim] <= 2 && !c.result.isPartial();
  return is_sorted(c.axes) && none_of(c.result.partial, [&](int axis) { return axis > c.axes.front(); });
}

CollectiveCost inLeafOrder(CollectiveCost cost) {
  return [cost = std::move(cost)](const Collective &c, int64_t elementBytes) {
    return keepsTree(c) ? cost(c, elementBytes) : std::numeric_limits<double>::infinity();
  };
}

} // namespace tessera::dist
