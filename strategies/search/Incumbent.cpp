//===- Incumbent.cpp - the best answer so far, and nested subproblems -------------------------===//
#include "strategies/search/Incumbent.h"

#include "strategies/search/Evaluate.h"
#include "strategies/search/reduce/Eliminate.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
// Counted work, steps: the judge walks over the whole graph.
constexpr double kJudgeNodeWork = 50; // per node
constexpr double kJudgeEdgeWork = 10; // per edge
} // namespace

Scope::Scope(const Scope &outer, const Problem &whole) : problem(Problem::livePart(whole)), parent_(&outer) {
  for (size_t v = 0; v < whole.variables.size(); ++v)
    if (whole.variables[v].alive)
      parentVariables_.push_back(int32_t(v));
}

Choice Scope::lift(std::vector<int32_t> ids) const {
  Choice choice = problem.expand(std::move(ids));
  if (!parent_)
    return choice;
  std::vector<int32_t> outer(parent_->problem.variables.size(), 0);
  for (size_t i = 0; i < choice.size(); ++i)
    outer[parentVariables_[i]] = choice[i];
  return parent_->lift(std::move(outer));
}

Answer Scope::project(const FlatProblem &flat, const Choice &choice) const {
  // The graph's options per variable, computed from the outermost scope inwards.
  std::vector<const Scope *> chain;
  for (const Scope *s = this; s; s = s->parent_)
    chain.push_back(s);
  std::vector<int32_t> id(chain.back()->problem.variables.size(), -1);
  for (size_t i = 0; i < choice.size(); ++i)
    id[chain.back()->problem.variableOf[i]] = choice[i];
  for (size_t k = chain.size() - 1; k-- > 0;) {
    std::vector<int32_t> inner;
    for (int32_t v : chain[k]->parentVariables_)
      inner.push_back(id[v]);
    id = std::move(inner);
  }
  Answer answer(size_t(flat.count()), 0);
  for (int32_t v = 0; v < flat.count(); ++v) {
    const std::vector<int32_t> &ids = problem.variables[flat.variables[v]].ids;
    auto at = std::find(ids.begin(), ids.end(), id[flat.variables[v]]);
    const double *own = &flat.costs[flat.first[v]];
    answer[v] = at != ids.end() ? int32_t(at - ids.begin()) : int32_t(std::min_element(own, own + flat.size(v)) - own);
  }
  return answer;
}

bool Incumbent::offer(const Scope &scope, const FlatProblem &flat, const Answer &answer) {
  // The judge walks over the whole graph, so it is not asked about answers that cannot win.
  if (flat.price(answer) >= double(solution.cost))
    return false;
  return offer(scope.lift(flat.ids(scope.problem, answer)));
}

bool Incumbent::offer(Choice choice) {
  work += kJudgeNodeWork * double(graph.nodes.size()) + kJudgeEdgeWork * double(graph.edges.size());
  Evaluation judged = evaluate(graph, choice);
  if (!judged.feasible || judged.cost >= solution.cost)
    return false;
  solution.cost = judged.cost;
  solution.choice = std::move(choice);
  tell();
  return true;
}

void Incumbent::tell() const {
  SearchWatch *watch = options.watch;
  if (!watch)
    return;
  if (found())
    watch->answer(solution.cost);
  if (const double proven = std::min(double(solution.lowerBound), options.provenUpTo); proven > 0)
    watch->raise(Cost(proven));
  watch->spend(options.before + 1e-9 * work);
}

Cost tessera::strategies::provenBound(double bound) {
  bound -= kRelativeRounding * std::abs(bound) + kRoundingUnits;
  return bound <= 0 ? 0 : bound >= double(kForbidden) ? kForbidden : Cost(std::ceil(bound));
}

static EliminationPlan planOf(const FlatProblem &flat, double tableLimit, double totalLimit) {
  std::vector<int32_t> sizes;
  std::vector<EliminationEdge> edges;
  for (int32_t v = 0; v < flat.count(); ++v) {
    sizes.push_back(flat.size(v));
    for (const FlatLink &link : flat.links[v])
      if (link.other > v)
        edges.push_back({v, link.other, &flat.matrices[link.to], &flat.matrices[link.from]});
  }
  return EliminationPlan(sizes, edges, {tableLimit, totalLimit});
}

bool tessera::strategies::eliminateFlat(const FlatProblem &flat, double tableLimit, double totalLimit, Answer &answer,
                                        double &least, double &work) {
  if (flat.hasMemory())
    return false;
  EliminationPlan plan = planOf(flat, tableLimit, totalLimit);
  if (!plan.fits())
    return false;
  std::vector<const double *> unary;
  for (int32_t v = 0; v < flat.count(); ++v)
    unary.push_back(&flat.costs[flat.first[v]]);
  least = flat.constant + plan.run(unary, answer);
  work += plan.entries();
  return true;
}

double tessera::strategies::eliminationEntries(const FlatProblem &flat, double tableLimit, double totalLimit) {
  const double never = std::numeric_limits<double>::infinity();
  if (flat.hasMemory())
    return never;
  const EliminationPlan plan = planOf(flat, tableLimit, totalLimit);
  return plan.fits() ? plan.entries() : never;
}

size_t tessera::strategies::fixOptions(Problem &problem, const FlatProblem &flat, const Dual &dual, double cutoff) {
  const double room = cutoff - 1 - dual.bound() + kRelativeRounding * std::abs(cutoff) + kRoundingUnits;
  std::vector<double> reduced = dual.reducedCosts();
  size_t dropped = 0;
  std::vector<char> keep;
  for (int32_t v = 0; v < flat.count(); ++v) {
    keep.assign(size_t(flat.size(v)), 1);
    size_t left = keep.size();
    for (size_t s = 0; s < keep.size(); ++s)
      if (reduced[flat.first[v] + s] > room) {
        keep[s] = 0;
        --left;
      }
    if (left == keep.size())
      continue;
    dropped += keep.size() - left;
    if (left == 0) {
      problem.infeasible = true;
      return dropped;
    }
    problem.keepOptions(flat.variables[v], keep);
  }
  return dropped;
}
