//===- Neighbourhood.cpp - large neighbourhood search with exact subproblems ------------------===//
//
// Invariant between steps: `cost` and `load` are those of x. Costs are integers, so a subproblem
// whose bound exceeds the present cost minus one holds nothing better.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/local/Neighbourhood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Which variables are freed:
constexpr size_t kBall = 12;           // variables of a ball, on average; +3.0/0 %
constexpr size_t kBallsAtPoint = 6;    // variables of all balls at a memory point, at most, in balls; +0.2/+20.0 %
constexpr size_t kStartsAtPoint = 6;   // balls there are two to one more than this; 0/-0.9 %
constexpr size_t kMostFromHub = 6;     // neighbours taken from a variable of many; -0.9/0 %
constexpr size_t kSearchedAtPoint = 4; // users of a memory point that are looked for, per one that is taken; -0.9/0 %
constexpr int kTightDraws = 8;         // memory points of which the tightest is taken; same
constexpr double kLeastWindow = 20;    // variables that follow one another; 0/+7.5 %
constexpr size_t kDoublings = 6;       // of it at most, drawn evenly; +15.4/+20.0 %
// What a subproblem may cost, in entries of tables; larger ones lose a third of their variables.
constexpr double kMostTable = 1 << 14;        // one table; bound 0/+0.3 %
constexpr double kMostTables = 1 << 17;       // all tables; same
constexpr double kMostForestTable = 1 << 22;  // one table, of a forest; same
constexpr double kMostForestTables = 1 << 24; // all tables, of a forest; same
constexpr double kMostWindowTable = 1 << 17;  // one table, of a window; bound -0.1/-0.1 %
constexpr double kMostWindowTables = 1 << 20; // all tables, of a window; bound -0.1/0 %
constexpr size_t kLeftOut = 3;                // one in as many members goes until the tables fit; not measured
// Prices of memory in a subproblem:
constexpr int kFittingRounds = 12;      // price steps, while memory fits; bound 0/-0.1 %
constexpr int kExceedingRounds = 4;     // while it is exceeded; same
constexpr double kShorterStep = 0.9;    // factor from step to step; bound -0.1/+0.2 %
constexpr size_t kFailuresToWeigh = 32; // steps without success after which exceeded memory weighs more; +15.6/+83.5 %
constexpr double kHeavier = 1.5;        // factor of its weight; +83.5/0 %
constexpr double kLeastHeavier = 1e-3;  // of the whole cost for the whole room, besides; same
// Which kind of neighbourhood is next:
constexpr uint64_t kLeastUsed = 4;     // once in as many steps the one that had the least work, else the best; +3.0/0 %
constexpr double kMemory = 0.98;       // factor per step of what a kind gained and spent; bound -0.1/0 %
constexpr double kFirstGain = 1e-3;    // relative, of every kind before its first step; bound -0.1/+0.3 %
constexpr double kFirstSpent = 1e6;    // steps; 0/+15.4 %
constexpr double kGainInExcess = 1e-4; // what a success counts while memory is exceeded; bound +0.3/0 %
// Counted work, steps:
constexpr double kStepWork = 2e4; // of a neighbourhood, besides
constexpr double kPointWork = 4;  // per memory point
constexpr double kPieceWork = 2;  // per option of a piece
constexpr double kLinkWork = 40;  // per link, in every solution
constexpr double kBuildWork = 20; // per link and besides its options, when it is built

constexpr double kBetter = 1 - 1e-3; // an improvement is at least one unit
constexpr double kLimitless = 1e9;   // entries: what a single variable may cost
} // namespace

Neighbourhood::Neighbourhood(const FlatProblem &flat, Answer start, const std::vector<double> &prices, uint64_t seed)
    : flat_(flat), parts_(flat), random_(seed), bestPrice_(std::numeric_limits<double>::infinity()), prices_(prices),
      weights_(flat.room.size(), 0), place_(size_t(flat.count()), -1), fixedLoad_(flat.room.size(), 0),
      subLoad_(flat.room.size() + 1, 0), rates_(flat.room.size(), 0), cumulated_(flat.room.size() + 1, 0) {
  std::fill_n(gained_, kKinds, kFirstGain);
  std::fill_n(spent_, kKinds, kFirstSpent);
  restart(std::move(start));
}

void Neighbourhood::setPrices(const std::vector<double> &newPrices) {
  prices_ = newPrices;
  for (size_t p = 0; p < weights_.size(); ++p)
    weights_[p] = std::max(weights_[p], prices_[p]);
}

void Neighbourhood::restart(Answer answer) {
  x_ = std::move(answer);
  cost_ = flat_.price(x_);
  load_ = flat_.load(x_);
  weights_ = prices_;
  noteIfBest();
}

bool Neighbourhood::merge(const Answer &other, double &work) {
  if (!fits())
    return false;
  const Answer before = bestAnswer_;
  std::vector<int32_t> members;
  Answer from, to;
  for (int32_t v = 0; v < flat_.count(); ++v)
    if (other[v] != before[v]) {
      members.push_back(v);
      from.push_back(before[v]);
      to.push_back(other[v]);
    }
  const double change = parts_.choose(members, from, to, before, flat_.load(before), prices_, prices_, 0);
  work += parts_.takeWork() + double(flat_.count());
  if (change > -kBetter)
    return false;
  Answer merged = before;
  for (size_t i = 0; i < members.size(); ++i)
    merged[members[i]] = to[i];
  restart(std::move(merged));
  return true;
}

void Neighbourhood::noteIfBest() {
  if (cost_ < bestPrice_ && cost_ < kFlatForbidden && flat_.excess(load_) <= 0) {
    bestPrice_ = cost_;
    bestAnswer_ = x_;
  }
}

void Neighbourhood::chooseBall(size_t target) { growBall(int32_t(draw(size_t(flat_.count()))), target); }

void Neighbourhood::growBall(int32_t start, size_t target) {
  std::vector<int32_t> &list = sub_.members;
  std::vector<int32_t> frontier{start};
  target += list.size();
  while (list.size() < target && !frontier.empty()) {
    size_t k = draw(frontier.size());
    int32_t v = frontier[k];
    frontier[k] = frontier.back();
    frontier.pop_back();
    if (place_[v] >= 0)
      continue;
    place_[v] = int32_t(list.size());
    list.push_back(v);
    const std::vector<FlatLink> &links = flat_.links[v];
    for (size_t i = 0, n = std::min(links.size(), kMostFromHub); i < n; ++i)
      frontier.push_back(links[links.size() <= kMostFromHub ? i : draw(links.size())].other);
  }
}

/// Frees variables that follow one another in the program. Half of the time it leaves out those with very many links,
/// and half of the time it adds a forest.
void Neighbourhood::chooseWindow(size_t target) {
  const size_t n = size_t(flat_.count()), start = draw(n - target + 1);
  const bool all = draw(2), forest = draw(2);
  for (size_t v = start; v < start + target; ++v)
    if (all || flat_.links[v].size() <= kMostFromHub) {
      place_[v] = int32_t(sub_.members.size());
      sub_.members.push_back(int32_t(v));
    }
  if (forest || sub_.members.empty())
    chooseForest(sub_.members.size() + 2 + draw(n));
}

/// Variables in random order, each taken unless it closes a cycle.
void Neighbourhood::chooseForest(size_t target) {
  std::vector<int32_t> &list = sub_.members;
  std::vector<int32_t> tree(size_t(flat_.count()));
  std::iota(tree.begin(), tree.end(), 0);
  for (int32_t v : list)
    tree[v] = list[0]; // variables that are freed already count as one piece
  auto root = [&](int32_t v) {
    while (tree[v] != v)
      v = tree[v] = tree[tree[v]];
    return v;
  };
  std::vector<int32_t> seen;
  // Growing from a random start along a random order keeps the pieces large.
  std::vector<int32_t> order(tree);
  std::shuffle(order.begin(), order.end(), random_);
  for (int32_t v : order) {
    if (list.size() >= target)
      break;
    if (place_[v] >= 0)
      continue;
    seen.clear();
    bool cycle = false;
    for (const FlatLink &link : flat_.links[v])
      if (place_[link.other] >= 0) {
        int32_t r = root(link.other);
        if (std::find(seen.begin(), seen.end(), r) != seen.end()) {
          cycle = true;
          break;
        }
        seen.push_back(r);
      }
    if (cycle)
      continue;
    place_[v] = int32_t(list.size());
    list.push_back(v);
    for (int32_t r : seen)
      tree[r] = v;
  }
}

/// A random memory point, preferably one without slack.
int32_t Neighbourhood::tightPoint() {
  size_t point = draw(flat_.room.size());
  for (int i = 0; i < kTightDraws; ++i) {
    size_t p = draw(flat_.room.size());
    if (load_[p] - flat_.room[p] > load_[point] - flat_.room[point])
      point = p;
  }
  return int32_t(point);
}

/// Small balls around some variables that use memory at one memory point: memory moves between them.
void Neighbourhood::chooseBallsAt(size_t target) {
  choosePoint(2 + draw(kStartsAtPoint));
  const std::vector<int32_t> starts = sub_.members;
  for (int32_t v : starts)
    place_[v] = -1;
  sub_.members.clear();
  for (int32_t v : starts)
    growBall(v, 1 + target / starts.size());
}

/// Variables that can change the memory at one memory point.
void Neighbourhood::choosePoint(size_t target) {
  if (flat_.room.empty())
    return chooseBall(target);
  const int32_t point = tightPoint();
  const int32_t n = flat_.count(), start = int32_t(draw(size_t(n)));
  std::vector<int32_t> able;
  for (int32_t i = 0; i < n && able.size() < kSearchedAtPoint * target; ++i) {
    int32_t v = (start + i) % n;
    for (size_t k = flat_.firstPiece[v]; k < flat_.firstPiece[v + 1]; ++k)
      if (flat_.pieces[k].from <= point && point < flat_.pieces[k].to) {
        able.push_back(v);
        break;
      }
  }
  std::shuffle(able.begin(), able.end(), random_);
  for (int32_t v : able)
    if (sub_.members.size() < target && place_[v] < 0) {
      place_[v] = int32_t(sub_.members.size());
      sub_.members.push_back(v);
    }
}

/// Builds the subproblem of the members while the rest is fixed.
void Neighbourhood::build() {
  const size_t n = sub_.members.size();
  sub_.own.resize(n);
  sub_.edges.clear();
  sub_.from = int32_t(flat_.room.size());
  sub_.to = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub_.members[i];
    const size_t size = size_t(flat_.size(v));
    sub_.own[i].assign(&flat_.costs[flat_.first[v]], &flat_.costs[flat_.first[v]] + size);
    for (const FlatLink &link : flat_.links[v]) {
      int32_t j = place_[link.other];
      if (j > int32_t(i)) {
        sub_.edges.push_back({int32_t(i), j, &flat_.matrices[link.to], &flat_.matrices[link.from]});
      } else if (j < 0) {
        const double *row = &flat_.matrices[link.from + size_t(x_[link.other]) * size];
        for (size_t s = 0; s < size; ++s)
          sub_.own[i][s] += row[s];
      }
    }
    for (size_t k = flat_.firstPiece[v]; k < flat_.firstPiece[v + 1]; ++k) {
      sub_.from = std::min(sub_.from, flat_.pieces[k].from);
      sub_.to = std::max(sub_.to, flat_.pieces[k].to);
    }
  }
  sub_.from = std::min(sub_.from, sub_.to);
  if (guidance_ > 0) {
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      cumulated_[p + 1] = cumulated_[p] + guidance_ * prices_[p];
    for (size_t i = 0; i < n; ++i)
      for (size_t k = flat_.firstPiece[sub_.members[i]]; k < flat_.firstPiece[sub_.members[i] + 1]; ++k) {
        const FlatPiece &piece = flat_.pieces[k];
        double rate = cumulated_[piece.to] - cumulated_[piece.from];
        for (size_t s = 0; s < sub_.own[i].size() && rate > 0; ++s)
          sub_.own[i][s] += rate * flat_.extras[piece.extra + s];
      }
  }
  sub_.work = kPointWork * double(sub_.to - sub_.from);
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub_.members[i];
    sub_.work += kPieceWork * double(flat_.firstPiece[v + 1] - flat_.firstPiece[v]) * double(flat_.size(v)) +
                 kLinkWork * double(flat_.links[v].size());
    stepWork_ += double(flat_.links[v].size()) * (kBuildWork + double(flat_.size(v)));
  }
}

double Neighbourhood::priceOf(const Answer &y) const {
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i)
    total += sub_.own[i][size_t(y[i])];
  for (const EliminationEdge &e : sub_.edges)
    total += e.rowsA[size_t(y[e.a]) * size_t(flat_.size(sub_.members[e.b])) + size_t(y[e.b])];
  return total;
}

/// The members' memory at points sub.from <= p < sub.to.
void Neighbourhood::loadOf(const Answer &y, std::vector<double> &out) const {
  std::fill(out.begin() + sub_.from, out.begin() + sub_.to + 1, 0.0);
  for (size_t i = 0; i < y.size(); ++i) {
    const int32_t v = sub_.members[i];
    for (size_t k = flat_.firstPiece[v]; k < flat_.firstPiece[v + 1]; ++k) {
      double e = flat_.extras[flat_.pieces[k].extra + size_t(y[i])];
      out[flat_.pieces[k].from] += e;
      out[flat_.pieces[k].to] -= e;
    }
  }
  for (int32_t p = sub_.from + 1; p < sub_.to; ++p)
    out[p] += out[p - 1];
}

/// Least sum of costs and priced memory over the members.
double Neighbourhood::solve(EliminationPlan &plan, const std::vector<double> &rates, Answer &y) {
  const size_t n = sub_.members.size();
  priced_ = sub_.own;
  unary_.resize(n);
  for (int32_t p = sub_.from; p < sub_.to; ++p)
    cumulated_[p + 1] = cumulated_[p] + rates[p];
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub_.members[i];
    for (size_t k = flat_.firstPiece[v]; k < flat_.firstPiece[v + 1]; ++k) {
      const FlatPiece &piece = flat_.pieces[k];
      double rate = cumulated_[piece.to] - cumulated_[piece.from];
      if (rate > 0)
        for (size_t s = 0; s < priced_[i].size(); ++s)
          priced_[i][s] += rate * flat_.extras[piece.extra + s];
    }
    unary_[i] = priced_[i].data();
  }
  stepWork_ += sub_.work + plan.entries();
  return plan.run(unary_, y);
}

void Neighbourhood::accept(const Answer &y, double change) {
  for (size_t i = 0; i < y.size(); ++i)
    x_[sub_.members[i]] = y[i];
  for (int32_t p = sub_.from; p < sub_.to; ++p)
    load_[p] = fixedLoad_[p] + subLoad_[p];
  // Sums that contain forbidden costs have lost their small digits, and guidance is no cost.
  cost_ = guidance_ > 0 || cost_ >= kFlatForbidden ? flat_.price(x_) : cost_ + change;
}

bool Neighbourhood::improveFitting(EliminationPlan &plan) {
  Answer y, found;
  Answer old(sub_.members.size());
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = x_[sub_.members[i]];
  const double before = priceOf(old);
  double least = before;
  std::copy(prices_.begin() + sub_.from, prices_.begin() + sub_.to, rates_.begin() + sub_.from);
  double factor = 1;
  for (int round = 0; round < kFittingRounds; ++round) {
    double bound = solve(plan, rates_, y);
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      bound -= rates_[p] * (flat_.room[p] - fixedLoad_[p]);
    if (bound > least - kBetter)
      break; // proven: nothing better here
    loadOf(y, subLoad_);
    double norm = 0;
    bool fitting = true;
    for (int32_t p = sub_.from; p < sub_.to; ++p) {
      double over = subLoad_[p] + fixedLoad_[p] - flat_.room[p];
      fitting &= over <= 0;
      if (over > 0 || rates_[p] > 0)
        norm += over * over;
    }
    if (fitting) {
      double price = priceOf(y);
      if (price < least - kBetter) {
        least = price;
        found = y;
      }
    } else {
      const double change = parts_.choose(sub_.members, old, y, x_, load_, rates_, prices_, guidance_);
      stepWork_ += parts_.takeWork();
      if (before + change < least - kBetter) {
        least = before + change;
        found = y;
      }
    }
    if (norm <= 0)
      break;
    double step = factor * (least - bound) / norm;
    factor *= kShorterStep;
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      rates_[p] = std::max(0.0, rates_[p] + step * (subLoad_[p] + fixedLoad_[p] - flat_.room[p]));
  }
  if (found.empty())
    return false;
  loadOf(found, subLoad_);
  accept(found, least - before);
  return true;
}

bool Neighbourhood::improveExceeding(EliminationPlan &plan) {
  Answer y;
  Answer old(sub_.members.size());
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = x_[sub_.members[i]];
  auto merit = [&](double price) { // with the members' memory in subLoad
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      price += weights_[p] * std::max(0.0, subLoad_[p] + fixedLoad_[p] - flat_.room[p]);
    return price;
  };
  loadOf(old, subLoad_);
  const double before = priceOf(old), meritBefore = merit(before);
  for (int32_t p = sub_.from; p < sub_.to; ++p)
    rates_[p] = load_[p] > flat_.room[p] ? weights_[p] : prices_[p];
  for (int round = 0; round < kExceedingRounds; ++round) {
    solve(plan, rates_, y);
    loadOf(y, subLoad_);
    double price = priceOf(y);
    if (merit(price) < meritBefore - kRelativeRounding * std::abs(meritBefore)) {
      accept(y, price - before);
      return true;
    }
    bool changed = false;
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      if (subLoad_[p] + fixedLoad_[p] > flat_.room[p] && rates_[p] < weights_[p]) {
        rates_[p] = weights_[p];
        changed = true;
      }
    if (!changed)
      break;
  }
  return false;
}

bool Neighbourhood::step(double &work) {
  stepWork_ = kStepWork;
  const double costBefore = cost_;
  const bool exceeding = flat_.excess(load_) > 0;
  // Takes the kind that gains most per work, or now and then the one that had the least work.
  int kind = 0;
  // Windows take much work. They pay off for cost, but not for the many small steps that bring memory within the limit.
  for (int k = 1; k < (exceeding ? kWindow : kKinds); ++k)
    if (draws_ % kLeastUsed == 0 ? used_[k] < used_[kind] : gained_[k] * spent_[kind] > gained_[kind] * spent_[k])
      kind = k;
  ++draws_;

  sub_.members.clear();
  const size_t n = size_t(flat_.count());
  if (kind == 0)
    chooseBall(std::min(n, 2 + draw(2 * kBall)));
  else if (kind == 1)
    chooseForest(2 + draw(n));
  else if (kind == 2)
    choosePoint(std::min(n, 2 + draw(2 * kBall)));
  else if (kind == 3)
    chooseBallsAt(2 + draw(kBallsAtPoint * kBall));
  else
    chooseWindow(std::min(n, size_t(kLeastWindow * std::exp2(double(draw(100 * kDoublings)) / 100))));
  EliminationLimits limits{kMostTable, kMostTables};
  if (kind == 1)
    limits = {kMostForestTable, kMostForestTables};
  if (kind == kWindow)
    limits = {kMostWindowTable, kMostWindowTables};
  while (true) {
    build();
    std::vector<int32_t> sizes;
    for (int32_t v : sub_.members)
      sizes.push_back(flat_.size(v));
    EliminationPlan plan(sizes, sub_.edges, limits);
    if (!plan.fits() && sub_.members.size() > 1) {
      const size_t keep = sub_.members.size() - (sub_.members.size() + kLeftOut - 1) / kLeftOut;
      for (size_t i = keep; i < sub_.members.size(); ++i)
        place_[sub_.members[i]] = -1;
      sub_.members.resize(keep);
      continue;
    }
    if (!plan.fits()) {
      limits = {kLimitless, kLimitless};
      continue;
    }
    Answer old(sub_.members.size());
    for (size_t i = 0; i < old.size(); ++i)
      old[i] = x_[sub_.members[i]];
    loadOf(old, subLoad_);
    for (int32_t p = sub_.from; p < sub_.to; ++p)
      fixedLoad_[p] = load_[p] - subLoad_[p];
    if (exceeding && guidance_ > 0) { // weights replace the guidance
      guidance_ = 0;
      build();
    }
    bool better = exceeding ? improveExceeding(plan) : improveFitting(plan);
    for (int32_t v : sub_.members)
      place_[v] = -1;
    work += stepWork_;
    used_[kind] += stepWork_;
    spent_[kind] = kMemory * spent_[kind] + stepWork_;
    // While memory is exceeded the cost may rise, so every success counts the same.
    gained_[kind] = kMemory * gained_[kind] + (!better     ? 0
                                               : exceeding ? kGainInExcess
                                                           : std::abs(costBefore - cost_) / (std::abs(cost_) + 1));
    if (better) {
      failures_ = 0;
      noteIfBest();
    } else if (++failures_ % kFailuresToWeigh == 0 && exceeding) {
      for (size_t p = 0; p < weights_.size(); ++p)
        if (load_[p] > flat_.room[p])
          weights_[p] = kHeavier * weights_[p] +
                        std::max(prices_[p], kLeastHeavier * std::abs(cost_) / std::max(1.0, flat_.room[p]));
    }
    return better;
  }
}
