// Sharding rules that no text can express. Their factors follow from two shapes (reshape), from numbers of a list
// (slice, pad, max_pool_grad) or from positions (gather, scatter_add), or the number of operands varies (attention,
// concat).
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::graph {

using dist::FactorKind;
using dist::Reduction;
using dist::Shape;
using dist::ShardingRule;

namespace {

RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A rule of one operand and one result. Dimension d of both has the factor `d<d>` if cut(d), and none otherwise.
ShardingRule sameDims(int64_t rank, ArrayRef<int64_t> shape, llvm::function_ref<bool(int64_t)> cut) {
  ShardingRule rule;
  rule.operands.resize(1);
  rule.results.resize(1);
  for (int64_t d = 0; d < rank; ++d) {
    rule.operands[0].emplace_back();
    rule.results[0].emplace_back();
    if (cut(d)) {
      int f = rule.addFactor("d" + std::to_string(d), shape[d]);
      rule.operands[0].back().push_back(f);
      rule.results[0].back().push_back(f);
    }
  }
  return rule;
}

} // namespace

Expected<ShardingRule> ConstantOp::getShardingRule() {
  ShardingRule rule;
  rule.results.resize(1);
  ArrayRef<int64_t> shape = tensor(getY()).getShape();
  for (int64_t d = 0; d < int64_t(shape.size()); ++d) {
    rule.results[0].emplace_back();
    if (isSplat())
      rule.results[0].back().push_back(rule.addFactor("b" + std::to_string(d), shape[d]));
  }
  return rule;
}

// The loop walks both shapes from the left. Where one of the two remaining extents divides the other, it becomes a
// factor of both shapes. Where neither does, the dimensions up to the next common boundary get no further factor.
Expected<ShardingRule> ReshapeOp::getShardingRule() {
  ShardingRule rule;
  rule.operands.resize(1);
  rule.results.resize(1);
  if (!(*this)->hasAttr(kSentAsAttr)) // there the sum is finished
    rule.linear.push_back({0});
  ArrayRef<int64_t> a = tensor(getX()).getShape(), b = tensor(getY()).getShape();
  rule.operands[0].resize(a.size());
  rule.results[0].resize(b.size());
  if (tensor(getX()).getNumElements() == 0)
    return rule;
  size_t i = 0, j = 0;
  int64_t ra = a.empty() ? 1 : a[0], rb = b.empty() ? 1 : b[0];
  auto nextA = [&] { ra = ++i < a.size() ? a[i] : 1; };
  auto nextB = [&] { rb = ++j < b.size() ? b[j] : 1; };
  while (i < a.size() && j < b.size()) {
    if (ra == 1) {
      nextA();
      continue;
    }
    if (rb == 1) {
      nextB();
      continue;
    }
    int64_t common = ra % rb == 0 ? rb : rb % ra == 0 ? ra : 0;
    if (common) {
      int f = rule.addFactor("r" + std::to_string(rule.factors.size()), common);
      rule.operands[0][i].push_back(f);
      rule.results[0][j].push_back(f);
      ra /= common;
      rb /= common;
      continue;
    }
    // Walk to the next boundary at which both sides have the same number of elements.
    while (ra != rb) {
      if (ra < rb) {
        ++i;
        ra *= a[i];
      } else {
        ++j;
        rb *= b[j];
      }
    }
    nextA();
    nextB();
  }
  return rule;
}

Expected<ShardingRule> LeafSumsOp::getShardingRule() {
  ShardingRule rule;
  rule.operands.resize(1);
  rule.results.resize(1);
  rule.linear.push_back({0});
  for (auto [d, size] : llvm::enumerate(tensor(getX()).getShape())) {
    const bool cut = d == getDim(), sums = llvm::is_contained(getDims(), int64_t(d));
    auto &factors = rule.operands[0].emplace_back();
    if (cut)
      factors.push_back(rule.addFactor("p", int64_t(getLeaves())));
    if (cut || !sums)
      rule.results[0].push_back({cut ? factors.front() : int(rule.factors.size())});
    factors.push_back(rule.addFactor("d" + std::to_string(d), cut ? size / int64_t(getLeaves()) : size,
                                     sums ? FactorKind::Reduce : FactorKind::PassThrough,
                                     sums ? dist::Reduction::Sum : dist::Reduction::None));
  }
  return rule;
}

Expected<ShardingRule> SliceOp::getShardingRule() {
  ArrayRef<int64_t> shape = tensor(getX()).getShape();
  ShardingRule rule = sameDims(shape.size(), shape, [&](int64_t d) {
    return getStarts()[d] == 0 && getLimits()[d] == shape[d] && getStrides()[d] == 1;
  });
  rule.linear.push_back({0});
  return rule;
}

Expected<ShardingRule> PadOp::getShardingRule() {
  ArrayRef<int64_t> shape = tensor(getX()).getShape();
  ShardingRule rule = sameDims(shape.size(), shape,
                               [&](int64_t d) { return getLo()[d] == 0 && getHi()[d] == 0 && getInner()[d] == 0; });
  if (getValue().isZero())
    rule.linear.push_back({0});
  return rule;
}

Expected<ShardingRule> ConcatOp::getShardingRule() {
  ArrayRef<int64_t> shape = tensor(getY()).getShape();
  int64_t dim = getDim();
  ShardingRule rule = sameDims(shape.size(), shape, [&](int64_t d) { return d != dim; });
  while (rule.operands.size() < getXs().size())
    rule.operands.push_back(rule.operands[0]);
  rule.linear.emplace_back();
  for (size_t i = 0; i < getXs().size(); ++i)
    rule.linear[0].push_back(int(i));
  return rule;
}

namespace {
/// Gather and its adjoint: table [b.., a.., v, c..], indices [b.., i..], values [b.., a.., i.., c..].
struct GatherFactors {
  SmallVector<int> batch, before, after, indices;
  int v;
  GatherFactors(ShardingRule &rule, ArrayRef<int64_t> values, ArrayRef<int64_t> index, int64_t axis, int64_t batchDims,
                int64_t size, bool toTable) {
    // toTable (the adjoint): the values are an operand, so the factors that only they have are summed.
    FactorKind kind = toTable ? FactorKind::Reduce : FactorKind::PassThrough;
    for (int64_t d = 0; d < batchDims; ++d)
      batch.push_back(rule.addFactor("b" + std::to_string(d), values[d]));
    for (int64_t d = batchDims; d < axis; ++d)
      before.push_back(rule.addFactor("a" + std::to_string(before.size()), values[d]));
    v = rule.addFactor("v", size, toTable ? FactorKind::PassThrough : FactorKind::Reduce,
                       toTable ? Reduction::None : Reduction::Sum);
    index = index.drop_front(batchDims);
    for (size_t d = 0; d < index.size(); ++d)
      indices.push_back(
          rule.addFactor("i" + std::to_string(d), index[d], kind, toTable ? Reduction::Sum : Reduction::None));
    for (size_t d = axis + index.size(); d < values.size(); ++d)
      after.push_back(rule.addFactor("c" + std::to_string(after.size()), values[d]));
  }
  ShardingRule::TensorFactors list(ArrayRef<ArrayRef<int>> parts) const {
    ShardingRule::TensorFactors t;
    for (ArrayRef<int> part : parts)
      for (int f : part)
        t.push_back({f});
    return t;
  }
};
} // namespace

Expected<ShardingRule> GatherOp::getShardingRule() {
  ShardingRule rule;
  GatherFactors f(rule, tensor(getY()).getShape(), tensor(getIndices()).getShape(), getAxis(), getBatchDims(),
                  tensor(getTable()).getDimSize(getAxis()), false);
  rule.operands = {f.list({f.batch, f.before, {f.v}, f.after}), f.list({f.batch, f.indices})};
  rule.results = {f.list({f.batch, f.before, f.indices, f.after})};
  rule.factors[f.v].padding = dist::Factor::Padding::Excluded; // by `limit`
  rule.linear.push_back({0});
  return rule;
}

Expected<ShardingRule> ScatterAddOp::getShardingRule() {
  ShardingRule rule;
  GatherFactors f(rule, tensor(getUpdates()).getShape(), tensor(getIndices()).getShape(), getAxis(), getBatchDims(),
                  getSize(), true);
  rule.operands = {f.list({f.batch, f.indices}), f.list({f.batch, f.before, f.indices, f.after})};
  rule.results = {f.list({f.batch, f.before, {f.v}, f.after})};
  rule.linear.push_back({1});
  return rule;
}

namespace {
/// The rule of attention or its gradient. `text` lists the tensors before the bias, each as one word: "qX" has the
/// rows and heads of q and then X, "kX" those of k and v and then X, "s" the heads and then the rows of q. The factors
/// of the bias, and of what dropout keeps, follow from their extents.
template <typename Op> Expected<ShardingRule> attentionRule(Op op, StringRef text, StringRef clauses) {
  bool rowsFirst = op.getRowsFirst();
  int64_t heads = tensor(op.getQ()).getDimSize(tensor(op.getQ()).getRank() - (rowsFirst ? 2 : 3));
  int64_t keyHeads = tensor(op.getK()).getDimSize(tensor(op.getK()).getRank() - (rowsFirst ? 2 : 3));
  bool grouped = heads != keyHeads;
  std::string rule;
  for (StringRef word : llvm::split(text, ' ')) {
    // Rows of q are m, rows of k and v are n.
    const bool query = word.starts_with("q"), key = word.starts_with("k"), line = word.starts_with("s");
    if (!query && !key && !line) {
      rule += word.str() + " ";
      continue;
    }
    std::string head = !grouped ? "h" : key ? "u" : "(u g)", row = key ? "n" : "m";
    rule += "... " + (rowsFirst && !line ? row + " " + head : head + " " + row) + " " + word.drop_front().str() + " ";
  }
  rule += clauses.str();
  if (grouped && clauses.contains("sum m"))
    rule += " | sum g";
  SmallVector<Shape> operands = dist::operandShapes(op);
  const SmallVector<Shape> more(operands.end() - op.getMore().size(), operands.end());
  operands.truncate(operands.size() - more.size());
  Expected<ShardingRule> result = ShardingRule::parse(rule, operands, dist::resultShapes(op));
  if (!result)
    return result;
  // These broadcast to the scores [b.., heads, m, n], aligned at the end. A dimension of extent 1 has no factor.
  const ShardingRule::TensorFactors &q = result->operands[op.getQMutable().getOperandNumber()];
  ShardingRule::TensorFactors scores(q.begin(), q.end() - 3);
  size_t rank = q.size();
  scores.push_back(q[rank - (rowsFirst ? 2 : 3)]);
  scores.push_back(q[rank - (rowsFirst ? 3 : 2)]);
  scores.push_back({result->findFactor("n")});
  for (const Shape &shape : more) {
    ShardingRule::TensorFactors own(scores.end() - shape.size(), scores.end());
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == 1)
        own[d].clear();
    result->operands.push_back(std::move(own));
  }
  return result;
}
} // namespace

Expected<ShardingRule> AttentionOp::getShardingRule() {
  return attentionRule(*this, getKeepsStatistics() ? "qd, kd, ke -> qe, s" : "qd, kd, ke -> qe", "| whole n d");
}
Expected<ShardingRule> AttentionGradOp::getShardingRule() {
  return attentionRule(*this, "qe, qd, kd, ke, qe, s -> qd, kd, ke", "| sum m | whole n d e | linear 0");
}

// Where windows overlap, gradients would cross the border of a block in both directions, so a spatial dimension may
// only be cut if its windows do not overlap.
Expected<ShardingRule> MaxPoolGradOp::getShardingRule() {
  auto zero = [](int64_t p) { return p == 0; };
  std::string text = "n c hwz.., n c hwz.. -> n c hwz..";
  for (size_t i = 0; i < getKernel().size(); ++i) {
    bool apart = all_of(getPads(), zero) && getKernel()[i] == getStrides()[i] && getDilations()[i] == 1;
    std::string letter(1, "hwz"[std::min<size_t>(i, 2)]);
    text += apart ? " | window " + letter + ":kernel" : " | whole " + letter;
  }
  return dist::buildRule(text, *this);
}

} // namespace tessera::graph
