//===- Reshard.h - from one sharding to another, by collectives ------------------------------===//
//
// The only resharding planner. The cost model prices the collectives that it lists, and partition emits the same list,
// so what is priced is what is run. A plan is a shortest path (Dijkstra) in the graph whose nodes are the shardings
// that the shape allows and whose edges are single collectives.
//
//   Mesh data=2,model=2; [8, 6] float32 from "[data, model]" to "[data+model, -]":
//   planReshard(...) = { AllToAll over {model}, dim 1 (concatenated), splitDim 0 }
//
// Collectives cut and join equal blocks. Where an axis does not divide the extent that it cuts (Sharding.h), a Fit step
// appends padding before a cut and removes it after a join:
//
//   [5] from "[data]" (blocks of 3) to "[-]": { AllGather over {data}: 3 -> 6, Fit dim 0: 6 -> 5 }
//
// On small meshes of several axes an edge may also be one exchange of boxes between all ranks (Exchange.h), where the
// shardings at both ends have no padding.
//
// Between two units of one dimension the way leads over a sharding in which their blocks coincide, the uncut dimension
// at the latest.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RESHARD_H
#define TESSERA_DIALECTS_DIST_RESHARD_H

#include "dialects/dist/ShardingRule.h"
#include "dialects/dist/wire/Wire.h"

#include <functional>
#include <memory>
#include <vector>

namespace tessera::dist {

enum class CollectiveKind {
  Slice,         // cut dim by axes; local, no communication
  AllGather,     // undo the minor-most cut of dim by axes
  AllReduce,     // reduce a tensor that is partial over axes
  ReduceScatter, // reduce a tensor that is partial over axes, and cut dim by them (as its minor-most cut)
  AllToAll,      // move the minor-most cut by axes from dim to splitDim (there minor-most)
  Permute,       // the same blocks on other ranks
  Halo,          // receive borders from the neighbours along dim; not part of reshards
  Fit,           // set the extent of dim to localOut[dim]: append zeros or drop the tail; local, no communication
  Broadcast,     // send the block of the group's member `root` to all; not part of reshards
  Exchange,      // send boxes from any rank of the group to any other: `boxes` (Exchange.h)
  Fold,          // reduce the terms that lie one behind the other along dim; local, no communication
};
llvm::StringRef stringify(CollectiveKind kind); // "all-reduce"
/// The kind with this name; nullopt if there is none.
std::optional<CollectiveKind> parseCollectiveKind(llvm::StringRef text);

/// A part of what one rank sends, or of what it receives, in an exchange: the messages whose two ranks differ along
/// exactly these axes (bit i: axis i of the mesh).
struct PeerLoad {
  uint32_t axes;
  int64_t messages, elements;
  auto operator<=>(const PeerLoad &) const = default;
};
using RankLoad = llvm::SmallVector<PeerLoad, 2>; // ascending axes

struct Collective {
  CollectiveKind kind;
  AxisList axes; // the group, major to minor; Permute: all axes of the mesh
  int64_t dim = -1;
  int64_t splitDim = -1;
  Reduction reduction = Reduction::None;
  int64_t haloLo = 0, haloHi = 0;
  double fill = 0;
  int64_t root = 0;                   // Broadcast: index in the group
  Wire wire = {};                     // of a sum that is planned: in what its terms are sent (WirePlanner.h)
  llvm::SmallVector<int64_t> sources; // Permute: rank r receives the block of rank sources[r]
  /// Exchange: for every message the sending and the receiving rank of the mesh, where its box begins in the input,
  /// where in the output, and its shape. All outputs are covered once.
  std::vector<int64_t> boxes;
  /// Exchange: what ranks send or receive, by which it is priced. Loads that are no more than another are left out.
  std::vector<RankLoad> loads;
  Sharding result;         // the sharding after this step (Halo: unchanged)
  Shape localIn, localOut; // local shapes before and after
};

/// The cost of one collective, in any unit, not negative. The planner minimises the sum. The bytes follow from the
/// collective's local shapes and the element size.
using CollectiveCost = std::function<double(const Collective &, int64_t elementBytes)>;

/// Whether ranks send anything: true for every kind but Slice, Fit and Fold.
bool communicates(CollectiveKind kind);

/// Bytes that each rank sends by the usual ring or direct algorithms. With n ranks in the group and `in` bytes of
/// input: all-gather (n-1) * in; reduce-scatter (n-1)/n * in; all-reduce twice that; all-to-all (n-1)/n * in; permute
/// `in` if any block moves; halo its borders; broadcast `in`; exchange what the fullest rank sends or receives; slice,
/// fit and fold 0. A sum with a wire sends as much less.
double bytesSent(const Mesh &mesh, const Collective &collective, int64_t elementBytes);

/// bytesSent plus a small constant per collective: the default cost.
CollectiveCost defaultCollectiveCost(const Mesh &mesh);

/// Equal up to axes of size 1: there is nothing to reshard.
bool sameSharding(const Mesh &mesh, const Sharding &a, const Sharding &b);
/// Whether collectives can turn `from` into `to`: `to` may be partial only over axes over which `from` is partial with
/// the same reduction. Axes of size 1 do not count.
bool canReshard(const Mesh &mesh, const Sharding &from, const Sharding &to);
/// The second half of the error message where canReshard is false: "as [-, -] sum(model), but it is handed on as
/// [-, -]; ...". The caller puts the reader's name before it.
std::string notOwed(const Mesh &mesh, const Sharding &from, const Sharding &to);

/// The cheapest list of collectives from `from` to `to` for a tensor of the global shape. The list is empty if the two
/// are equal; axes of size 1 make no difference. Requires canReshard, and then always succeeds for valid shardings.
/// Deterministic: ties are broken by the order in which edges are listed. Where more than five axes longer than 1 take
/// part, the plan is correct but not the cheapest: all-reduce, all-gather of the cuts that differ, slice.
std::vector<Collective> planReshard(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                    const Sharding &from, const Sharding &to, const CollectiveCost &cost);

/// planReshard with a cache, for the search, which asks for hundreds of thousands of pairs. All pairs of one shape, and
/// of shapes of as many bytes that are cut alike, share one graph of shardings, and all targets of one source share one
/// Dijkstra run. Not thread-safe.
class ReshardPlanner {
public:
  ReshardPlanner(const Mesh &mesh, CollectiveCost cost);
  ReshardPlanner(ReshardPlanner &&) noexcept;
  ReshardPlanner &operator=(ReshardPlanner &&) noexcept;
  ~ReshardPlanner();

  std::vector<Collective> plan(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                               const Sharding &to);
  /// The sum of the costs of `plan`; infinity where canReshard is false.
  double cost(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tessera::dist

#endif
