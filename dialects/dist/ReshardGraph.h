//===- ReshardGraph.h - the shardings of one shape and the collectives between them ------------===//
//
// The graph that the resharding planner searches. A state is a sharding; it is created when a path first reaches it. An
// edge is one collective with the local Fit steps that padding needs before and after it (`makeStep`), and its cost is
// the sum of their costs. The edges that leave a state do not depend on where a path started, so all pairs share them.
//
// A dimension is cut into plain blocks, or in one of the units that the graph is made for. An axis is added in any unit
// in which the axes before it have the blocks that are there.
//
// Exchanges are edges as well, behind the others: most shardings need none, and they are priced from a table that all
// shapes share (ExchangeTable.h). A search reads where edges lead and what they cost far more often than what they are,
// so that lies apart.
//
// Example: 8 elements over the axes a=2, b=2. From the sharding [a], edges lead to [-] (all-gather over a), to [a+b]
// (slice) and to [b] (permute: rank (0,1) gets its block from (1,0)), and to no other state.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RESHARDGRAPH_H
#define TESSERA_DIALECTS_DIST_RESHARDGRAPH_H

#include "dialects/dist/exchange/ExchangeTable.h"

#include "llvm/ADT/DenseMap.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::dist {

/// The collective, with a Fit before it that lengthens its blocks and one after it that shortens them, where padding
/// needs them. `toPrice`: it will not run, so the sources of a Permute say only that blocks move.
llvm::SmallVector<Collective, 1> makeStep(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, CollectiveKind kind,
                                          llvm::ArrayRef<int> axes, int64_t dim, int64_t splitDim, const Sharding &from,
                                          const Sharding &to, bool toPrice = false);

/// (dimension, unit) for every unit above 1, ascending.
using DimUnits = llvm::SmallVector<std::pair<int64_t, int64_t>, 1>;

/// The shardings of one shape and the collectives between them. Shardings are canonical (Cut).
class ShardingGraph {
public:
  struct Edge {
    int target;
    double cost;
  };
  /// What an edge is that is no exchange.
  struct Move {
    CollectiveKind kind;
    int16_t dim, splitDim;
    AxisList axes;
  };

  /// `table`: the exchanges between even cuts of this shape; nullptr: none.
  ShardingGraph(const Mesh &mesh, const CollectiveCost &cost, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                AxisList axes, DimUnits units = {}, ExchangeTable *table = nullptr);

  /// The number of a sharding's state. A sharding that is new becomes a state.
  int state(const Sharding &s);
  const Sharding &sharding(int state) const { return states_[state]; }
  llvm::ArrayRef<int64_t> shape() const { return shape_; }

  int states() const { return int(states_.size()); }

  /// The edges that leave a state, computed on the first call. The reference is valid until the next call of state or
  /// edges.
  const std::vector<Edge> &edges(int state);
  /// Of a state whose edges have been asked for: what the first of them are. The others are exchanges, each with the
  /// Fold that it may need.
  llvm::ArrayRef<Move> moves(int state) const { return moves_[state]; }

private:
  bool mayCut(const Sharding &s, int64_t dim, size_t count) const;
  void cutFurther(const Sharding &s, int64_t dim, llvm::ArrayRef<int> axes,
                  llvm::function_ref<void(const Sharding &)> visit) const;
  bool isOneRun(const Sharding &s, int64_t dim, size_t count) const;
  bool samePadding(const Sharding &a, const Sharding &b) const;
  void add(int from, CollectiveKind kind, llvm::ArrayRef<int> axes, int64_t dim, int64_t splitDim, const Sharding &to);
  void expand(int state);
  void addExchanges(int state);
  void permuted(const Sharding &s, Sharding &to, int64_t dim, llvm::function_ref<void()> visit);

  const Mesh &mesh_;
  const CollectiveCost &cost_;
  Shape shape_;
  int64_t elementBytes_, bytesOfForm_; // the latter: of an element of the shape's form (ExchangeTable)
  AxisList axes_;                      // that cuts may use
  DimUnits units_;                     // in which dimensions may be cut
  ExchangeTable *table_;
  std::vector<int> stateOfTarget_; // by the table's targets; -1: none yet
  std::vector<double> scratch_;
  llvm::DenseMap<uint64_t, int> packedIds_;  // of states that fit into a word
  std::unordered_map<std::string, int> ids_; // of the others
  std::vector<Sharding> states_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::vector<Move>> moves_;
  std::vector<bool> expanded_;
};

} // namespace tessera::dist

#endif
