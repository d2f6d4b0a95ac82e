#include "dialects/dist/OwnCollectives.h"

#include <map>

using namespace llvm;

namespace tessera::dist {

std::vector<HaloExchange> haloExchanges(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                        ArrayRef<Shape> operandShapes) {
  std::vector<HaloExchange> exchanges;
  std::map<int, Shape> blocks; // operand -> local shape with the borders so far
  for (const Window &window : rule.windows) {
    const AxisList &axes = strategy.factors[window.factor];
    int64_t shards = mesh.size(axes);
    if (shards == 1)
      continue;
    std::optional<Window::Halo> halo = window.halo(shards);
    if (!halo || (halo->lo == 0 && halo->hi == 0))
      continue;
    Sharding sharding = operandSharding(mesh, rule, strategy, window.operand);
    Shape &block = blocks[window.operand];
    if (block.empty())
      block = sharding.localShape(mesh, operandShapes[window.operand]);
    Collective c;
    c.kind = CollectiveKind::Halo;
    c.axes = axes;
    c.dim = window.dim;
    c.haloLo = halo->lo;
    c.haloHi = halo->hi;
    c.fill = window.fill;
    c.result = std::move(sharding);
    c.localIn = block;
    block[window.dim] += halo->lo + halo->hi;
    c.localOut = block;
    exchanges.push_back({window.operand, std::move(c)});
  }
  return exchanges;
}

std::vector<OwnReshard> statisticReshards(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          ArrayRef<Shape> resultShapes) {
  AxisList axes = statisticsAxes(rule, strategy, mesh);
  if (axes.empty())
    return {};
  OwnReshard statistic{resultShapes[0], naturalResult(mesh, rule, strategy, 0), {}};
  ArrayRef<Reduction> words;
  for (size_t d = 0; d < statistic.shape.size(); ++d)
    for (int f : rule.results[0][d])
      if (rule.factors[f].kind == FactorKind::Stat) {
        statistic.shape[d] = 1;
        statistic.from.dims[d].clear();
        words = rule.factors[f].statistics;
      }
  statistic.from.partial = axes;
  std::vector<OwnReshard> reshards;
  for (Reduction word : words) {
    statistic.from.reduction = word;
    statistic.to = statistic.from.withoutPartial();
    reshards.push_back(statistic);
  }
  return reshards;
}

std::vector<OwnReshard> resultReshards(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                       ArrayRef<Shape> resultShapes) {
  std::vector<OwnReshard> reshards;
  for (size_t r = 0; r < resultShapes.size(); ++r)
    reshards.push_back(
        {resultShapes[r], naturalResult(mesh, rule, strategy, int(r)), resultSharding(mesh, rule, strategy, int(r))});
  return reshards;
}

std::vector<OwnCollective> ownCollectives(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                                          const OperatorTensors &tensors, WirePlanner &planner) {
  std::vector<OwnCollective> list;
  for (HaloExchange &halo : haloExchanges(rule, strategy, mesh, tensors.operandShapes))
    list.push_back({halo.operand, -1, -1, tensors.operandBytes[halo.operand], std::move(halo.collective)});
  auto add = [&](const OwnReshard &reshard, int statistic, int result, int64_t elementBytes, const Wire &wire) {
    for (Collective &c : planner.plan(reshard.shape, elementBytes, reshard.from, reshard.to, wire))
      list.push_back({-1, statistic, result, elementBytes, std::move(c)});
  };
  for (auto [s, reshard] : enumerate(statisticReshards(rule, strategy, mesh, tensors.resultShapes)))
    add(reshard, int(s), -1, tensors.resultBytes[0], {});
  if (strategy.results.empty())
    return list;
  for (auto [r, reshard] : enumerate(resultReshards(rule, strategy, mesh, tensors.resultShapes)))
    add(reshard, -1, int(r), tensors.resultBytes[r], tensors.resultWires.empty() ? Wire() : tensors.resultWires[r]);
  return list;
}

} // namespace tessera::dist
