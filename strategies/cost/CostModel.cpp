#include "strategies/cost/CostModel.h"

#include "dialects/dist/DistInterfaces.h"
#include "dialects/dist/leaves/LeafPieces.h"
#include "dialects/graph/GraphKinds.h"

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

using dist::Collective;
using dist::CollectiveKind;

namespace {

/// An exchange is priced so much above its time. Where other collectives take as long, to the rounding of their prices,
/// they stay: they are fewer messages, and libraries know them. A list of some collectives of a microsecond is rounded
/// by some thousandths.
constexpr double kOfExchange = 1 + 1.0 / 256;

/// What a core does for each byte of a collective, in passes through memory, where the machine does not say it.
constexpr double kPassesPerByte = 8;
/// What it does for each byte that is packed into a message: a read and a write.
constexpr double kPassesPerPacked = 2;
/// A link of cores that has a fourth of their memory's rate or more is memory: ranks are threads, which read each
/// other's tensors in place. Threads reduce at 5 GB/s where a core's memory has 6 to 13, and networks are far slower.
constexpr double kMemoryOfLink = 4;

Cost toNanoseconds(double seconds) {
  // Rounds up to whole nanoseconds. The small term keeps a whole number that rounding has raised a little.
  double ns = std::ceil(seconds * 1e9 - 1e-6);
  return ns < double(kForbidden) / 4 ? Cost(ns) : kForbidden / 4;
}

} // namespace

CostModel::CostModel(Mesh mesh, Topology topology, ProfileTable profile, bool inLeafOrder, bool joins)
    : mesh_(std::move(mesh)), topology_(std::move(topology)), profile_(std::move(profile)),
      share_(topology_.share(mesh_.numRanks())), inLeafOrder_(inLeafOrder), joins_(joins),
      planner_(mesh_, inLeafOrder ? dist::inLeafOrder(collectiveCost()) : collectiveCost(), sumRules()) {}

std::vector<const CostModel *> CostModel::perThread(int threads) const {
  std::vector<const CostModel *> models = {this};
  for (size_t k = 0; int(k) + 1 < threads; ++k) {
    if (k == others_.size())
      others_.push_back(std::make_unique<const CostModel>(mesh_, topology_, profile_, inLeafOrder_, joins_));
    models.push_back(others_[k].get());
  }
  return models;
}

const CostModel &CostModel::apart() const {
  if (!joins_)
    return *this;
  if (!apart_)
    apart_ = std::make_unique<const CostModel>(mesh_, topology_, profile_, inLeafOrder_, /*joins=*/false);
  return *apart_;
}

Cost CostModel::leastCollective(const Collective &c, int64_t elementBytes) const {
  if (!dist::communicates(c.kind))
    return 0;
  if (c.wire) {
    Cost sum = 0;
    for (const dist::SentPart &part : dist::sentBy(mesh_, c, elementBytes))
      sum += leastCollective(part.collective, part.elementBytes);
    return sum;
  }
  if (graph::membershipOf(c.kind) == graph::Membership::None)
    return collective(c, elementBytes);
  const double bytes = double(std::max(numElements(c.localIn), numElements(c.localOut))) * double(elementBytes);
  if (auto perByte = profile_.leastPerByte(dist::stringify(c.kind), mesh_.size(c.axes)))
    return Cost(*perByte * bytes * 1e9);
  auto [it, fresh] = levelsWithoutStart_.try_emplace(c.axes);
  if (fresh) {
    it->second = levelsOf(c.axes);
    for (Topology::Level &level : it->second)
      level.link.latency = 0;
  }
  const std::vector<Topology::Level> &levels = it->second;
  double time = seconds(c, levels, elementBytes);
  if (levels.size() > 1)
    time = std::min(time, seconds(c, {{mesh_.size(c.axes), levels.back().link}}, elementBytes));
  return std::min(Cost(time * 1e9), collective(c, elementBytes));
}

Cost CostModel::leastGrowth(const Collective &c, int64_t elementBytes) const {
  const bool measured = profile_.leastPerByte(dist::stringify(c.kind), mesh_.size(c.axes)).has_value();
  return measured || c.wire || graph::membershipOf(c.kind) == graph::Membership::None
             ? 0
             : leastCollective(c, elementBytes);
}

Cost CostModel::leastReshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                             const Sharding &to, const dist::Wire &wire) const {
  if (from == to)
    return 0;
  if (!leastPlanner_) {
    const dist::CollectiveCost cost = [this](const Collective &c, int64_t elementBytes) {
      return double(leastCollective(c, elementBytes));
    };
    leastPlanner_.emplace(mesh_, inLeafOrder_ ? dist::inLeafOrder(cost) : cost,
                          dist::SumRules{.narrows = sumRules().narrows});
  }
  const double ns = leastPlanner_->cost(shape, elementBytes, from, to, wire);
  return ns < double(kForbidden) ? Cost(ns) : kForbidden;
}

bool CostModel::hasOneLink() const {
  std::optional<Link> first;
  for (uint32_t axes = 1; axes < 1u << mesh_.numAxes(); ++axes) {
    AxisList list;
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      if (axes >> axis & 1)
        list.push_back(axis);
    if (mesh_.size(list) == 1)
      continue;
    const Link link = topology_.link(mesh_, list);
    if (first && (first->latency != link.latency || first->bandwidth != link.bandwidth))
      return false;
    first = link;
  }
  return true;
}

double CostModel::workBeside(double bytes, double ns) const {
  if (!topology_.shared)
    return topology_.beside.slowdown;
  const MeasuredBeside beside = besideOnHost();
  const double work = (beside.handOver + beside.perByte * bytes) / share_;
  return ns > 0 ? std::min(1.0, 1e9 * work / ns) : 1;
}

Cost CostModel::leastWorkBeside(double bytes, Cost ns) const {
  if (!topology_.shared)
    return Cost(leastSlowing() * double(ns));
  return Cost(std::min(double(ns), 1e9 * besideOnHost().perByte * bytes / share_)); // its message hands over once
}

MeasuredBeside CostModel::besideOnHost() const {
  const Beside &given = topology_.beside;
  return profile_.beside().value_or(
      MeasuredBeside{given.handOver, given.perByte.value_or(kPassesPerByte / topology_.memoryBandwidth)});
}

const std::vector<Topology::Level> &CostModel::levelsOf(llvm::ArrayRef<int> axes) const {
  AxisList key(axes.begin(), axes.end());
  auto it = levels_.find(key);
  if (it == levels_.end())
    it = levels_.emplace(key, topology_.levels(mesh_, axes)).first;
  return it->second;
}

/// The link between two ranks that differ along these axes, as bits.
const Link &CostModel::linkAcross(uint32_t axes) const {
  if (axes >= across_.size())
    across_.resize(axes + 1);
  std::optional<Link> &link = across_[axes];
  if (!link) {
    AxisList list;
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      if (axes >> axis & 1)
        list.push_back(axis);
    link = topology_.link(mesh_, list);
  }
  return *link;
}

/// The time of a collective that goes over the levels one after the other. A tensor is smallest before a gather and
/// after a scatter. It crosses the outer links, which are the slow ones, at that time.
double CostModel::seconds(const Collective &c, const std::vector<Topology::Level> &levels, int64_t elementBytes) const {
  double in = double(numElements(c.localIn)) * double(elementBytes);
  double out = double(numElements(c.localOut)) * double(elementBytes);
  double all = 1, time = 0;
  for (const Topology::Level &level : levels)
    all *= double(level.members);
  switch (c.kind) {
  case CollectiveKind::AllReduce: {
    double here = in;
    for (const Topology::Level &level : levels) {
      double n = double(level.members), rounds = std::ceil(std::log2(n));
      const Link &link = level.link;
      double ring = 2 * (n - 1) * (link.latency + here / n / link.bandwidth);
      // A tree sends the whole tensor in every step, so it is only taken at the outermost level.
      double tree = 2 * rounds * (link.latency + here / link.bandwidth);
      time += &level == &levels.back() ? std::min(ring, tree) : ring;
      here /= n;
    }
    return time;
  }
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter: {
    double here = c.kind == CollectiveKind::AllGather ? out : in;
    for (const Topology::Level &level : levels) {
      double n = double(level.members);
      time += (n - 1) * (level.link.latency + here / n / level.link.bandwidth);
      here /= n;
    }
    return time;
  }
  case CollectiveKind::AllToAll: {
    // Every rank sends each other rank its part directly, over the link that the two share.
    double inside = 1;
    for (const Topology::Level &level : levels) {
      double peers = inside * double(level.members) - inside;
      time += peers * (level.link.latency + in / all / level.link.bandwidth);
      inside *= double(level.members);
    }
    return time;
  }
  case CollectiveKind::Broadcast: {
    // The members form a chain along which small pieces are passed. The latencies add up, and the bytes count once.
    for (const Topology::Level &level : levels)
      time += double(level.members - 1) * level.link.latency + in / level.link.bandwidth;
    return time;
  }
  case CollectiveKind::Exchange: {
    // Every rank sends its messages one after the other, and receives others meanwhile. The fullest rank is last.
    for (const dist::RankLoad &load : c.loads) {
      double busy = 0;
      for (const dist::PeerLoad &part : load) {
        const Link &link = linkAcross(part.axes);
        busy += double(part.messages) * link.latency + double(part.elements * elementBytes) / link.bandwidth;
      }
      time = std::max(time, busy);
    }
    return time;
  }
  case CollectiveKind::Halo:
  case CollectiveKind::Permute:
  case CollectiveKind::Slice:
  case CollectiveKind::Fit:
  case CollectiveKind::Fold:
    break;
  }
  double steps = c.kind == CollectiveKind::Halo ? double(c.haloLo > 0) + double(c.haloHi > 0) : 1;
  const Link &link = levels.back().link; // some neighbours are only reached by this link
  return steps * link.latency + dist::bytesSent(mesh_, c, elementBytes) / link.bandwidth;
}

/// The passes of a sum that is sent as factors (FactorSums.h): what was left is added to the term, two products read
/// it, two others write as much, and what is left now is written.
Cost CostModel::factorSum(const Collective &sum, int64_t elementBytes) const {
  Cost time = 0;
  for (const dist::SentPart &part : dist::sentBy(mesh_, sum, elementBytes))
    time += collective(part.collective, part.elementBytes);
  const dist::MatrixView matrix(sum.localIn);
  const auto rank = double(sum.wire.rank), bytes = double(numElements(sum.localIn)) * double(elementBytes),
             thin = double(matrix.rows + matrix.columns) * rank * double(elementBytes);
  constexpr double kF32 = 4; // bytes
  time += kernel(0, 32, 3 * bytes) + kernel(0, 32, 4 * bytes);
  time += repeated(kernel(2 * rank * bytes / kF32, 32, bytes + thin), 4);
  // Either factor is orthonormalised once, and the right one is kept.
  return time + repeated(kernel(2 * rank * thin / kF32, 32, thin), 2) + kernel(0, 32, thin);
}

/// The passes of a sum of narrow numbers. Terms and what was left of the ones before are read, rounded and what is left
/// is written; what comes from the others is added; the whole sum is rounded and widened likewise.
Cost CostModel::narrowSum(const Collective &sum, int64_t elementBytes) const {
  Cost time = 0;
  for (const dist::SentPart &part : dist::sentBy(mesh_, sum, elementBytes))
    time += collective(part.collective, part.elementBytes);
  const double bytes = double(numElements(sum.localIn)) * double(elementBytes), ranks = double(mesh_.size(sum.axes)),
               sent = bytes * (sum.wire.numbers() + sum.wire.scales()),
               scaled = sum.wire.scales() > 0 ? 2 * bytes : 0; // another pass for the largest of each block
  time += kernel(0, 32, 3 * bytes + sent + scaled);
  if (sum.kind == dist::CollectiveKind::ReduceScatter)
    return time + kernel(0, 32, sent + bytes / ranks);
  return time + kernel(0, 32, sent + (2 * bytes + sent + scaled) / ranks) + kernel(0, 32, sent + bytes);
}

bool CostModel::narrows(const Collective &sum, int64_t elementBytes) const {
  if (sum.wire.always)
    return true;
  Collective whole = sum;
  whole.wire = {};
  return collective(sum, elementBytes) < leastCollective(whole, elementBytes);
}

Cost CostModel::collective(const Collective &c, int64_t elementBytes) const {
  if (c.wire)
    return c.wire.kind == dist::Wire::Kind::Factors ? factorSum(c, elementBytes) : narrowSum(c, elementBytes);
  if (!dist::communicates(c.kind)) {
    double out = double(numElements(c.localOut)) * double(elementBytes);
    double in = c.kind == CollectiveKind::Fold ? double(numElements(c.localIn)) * double(elementBytes) : out;
    return toNanoseconds(throughMemory(in + out) + topology_.launch);
  }
  double bytes = double(std::max(numElements(c.localIn), numElements(c.localOut))) * double(elementBytes);
  if (auto measured = profile_.collective(dist::stringify(c.kind), mesh_.size(c.axes), bytes))
    return toNanoseconds(*measured);
  if (c.kind == CollectiveKind::Exchange) { // measured as the all-to-all that sends as much
    double n = double(mesh_.size(c.axes));
    if (auto measured = profile_.collective(dist::stringify(CollectiveKind::AllToAll), mesh_.size(c.axes),
                                            dist::bytesSent(mesh_, c, elementBytes) * n / (n - 1)))
      return toNanoseconds(*measured * kOfExchange);
  }
  const std::vector<Topology::Level> &levels = levelsOf(c.axes);
  double time = seconds(c, levels, elementBytes);
  if (levels.size() > 1) // or as one level with the slowest link
    time = std::min(time, seconds(c, {{mesh_.size(c.axes), levels.back().link}}, elementBytes));
  time += topology_.launch;
  return toNanoseconds(c.kind == CollectiveKind::Exchange ? time * kOfExchange : time);
}

dist::SumRules CostModel::sumRules() const {
  dist::SumRules rules;
  rules.narrows = [this](const Collective &sum, int64_t elementBytes) { return narrows(sum, elementBytes); };
  if (joins_)
    rules.joined = [this](const Collective &c, int64_t bytes) { return double(leastCollective(c, bytes)); };
  return rules;
}

dist::CollectiveCost CostModel::collectiveCost() const {
  return [this](const Collective &c, int64_t elementBytes) { return double(collective(c, elementBytes)); };
}

graph::MessageCost CostModel::messageCost() const {
  AxisList all;
  for (int axis = 0; axis < mesh_.numAxes(); ++axis)
    all.push_back(axis);
  const double memory = topology_.memoryBandwidth * share_;
  const bool packs =
      topology_.shared && mesh_.numRanks() > 1 && kMemoryOfLink * topology_.link(mesh_, all).bandwidth < memory;
  return {collectiveCost(), packs ? kPassesPerPacked * 1e9 / memory : 0};
}

std::vector<Collective> CostModel::planReshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                               const Sharding &from, const Sharding &to, const dist::Wire &wire) const {
  return planner_.plan(shape, elementBytes, from, to, wire);
}

Cost CostModel::reshard(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
                        const dist::Wire &wire) const {
  if (from == to)
    return 0;
  double ns = planner_.cost(shape, elementBytes, from, to, wire);
  return ns < double(kForbidden) ? Cost(ns) : kForbidden;
}

llvm::SmallVector<Shape> localOperands(const OperatorClass &cls, const Mesh &mesh, const Strategy &s) {
  llvm::SmallVector<Shape> shapes;
  for (size_t i = 0; i < cls.operandShapes.size(); ++i)
    shapes.push_back(dist::operandSharding(mesh, cls.rule, s, int(i)).localShape(mesh, cls.operandShapes[i]));
  return shapes;
}

llvm::SmallVector<Shape> localResults(const OperatorClass &cls, const Mesh &mesh, const Strategy &s) {
  llvm::SmallVector<Shape> shapes;
  for (size_t i = 0; i < cls.resultShapes.size(); ++i)
    shapes.push_back(dist::naturalResult(mesh, cls.rule, s, int(i)).localShape(mesh, cls.resultShapes[i]));
  return shapes;
}

bool isNoKernel(const OperatorClass &cls) {
  return graph::isView(cls.sample) || cls.sample->hasTrait<mlir::OpTrait::ConstantLike>();
}

/// The number of reductions inside an operator with Stat factors.
static size_t numStatistics(const ShardingRule &rule) {
  for (const dist::Factor &f : rule.factors)
    if (f.kind == dist::FactorKind::Stat)
      return f.statistics.size();
  return 0;
}

double CostModel::loop(double operations, int bits, double streamed) const {
  if (std::optional<double> measured = profile_.loop(streamed, operations)) // with its launch
    return std::max(0.0, *measured - topology_.launch);
  // A core computes or waits for memory, and the search, which adds up operators, finds what the report says of loops.
  // On a device other threads compute meanwhile.
  const double computing = operations / (topology_.loopRate(bits) * share_),
               moving = streamed / (topology_.memoryBandwidth * share_);
  return topology_.shared ? computing + moving : std::max(computing, moving);
}

double CostModel::throughMemory(double bytes) const { return loop(0, 32, bytes); }

double CostModel::roofline(double flops, double rate, double streamed) const {
  return std::max(flops / (rate * share_), throughMemory(streamed));
}

Cost CostModel::kernel(double flops, int bits, double streamed) const {
  return toNanoseconds(roofline(flops, topology_.rate(bits), streamed) + topology_.launch);
}

Cost CostModel::loopKernel(double operations, int bits, double streamed) const {
  return toNanoseconds(loop(operations, bits, streamed) + topology_.launch);
}

Cost CostModel::compute(const OperatorClass &cls, const Strategy &strategy, double streamed) const {
  if (std::optional<dist::LeafCut> cut = dist::leafCut(cls.rule, strategy, mesh_))
    if (!cls.sample->hasTrait<graph::GraphAddsLeaves>())
      return computeLeaves(*cut, cls, strategy, streamed);
  return computeOn(mesh_, cls, strategy, streamed);
}

/// What partition makes of an operator with leaves: copies of those operands whose leaves are no pieces of memory, the
/// leaves' kernels (one for all of a plain reduction, which reads them where they lie), and the loop over their
/// results, which adds them, or a copy of them to one tensor.
Cost CostModel::computeLeaves(const dist::LeafCut &cut, const OperatorClass &cls, const Strategy &strategy,
                              double streamed) const {
  const bool together = graph::plainReduction(cls.sample).has_value();
  Cost sum = together ? computeOn(mesh_, cls, strategy, streamed)
                      : repeated(computeOn(cut.mesh, cls, cut.strategy, -1), cut.count);
  const llvm::SmallVector<Shape> operands = localOperands(cls, cut.mesh, cut.strategy),
                                 results = localResults(cls, cut.mesh, cut.strategy);
  for (auto [i, shape] : llvm::enumerate(operands))
    if (!together &&
        !dist::leavesArePieces(cut, dist::operandSharding(cut.mesh, cls.rule, cut.strategy, int(i)), shape))
      sum += repeated(kernel(0, cls.elementBits, 2 * double(numElements(shape) * cls.operandBytes[i])), cut.count);
  for (auto [r, shape] : llvm::enumerate(results)) {
    const bool adds = cut.dim(dist::naturalResult(cut.mesh, cls.rule, cut.strategy, int(r))) < 0;
    const double elements = double(numElements(shape)), reads = double(cut.count);
    const double writes = adds ? 1 : reads, bytes = double(cls.resultBytes[r]);
    sum += loopKernel(adds ? (reads - 1) * elements : 0, cls.elementBits, (reads + writes) * elements * bytes);
  }
  return sum;
}

/// compute() on one rank of `mesh`, which differs from mesh_ at most by an axis of leaves.
Cost CostModel::computeOn(const Mesh &mesh, const OperatorClass &cls, const Strategy &strategy, double streamed) const {
  if (isNoKernel(cls))
    return 0;
  llvm::SmallVector<Shape> operands = localOperands(cls, mesh, strategy);
  llvm::SmallVector<Shape> results = localResults(cls, mesh, strategy);
  if (!profile_.empty())
    if (auto seconds = profile_.seconds(
            ProfileTable::kernelKey(cls.sample->getName().getStringRef(), operands, results, cls.elementBits)))
      return toNanoseconds(*seconds);
  if (streamed < 0) {
    streamed = 0;
    for (size_t i = 0; i < operands.size(); ++i)
      streamed += double(numElements(operands[i])) * double(cls.operandBytes[i]);
    for (size_t i = 0; i < results.size(); ++i)
      streamed += double(numElements(results[i])) * double(cls.resultBytes[i]) * (cls.addsUp ? 2 : 1);
  }
  // If statistics are reduced over ranks, each of them takes another pass over the operands.
  double launches = 1;
  if (!dist::statisticsAxes(cls.rule, strategy, mesh).empty()) {
    double passes = double(numStatistics(cls.rule));
    launches += passes;
    for (size_t i = 0; i < operands.size(); ++i)
      streamed += passes * double(numElements(operands[i])) * double(cls.operandBytes[i]);
  }
  double flops = mlir::cast<dist::ShardingRuleOpInterface>(cls.sample).getFlops(operands, results);
  auto rate = [&] {
    return topology_.operatorRate(cls.sample->getName().getStringRef(), cls.elementBits,
                                  graph::rateKind(cls.sample, operands, results));
  };
  double seconds =
      cls.part == graph::LoopPart::None ? roofline(flops, rate(), streamed) : loop(flops, cls.elementBits, streamed);
  // Padding is overwritten in another pass, unless the operator's own loop does it.
  if (cls.part == graph::LoopPart::None)
    for (const dist::PaddingMask &mask : dist::paddingMasks(cls.rule, strategy, mesh))
      seconds +=
          throughMemory(2 * double(numElements(operands[mask.operand])) * double(cls.operandBytes[mask.operand])) +
          topology_.launch;
  return toNanoseconds(seconds + launches * topology_.launch);
}

Cost CostModel::computeInLoop(const OperatorClass &cls, const Strategy &strategy,
                              llvm::function_ref<bool(int)> operandStays, llvm::function_ref<bool(int)> resultStays,
                              bool starts) const {
  double streamed = 0;
  for (auto [o, shape] : llvm::enumerate(localOperands(cls, mesh_, strategy)))
    if (!operandStays(int(o)))
      streamed += double(numElements(shape) * cls.operandBytes[o]);
  for (auto [r, shape] : llvm::enumerate(localResults(cls, mesh_, strategy)))
    if (!resultStays(int(r)))
      streamed += double(numElements(shape) * cls.resultBytes[r]) * (cls.addsUp ? 2 : 1);
  Cost time = compute(cls, strategy, streamed);
  return starts ? time : std::max<Cost>(0, time - launch());
}

std::vector<OwnCollective> CostModel::ownCollectives(const OperatorClass &cls, const Strategy &strategy) const {
  return dist::ownCollectives(cls.rule, strategy, mesh_,
                              {cls.operandShapes, cls.resultShapes, cls.operandBytes, cls.resultBytes, cls.resultWires},
                              planner_);
}

OperatorCost CostModel::operatorCost(const OperatorClass &cls, const Strategy &strategy) const {
  OperatorCost cost;
  cost.compute = compute(cls, strategy);
  for (const OwnCollective &own : ownCollectives(cls, strategy))
    cost.communication += collective(own.collective, own.elementBytes);
  return cost;
}

int64_t CostModel::localBytes(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &s) const {
  return numElements(s.localShape(mesh_, shape)) * elementBytes;
}

} // namespace tessera::strategies
