//===- Branch.cpp - branch and bound over reduced models
//-----------------------------------------===//
#include "strategies/search/Branch.h"

#include "strategies/search/Neighbourhood.h"
#include "strategies/search/Reduce.h"

#include <algorithm>
#include <cmath>
#include <memory>

using namespace tessera::strategies;

namespace {
constexpr double kTable = 1 << 22, kTotal = 1 << 24; // of eliminations in a node
} // namespace

bool Branch::run(Scope &scope, double work) {
  deadline = incumbent.work + work;
  return visit(scope, 0, prices);
}

bool Branch::visit(Scope &scope, int depth, std::vector<double> prices) {
  ++visited;
  Model &model = scope.model;
  for (int attempt = 0;; ++attempt) {
    reduce(model, [&] { return expired(); });
    if (model.infeasible)
      return true;
    if (expired())
      return false;
    Core core(model);
    // Copying and reducing walk over the matrices a few times.
    incumbent.work += 10 * double(core.matrices.size() + core.extras.size()) + 1e4;
    if (core.constant >= limit())
      return true;
    Answer answer;
    double least;
    if (eliminateCore(core, kTable, kTotal, answer, least, incumbent.work)) {
      if (least < limit())
        offer(scope, core, answer);
      return true;
    }
    Dual dual(core);
    std::vector<double> local;
    for (int32_t point : model.points)
      local.push_back(prices[point]);
    dual.setPrices(local);
    if (depth > 0)
      dual.stepFactor = 0.1;
    // Passes go on while they promise to exclude the scope.
    const int most = depth == 0 ? 400 : 60;
    for (int i = 0; i < most; ++i) {
      incumbent.work += 2 * dual.passWork();
      dual.pass();
      if (provenBound(dual.pass()) >= Cost(limit()))
        return true;
      if ((i & 7) == 7) {
        if (expired())
          return false;
        if (core.excess(core.load(dual.answer())) <= 0)
          offer(scope, core, dual.answer());
      }
      if (dual.stalledPasses() > 60)
        break;
      if (!core.room.empty())
        dual.stepPrices(limit());
    }
    dual.restoreBest();
    dual.pass();
    dual.pass();
    for (size_t p = 0; p < model.points.size(); ++p)
      prices[model.points[p]] = dual.prices()[p];
    if (depth % 4 == 0) {
      Neighbourhood search(core, dual.answer(), dual.prices(), incumbent.options.seed + visited);
      for (int i = 0; i < 30 && !expired(); ++i)
        search.step(incumbent.work);
      if (search.fits() && search.bestCost() < limit())
        offer(scope, core, search.best());
    }
    std::vector<std::vector<int32_t>> ids;
    for (int32_t v : core.variables)
      ids.push_back(model.variables[v].ids);
    size_t dropped = fixOptions(model, core, dual, limit());
    if (model.infeasible)
      return true;
    if (dropped * 10 >= core.costs.size() || (dropped && attempt < 2))
      continue; // smaller: reduce and bound again

    // Split where the bound disagrees most with leaving the first option.
    std::vector<double> reduced = dual.reducedCosts();
    int32_t split = -1;
    double bestScore = -1;
    const double room = std::max(1.0, limit() - dual.bound());
    for (int32_t v = 0; v < core.count(); ++v) {
      // What fixOptions dropped is gone from the model, but not from the core.
      if (model.variables[core.variables[v]].size() < 2)
        continue;
      double sum = 0;
      for (int32_t s = 0; s < core.size(v); ++s)
        sum += std::min(room, reduced[core.first[v] + size_t(s)]);
      double score = (sum / room + 0.05) * (1 + double(core.links[v].size()));
      if (core.firstPiece[v + 1] > core.firstPiece[v])
        score *= 1.5;
      if (score > bestScore) {
        bestScore = score;
        split = v;
      }
    }
    if (split < 0)
      continue; // single options only: the reductions finish it
    const Variable &x = model.variables[core.variables[split]];
    // The option that the bound prefers first, then the others together.
    const int32_t chosen = dual.answer()[split];
    std::vector<double> cost;
    for (int32_t id : x.ids) { // a subset of the core's options
      size_t s = size_t(std::find(ids[split].begin(), ids[split].end(), id) - ids[split].begin());
      cost.push_back(reduced[core.first[split] + s] - (int32_t(s) == chosen ? 1 : 0));
    }
    // The cheaper half first: taking one option off a long list would hardly move the bound.
    std::vector<double> sorted(cost);
    std::nth_element(sorted.begin(), sorted.begin() + (sorted.size() - 1) / 2, sorted.end());
    const double middle = sorted[(sorted.size() - 1) / 2];
    std::vector<char> cheap(x.size());
    size_t count = 0;
    for (size_t s = 0; s < x.size(); ++s)
      if (cost[s] <= middle && count < (x.size() + 1) / 2) {
        cheap[s] = 1;
        ++count;
      }
    bool complete = true;
    for (int side = 0; side < 2; ++side) {
      Scope child(scope, model);
      int32_t v = 0; // the child's number of the split variable
      for (int32_t u = 0; u < core.variables[split]; ++u)
        v += model.variables[u].alive;
      std::vector<char> keep(cheap);
      if (side == 1)
        for (char &k : keep)
          k = !k;
      child.model.keepOptions(v, keep);
      complete &= visit(child, depth + 1, prices);
      if (expired())
        return false;
    }
    return complete;
  }
}
