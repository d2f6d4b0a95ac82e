//===- OwnCollectives.h - what an operator brings along under a strategy -----------------------===//
//
// A strategy says how an operator takes its operands and hands on its results. The communication that lies between the
// two follows from the operator's rule, and this header is the one place that states it:
//
//   halos       before the kernel: borders from the neighbours, where a window slides over a dimension that is cut;
//   statistics  inside it: where a factor of kind Stat is cut, every word of the factor is one reduction over ranks;
//   results     behind it: from the sharding that the factors give to the one that is handed on, for example the
//               reduction of a sum factor that is cut.
//
// The cost model prices this list. Localize emits the halos, DecomposeStats pays the statistics, InsertReshards makes
// the reshards of results: so what is priced is what is run.
//
// Example: rule "b k -> b k | stat(max, sum) k" on [8, 6] float32, mesh model=2, strategy k=model:
//   statisticReshards(...) = { [8, 1] from "[-, -] max(model)" to "[-, -]", [8, 1] from "[-, -] sum(model)" to ... }
//   ownCollectives(...)    = { statistic 0: AllReduce of [8, 1], statistic 1: AllReduce of [8, 1] }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_OWNCOLLECTIVES_H
#define TESSERA_DIALECTS_DIST_OWNCOLLECTIVES_H

#include "dialects/dist/Reshard.h"

namespace tessera::dist {

/// An exchange of borders before the operator. Several windows of one operand are exchanged one after the other, each
/// on the block as the one before it left it.
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
/// One per reduction inside the operator, in the order of its words; empty where no Stat factor is cut. A statistic has
/// the first result's shape, with an extent of 1 where it is reduced.
std::vector<OwnReshard> statisticReshards(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          llvm::ArrayRef<Shape> resultShapes);
/// One per result, from naturalResult to resultSharding.
std::vector<OwnReshard> resultReshards(const ShardingRule &rule, const Strategy &strategy,
                                       llvm::ArrayRef<Shape> resultShapes);

/// A collective that an operator brings along: a halo (operand >= 0), a part of a statistic's reduction (statistic >=
/// 0) or of a result's reshard (result >= 0).
struct OwnCollective {
  int operand = -1, statistic = -1, result = -1;
  int64_t elementBytes = 4;
  Collective collective;
};
/// Global shapes and bytes per element of an operator's tensors.
struct OperatorTensors {
  llvm::ArrayRef<Shape> operandShapes, resultShapes;
  llvm::ArrayRef<int64_t> operandBytes, resultBytes;
};
/// All of the above as the planner lists them, in the order in which they run.
std::vector<OwnCollective> ownCollectives(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          const OperatorTensors &tensors, ReshardPlanner &planner);

} // namespace tessera::dist

#endif
