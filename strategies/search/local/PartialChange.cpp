//===- PartialChange.cpp - which parts of a change to make --------------------------------------===//
#include "strategies/search/local/PartialChange.h"

#include <algorithm>

using namespace tessera::strategies;

namespace {
constexpr int kRounds = 4;        // of taking more and giving up
constexpr double kTooMuch = 1e15; // a change of cost beside which units get lost
} // namespace

/// Changed members that edges join are one part.
void PartialChange::split(const std::vector<int32_t> &members, const Answer &from, const Answer &to) {
  parts.clear();
  std::vector<char> seen(members.size(), 0);
  std::vector<int32_t> stack;
  for (size_t i = 0; i < members.size(); ++i) {
    if (from[i] == to[i] || seen[i])
      continue;
    parts.emplace_back();
    seen[i] = 1;
    stack.assign(1, int32_t(i));
    while (!stack.empty()) {
      const int32_t k = stack.back();
      stack.pop_back();
      parts.back().members.push_back(k);
      for (const FlatLink &link : core.links[size_t(members[size_t(k)])]) {
        const int32_t j = place[size_t(link.other)];
        if (j >= 0 && !seen[size_t(j)]) {
          seen[size_t(j)] = 1;
          stack.push_back(j);
        }
      }
    }
  }
}

void PartialChange::measure(Part &part, const std::vector<int32_t> &members, const Answer &from, const Answer &to,
                            const Answer &x) {
  events.clear();
  for (int32_t i : part.members) {
    const int32_t v = members[size_t(i)];
    const size_t old = size_t(from[size_t(i)]), fresh = size_t(to[size_t(i)]), n = size_t(core.size(v));
    part.change += core.costs[core.first[v] + fresh] - core.costs[core.first[v] + old];
    for (const FlatLink &link : core.links[v]) {
      const int32_t j = place[size_t(link.other)];
      if (j >= 0 && j < i)
        continue; // counted there
      const double *m = &core.matrices[link.from];
      const size_t theirs = size_t(j < 0 ? x[size_t(link.other)] : to[size_t(j)]);
      part.change += m[theirs * n + fresh] - m[size_t(x[size_t(link.other)]) * n + old];
    }
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      const double *extra = &core.extras[core.pieces[k].extra];
      if (extra[fresh] != extra[old]) {
        events.push_back({core.pieces[k].from, extra[fresh] - extra[old]});
        events.push_back({core.pieces[k].to, extra[old] - extra[fresh]});
      }
    }
    work += 10 * double(core.links[v].size()) + 4 * double(core.firstPiece[v + 1] - core.firstPiece[v]);
  }
  std::sort(events.begin(), events.end());
  double amount = 0;
  for (size_t k = 0; k + 1 < events.size(); ++k) {
    amount += events[k].second;
    const int32_t begin = events[k].first, end = events[k + 1].first;
    if (amount != 0 && begin < end)
      part.spans.push_back({begin, end, amount});
  }
  work += 20 * double(events.size());
}

/// Whether memory fits if the part's is added (sign 1) or taken away (-1).
bool PartialChange::fits(const Part &part, double sign) const {
  for (const Span &span : part.spans)
    if (sign * span.amount > 0)
      for (int32_t p = span.from; p < span.to; ++p)
        if (now[size_t(p)] + sign * span.amount > core.room[size_t(p)])
          return false;
  return true;
}

void PartialChange::move(Part &part, bool take) {
  part.taken = take;
  for (const Span &span : part.spans) {
    for (int32_t p = span.from; p < span.to; ++p)
      now[size_t(p)] += take ? span.amount : -span.amount;
    work += double(span.to - span.from);
  }
}

/// Leaves parts out until memory fits.
bool PartialChange::leaveOut() {
  while (!now.empty()) {
    size_t worst = 0;
    for (size_t p = 1; p < now.size(); ++p)
      if (now[p] - core.room[p] > now[worst] - core.room[worst])
        worst = p;
    const double over = now[worst] - core.room[worst];
    work += double(now.size()) + 10 * double(parts.size());
    if (over <= 0)
      return true;
    Part *best = nullptr;
    double bestScore = 0;
    for (Part &part : parts) {
      if (!part.taken)
        continue;
      auto span = std::upper_bound(part.spans.begin(), part.spans.end(), int32_t(worst),
                                   [](int32_t p, const Span &s) { return p < s.to; });
      if (span == part.spans.end() || span->from > int32_t(worst) || span->amount <= 0)
        continue;
      const double score = std::min(span->amount, over) / std::max(-part.priced, 0.5);
      if (score > bestScore) {
        bestScore = score;
        best = &part;
      }
    }
    if (!best)
      return false; // the answer did not fit before
    move(*best, false);
  }
  return true; // no limit
}

double PartialChange::choose(const std::vector<int32_t> &members, const Answer &from, Answer &to, const Answer &x,
                             const std::vector<double> &load, const std::vector<double> &rates,
                             const std::vector<double> &guide, double guidance) {
  for (size_t i = 0; i < members.size(); ++i)
    if (from[i] != to[i])
      place[size_t(members[i])] = int32_t(i);
  split(members, from, to);
  const size_t points = core.room.size();
  rateSums.assign(points + 1, 0);
  guideSums.assign(points + 1, 0);
  for (size_t p = 0; p < points; ++p) {
    rateSums[p + 1] = rateSums[p] + rates[p];
    guideSums[p + 1] = guideSums[p] + guidance * guide[p];
  }
  now = load;
  work += 4 * double(points) + 4 * double(members.size());
  for (Part &part : parts) {
    measure(part, members, from, to, x);
    part.priced = part.change;
    for (const Span &span : part.spans) {
      const size_t begin = size_t(span.from), end = size_t(span.to);
      part.change += span.amount * (guideSums[end] - guideSums[begin]);
      part.priced += span.amount * (guideSums[end] - guideSums[begin] + rateSums[end] - rateSums[begin]);
    }
    part.taken = false;
    if (part.change < kTooMuch)
      move(part, true);
  }
  for (int32_t v : members)
    place[size_t(v)] = -1;
  double change = 0;
  const bool possible = leaveOut();
  if (possible) {
    std::vector<Part *> order;
    for (Part &part : parts)
      if (part.change < kTooMuch)
        order.push_back(&part);
    std::stable_sort(order.begin(), order.end(), [](const Part *a, const Part *b) { return a->change < b->change; });
    bool moved = true;
    for (int round = 0; round < kRounds && moved; ++round) {
      moved = false;
      for (Part *part : order)
        if (!part->taken && part->change < 0 && fits(*part, 1)) {
          move(*part, true);
          moved = true;
        }
      for (auto part = order.rbegin(); part != order.rend(); ++part)
        if ((*part)->taken && (*part)->change > 0 && fits(**part, -1)) {
          move(**part, false);
          moved = true;
        }
    }
  }
  for (Part &part : parts)
    if (possible && part.taken)
      change += part.change;
    else
      for (int32_t i : part.members)
        to[size_t(i)] = from[size_t(i)];
  return change;
}
