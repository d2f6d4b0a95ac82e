#include "dialects/graph/flow/Fusion.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/Repeats.h"
#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

#include <functional>

using namespace mlir;

namespace tessera::graph {

static bool isSplat(Operation *op) {
  if (!op->hasTrait<OpTrait::ConstantLike>())
    return false;
  auto value = op->getAttrOfType<DenseElementsAttr>("value");
  if (!value || !value.isSplat())
    return false;
  // A fused expression stores constants as doubles, which hold integers of up to 53 bits exactly.
  auto integer = dyn_cast<IntegerType>(value.getElementType());
  return !integer || integer.getWidth() <= 32 || value.getSplatValue<APInt>().getSignificantBits() <= 53;
}

LoopPart loopPart(Operation *op) {
  if (isSplat(op) || isStretch(op) || isWidening(op) || (op->hasAttr(kRepeatsAttr) && isElementwise(op)))
    return LoopPart::Free;
  if (isElementwise(op))
    return LoopPart::Points;
  return plainReduction(op) ? LoopPart::Reduction : LoopPart::None;
}

namespace {

/// The most operators in a loop. Larger loops gain nothing, and are a burden for the code that runs them.
constexpr size_t kMaxMembers = 64;

/// Operators farther apart than this in program order are fused only if that saves memory. Otherwise what the backward
/// pass derives from forward values would be computed early and occupy memory until it is read.
constexpr int kNear = 32;

bool isFusable(LoopPart part) { return part == LoopPart::Points || part == LoopPart::Reduction; }

/// Adds the values from which Free steps make this one; none if it is a splat. What several of its operands stem from
/// is added once.
void addSources(const DataFlow &flow, int value, llvm::SmallVectorImpl<int> &list) {
  const int maker = flow.values[value].maker;
  if (maker < 0 || flow.steps[maker].part != LoopPart::Free) {
    list.push_back(value);
    return;
  }
  const DataFlow::Step &step = flow.steps[maker];
  if (step.reads.size() == 1)
    return addSources(flow, step.reads.front(), list);
  llvm::SmallVector<int> all;
  for (int read : step.reads)
    addSources(flow, read, all);
  for (int v : all)
    if (!llvm::is_contained(list, v))
      list.push_back(v);
}

llvm::SmallVector<int> sources(const DataFlow &flow, const DataFlow::Step &step) {
  llvm::SmallVector<int> list;
  for (int read : step.reads)
    addSources(flow, read, list);
  return list;
}

/// Forms groups of operators, which become the loops. Operators are the steps that are not Free, numbered in program
/// order.
class LoopFormer {
public:
  explicit LoopFormer(const DataFlow &flow)
      : flow_(flow), users_(flow.readers()), index_(flow.steps.size() + 1, -1), readers_(flow.values.size()) {
    for (size_t s = 0; s < flow.steps.size(); ++s)
      if (flow.steps[s].part != LoopPart::Free) {
        index_[s] = int(ops_.size());
        ops_.push_back(int(s));
      }
    size_t n = ops_.size();
    group_.resize(n);
    place_.resize(n);
    members_.resize(n);
    successors_.resize(n);
    predecessors_.resize(n);
    seen_.resize(n, 0);
  }

  std::vector<int> run() {
    for (size_t i = 0; i < ops_.size(); ++i)
      visit(int(i));
    std::vector<int> loops;
    for (int i : llvm::ArrayRef(index_).drop_back())
      loops.push_back(i < 0 ? -1 : ops_[group_[i]]);
    return loops;
  }

private:
  const DataFlow::Step &step(int i) const { return flow_.steps[ops_[i]]; }
  const DataFlow::Value &value(int v) const { return flow_.values[v]; }

  /// The operator that makes the value, which no Free step made; -1 if the value is an argument.
  int maker(int v) const { return value(v).maker < 0 ? -1 : index_[value(v).maker]; }
  int groupOf(int v) const { return maker(v) < 0 ? -1 : group_[maker(v)]; }

  bool isReduction(int i) const { return step(i).part == LoopPart::Reduction; }

  /// The iteration domain of the operator.
  const dist::Shape &domainOf(int i) const {
    return value(isReduction(i) ? step(i).reads.front() : step(i).makes.front()).shape;
  }

  void visit(int i) {
    group_[i] = i;
    place_[i] = i;
    members_[i] = {i};
    const llvm::SmallVector<int> read = sources(flow_, step(i));
    for (int v : read)
      if (int from = maker(v); from >= 0) {
        successors_[from].push_back(i);
        predecessors_[i].push_back(from);
      }
    if (!isFusable(step(i).part))
      return;
    const dist::Shape &domain = domainOf(i);
    // First the groups that make a whole tensor that it reads, then those that read the same tensor.
    llvm::SetVector<int> candidates;
    for (int v : read)
      if (int g = groupOf(v); g >= 0 && value(v).shape == domain)
        candidates.insert(g);
    const size_t makers = candidates.size();
    for (int v : read)
      if (value(v).shape == domain)
        for (int g : readers_[v])
          candidates.insert(group_[g]);
    for (auto [c, candidate] : llvm::enumerate(candidates))
      if (c < makers || isWorthSharing(group_[candidate], group_[i], domain))
        merge(group_[candidate], group_[i], domain);
    for (int v : read)
      readers_[v].push_back(i);
  }

  /// Whether two groups gain by reading the same tensor together. To read a single number once saves nothing, and the
  /// one would wait for what only the other needs: the factor of a loss's gradient for the loss.
  bool isWorthSharing(int a, int b, const dist::Shape &domain) const {
    return llvm::any_of(domain, [](int64_t extent) { return extent != 1; }) || waitsFor(a) == waitsFor(b);
  }
  /// The groups that make what the group reads.
  llvm::SmallSet<int, 4> waitsFor(int g) const {
    llvm::SmallSet<int, 4> found;
    for (int member : members_[g])
      for (int v : sources(flow_, step(member)))
        if (const int from = groupOf(v); from >= 0 && from != g)
          found.insert(from);
    return found;
  }

  bool has(int g, Half half) const {
    return llvm::any_of(members_[g], [&](int member) { return step(member).half == half; });
  }

  bool mayMerge(int a, int b, const dist::Shape &domain) {
    if (a == b || members_[a].size() + members_[b].size() > kMaxMembers)
      return false;
    for (int g : {a, b}) {
      int first = members_[g].front();
      if (!isFusable(step(first).part) || domainOf(first) != domain)
        return false;
    }
    if (step(members_[a].front()).section != step(members_[b].front()).section)
      return false;
    // What is made again beside what made it first would have been kept.
    if ((has(a, Half::Again) && has(b, Half::Forward)) || (has(a, Half::Forward) && has(b, Half::Again)))
      return false;
    for (int g : {a, b})
      for (int member : members_[g])
        for (int v : sources(flow_, step(member)))
          if (int from = maker(v); from >= 0 && isReduction(from))
            if (int of = group_[from]; of == a || of == b)
              return false;
    if (int early = members_[a].back() < members_[b].front() ? a : b, late = early == a ? b : a;
        members_[late].front() - members_[early].back() > kNear && !worthMovingUp(late, early))
      return false;
    return true;
  }

  void merge(int a, int b, const dist::Shape &domain) {
    if (!mayMerge(a, b, domain))
      return;
    const int first = place_[a] < place_[b] ? a : b, last = first == a ? b : a;
    llvm::SmallVector<int> behind = reached(first, last, successors_, [&](int g) { return place_[g] <= place_[last]; });
    // If a third group lies on a path between the two, merging them would make a cycle.
    if (llvm::is_contained(behind, last))
      return;
    const int into = std::min(a, b), from = std::max(a, b);
    moveTogether(first, last, std::move(behind), into);
    for (int member : members_[from])
      group_[member] = into;
    members_[into].append(members_[from].begin(), members_[from].end());
    llvm::sort(members_[into]);
    members_[from].clear();
  }

  /// Gives `merged` a place. Between the places of the two, `behind`, which depends on the first, goes behind it, and
  /// what the last depends on goes before it. This is the reordering of Pearce and Kelly, "A dynamic topological sort
  /// algorithm for directed acyclic graphs" (2006).
  void moveTogether(int first, int last, llvm::SmallVector<int> behind, int merged) {
    const int low = place_[first];
    llvm::SmallVector<int> order = reached(last, first, predecessors_, [&](int g) { return place_[g] > low; });
    auto byPlace = [&](int g, int h) { return place_[g] < place_[h]; };
    llvm::sort(order, byPlace);
    llvm::sort(behind, byPlace);
    order.push_back(merged);
    order.append(behind);
    llvm::SmallVector<int> places{low};
    for (int g : order)
      if (g != merged)
        places.push_back(place_[g]);
    llvm::sort(places);
    for (auto [g, place] : llvm::zip_equal(order, places))
      place_[g] = place;
  }

  /// The groups that paths from `start` reach over groups that `within` takes, except by its own edge to `direct`.
  llvm::SmallVector<int> reached(int start, int direct, llvm::ArrayRef<llvm::SmallVector<int, 2>> next,
                                 llvm::function_ref<bool(int)> within) {
    ++stamp_;
    seen_[start] = stamp_;
    llvm::SmallVector<int> found;
    auto follow = [&](int g) {
      for (int member : members_[g])
        for (int op : next[member])
          if (int to = group_[op]; seen_[to] != stamp_ && within(to) && !(g == start && to == direct)) {
            seen_[to] = stamp_;
            found.push_back(to);
          }
    };
    follow(start);
    for (size_t i = 0; i < found.size(); ++i)
      follow(found[i]);
    return found;
  }

  /// Whether less memory is live between the two groups if `late` runs together with `early`. Only a `late` of one
  /// operator moves.
  bool worthMovingUp(int late, int early) const {
    if (members_[late].size() > 1)
      return false;
    const int i = members_[late].front();
    if (isReduction(i))
      return true;
    int64_t freed = 0;
    for (int v : sources(flow_, step(i))) {
      // What is made between the two keeps `late` where it is.
      if (maker(v) > members_[early].back() && !mayWait(early, late))
        return false;
      bool last = maker(v) >= 0;
      for (int user : users_[v]) {
        const int reader = index_[user];
        last &= reader == i || (reader >= 0 && reader <= members_[early].back());
      }
      freed += last ? value(v).bytes : 0;
    }
    return value(step(i).makes.front()).bytes < freed;
  }

  /// Whether no more is live between the two if `early` waits for `late`, with all that nothing else reads, instead of
  /// keeping what it hands to it. A sum over micro-batches that waited would keep all their gradients.
  bool mayWait(int early, int late) const {
    llvm::SmallDenseSet<int> held, handed;
    auto readIn = [&](int user) { return index_[user] >= 0 && group_[index_[user]] == early; };
    for (int member : members_[early])
      for (int v : sources(flow_, step(member)))
        if (maker(v) >= 0 && group_[maker(v)] != early && llvm::all_of(users_[v], readIn))
          held.insert(v);
    for (int v : sources(flow_, step(members_[late].front())))
      if (maker(v) >= 0 && group_[maker(v)] == early)
        handed.insert(v);
    auto bytes = [&](const auto &values) {
      int64_t sum = 0;
      for (int v : values)
        sum += value(v).bytes;
      return sum;
    };
    return bytes(held) <= bytes(handed);
  }

  const DataFlow &flow_;
  const std::vector<llvm::SmallVector<int, 2>> users_;  // by value: steps
  std::vector<int> index_;                              // by step, and for the end; -1: no operator
  std::vector<int> ops_;                                // by operator: its step
  std::vector<int> group_;                              // by operator; a group is named by its first member
  std::vector<int> place_;                              // by group: ascends along every dependence
  std::vector<llvm::SmallVector<int, 4>> members_;      // by group, ascending; empty: merged away
  std::vector<llvm::SmallVector<int, 2>> successors_;   // by operator: those that read it, through what is free
  std::vector<llvm::SmallVector<int, 2>> predecessors_; // by operator: those that it reads, through what is free
  std::vector<int> seen_;                               // by group: the last search that found it
  int stamp_ = 0;
  std::vector<llvm::SmallVector<int>> readers_; // by value: fusable operators
};

} // namespace

std::vector<int> formLoops(const DataFlow &flow) { return LoopFormer(flow).run(); }

LoopedFlow::LoopedFlow(const DataFlow &program, llvm::ArrayRef<int> loops)
    : stepOf(program.steps.size(), -1), inMemory(program.values.size(), false) {
  const std::vector<llvm::SmallVector<int, 2>> readers = program.readers();
  const int numSteps = int(program.steps.size());
  auto partOf = [&](int s) { return s < numSteps ? program.steps[s].part : LoopPart::None; };
  // A Free step stays if something reads its result that does not compute it again. The loop runs backward, so that the
  // users of a step are decided before it.
  std::vector<bool> stands(program.steps.size(), true);
  auto readByLoopsOnly = [&](int value) {
    return llvm::all_of(readers[value], [&](int reader) {
      return isFusable(partOf(reader)) || (partOf(reader) == LoopPart::Free && !stands[reader]);
    });
  };
  for (int s = numSteps; s-- > 0;)
    if (partOf(s) == LoopPart::Free)
      stands[s] = !llvm::all_of(program.steps[s].makes, readByLoopsOnly);
  // Whoever reads the result of a Free step also reads the step's operand.
  std::function<bool(int, int)> readOutside = [&](int value, int loop) {
    return llvm::any_of(readers[value], [&](int reader) {
      if (partOf(reader) != LoopPart::Free)
        return reader == numSteps || loops[reader] != loop;
      return llvm::any_of(program.steps[reader].makes, [&](int next) { return readOutside(next, loop); });
    });
  };
  std::vector<std::vector<int>> membersOf(program.steps.size());
  for (int s = 0; s < numSteps; ++s)
    if (loops[s] >= 0)
      membersOf[loops[s]].push_back(s);
  DataFlow looped;
  looped.values = program.values;
  looped.results = program.results;
  looped.updates = program.updates;
  std::vector<int> first; // by step of `looped`
  for (int s = 0; s < numSteps; ++s) {
    const DataFlow::Step &step = program.steps[s];
    if (loops[s] < 0 ? !stands[s] : loops[s] != s)
      continue;
    first.push_back(s);
    if (!isFusable(step.part)) {
      looped.addStep(step.part, step.reads, step.makes, step.section, step.half);
      continue;
    }
    llvm::SetVector<int> inputs;
    llvm::SmallVector<int> outputs;
    for (int member : membersOf[s]) {
      const DataFlow::Step &one = program.steps[member];
      for (int value : sources(program, one))
        if (int maker = program.values[value].maker; maker < 0 || loops[maker] != s)
          inputs.insert(value);
      for (int value : one.makes)
        if (readOutside(value, s))
          outputs.push_back(value);
    }
    looped.addStep(LoopPart::None, inputs.getArrayRef(), outputs, step.section);
  }
  const std::vector<int> order = dependenceOrder(looped);
  flow = reordered(std::move(looped), order);
  for (auto [at, step] : llvm::enumerate(order)) {
    const int s = first[step];
    members.push_back(isFusable(program.steps[s].part) ? membersOf[s] : std::vector<int>{s});
    for (int member : members.back())
      stepOf[member] = int(at);
    for (int value : flow.steps[at].makes)
      inMemory[value] = true;
  }
  for (size_t v = 0; v < program.values.size(); ++v)
    if (program.values[v].maker < 0)
      inMemory[v] = true;
}

} // namespace tessera::graph
