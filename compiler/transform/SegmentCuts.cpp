#include "compiler/transform/SegmentCuts.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tessera::compiler {

namespace {

/// Halvings of the most bytes, after which the least is known to a part in 4,000.
constexpr int kHalvingsOfBytes = 12;
/// Cuts are nearly as good as the best if the last part needs at most 1 / kNearlyAsGood more bytes.
constexpr int kNearlyAsGood = 20;
/// Halvings of the longest part's limit, after which it is known to a billionth.
constexpr int kHalvings = 40;

class EvenCuts {
public:
  EvenCuts(const std::vector<double> &work, const std::vector<int64_t> &crossing, int parts)
      : work_(work), share_(work.back() / parts) {
    findPlaces(crossing, parts);
    parts_ = std::min(parts, ends() - 1);
  }

  std::vector<int> run() {
    double below = share_, limit = work_.back();
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (below + limit) / 2;
      (earliest(middle).front() == 0 ? limit : below) = middle;
    }
    return nearShares(limit);
  }

private:
  /// The first operator, the places near a border that the fewest bytes cross, and the end.
  void findPlaces(const std::vector<int64_t> &crossing, int parts) {
    const int last = int(work_.size()) - 1;
    places_ = {0};
    for (int border = 1, place = 1; border < parts; ++border) {
      const auto isNear = [&](int p) { return p < last && work_[size_t(p)] < (border + 0.5) * share_; };
      while (place < last && work_[size_t(place)] < (border - 0.5) * share_)
        ++place;
      int64_t fewest = -1;
      for (int p = place; isNear(p); ++p)
        fewest = fewest < 0 ? crossing[size_t(p)] : std::min(fewest, crossing[size_t(p)]);
      for (; isNear(place); ++place)
        if (crossing[size_t(place)] == fewest)
          places_.push_back(place);
    }
    places_.push_back(last);
  }

  int ends() const { return int(places_.size()); }
  double workBefore(int end) const { return work_[size_t(places_[size_t(end)])]; }

  /// By part where it begins at the earliest, as an index of places_, so that no part behind it has more work than
  /// this. The first is 0 if all parts keep the limit.
  std::vector<int> earliest(double limit) const {
    std::vector<int> begin(size_t(parts_) + 1, ends() - 1);
    for (int part = parts_ - 1; part >= 0; --part) {
      int &at = begin[size_t(part)];
      const int end = begin[size_t(part) + 1];
      for (at = end - 1; at > part && workBefore(end) - workBefore(at - 1) <= limit;)
        --at;
      if (workBefore(end) - workBefore(at) > limit)
        return {-1};
    }
    return begin;
  }

  std::vector<int> nearShares(double limit) const {
    const std::vector<int> first = earliest(limit);
    std::vector<int> cuts;
    for (int part = 1, before = 0; part < parts_; ++part) {
      int best = first[size_t(part)];
      for (int at = std::max(best, before + 1); at <= ends() - 1 - (parts_ - part); ++at) {
        if (workBefore(at) - workBefore(before) > limit)
          break;
        if (best <= before || std::abs(workBefore(at) - part * share_) < std::abs(workBefore(best) - part * share_))
          best = at;
      }
      cuts.push_back(places_[size_t(best)]);
      before = best;
    }
    return cuts;
  }

  const std::vector<double> &work_;
  const double share_; // of a part
  int parts_ = 1;
  std::vector<int> places_;
};

/// Cuts at places that no fewer bytes cross than their neighbours, by dynamic programming over the last one.
class FewestBytes {
public:
  FewestBytes(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing)
      : kept_(kept), crossing_(crossing) {
    for (size_t p = 1; p + 1 < kept.size(); ++p)
      if (crossing[p] <= crossing[p - 1] || p == 1)
        if (crossing[p] <= crossing[p + 1] || p + 2 == kept.size())
          places_.push_back(p);
  }

  std::vector<int> run() {
    if (!within(kept_.back() - 1, kept_.back() - 1))
      return {};
    const int64_t least = halve([&](int64_t limit) { return within(limit, limit).has_value(); }, kept_.back() - 1);
    const int64_t last = least + least / kNearlyAsGood;
    return *within(halve([&](int64_t limit) { return within(limit, last).has_value(); }, least), last);
  }

private:
  /// The cut at a place, and those before it that the fewest bytes cross.
  struct Cut {
    int before = -1;       // the cut before this one; -1: none
    int64_t crossing = -1; // all of these cuts; -1: no parts are small enough
  };
  int64_t keptAt(int cut) const { return cut < 0 ? 0 : kept_[places_[size_t(cut)]]; }

  /// About the least limit that is possible, if `most` is.
  template <typename Possible> static int64_t halve(Possible possible, int64_t most) {
    int64_t least = 0;
    for (int i = 0; i < kHalvingsOfBytes; ++i) {
      const int64_t middle = least + (most - least) / 2;
      (possible(middle) ? most : least) = middle;
    }
    return most;
  }

  /// The cuts that the fewest bytes cross if no part needs more than `limit` bytes, and the last one no more than
  /// `last`; null: there are none.
  std::optional<std::vector<int>> within(int64_t limit, int64_t last) const {
    const int n = int(places_.size());
    std::vector<Cut> cuts(places_.size());
    int end = -1;
    for (int c = 0; c < n; ++c) {
      Cut &cut = cuts[size_t(c)];
      const int64_t own = crossing_[places_[size_t(c)]];
      for (int b = c - 1; b >= -1 && keptAt(c) - keptAt(b) + own <= limit; --b) {
        const int64_t before = b < 0 ? 0 : cuts[size_t(b)].crossing;
        if (before >= 0 && before + keptAt(c) - keptAt(b) + own <= limit && (cut.crossing < 0 || before < cut.crossing))
          cut = {b, before};
      }
      if (cut.crossing < 0)
        continue;
      cut.crossing += own;
      if (cut.crossing + kept_.back() - keptAt(c) <= last && (end < 0 || cut.crossing < cuts[size_t(end)].crossing))
        end = c;
    }
    if (end < 0)
      return std::nullopt;
    std::vector<int> chosen;
    for (int c = end; c >= 0; c = cuts[size_t(c)].before)
      chosen.insert(chosen.begin(), int(places_[size_t(c)]));
    return chosen;
  }

  const std::vector<int64_t> &kept_, &crossing_;
  std::vector<size_t> places_;
};

} // namespace

std::vector<int> cutForFewestBytes(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing) {
  return FewestBytes(kept, crossing).run();
}

std::vector<int> cutEvenly(const std::vector<double> &work, const std::vector<int64_t> &crossing, int parts) {
  return EvenCuts(work, crossing, parts).run();
}

std::vector<int> cutByBytes(const std::vector<int64_t> &kept, const std::vector<int64_t> &crossing, int parts) {
  std::vector<int> cuts;
  const size_t last = kept.size() - 1;
  for (int border = 1; border < parts; ++border) {
    const auto share = [&](int64_t halves) { return kept[last] / (2 * parts) * halves; };
    int choice = -1;
    for (size_t p = cuts.empty() ? 1 : size_t(cuts.back()) + 1; p < last; ++p)
      if (kept[p] >= share(2 * border - 1) && kept[p] < share(2 * border + 1) &&
          (choice < 0 || crossing[p] < crossing[size_t(choice)]))
        choice = int(p);
    if (choice >= 0)
      cuts.push_back(choice);
  }
  return cuts;
}

} // namespace tessera::compiler
