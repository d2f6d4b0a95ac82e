//===- GroupOptions.h - what a group can choose, and what each choice costs --------------------===//
//
// An option of a group is a strategy of its head; those of the followers follow through the rules. Its
// cost is everything that happens inside the group: kernels, the operators' own collectives, reshards
// between members. Memory traffic is counted as fusion will leave it: a value that only followers of the same
// group read, point by point, is never written.
//
// Options of equal groups (the blocks of a network) are computed once.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_GROUPOPTIONS_H
#define TESSERA_STRATEGIES_GRAPH_GROUPOPTIONS_H

#include "strategies/cost/CostModel.h"
#include "strategies/graph/FollowGroups.h"
#include "strategies/user/UserMapping.h"

#include <map>
#include <memory>

namespace tessera::strategies {

struct GroupOption {
  Sharding arg;                     // of an argument group
  std::vector<Strategy> strategies; // per operator of the group
  std::vector<int64_t> transient;   // and what reshards and collectives around it take while it runs
  Cost cost = 0;                    // of everything inside the group
  Cost compute = 0;                 // the kernels' part of it
  Cost growing = 0;                 // the part of it that grows with the batch
};

using GroupOptions = std::vector<GroupOption>;

class OptionBuilder {
public:
  /// `fixed` may be null.
  OptionBuilder(const FunctionAssignment &function, const FollowGroups &groups, const CostModel &model,
                const BatchDependence &batch, const FixedStrategies *fixed);

  /// Not empty. `pinned`: the only sharding that an argument may have; null: any.
  std::shared_ptr<const GroupOptions> options(int group, const Sharding *pinned);

private:
  class Derivation;

  const std::vector<Strategy> &headStrategies(int op);
  Strategy followerStrategy(const OperatorInfo &info, int followed, llvm::ArrayRef<const Sharding *> known) const;
  bool staysInLoop(int group, mlir::Value value) const;
  std::vector<int64_t> key(int group) const;
  uint64_t paddable(int arg) const;
  bool owesOfSource(int op, const Strategy &strategy) const;

  const FunctionAssignment &function_;
  const Program &program_;
  const FollowGroups &groups_;
  const CostModel &model_;
  const BatchDependence &batch_;
  const FixedStrategies *fixed_;
  std::map<int, std::vector<Strategy>> byClass_; // by class id
  std::map<int, std::vector<Strategy>> byOp_;    // of fixed operators
  std::map<std::vector<int64_t>, std::shared_ptr<const GroupOptions>> byKey_;
};

} // namespace tessera::strategies

#endif
