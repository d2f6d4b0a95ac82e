//===- WirePlanner.h - reshards whose sums may be sent in fewer bits, and in messages --------------===//
//
// A ReshardPlanner for every wire. In the plan for a wire those sums have it (Collective::wire) for which `narrows`
// says so; the cost function prices such a collective as what it becomes (sentBy).
//
// The cheapest plan of a small sum or gather over several axes is often one over each of them: together they start up
// less often. But they are members of messages (graph/flow/Messages.h), which start up once, and a message has one
// group. So such a reshard stays one collective unless several are faster as members of messages, too.
//
//   all-reduce of 4 KiB over {a,b}   not one over {a} and one over {b}
//
//   WirePlanner planner(mesh, cost, {.narrows = narrows, .joined = joined});
//   planner.plan(shape, 4, from, to)          // as ReshardPlanner
//   planner.plan(shape, 4, from, to, bf16)    // all-reduces that pay in bf16 have `wire`
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_WIRE_WIREPLANNER_H
#define TESSERA_DIALECTS_DIST_WIRE_WIREPLANNER_H

#include "dialects/dist/Reshard.h"

#include <map>
#include <optional>

namespace tessera::dist {

/// On a function (unit): its reshards are planned for what they take alone, without SumRules::joined. Localisation
/// removes it.
inline constexpr llvm::StringLiteral kApartAttr = "dist.apart";

/// How sums are sent.
struct SumRules {
  /// Whether a sum with a wire is to be sent so, rather than as it is; null: always.
  std::function<bool(const Collective &sum, int64_t elementBytes)> narrows = nullptr;
  /// What a collective takes as a member of a message, rounded to whole units; null: all are sent alone.
  CollectiveCost joined = nullptr;
};

/// Whether the collective is a sum that a wire could be for.
bool isSum(const Collective &collective);

/// A collective of a part of what a sum sends.
struct SentPart {
  Collective collective;
  int64_t elementBytes;
};
/// What a sum with a wire sends: its shapes count bytes alone, for prices.
std::vector<SentPart> sentBy(const Mesh &mesh, const Collective &sum, int64_t elementBytes);

class WirePlanner {
public:
  WirePlanner(const Mesh &mesh, CollectiveCost cost, SumRules sums = {});

  std::vector<Collective> plan(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                               const Sharding &to, const Wire &wire = {});
  double cost(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
              const Wire &wire = {});

private:
  /// The wire of a step in a plan for `wire`.
  Wire wireOf(const Collective &step, int64_t elementBytes, const Wire &wire) const;
  ReshardPlanner &of(const Wire &wire);
  std::optional<Collective> inOne(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                                  const Sharding &to, const Wire &wire);

  Mesh mesh_;
  CollectiveCost cost_;
  SumRules sums_;
  std::map<Wire, ReshardPlanner> planners_;
};

} // namespace tessera::dist

#endif
