//===- Fuse.cpp - elementwise operators and reductions into few passes over memory ---------------===//
//
// Operators of one iteration domain become one graph.fused: producers with their consumers, and siblings that
// read the same tensor (both sums of BatchNorm's backward pass in one pass). Operators are taken in program
// order; each joins the groups it exchanges whole tensors with, if the program stays acyclic with groups as
// nodes. Greedy, after Kennedy and McKinley, "Maximizing loop parallelism and improving data locality via
// loop fusion and distribution" (1993), with the acyclicity test on transitive predecessors.
//
// What an operator becomes in a loop says graph::loopPart: every group that reads something free gets its own; a
// reduction ends its group's loop, so nothing in the group may read it.
//
//   %0 = relu %x; %1 = mul %0, %s; %2 = reduce_sum %1   ->   %1, %2 = graph.fused(%x, %s) {relu mul reduce_sum}
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Order.h"
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"

#include "dialects/graph/Fusion.h"
#include "dialects/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_FUSEPASS
#include "compiler/partition/Passes.h.inc"

using dist::Shape;
using graph::LoopPart;

namespace {

/// Larger loop nests gain nothing and strain what executes them.
constexpr size_t kMaxMembers = 64;

/// Farther apart than this in program order, two operators are fused only if that saves memory: what a
/// backward pass derives from forward values would otherwise be computed early and kept.
constexpr int kNear = 32;

bool isFree(Operation *op) { return op && graph::loopPart(op) == LoopPart::Free; }

/// Hands its operand on inside a loop nest.
bool isPassing(Operation *op) { return isFree(op) && op->getNumOperands() > 0; }

bool isReduction(Operation *op) { return graph::loopPart(op) == LoopPart::Reduction; }

bool isFusable(Operation *op) { return isReduction(op) || graph::loopPart(op) == LoopPart::Points; }

/// The points the operator visits.
Shape domainOf(Operation *op) { return tensorShape(isReduction(op) ? op->getOperand(0) : op->getResult(0)); }

/// What the value is computed from when what is free is looked through; null for a splat.
Value source(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isFree(op))
      break;
    if (!isPassing(op))
      return Value();
    value = op->getOperand(0);
  }
  return value;
}

class FunctionFuser {
public:
  explicit FunctionFuser(func::FuncOp func) : block_(func.getBody().front()) {}

  void run() {
    for (Operation &op : block_.without_terminator())
      if (!isFree(&op)) {
        index_[&op] = int(ops_.size());
        ops_.push_back(&op);
      }
    size_t n = ops_.size();
    group_.resize(n);
    before_.resize(n);
    members_.resize(n);
    successors_.resize(n);
    seen_.resize(n, 0);
    for (size_t i = 0; i < n; ++i)
      visit(int(i));
    for (size_t g = 0; g < n; ++g)
      if (!members_[g].empty())
        build(members_[g]);
    // A group stands where its first member stood, perhaps before something it uses.
    sortByDependence(block_);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block_)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

private:
  /// The groups the operator reads from, with what it reads.
  SmallVector<Value> sources(Operation *op) const {
    SmallVector<Value> list;
    for (Value operand : op->getOperands())
      if (Value value = source(operand))
        list.push_back(value);
    return list;
  }

  int groupOf(Value value) const {
    Operation *op = value.getDefiningOp();
    return op ? group_[index_.lookup(op)] : -1;
  }

  void visit(int i) {
    Operation *op = ops_[i];
    group_[i] = i;
    members_[i] = {i};
    before_[i].resize(ops_.size());
    for (Value value : sources(op))
      if (int g = groupOf(value); g >= 0) {
        before_[i] |= before_[g];
        before_[i].set(g);
        successors_[index_.lookup(value.getDefiningOp())].push_back(i);
      }
    if (isFusable(op)) {
      Shape domain = domainOf(op);
      // First those it exchanges a whole tensor with, then those that read the same one.
      llvm::SetVector<int> candidates;
      for (Value value : sources(op))
        if (int g = groupOf(value); g >= 0 && tensorShape(value) == domain)
          candidates.insert(g);
      for (Value value : sources(op))
        if (tensorShape(value) == domain)
          for (int g : readers_[value])
            candidates.insert(group_[g]);
      for (int candidate : candidates)
        merge(group_[candidate], group_[i], domain);
      for (Value value : sources(op))
        readers_[value].push_back(i);
    }
  }

  bool merge(int a, int b, const Shape &domain) {
    if (a == b || members_[a].size() + members_[b].size() > kMaxMembers)
      return false;
    for (int g : {a, b}) {
      Operation *op = ops_[members_[g].front()];
      if (!isFusable(op) || domainOf(op) != domain)
        return false;
    }
    for (int g : {a, b})
      for (int member : members_[g])
        for (Value value : sources(ops_[member]))
          if (Operation *maker = value.getDefiningOp(); maker && isReduction(maker))
            if (int from = groupOf(value); from == a || from == b)
              return false;
    if (int early = members_[a].back() < members_[b].front() ? a : b, late = early == a ? b : a;
        members_[late].front() - members_[early].back() > kNear && !worthMovingUp(late, early))
      return false;
    // A third group between the two would have to run both after and before the union.
    auto between = [&](int first, int last) {
      return before_[last].test(first) &&
             llvm::any_of(dependents(first), [&](int g) { return g != last && before_[last].test(g); });
    };
    if (between(a, b) || between(b, a))
      return false;
    int into = std::min(a, b), from = std::max(a, b);
    // What depends on one of the two has all that this one depends on already, and gets the other's.
    const SmallVector<int> others = without(before_[from], before_[into]), own = without(before_[into], before_[from]);
    before_[into] |= before_[from];
    before_[into].reset(into);
    before_[into].reset(from);
    for (int member : members_[from])
      group_[member] = into;
    members_[into].append(members_[from].begin(), members_[from].end());
    llvm::sort(members_[into]);
    members_[from].clear();
    for (int g : dependents(into)) {
      const bool hasOwn = before_[g].test(into), hasOthers = before_[g].test(from);
      if (!hasOthers)
        for (int more : others)
          before_[g].set(more);
      if (!hasOwn)
        for (int more : own)
          before_[g].set(more);
      before_[g].set(into);
      before_[g].reset(from);
    }
    return true;
  }

  static SmallVector<int> without(BitVector all, const BitVector &those) {
    all.reset(those);
    return SmallVector<int>(all.set_bits());
  }

  /// The groups that depend on a group, transitively, of the operators visited so far: few where what merges lies
  /// close together.
  SmallVector<int> dependents(int group) {
    ++stamp_;
    SmallVector<int> found;
    auto follow = [&](int g) {
      for (int member : members_[g])
        for (int next : successors_[member])
          if (int to = group_[next]; to != group && seen_[to] != stamp_) {
            seen_[to] = stamp_;
            found.push_back(to);
          }
    };
    follow(group);
    for (size_t i = 0; i < found.size(); ++i)
      follow(found[i]);
    return found;
  }

  /// Whether less is live between the two if `late`, one operator, already runs with `early`.
  bool worthMovingUp(int late, int early) const {
    if (members_[late].size() > 1)
      return false;
    Operation *op = ops_[members_[late].front()];
    if (isReduction(op))
      return true;
    int64_t freed = 0;
    for (Value value : sources(op)) {
      bool last = value.getDefiningOp() != nullptr;
      for (Operation *user : value.getUsers()) {
        auto it = index_.find(user);
        last &= user == op || (it != index_.end() && it->second <= members_[early].back());
      }
      freed += last ? bytesOf(value) : 0;
    }
    return bytesOf(op->getResult(0)) < freed;
  }

  static int64_t bytesOf(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
  }

  void build(ArrayRef<int> members) {
    SmallVector<Operation *> ops;
    for (int member : members)
      ops.push_back(ops_[member]);
    if (!isFusable(ops.front()))
      return;
    if (ops.size() == 1 && llvm::none_of(ops[0]->getOperands(), [](Value v) { return isFree(v.getDefiningOp()); }))
      return;
    SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
    llvm::SetVector<Value> inputs;
    SmallVector<Value> outputs;
    for (Operation *op : ops) {
      for (Value value : sources(op))
        if (!value.getDefiningOp() || !inside.contains(value.getDefiningOp()))
          inputs.insert(value);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return usedOutside(user, inside); }))
          outputs.push_back(result);
    }
    OpBuilder builder(ops.front());
    auto fused =
        graph::FusedOp::create(builder, ops.front()->getLoc(), TypeRange(ValueRange(outputs)), inputs.getArrayRef());
    fused->setAttr(graph::kNameAttr, builder.getStringAttr(nameFor(ops)));
    Block *body = builder.createBlock(&fused.getBody());
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body->addArgument(input.getType(), fused.getLoc()));
    builder.setInsertionPointToStart(body);
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        cloneFree(operand, builder, mapping);
      builder.clone(*op, mapping);
    }
    SmallVector<Value> yielded;
    for (Value output : outputs)
      yielded.push_back(mapping.lookup(output));
    graph::YieldOp::create(builder, fused.getLoc(), yielded);
    for (auto [output, result] : llvm::zip(outputs, fused.getOutputs()))
      output.replaceUsesWithIf(result, [&](OpOperand &use) { return usedOutside(use.getOwner(), inside); });
    for (Operation *op : llvm::reverse(ops)) {
      for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
        eraseUnused(user);
      op->erase();
    }
  }

  /// What only passes a value on is outside if somebody outside reads it; members have their own.
  static bool usedOutside(Operation *user, const SmallPtrSetImpl<Operation *> &inside) {
    if (!isPassing(user))
      return !inside.contains(user);
    return llvm::any_of(user->getUsers(), [&](Operation *next) { return usedOutside(next, inside); });
  }

  static void eraseUnused(Operation *op) {
    if (!isPassing(op))
      return;
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      eraseUnused(user);
    if (op->use_empty())
      op->erase();
  }

  static void cloneFree(Value value, OpBuilder &builder, IRMapping &mapping) {
    Operation *op = value.getDefiningOp();
    if (mapping.contains(value) || !isFree(op))
      return;
    for (Value operand : op->getOperands())
      cloneFree(operand, builder, mapping);
    builder.clone(*op, mapping);
  }

  /// The first member that stems from the model, and how many more there are.
  static std::string nameFor(ArrayRef<Operation *> ops) {
    Operation *named = ops.front();
    for (Operation *op : llvm::reverse(ops))
      if (op->hasAttr(graph::kNameAttr) || op->hasAttr(graph::kGradOfAttr))
        named = op;
    std::string name = graph::nameOf(named);
    return ops.size() == 1 ? name : name + "+" + std::to_string(ops.size() - 1);
  }

  Block &block_;
  std::vector<Operation *> ops_; // all but what is free, in program order
  llvm::DenseMap<Operation *, int> index_;
  std::vector<int> group_;                      // by operator; a group is named by its first member
  std::vector<BitVector> before_;               // by group: the groups it depends on, transitively
  std::vector<SmallVector<int, 4>> members_;    // by group, ascending; empty: merged away
  std::vector<SmallVector<int, 2>> successors_; // by operator: those that read it, through what is free
  std::vector<int> seen_;                       // by group: the last search that found it
  int stamp_ = 0;
  llvm::DenseMap<Value, SmallVector<int>> readers_; // fusable operators; looked up only
};

struct FusePass : impl::FusePassBase<FusePass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      FunctionFuser(func).run();
  }
};

} // namespace

} // namespace tessera::compiler
