//===- Repeat.cpp - loops that compute again what it would cost more to read --------------------------------===//
//
//   %m = cmp 0 < %y               read: %y, which a convolution reads, too           %z = relu of (%x * a + b), again
//   %d = select %m, %dy, 0        and %x, from which a loop made it         ->       %m = cmp 0 < %z
//
// A loop that reads a value which another loop made may compute it from what it reads anyway, or from one other value
// in its place. Then memory is read less, and the value is not written if nobody else reads it. Arithmetic on points is
// free beside memory. The copies have the attribute graph.repeats (dialects/graph/Repeats.h). In a stage of a pipeline
// the reader may be in another section than the loop, such as the backward pass of the same micro-batch.
//
// For each loop and each loop that reads what it makes: which of these values can be computed again from what the
// reader reads, and from at most one value more? That may be an operand of the first loop, or something that stays in
// it now: GELU keeps x alone, and not three values that follow from it. The choice that saves most bytes is taken, if
// no more memory is held from the first loop to the second than before. To write what a product makes in 16 bits costs
// nothing: the product writes it in place of its float32 sum.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/OpWriter.h"
#include "dialects/graph/Repeats.h"
#include "dialects/graph/Unused.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Sections.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_REPEATPASS
#include "compiler/transform/Passes.h.inc"

namespace {

/// Smaller values are in the caches.
constexpr int64_t kLeastBytes = 64 << 10;
/// An operand with less than 1 / kSmall of a value's bytes costs nothing beside it.
constexpr int64_t kSmall = 16;
/// The most operators by which a value is computed again. Longer ones would be more than what a loop does itself.
constexpr size_t kMostOperators = 12;

class Repetition {
public:
  explicit Repetition(func::FuncOp func)
      : func_(func), program_(func), looped_(program_.flow, formLoops(program_.flow)),
        readers_(program_.flow.readers()) {}

  void run() {
    for (const DataFlow::Step &loop : looped_.flow.steps)
      reads_.emplace_back(loop.reads.begin(), loop.reads.end());
    for (size_t loop = 0; loop < looped_.flow.steps.size(); ++loop) {
      std::map<int, SmallVector<int>> read; // by reader: values of this loop
      for (int v : looped_.flow.steps[loop].makes)
        if (isRepeatable(maker(v)) && bytes(v) >= kLeastBytes)
          for (int reader : outside(v).loops)
            if (canRepeat(sectionOf(int(loop)), sectionOf(reader)))
              read[reader].push_back(v);
      for (const auto &[reader, values] : read)
        choose(int(loop), reader, values);
    }
    write();
  }

private:
  const DataFlow::Value &value(int v) const { return program_.flow.values[size_t(v)]; }
  int64_t bytes(int v) const { return value(v).bytes; }
  int maker(int v) const { return value(v).maker; }
  LoopPart partOf(int step) const { return program_.flow.steps[size_t(step)].part; }

  /// Sums over micro-batches are added up in place, so that they exist once.
  bool isRepeatable(int step) const {
    return step >= 0 && partOf(step) == LoopPart::Points && !isa<RandomOp>(program_.operators[size_t(step)]) &&
           llvm::none_of(program_.flow.steps[size_t(step)].makes, [&](int v) { return value(v).sum; });
  }
  Section sectionOf(int loop) const { return looped_.flow.steps[size_t(loop)].section; }
  /// Whether `then` can compute again what `first` does: of the same micro-batch, and all that `first` reads is there.
  static bool canRepeat(Section first, Section then) {
    return first == then || (inBody(first) && inBody(then) && surelyBefore(first, then));
  }

  struct Outside {
    llvm::SetVector<int> loops;
    bool others = false; // read by something that is no loop, or at the end
  };
  /// Who reads the value outside of the loop that makes it.
  Outside outside(int v) const {
    Outside found;
    addReaders(v, looped_.stepOf[size_t(maker(v))], found);
    return found;
  }
  void addReaders(int v, int own, Outside &found) const {
    for (int reader : readers_[size_t(v)]) {
      if (reader == int(program_.flow.steps.size())) {
        found.others = true;
        continue;
      }
      const int loop = looped_.stepOf[size_t(reader)];
      if (partOf(reader) == LoopPart::Free && loop < 0) {
        for (int next : program_.flow.steps[size_t(reader)].makes)
          addReaders(next, own, found);
      } else if (partOf(reader) == LoopPart::None || partOf(reader) == LoopPart::Free) {
        found.others = true;
      } else if (loop != own) {
        found.loops.insert(loop);
      }
    }
  }

  /// The values that a step reads, through what is free.
  void addSources(int step, llvm::SetVector<int> &found) const {
    for (int v : program_.flow.steps[size_t(step)].reads)
      if (const int from = maker(v); from >= 0 && partOf(from) == LoopPart::Free)
        addSources(from, found);
      else
        found.insert(v);
  }

  /// Whether `v` can be computed from what the loop reads, from `more`, and from what is small beside `limit` bytes.
  /// Adds the steps that do it.
  bool expand(int v, int reader, int more, int64_t limit, llvm::SetVector<int> &steps) const {
    const int step = maker(v);
    if (!isRepeatable(step) || steps.size() >= kMostOperators ||
        !canRepeat(program_.flow.steps[size_t(step)].section, sectionOf(reader)))
      return false;
    llvm::SetVector<int> sources;
    addSources(step, sources);
    for (int u : sources) {
      if (u == more || reads_[size_t(reader)].contains(u))
        continue;
      if (looped_.inMemory[size_t(u)] && bytes(u) * kSmall <= limit)
        continue;
      if (maker(u) >= 0 && steps.contains(maker(u)))
        continue;
      if (!expand(u, reader, more, limit, steps))
        return false;
    }
    steps.insert(step);
    return steps.size() <= kMostOperators;
  }

  /// Whether the value is what a product could store in place of its sum (graph-round-products).
  bool isProduct(int v) const {
    if (maker(v) < 0 || !isNarrowing(program_.operators[size_t(maker(v))]))
      return false;
    Operation *product = program_.operators[size_t(maker(v))]->getOperand(0).getDefiningOp();
    return product && product->hasAttr(kWide) && llvm::all_of(sumsOf(product).getUsers(), isNarrowing);
  }

  struct Choice {
    int more = -1; // a value that is read in place of others; -1: none
    int64_t saved = 0;
    SmallVector<int> values;
  };

  void choose(int loop, int reader, ArrayRef<int> values) {
    llvm::SetVector<int> candidates;
    for (int u : looped_.flow.steps[size_t(loop)].reads)
      if (!reads_[size_t(reader)].contains(u) && bytes(u) >= kLeastBytes)
        candidates.insert(u);
    for (int member : looped_.members[size_t(loop)])
      for (int u : program_.flow.steps[size_t(member)].makes)
        if (partOf(member) == LoopPart::Points && !looped_.inMemory[size_t(u)])
          candidates.insert(u);
    Choice best = evaluate(reader, values, -1);
    // Of equally good ones the smallest, so that least is held.
    auto held = [&](const Choice &c) { return c.more < 0 ? 0 : bytes(c.more); };
    for (int more : candidates)
      if (Choice choice = evaluate(reader, values, more);
          choice.saved > best.saved || (choice.saved == best.saved && held(choice) < held(best)))
        best = std::move(choice);
    if (best.values.empty())
      return;
    for (int v : best.values) {
      reads_[size_t(reader)].erase(v);
      chosen_[reader].push_back({v, best.more});
    }
    if (best.more >= 0) {
      reads_[size_t(reader)].insert(best.more);
      looped_.inMemory[size_t(best.more)] = true;
    }
  }

  Choice evaluate(int reader, ArrayRef<int> values, int more) const {
    Choice choice;
    choice.more = more;
    int64_t freed = 0; // what is held no longer
    for (int v : values) {
      llvm::SetVector<int> steps;
      if (v == more || !expand(v, reader, more, bytes(v), steps))
        continue;
      const Outside readers = outside(v);
      const bool alone = readers.loops.size() == 1 && !readers.others;
      choice.values.push_back(v);
      choice.saved += bytes(v) + (alone ? bytes(v) : 0);
      freed += alone ? bytes(v) : 0;
    }
    if (more >= 0) {
      choice.saved -= bytes(more) + (looped_.inMemory[size_t(more)] || isProduct(more) ? 0 : bytes(more));
      if (bytes(more) > freed)
        choice.values.clear();
    }
    if (choice.saved <= 0 || choice.values.empty())
      return Choice();
    return choice;
  }

  // ---- writing ----

  void write() {
    OpWriter writer(func_);
    for (auto &[reader, values] : chosen_) {
      SmallVector<Operation *> members;
      for (int member : looped_.members[size_t(reader)])
        members.push_back(program_.operators[size_t(member)]);
      llvm::sort(members, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
      again_.clear();
      for (const auto &[v, more] : values) {
        llvm::SetVector<int> steps;
        if (expand(v, reader, more, bytes(v), steps))
          for (int step : steps)
            again_[program_.operators[size_t(step)]] = nullptr;
      }
      for (Operation *member : members)
        for (OpOperand &operand : member->getOpOperands())
          operand.set(repeated(operand.get(), member, writer));
    }
    // What nothing reads any longer would keep in memory what it reads itself, for each micro-batch under way. In a
    // program that is not cut yet it stays: strategies and stages are given by operators' names.
    if (func_->hasAttr(kMicroBatchesAttr))
      eraseUnused(func_.getBody().front());
  }

  /// The value as `member` computes it: a copy of what makes it, if that is chosen, or of what is free and reads such.
  Value repeated(Value v, Operation *member, OpWriter &writer) {
    Operation *op = v.getDefiningOp();
    if (!op)
      return v;
    const bool chosen = again_.contains(op), free = !chosen && loopPart(op) == LoopPart::Free;
    if (!chosen && !free)
      return v;
    if (auto known = again_.find(op); known != again_.end() && known->second)
      return known->second->getResult(0);
    SmallVector<Value> operands;
    bool same = true;
    for (Value operand : op->getOperands()) {
      operands.push_back(repeated(operand, member, writer));
      same = same && operands.back() == operand;
    }
    if (free && same)
      return v;
    Operation *copy = op->clone();
    copy->setOperands(operands);
    copy->removeAttr(kNameAttr);
    for (StringRef origin : kOriginAttrs)
      copy->removeAttr(origin);
    if (chosen)
      copy->setAttr(kRepeatsAttr, UnitAttr::get(op->getContext()));
    if (Attribute section = member->getAttr(kSectionAttr))
      copy->setAttr(kSectionAttr, section);
    else
      copy->removeAttr(kSectionAttr);
    writer.moveBefore(member);
    writer.setName("again/" + nameOf(op));
    writer.setOrigin(member);
    writer.insert(copy);
    again_[op] = copy;
    return copy->getResult(0);
  }

  func::FuncOp func_;
  const FunctionFlow program_;
  LoopedFlow looped_; // inMemory grows by what is read in place of others
  const std::vector<SmallVector<int, 2>> readers_;
  std::vector<llvm::DenseSet<int>> reads_;                 // by loop; looked up only
  std::map<int, SmallVector<std::pair<int, int>>> chosen_; // by reader: the value, and what is read in its place
  llvm::DenseMap<Operation *, Operation *> again_;         // what the current reader repeats; looked up only
};

struct Repeat : impl::RepeatPassBase<Repeat> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      Repetition(getOperation()).run();
  }
};

} // namespace

} // namespace tessera::compiler
