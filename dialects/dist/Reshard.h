//===- Reshard.h - from one sharding to another, by collectives ------------------------------===//
//
// The one resharding planner: the cost model prices its list and partition emits it, so what is
// paid for is what is run. A reshard is a shortest path over single collectives, each a step from
// one sharding to the next (Dijkstra over the shardings that the shape allows).
//
//   Mesh data=2,model=2; [8, 6] float32 from "[data, model]" to "[data+model, -]":
//   planReshard(...) = { AllToAll over {model}, dim 1 (concatenated), splitDim 0 }
//
// Collectives cut and join equal blocks. Where an axis does not divide what it cuts (Sharding.h),
// blocks are lengthened before they are cut and shortened after they are joined:
//
//   [5] from "[data]" (blocks of 3) to "[-]": { AllGather over {data}: 3 -> 6, Fit dim 0: 6 -> 5 }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RESHARD_H
#define TESSERA_DIALECTS_DIST_RESHARD_H

#include "dialects/dist/ShardingRule.h"

#include <functional>
#include <memory>
#include <vector>

namespace tessera::dist {

enum class CollectiveKind {
  Slice,         // cut dim by axes; local, no communication
  AllGather,     // undo the minor-most cut of dim by axes
  AllReduce,     // pay what is owed over axes
  ReduceScatter, // pay what is owed over axes and cut dim by them (as its minor-most cut)
  AllToAll,      // move the minor-most cut by axes from dim to splitDim (there minor-most)
  Permute,       // the same blocks on other ranks
  Halo,          // borders from the neighbours along dim; not part of reshards
  Fit,           // dim becomes localOut[dim] long: zeros behind, or its tail dropped; local
  Broadcast,     // the block of the group's member `root`; not part of reshards
};
llvm::StringRef stringify(CollectiveKind kind); // "all-reduce"
/// nullopt for another word.
std::optional<CollectiveKind> parseCollectiveKind(llvm::StringRef text);

struct Collective {
  CollectiveKind kind;
  AxisList axes; // the group, major to minor; Permute: all axes of the mesh
  int64_t dim = -1;
  int64_t splitDim = -1;
  Reduction reduction = Reduction::None;
  int64_t haloLo = 0, haloHi = 0;
  double fill = 0;
  int64_t root = 0;                   // Broadcast: index in the group
  llvm::SmallVector<int64_t> sources; // Permute: rank r receives the block of rank sources[r]
  Sharding result;                    // the sharding after this step (Halo: unchanged)
  Shape localIn, localOut;            // local shapes before and after
};

/// What one collective costs, in any unit, not negative; the planner minimises the sum. Local
/// shapes and element size say how many bytes.
using CollectiveCost = std::function<double(const Collective &, int64_t elementBytes)>;

/// Whether ranks exchange anything (not in Slice and Fit).
bool communicates(CollectiveKind kind);

/// Bytes that each rank sends in this collective by the usual ring or direct algorithms (all-gather
/// (n-1) * in; reduce-scatter (n-1)/n * in; all-reduce twice that; all-to-all (n-1)/n * in; permute
/// in where it moves; halo its borders; broadcast in; slice and fit 0).
double bytesSent(const Mesh &mesh, const Collective &collective, int64_t elementBytes);

/// bytesSent plus a small constant per collective: the default cost.
CollectiveCost defaultCollectiveCost(const Mesh &mesh);

/// Equal up to axes of size 1: there is nothing to reshard.
bool sameSharding(const Mesh &mesh, const Sharding &a, const Sharding &b);
/// Whether `to` owes nothing that `from` does not: debts are paid, not made.
bool canReshard(const Mesh &mesh, const Sharding &from, const Sharding &to);
/// What there is to say where canReshard says no: "... as {partial: [model]}, but it is handed on as [-, -]; ...".
std::string notOwed(const Mesh &mesh, const Sharding &from, const Sharding &to);

/// The cheapest list of collectives from `from` to `to` for a tensor of the global shape; empty
/// when equal (axes of size 1 make no difference). Requires canReshard; then always succeeds for
/// valid shardings. Deterministic: ties by the order of moves. On meshes where the pair concerns more
/// than five axes longer than 1 the plan is right but not searched for: pay, gather what differs, slice.
std::vector<Collective> planReshard(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                    const Sharding &from, const Sharding &to, const CollectiveCost &cost);

/// The same with memory: for the search, which asks for hundreds of thousands of pairs. All pairs
/// of one shape share one graph of shardings, all targets of one source one Dijkstra run. Not
/// thread-safe.
class ReshardPlanner {
public:
  ReshardPlanner(const Mesh &mesh, CollectiveCost cost);
  ReshardPlanner(ReshardPlanner &&) noexcept;
  ReshardPlanner &operator=(ReshardPlanner &&) noexcept;
  ~ReshardPlanner();

  std::vector<Collective> plan(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                               const Sharding &to);
  /// Sum of the costs of `plan`; infinity where canReshard says no.
  double cost(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tessera::dist

#endif
