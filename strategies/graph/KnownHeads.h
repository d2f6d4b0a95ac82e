//===- KnownHeads.h - heads that were priced before --------------------------------------------------===//
//
// Training, evaluation and inference have equal operators, and a training step is searched several times where it does
// not fit at once. What an operator costs at the head of a group depends on none of that. So the searches of a
// compilation price the heads of equal operators once.
//
//   KnownHeads known;
//   buildGraph(train, model, &fixed, shared, limit, &known);
//   buildGraph(infer, model, &fixed, shared, limit, &known); // prices operators that the first one does not have
//
// Of one CostModel and of functions of one MLIRContext. One thread may use it at a time.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_KNOWNHEADS_H
#define TESSERA_STRATEGIES_GRAPH_KNOWNHEADS_H

#include "strategies/space/Program.h"

#include <map>

namespace tessera::strategies {

struct GroupHead;
using GroupHeads = std::shared_ptr<const std::vector<GroupHead>>;

class KnownHeads {
public:
  /// The heads of operators of the class that run alike (see OptionBuilder::heads); null until they are set.
  GroupHeads &of(const OperatorClass &cls, const std::vector<int64_t> &runs) {
    return heads_[{keyOf(cls.sample), cls.units, runs}];
  }

private:
  using Units = std::vector<llvm::SmallVector<int64_t, 2>>;
  std::map<std::tuple<OperatorKey, Units, std::vector<int64_t>>, GroupHeads> heads_;
};

} // namespace tessera::strategies

#endif
