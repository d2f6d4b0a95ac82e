//===- PartialChange.cpp - which parts of a change to make --------------------------------------===//
#include "strategies/search/local/PartialChange.h"

#include <algorithm>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr int kRounds = 4;         // of taking more and giving up; same
constexpr double kLeastLoss = 0.5; // units of cost: leaving out a part that gains less counts as losing this; same
// Counted work, steps:
constexpr double kLinkWork = 10;  // per link of a member
constexpr double kPieceWork = 4;  // per piece of a member
constexpr double kEventWork = 20; // per begin or end of a use, sorted
constexpr double kPartWork = 10;  // per part that could be left out
constexpr double kSetUpWork = 4;  // per memory point and member

constexpr double kTooMuch = 1e15; // a change of cost beside which units get lost
} // namespace

/// Whether it makes a difference to the edge of member i, with so many options, and j that both change.
bool PartialChange::joins(const FlatLink &link, size_t columns, int32_t i, int32_t j, const Answer &from,
                          const Answer &to) const {
  const double *before = &flat_.matrices[link.from + size_t(from[size_t(j)]) * columns];
  const double *after = &flat_.matrices[link.from + size_t(to[size_t(j)]) * columns];
  const size_t old = size_t(from[size_t(i)]), fresh = size_t(to[size_t(i)]);
  return after[fresh] - after[old] != before[fresh] - before[old];
}

/// Splits the changed members into parts: members that edges join belong to one part.
void PartialChange::split(const std::vector<int32_t> &members, const Answer &from, const Answer &to) {
  parts_.clear();
  part_.assign(members.size(), -1);
  std::vector<int32_t> stack;
  for (size_t i = 0; i < members.size(); ++i) {
    if (from[i] == to[i] || part_[i] >= 0)
      continue;
    const auto part = int32_t(parts_.size());
    parts_.emplace_back();
    part_[i] = part;
    stack.assign(1, int32_t(i));
    while (!stack.empty()) {
      const int32_t k = stack.back();
      stack.pop_back();
      parts_.back().members.push_back(k);
      const int32_t v = members[size_t(k)];
      for (const FlatLink &link : flat_.links[size_t(v)]) {
        const int32_t j = place_[size_t(link.other)];
        if (j >= 0 && part_[size_t(j)] < 0 && joins(link, size_t(flat_.size(v)), k, j, from, to)) {
          part_[size_t(j)] = part;
          stack.push_back(j);
        }
      }
    }
  }
}

void PartialChange::measure(Part &part, const std::vector<int32_t> &members, const Answer &from, const Answer &to,
                            const Answer &x) {
  events_.clear();
  for (int32_t i : part.members) {
    const int32_t v = members[size_t(i)];
    const size_t old = size_t(from[size_t(i)]), fresh = size_t(to[size_t(i)]), n = size_t(flat_.size(v));
    part.change += flat_.costs[flat_.first[v] + fresh] - flat_.costs[flat_.first[v] + old];
    for (const FlatLink &link : flat_.links[v]) {
      int32_t j = place_[size_t(link.other)];
      if (j >= 0 && part_[size_t(j)] != part_[size_t(i)])
        j = -1; // each change costs the same with and without the other
      if (j >= 0 && j < i)
        continue; // counted with the other member
      const double *m = &flat_.matrices[link.from];
      const size_t theirs = size_t(j < 0 ? x[size_t(link.other)] : to[size_t(j)]);
      part.change += m[theirs * n + fresh] - m[size_t(x[size_t(link.other)]) * n + old];
    }
    for (size_t k = flat_.firstPiece[v]; k < flat_.firstPiece[v + 1]; ++k) {
      const double *extra = &flat_.extras[flat_.pieces[k].extra];
      if (extra[fresh] != extra[old]) {
        events_.push_back({flat_.pieces[k].from, extra[fresh] - extra[old]});
        events_.push_back({flat_.pieces[k].to, extra[old] - extra[fresh]});
      }
    }
    work_ +=
        kLinkWork * double(flat_.links[v].size()) + kPieceWork * double(flat_.firstPiece[v + 1] - flat_.firstPiece[v]);
  }
  std::sort(events_.begin(), events_.end());
  double amount = 0;
  for (size_t k = 0; k + 1 < events_.size(); ++k) {
    amount += events_[k].second;
    const int32_t begin = events_[k].first, end = events_[k + 1].first;
    if (amount != 0 && begin < end)
      part.spans.push_back({begin, end, amount});
  }
  work_ += kEventWork * double(events_.size());
}

/// Whether memory fits if the part is added (sign 1) or taken away (-1).
bool PartialChange::fits(const Part &part, double sign) const {
  for (const Span &span : part.spans)
    if (sign * span.amount > 0)
      for (int32_t p = span.from; p < span.to; ++p)
        if (now_[size_t(p)] + sign * span.amount > flat_.room[size_t(p)])
          return false;
  return true;
}

void PartialChange::move(Part &part, bool take) {
  part.taken = take;
  for (const Span &span : part.spans) {
    for (int32_t p = span.from; p < span.to; ++p)
      now_[size_t(p)] += take ? span.amount : -span.amount;
    work_ += double(span.to - span.from);
  }
}

/// Leaves parts out until memory fits.
bool PartialChange::leaveOut() {
  while (!now_.empty()) {
    size_t worst = 0;
    for (size_t p = 1; p < now_.size(); ++p)
      if (now_[p] - flat_.room[p] > now_[worst] - flat_.room[worst])
        worst = p;
    const double over = now_[worst] - flat_.room[worst];
    work_ += double(now_.size()) + kPartWork * double(parts_.size());
    if (over <= 0)
      return true;
    Part *best = nullptr;
    double bestScore = 0;
    for (Part &part : parts_) {
      if (!part.taken)
        continue;
      auto span = std::upper_bound(part.spans.begin(), part.spans.end(), int32_t(worst),
                                   [](int32_t p, const Span &s) { return p < s.to; });
      if (span == part.spans.end() || span->from > int32_t(worst) || span->amount <= 0)
        continue;
      const double score = std::min(span->amount, over) / std::max(-part.priced, kLeastLoss);
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
      place_[size_t(members[i])] = int32_t(i);
  split(members, from, to);
  const size_t points = flat_.room.size();
  rateSums_.assign(points + 1, 0);
  guideSums_.assign(points + 1, 0);
  for (size_t p = 0; p < points; ++p) {
    rateSums_[p + 1] = rateSums_[p] + rates[p];
    guideSums_[p + 1] = guideSums_[p] + guidance * guide[p];
  }
  now_ = load;
  work_ += kSetUpWork * double(points) + kSetUpWork * double(members.size());
  for (Part &part : parts_) {
    measure(part, members, from, to, x);
    part.priced = part.change;
    for (const Span &span : part.spans) {
      const size_t begin = size_t(span.from), end = size_t(span.to);
      part.change += span.amount * (guideSums_[end] - guideSums_[begin]);
      part.priced += span.amount * (guideSums_[end] - guideSums_[begin] + rateSums_[end] - rateSums_[begin]);
    }
    part.taken = false;
    if (part.change < kTooMuch)
      move(part, true);
  }
  for (int32_t v : members)
    place_[size_t(v)] = -1;
  double change = 0;
  const bool possible = leaveOut();
  if (possible) {
    std::vector<Part *> order;
    for (Part &part : parts_)
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
  for (Part &part : parts_)
    if (possible && part.taken)
      change += part.change;
    else
      for (int32_t i : part.members)
        to[size_t(i)] = from[size_t(i)];
  return change;
}
