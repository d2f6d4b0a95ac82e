//===- JoinPads.cpp - sums of blocks in their places as concatenations ---------------------------------===//
//
// The gradient of a slice is the slice's gradient in its place, with zeros around. Where a tensor is cut in parts, as
// queries, keys and values are, the sum of these gradients passes over memory twice per part, mostly over zeros. But
// the parts lie beside each other:
//
//   pad(a, lo 0, hi 6) + pad(b, lo 2, hi 3) + pad(c, lo 5, hi 0)   =>   concat(a, b, c)
//
// Parts that leave a gap at an end are concatenated and padded once. What else is in the sum stays: x + 0 is x, so the
// order of the sum does not matter to the bits of a result.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "dialects/graph/OpWriter.h"

#include "mlir/Pass/Pass.h"

#include <map>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_JOINPADSPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// A block in its place along one dimension.
struct Part {
  Value block, placed;
  int64_t begin, end;
};

/// The dimension along which the operator puts a block in its place between zeros; nothing if it does something else.
std::optional<int64_t> placedAlong(PadOp pad) {
  if (!pad.getValue().isZero() || llvm::any_of(pad.getInner(), [](int64_t n) { return n != 0; }))
    return std::nullopt;
  std::optional<int64_t> along;
  for (int64_t d = 0; d < rankOf(pad.getX()); ++d)
    if (pad.getLo()[d] != 0 || pad.getHi()[d] != 0) {
      if (along)
        return std::nullopt;
      along = d;
    }
  return along;
}

/// The terms of the sum that `value` is. Sums that somebody else reads, too, are terms.
void collectTerms(Value value, bool root, SmallVectorImpl<Value> &terms) {
  auto sum = value.getDefiningOp<AddOp>();
  if (!sum || (!root && !value.hasOneUse()) || sum.getOperand(0).getType() != value.getType() ||
      sum.getOperand(1).getType() != value.getType()) {
    terms.push_back(value);
    return;
  }
  collectTerms(sum.getOperand(0), false, terms);
  collectTerms(sum.getOperand(1), false, terms);
}

class Joiner {
public:
  explicit Joiner(OpWriter &writer) : b_(writer) {}

  /// Writes the sum anew if blocks in it lie beside each other.
  void join(AddOp sum) {
    SmallVector<Value> terms;
    collectTerms(sum.getResult(), true, terms);
    std::map<int64_t, std::vector<Part>> parts; // by dimension
    SmallVector<Value> rest;
    for (Value term : terms) {
      auto pad = term.getDefiningOp<PadOp>();
      const std::optional<int64_t> along = pad && term.hasOneUse() ? placedAlong(pad) : std::nullopt;
      if (!along) {
        rest.push_back(term);
        continue;
      }
      const int64_t begin = pad.getLo()[*along];
      parts[*along].push_back({pad.getX(), term, begin, begin + shapeOf(pad.getX())[*along]});
    }
    bool found = false;
    for (auto &[dim, list] : parts) {
      llvm::stable_sort(list, [](const Part &a, const Part &b) { return a.begin < b.begin; });
      for (size_t i = 1; i < list.size(); ++i)
        found |= list[i].begin == list[i - 1].end;
    }
    if (!found)
      return;
    const std::string name = b_.takeName(sum);
    b_.moveBefore(sum);
    b_.setLoc(sum.getLoc());
    b_.setName(name);
    b_.setOrigin(sum);
    for (auto &[dim, list] : parts)
      for (size_t first = 0, end = 1; first < list.size(); first = end, ++end) {
        while (end < list.size() && list[end].begin == list[end - 1].end)
          ++end;
        rest.push_back(end == first + 1 ? list[first].placed
                                        : joined(llvm::ArrayRef(list).slice(first, end - first), dim));
      }
    Value total = rest.front();
    for (Value term : llvm::drop_begin(rest))
      total = b_.add(total, term);
    sum.getResult().replaceAllUsesWith(total);
  }

private:
  Value joined(ArrayRef<Part> parts, int64_t dim) {
    SmallVector<Value> blocks;
    for (const Part &part : parts)
      blocks.push_back(part.block);
    Value whole = b_.make<ConcatOp>(blocks, dim);
    const int64_t behind = shapeOf(parts.back().placed)[dim] - parts.back().end;
    if (parts.front().begin == 0 && behind == 0)
      return whole;
    SmallVector<int64_t> none(size_t(rankOf(whole)), 0), lo = none, hi = none;
    lo[dim] = parts.front().begin;
    hi[dim] = behind;
    return b_.make<PadOp>(whole, lo, hi, none, llvm::APFloat(0.0));
  }

  OpWriter &b_;
};

struct JoinPads : impl::JoinPadsPassBase<JoinPads> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (func.isExternal())
      return;
    OpWriter writer(func);
    Joiner joiner(writer);
    // Only the last addition of a sum is a root: the others are read by the next addition alone.
    SmallVector<AddOp> roots;
    func.walk([&](AddOp sum) {
      if (!sum.getResult().hasOneUse() || !isa<AddOp>(*sum.getResult().getUsers().begin()))
        roots.push_back(sum);
    });
    for (AddOp sum : roots)
      joiner.join(sum);
  }
};

} // namespace

} // namespace tessera::compiler
