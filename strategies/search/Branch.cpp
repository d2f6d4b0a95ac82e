//===- Branch.cpp - branch and bound over reduced models --------------------------------------===//
#include "strategies/search/Branch.h"

#include "strategies/search/Neighbourhood.h"
#include "strategies/search/ParetoElimination.h"
#include "strategies/search/Reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>

using namespace tessera::strategies;

namespace {
constexpr size_t kTries = 5;                         // of each kind of split
constexpr double kTable = 1 << 22, kTotal = 1 << 24; // of eliminations in a node
} // namespace

Branch::Split Branch::chooseSplit(const Model &model, const Core &core, const Dual &dual,
                                  const std::vector<std::vector<int32_t>> &ids) {
  const std::vector<double> reduced = dual.reducedCosts();
  const double room = std::max(1.0, limit() - dual.bound());
  std::vector<double> cumulated(core.room.size() + 1, 0);
  for (size_t p = 0; p < core.room.size(); ++p)
    cumulated[p + 1] = cumulated[p] + dual.prices()[p];

  // Two reasons to split: options of like reduced cost whose priced memory differs are what the prices
  // cannot decide (the fractional variable of a knapsack); otherwise where the bound says most.
  std::vector<std::pair<double, int32_t>> byMemory, byCost; // negative scores
  std::vector<std::vector<double>> memory(size_t(core.count()));
  for (int32_t v = 0; v < core.count(); ++v) {
    // What fixOptions dropped is gone from the model, but not from the core.
    if (model.variables[core.variables[v]].size() < 2)
      continue;
    const size_t size = size_t(core.size(v));
    const double *cost = &reduced[core.first[v]];
    std::vector<double> &priced = memory[size_t(v)];
    priced.assign(size, 0);
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      const CorePiece &piece = core.pieces[k];
      double rate = cumulated[piece.to] - cumulated[piece.from];
      for (size_t s = 0; s < size; ++s)
        priced[s] += rate * core.extras[piece.extra + s];
    }
    const size_t chosen = size_t(std::min_element(cost, cost + size) - cost);
    double sum = 0, spread = 0;
    for (size_t s = 0; s < size; ++s) {
      sum += std::min(room, cost[s]);
      if (cost[s] < room)
        spread = std::max(spread, std::abs(priced[s] - priced[chosen]) * (1 - cost[s] / room));
    }
    byCost.push_back({-(sum / room + 0.05) * (1 + double(core.links[v].size())), v});
    if (spread > 0.02 * room)
      byMemory.push_back({-spread, v});
  }
  std::sort(byMemory.begin(), byMemory.end());
  std::sort(byCost.begin(), byCost.end());
  // The best of each kind are tried out: a few passes tell what their halves do to the bound.
  std::vector<Split> candidates;
  for (auto *list : {&byMemory, &byCost})
    for (size_t k = 0; k < list->size() && k < kTries; ++k) {
      const int32_t v = (*list)[k].second;
      candidates.push_back(
          halve(model, core, ids, v, &reduced[core.first[v]],
                list == &byMemory ? memory[size_t(v)].data() : &reduced[core.first[v]],
                list == &byMemory));
    }
  double best = -1;
  size_t winner = 0;
  std::vector<char> keep;
  for (size_t k = 0; k < candidates.size() && candidates.size() > 1; ++k) {
    Split &split = candidates[k];
    const Variable &x = model.variables[core.variables[split.variable]];
    const std::vector<int32_t> &all = ids[size_t(split.variable)];
    double gain[2];
    for (int side = 0; side < 2; ++side) {
      keep.assign(all.size(), 0);
      for (size_t s = 0; s < x.size(); ++s)
        if (split.first[s] == (side == 0))
          keep[size_t(std::find(all.begin(), all.end(), x.ids[s]) - all.begin())] = 1;
      const double risen = dual.probe(split.variable, keep, 2) - dual.bound();
      incumbent.work += 3 * dual.passWork();
      gain[side] = std::clamp(risen / room, 1e-4, 1.0);
    }
    if (gain[0] * gain[1] > best) {
      best = gain[0] * gain[1];
      winner = k;
    }
    if (gain[0] > gain[1]) // the half that the bound prefers first
      for (char &f : split.first)
        f = !f;
  }
  return candidates.empty() ? Split() : candidates[winner];
}

/// Halves by `key`: taking one option off a long list would hardly move the bound.
Branch::Split Branch::halve(const Model &model, const Core &core,
                            const std::vector<std::vector<int32_t>> &ids, int32_t v,
                            const double *reduced, const double *keyOf, bool byMemory) {
  // The model's options are a subset of the core's.
  const Variable &x = model.variables[core.variables[v]];
  const std::vector<int32_t> &all = ids[size_t(v)];
  Split split;
  split.variable = v;
  std::vector<double> key;
  size_t cheapest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < x.size(); ++k) {
    const size_t s = size_t(std::find(all.begin(), all.end(), x.ids[k]) - all.begin());
    key.push_back(keyOf[s]);
    if (reduced[s] < least) {
      least = reduced[s];
      cheapest = k;
    }
  }
  double middle;
  if (byMemory) {
    auto [low, high] = std::minmax_element(key.begin(), key.end());
    middle = (*low + *high) / 2;
  } else {
    std::vector<double> sorted(key);
    auto at = sorted.begin() + ptrdiff_t((sorted.size() - 1) / 2);
    std::nth_element(sorted.begin(), at, sorted.end());
    middle = *at;
  }
  size_t low = 0;
  for (double k : key)
    low += k <= middle;
  for (size_t k = 0; k < x.size(); ++k)
    split.first.push_back(low < x.size() ? key[k] <= middle : k < x.size() / 2);
  if (!split.first[cheapest])
    for (char &f : split.first)
      f = !f;
  return split;
}

/// Passes, as long as they promise to exclude the scope; true if they did.
bool Branch::bound(Dual &dual, int most) {
  double before = dual.best();
  for (int i = 0; i < most && !expired(); ++i) {
    incumbent.work += 2 * dual.passWork();
    dual.pass();
    if (provenBound(dual.pass()) >= Cost(limit()))
      return true;
    if (dual.stalledPasses() > 60)
      break;
    dual.stepPrices(limit());
    if (i % 8 != 7)
      continue;
    if (i > 8 && limit() - dual.best() > 25 * (dual.best() - before))
      break;
    before = dual.best();
  }
  return false;
}

Branch::Outcome Branch::narrow(Scope &scope, int depth, std::vector<double> &prices, Split &split) {
  ++visited;
  Model &model = scope.model;
  while (true) {
    reduce(model, [&] { return expired(); });
    if (model.infeasible)
      return Outcome::Closed;
    if (expired())
      return Outcome::Expired;
    Core core(model);
    // Copying and reducing walk over the matrices a few times.
    incumbent.work += 10 * double(core.matrices.size() + core.extras.size()) + 1e4;
    if (core.constant >= limit())
      return Outcome::Closed;
    Answer answer;
    double least;
    if (eliminateCore(core, kTable, kTotal, answer, least, incumbent.work)) {
      if (least < limit())
        offer(scope, core, answer);
      return Outcome::Closed;
    }
    Dual dual(core);
    std::vector<double> local;
    for (int32_t point : model.points)
      local.push_back(prices[point]);
    dual.setPrices(local);
    if (depth > 0)
      dual.stepFactor = 0.1;
    if (bound(dual, depth == 0 ? 400 : 60))
      return Outcome::Closed;
    if (expired())
      return Outcome::Expired;
    if (core.excess(core.load(dual.answer())) <= 0)
      offer(scope, core, dual.answer());
    dual.restoreBest();
    dual.pass();
    dual.pass();
    for (size_t p = 0; p < model.points.size(); ++p)
      prices[model.points[p]] = dual.prices()[p];
    // Memory that comes in large pieces: what the prices leave open, knapsacks may decide.
    if (dual.addKnapsacks() && bound(dual, 24))
      return Outcome::Closed;
    if (depth % 4 == 0) {
      Neighbourhood search(core, dual.answer(), dual.prices(), incumbent.options.seed + visited);
      for (int i = 0; i < 30 && !expired(); ++i)
        search.step(incumbent.work);
      if (search.fits() && search.bestCost() < limit())
        offer(scope, core, search.best());
    }
    // Close to the limit few labels survive: mostly this ends the scope, and with it all below. What it may
    // cost follows what it achieved: more while it succeeds or is refused at once, less after failures.
    const double before = incumbent.work;
    const double labelWork =
        std::min(labelShare * dual.passWork(), 0.3 * std::max(0.0, deadline - before));
    answer.clear();
    auto labels = ParetoElimination(core, dual, limit()).run(labelWork, incumbent.work, answer);
    const bool failed =
        labels == ParetoElimination::TooLarge && incumbent.work - before > 0.1 * labelWork;
    labelShare = std::clamp(labelShare * (failed ? 0.6 : 1.3), 100.0, 30000.0);
    if (!answer.empty())
      offer(scope, core, answer);
    if (labels != ParetoElimination::TooLarge)
      return Outcome::Closed;
    std::vector<std::vector<int32_t>> ids;
    for (int32_t v : core.variables)
      ids.push_back(model.variables[v].ids);
    dual.moveInto(model);
    size_t dropped = fixOptions(model, core, dual, limit());
    if (model.infeasible)
      return Outcome::Closed;
    if (dropped * 20 >= core.costs.size())
      continue; // smaller: reduce and bound again

    split = chooseSplit(model, core, dual, ids);
    if (split.variable < 0)
      continue; // single options only: the reductions finish it
    split.variable = core.variables[split.variable];
    return Outcome::Open;
  }
}

bool Branch::run(double work) {
  deadline = incumbent.work + work;
  while (!started || !open.empty()) {
    if (expired())
      return false;
    if (started && open.back().side == 2) {
      open.pop_back();
      continue;
    }
    Node child;
    if (!started) {
      child.scope = std::move(root);
      child.prices = prices;
    } else {
      // Only models are held per level, none of the bound's arrays.
      const Node &node = open.back();
      const Model &model = node.scope->model;
      child.scope = std::make_unique<Scope>(*node.scope, model);
      child.prices = node.prices;
      int32_t v = 0; // the child's number of the split variable
      for (int32_t u = 0; u < node.split.variable; ++u)
        v += model.variables[u].alive;
      std::vector<char> keep(node.split.first);
      if (node.side == 1)
        for (char &k : keep)
          k = !k;
      child.scope->model.keepOptions(v, keep);
    }
    const Outcome outcome = narrow(*child.scope, int(open.size()), child.prices, child.split);
    if (outcome == Outcome::Expired) { // again when work goes on
      if (!started)
        root = std::move(child.scope);
      return false;
    }
    if (started)
      ++open.back().side;
    started = true;
    if (outcome == Outcome::Open)
      open.push_back(std::move(child));
  }
  return true;
}
