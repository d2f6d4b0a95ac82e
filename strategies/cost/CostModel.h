//===- CostModel.h - what an operator and a reshard cost -----------------------------------------===//
//
// The only class that sees both the machine (Topology) and measurements (ProfileTable). All results are
// nanoseconds.
//
//   compute:     max(flops / rate, bytes / memory bandwidth) + launch, on the rank's local shapes
//                (roofline: Williams, Waterman, Patterson, CACM 2009);
//   collective:  steps * latency + bytes sent / bandwidth + launch (alpha-beta, ring algorithms; an
//                all-reduce of little data takes a tree: Thakur, Rabenseifner, Gropp, IJHPCA 2005). A group
//                that reaches over several kinds of links goes over them one after the other if that is
//                faster, as NCCL's rings along rails do: an all-reduce scatters inside the machine, reduces
//                the parts between machines, and gathers inside;
//   exchange:    a rank's messages one after the other, each by the link to its peer; the fullest rank counts, be it
//                with many small ones or few large; 1/256 more, so that it stands for other collectives only where it
//                takes less time than they by more than the rounding of prices;
//   beside:      kernels take longer beside a collective by a part of its time, which on a shared machine is the work
//                that it is for the rank's cores: seconds to hand it over and for each byte, over its share of them;
//   wire:        a sum that sends less than its terms is the collectives that it becomes (dist::sentBy), and the
//                loops that round, add and widen; it is sent so where that takes less time than the same sum takes as a
//                member of a message (narrows);
//   edge:        the sum over the collectives that dist::WirePlanner lists with these same costs, so what
//                is priced here is what partition emits.
//
// A model keeps what it has planned, so one thread may use it at a time; perThread() gives others their own.
//
//   CostModel model(mesh, topology);
//   model.reshard({64, 128}, 4, from, to);     // ns; 0 where equal
//   model.operatorCost(cls, strategy).compute; // ns
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_COSTMODEL_H
#define TESSERA_STRATEGIES_COST_COSTMODEL_H

#include "dialects/dist/OwnCollectives.h"
#include "dialects/dist/leaves/LeafRule.h"
#include "dialects/dist/wire/WirePlanner.h"
#include "dialects/graph/flow/Messages.h"
#include "strategies/cost/ProfileTable.h"
#include "strategies/cost/Topology.h"
#include "strategies/space/Program.h"
#include "strategies/space/StrategyGraph.h"

#include <algorithm>
#include <map>
#include <memory>

namespace tessera::strategies {

using dist::OwnCollective;

/// What costs `cost` once costs this much `times` times.
inline Cost repeated(Cost cost, int64_t times) { return cost > kForbidden / times ? kForbidden : cost * times; }

struct OperatorCost {
  Cost compute = 0, communication = 0;
  Cost total() const { return compute + communication; }
};

class CostModel {
public:
  /// `inLeafOrder`: of a reproducible module, in which reshards add as one tree (dialects/dist/leaves/LeafRule.h).
  /// `joins`: sums may be members of messages; else each is planned for what it takes alone.
  CostModel(Mesh mesh, Topology topology, ProfileTable profile = {}, bool inLeafOrder = false, bool joins = true);
  CostModel(const CostModel &) = delete; // the planner's cost function refers to it
  CostModel &operator=(const CostModel &) = delete;

  /// As many models of the same prices. This one is the first, and the others live as long as it does.
  std::vector<const CostModel *> perThread(int threads) const;

  /// The model that plans every reshard for what it takes alone (dist::kApartAttr); it lives as long as this one.
  const CostModel &apart() const;

  const Mesh &mesh() const { return mesh_; }
  const Topology &topology() const { return topology_; }

  Cost launch() const { return Cost(topology_.launch * 1e9); }
  Cost collective(const dist::Collective &c, int64_t elementBytes) const;
  /// collective() as a function, for dist::planReshard.
  dist::CollectiveCost collectiveCost() const;
  /// Whether a sum is sent as its wire says. As it is, it could be a member of a message: so it is compared with the
  /// least that it takes.
  bool narrows(const dist::Collective &sum, int64_t elementBytes) const;
  /// narrows() and, where sums join, leastCollective() as functions, for dist::WirePlanner.
  dist::SumRules sumRules() const;
  /// What messages take. Lists are packed where ranks are processes, which reads and writes their bytes once.
  graph::MessageCost messageCost() const;
  std::vector<dist::Collective> planReshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                                            const Sharding &to, const dist::Wire &wire = {}) const;
  /// The sum over the collectives that planReshard lists.
  Cost reshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
               const dist::Wire &wire = {}) const;

  /// Of a collective's time what remains of it as a member of a message, however large that is: the time of its bytes
  /// where the link is fastest. All of it if its kind is sent alone; nothing if it sends nothing.
  Cost leastCollective(const dist::Collective &c, int64_t elementBytes) const;
  /// By how much at least a message takes longer that has one more member; 0 where messages of that kind were measured.
  Cost leastGrowth(const dist::Collective &c, int64_t elementBytes) const;
  /// The least that any list of collectives takes so.
  Cost leastReshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
                    const dist::Wire &wire = {}) const;
  /// Whether messages between all ranks of the mesh go over one kind of link.
  bool hasOneLink() const;

  /// The part of its time, from 0 to 1, by which a collective delays kernels that run beside it. A rank sends `bytes` in
  /// `ns` by it.
  double workBeside(double bytes, double ns) const;

  /// By how much, in ns, a collective delays them at least, as a member of a message in which it has `ns`.
  Cost leastWorkBeside(double bytes, Cost ns) const;

  /// A part that workBeside() is never below.
  double leastSlowing() const { return topology_.shared ? 0 : std::clamp(topology_.beside.slowdown, 0.0, 1.0); }

  /// Time of one kernel that computes with numbers of `bits` and passes `streamed` bytes through memory.
  Cost kernel(double flops, int bits, double streamed) const;
  /// Time of one loop of fused operators.
  Cost loopKernel(double operations, int bits, double streamed) const;
  /// Time of the kernel on local shapes. `streamed` is the number of bytes that pass through
  /// memory; negative: all operands and results. An operator with leaves is as many kernels, copies of what they read,
  /// and one loop that adds; then `streamed` says nothing.
  Cost compute(const OperatorClass &cls, const Strategy &strategy, double streamed = -1) const;
  /// The time that compute() gives after fusion. Operands and results that stay in a loop do not pass through memory,
  /// and only the operator that starts the loop's kernel pays for its launch.
  Cost computeInLoop(const OperatorClass &cls, const Strategy &strategy, llvm::function_ref<bool(int)> operandStays,
                     llvm::function_ref<bool(int)> resultStays, bool starts) const;
  /// The collectives that belong to the operator itself (dist::ownCollectives), with reshards as this model plans them.
  std::vector<OwnCollective> ownCollectives(const OperatorClass &cls, const Strategy &strategy) const;
  OperatorCost operatorCost(const OperatorClass &cls, const Strategy &strategy) const;

  /// The number of bytes on one rank.
  int64_t localBytes(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &s) const;

private:
  const std::vector<Topology::Level> &levelsOf(llvm::ArrayRef<int> axes) const;
  const Link &linkAcross(uint32_t axes) const;
  Cost computeOn(const Mesh &mesh, const OperatorClass &cls, const Strategy &strategy, double streamed) const;
  Cost computeLeaves(const dist::LeafCut &cut, const OperatorClass &cls, const Strategy &strategy,
                     double streamed) const;
  /// Seconds of a loop without its launch: as loops of that size were measured, or estimated.
  double loop(double operations, int bits, double streamed) const;
  double throughMemory(double bytes) const;
  double roofline(double flops, double rate, double streamed) const;
  Cost narrowSum(const dist::Collective &sum, int64_t elementBytes) const;
  Cost factorSum(const dist::Collective &sum, int64_t elementBytes) const;
  double seconds(const dist::Collective &c, const std::vector<Topology::Level> &levels, int64_t elementBytes) const;
  MeasuredBeside besideOnHost() const;

  Mesh mesh_;
  Topology topology_;
  ProfileTable profile_;
  double share_;
  mutable std::map<AxisList, std::vector<Topology::Level>> levels_, levelsWithoutStart_;
  mutable std::vector<std::optional<Link>> across_; // by axes as bits
  const bool inLeafOrder_, joins_;
  mutable dist::WirePlanner planner_;
  mutable std::optional<dist::WirePlanner> leastPlanner_;
  mutable std::vector<std::unique_ptr<const CostModel>> others_; // of other threads
  mutable std::unique_ptr<const CostModel> apart_;
};

/// Whether the operator takes no time: its result is the operand's bytes under another shape, or is made before the
/// first step.
bool isNoKernel(const OperatorClass &cls);

/// Local shapes of all operands / results under natural shardings.
llvm::SmallVector<Shape> localOperands(const OperatorClass &cls, const Mesh &mesh, const Strategy &s);
llvm::SmallVector<Shape> localResults(const OperatorClass &cls, const Mesh &mesh, const Strategy &s);

} // namespace tessera::strategies

#endif
