//===- GroupOptions.h - what a group can choose, and what each choice costs --------------------===//
//
// An option of a group is a strategy of its head; those of the followers follow through the rules. Its
// cost is everything that happens inside the group: kernels, the operators' own collectives, reshards
// between members. Memory traffic is counted as fusion leaves it (LoopShares.h).
//
// Followers see of their head only how it hands its values on. A head has thousands of strategies, which hand on in
// some hundred ways. So an option is a head and a tail, and tails are made once per way:
//
//   conv -> add -> relu    options 5 and 9 cut the convolution's input channels otherwise and hand on alike:
//                          two GroupHeads, one GroupTail with the strategies and costs of add and relu
//
// A member may keep a copy of a value in another sharding (graph::mayKeepCopy). Then there is a tail for every set of
// mesh axes over which the copies in the group are gathered; the empty set keeps none.
//
// Options of equal groups (the blocks of a network) are computed once, and so are equal heads of different groups
// (KnownOptions.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_GROUPOPTIONS_H
#define TESSERA_STRATEGIES_GRAPH_GROUPOPTIONS_H

#include "strategies/cost/CostModel.h"
#include "strategies/graph/KnownOptions.h"
#include "strategies/graph/LoopShares.h"
#include "strategies/space/WideGraph.h"
#include "strategies/user/UserMapping.h"

#include <deque>
#include <map>
#include <memory>

namespace tessera::strategies {

/// Of a whole step: what runs for every micro-batch counts as often.
struct MemberCosts {
  Cost cost = 0;    // of everything inside the group
  Cost compute = 0; // the kernels' part of it
  Cost growing = 0; // the part of it that grows with the batch
  Cost least = 0;   // of what is no compute: what remains where messages are joined; 0 unless it is asked for
};

/// An operator at the head of a group under one strategy.
struct GroupHead : MemberCosts {
  Strategy strategy;
  int taken = 0;         // equal in heads that take their operands alike: they stand side by side
  int handed = 0;        // equal in heads that hand their results on alike
  int64_t transient = 0; // what reshards and collectives around it take while it runs
};

/// All members but an operator at the head, given how the head hands its values on.
struct GroupTail : MemberCosts {
  int id = 0;                         // counts from 0 in a group, by the first option
  llvm::SmallVector<Sharding> handed; // the argument at the head, or the results of the operator there
  std::vector<Strategy> strategies;
  std::vector<int64_t> transient;
  /// Reshards of values of the group that members need and pay for. Other groups may read the copies.
  struct Copy {
    int member, result; // -1, 0: the argument at the head
    Sharding sharding;
  };
  std::vector<Copy> copies = {};
};

struct GroupOption {
  const GroupHead *head; // null: an argument
  const GroupTail *tail;

  Cost cost() const { return (head ? head->cost : 0) + tail->cost; }
  Cost compute() const { return (head ? head->compute : 0) + tail->compute; }
  Cost growing() const { return (head ? head->growing : 0) + tail->growing; }
  CostParts parts() const { return {compute(), (head ? head->least : 0) + tail->least}; }
  /// Of an argument group.
  const Sharding &arg() const { return tail->handed.front(); }
  /// Of an operator, by its position in the group.
  const Strategy &strategy(size_t member) const {
    return !head ? tail->strategies[member] : member ? tail->strategies[member - 1] : head->strategy;
  }
  int64_t transient(size_t member) const {
    return !head ? tail->transient[member] : member ? tail->transient[member - 1] : head->transient;
  }
};

struct GroupOptions : std::vector<GroupOption> {
  size_t numTails() const { return tails ? tails->size() : 0; }
  // What the options refer to.
  GroupHeads heads;
  std::shared_ptr<const std::deque<GroupTail>> tails;
};

class OptionBuilder {
public:
  /// `fixed` and `known` may be null. `least`: reshards have their least costs, too; heads have them in any case.
  OptionBuilder(const FunctionAssignment &function, const FollowGroups &groups, const LoopShares &shares,
                const CostModel &model, const BatchDependence &batch, const FixedStrategies *fixed, KnownOptions *known,
                bool least = false);

  /// By group; none is empty. `pinned`: by group the only sharding that its argument may have; null: any. Different
  /// heads and groups are divided among `threads`.
  std::vector<std::shared_ptr<const GroupOptions>> options(llvm::ArrayRef<const Sharding *> pinned, int threads);

private:
  class Derivation;

  bool isFixed(int op) const { return fixed_ && fixed_->groupOf[size_t(op)] >= 0; }
  std::vector<Strategy> headStrategies(int op) const;
  GroupHeads &heads(int op);
  std::vector<GroupHead> priceHeads(int op, const CostModel &model) const;
  GroupOptions optionsOf(int group, const Sharding *pinned, GroupHeads heads, const CostModel &model) const;
  int64_t timesOf(int op, const OwnCollective &own) const;
  Strategy followerStrategy(int op, int followed, llvm::ArrayRef<const Sharding *> known) const;
  std::vector<int64_t> key(int group) const;
  uint64_t paddable(int arg) const;
  std::vector<AxisList> gathers(const FollowGroup &group, llvm::ArrayRef<Sharding> handed) const;
  bool takesSourcePartial(int op, const Strategy &strategy) const;

  const FunctionAssignment &function_;
  const Program &program_;
  const FollowGroups &groups_;
  const LoopShares &shares_;
  const CostModel &model_;
  const BatchDependence &batch_;
  const FixedStrategies *fixed_;
  KnownOptions own_;
  KnownOptions &known_;
  const bool least_;
  std::map<int, GroupHeads> byOp_; // of fixed operators
};

} // namespace tessera::strategies

#endif
