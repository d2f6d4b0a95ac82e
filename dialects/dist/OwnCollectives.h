//===- OwnCollectives.h - the collectives of an operator under a strategy ----------------------===//
//
// A strategy gives the shardings of an operator's operands and results. The communication that the operator itself
// needs between the two follows from its rule. Only this header states it:
//
//   halos       before the kernel: borders from the neighbours, where a window slides over a dimension that is cut;
//   statistics  inside it: where a factor of kind Stat is cut, its rule's reductions run over the ranks;
//   results     after it: a reshard from the sharding that the factors give to the one that is handed on, for example
//               the reduction of a sum factor that is cut.
//
// The cost model prices this list. Localize emits the halos, DecomposeStats the reductions of statistics, and
// InsertReshards the reshards of results. So what is priced is what is run.
//
// Example: rule "b k -> b k | stat(max, sum) k" on [8, 6] float32, mesh model=2, strategy k=model:
//   statisticReshards(...) = { [8, 1] from "[-, -] max(model)" to "[-, -]", [8, 1] from "[-, -] sum(model)" to ... }
//   ownCollectives(...)    = { statistic 0: AllReduce of [8, 1], statistic 1: AllReduce of [8, 1] }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_OWNCOLLECTIVES_H
#define TESSERA_DIALECTS_DIST_OWNCOLLECTIVES_H

#include "dialects/dist/wire/WirePlanner.h"

namespace tessera::dist {

/// An exchange of borders before the operator. The exchanges for several windows of one operand run one after the
/// other, each on the block that the one before it has made.
struct HaloExchange {
  int operand = 0;
  Collective collective;
};
/// In the order of the rule's windows; shapes are global. The strategy is valid (verifyStrategy).
std::vector<HaloExchange> haloExchanges(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                        llvm::ArrayRef<Shape> operandShapes);

/// A tensor of the global shape that changes its sharding.
struct OwnReshard {
  Shape shape;
  Sharding from, to;
};
/// One per reduction inside the operator, in the order in which the rule names them; empty where no Stat factor is cut.
/// A statistic has the first result's shape, with an extent of 1 where it is reduced.
std::vector<OwnReshard> statisticReshards(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          llvm::ArrayRef<Shape> resultShapes);
/// One per result, from naturalResult to resultSharding.
std::vector<OwnReshard> resultReshards(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                       llvm::ArrayRef<Shape> resultShapes);

/// A collective that the operator itself needs: a halo (operand >= 0), a part of a statistic's reduction (statistic >=
/// 0) or a part of a result's reshard (result >= 0).
struct OwnCollective {
  int operand = -1, statistic = -1, result = -1;
  int64_t elementBytes = 4;
  Collective collective;
};
/// Global shapes and bytes per element of an operator's tensors.
struct OperatorTensors {
  llvm::ArrayRef<Shape> operandShapes, resultShapes;
  llvm::ArrayRef<int64_t> operandBytes, resultBytes;
  llvm::ArrayRef<Wire> resultWires = {}; // in what sums are sent; empty: as they are
};
/// All of the above as the collectives that the resharding planner gives, in the order in which they run.
std::vector<OwnCollective> ownCollectives(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          const OperatorTensors &tensors, WirePlanner &planner);

} // namespace tessera::dist

#endif
