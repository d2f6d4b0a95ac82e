#include "strategies/overlap/Divide.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace tessera::strategies {

namespace {

/// Of one set.
constexpr size_t kMostLabels = 8;

/// Messages that have been sent.
struct Label {
  int64_t end;    // of the last one
  int64_t time;   // what everything takes at least
  int64_t starts; // that are not counted elsewhere
  size_t others;  // that are still to be sent

  bool isNoWorseThan(const Label &other) const {
    return end <= other.end && time <= other.time && starts <= other.starts && others <= other.others;
  }
};

/// Labels of one set, by their ends.
class Labels {
public:
  void add(const Label &label) {
    if (std::any_of(labels_.begin(), labels_.end(), [&](const Label &other) { return other.isNoWorseThan(label); }))
      return;
    labels_.erase(
        std::remove_if(labels_.begin(), labels_.end(), [&](const Label &other) { return label.isNoWorseThan(other); }),
        labels_.end());
    auto earlier = [](const Label &a, const Label &b) { return a.end < b.end; };
    labels_.insert(std::upper_bound(labels_.begin(), labels_.end(), label, earlier), label);
    if (labels_.size() > kMostLabels)
      mergeTwo();
  }

  const std::vector<Label> &all() const { return labels_; }

private:
  Label merged(size_t i) const {
    const Label &a = labels_[i], &b = labels_[i + 1];
    return {a.end, std::min(a.time, b.time), std::min(a.starts, b.starts), std::min(a.others, b.others)};
  }

  /// Those two neighbours that lose least by it.
  void mergeTwo() {
    size_t best = 0;
    int64_t least = 0;
    for (size_t i = 0; i + 1 < labels_.size(); ++i) {
      const Label one = merged(i);
      int64_t loss = 0;
      for (const Label &label : {labels_[i], labels_[i + 1]})
        loss += (label.end - one.end) + (label.time - one.time) + (label.starts - one.starts);
      if (i == 0 || loss < least) {
        best = i;
        least = loss;
      }
    }
    labels_[best] = merged(best);
    labels_.erase(labels_.begin() + std::ptrdiff_t(best) + 1);
  }

  std::vector<Label> labels_;
};

/// What is known of a set of collectives.
struct SetTimes {
  int64_t ready = 0;   // the earliest time at which all of them can have been made
  int64_t start = 0;   // of a message of them
  int64_t adds = 0;    // to it
  int64_t counted = 0; // the part of its start that may be counted elsewhere
};

class Divisions {
public:
  explicit Divisions(const DividedLink &link)
      : link_(link), sets_(size_t(1) << link.collectives.size()), kernels_(link.kernels),
        rest_(sets_.size() * (link.others.size() + 1), kUnknown) {
    auto byHead = [](const DividedKernel &a, const DividedKernel &b) { return a.head < b.head; };
    auto byTail = [](const DividedKernel &a, const DividedKernel &b) { return a.tail < b.tail; };
    std::stable_sort(kernels_.begin(), kernels_.end(), byHead);
    for (const DividedKernel &kernel : kernels_)
      for (CollectiveSet set = 1; kernel.before != 0 && set < sets_.size(); ++set)
        if (kernel.before & set)
          sets_[set].ready = std::max(sets_[set].ready, kernel.head) + kernel.duration;
    std::stable_sort(kernels_.begin(), kernels_.end(), byTail);
    for (CollectiveSet set = 1; set < sets_.size(); ++set)
      addTimes(set);
  }

  /// The least over all divisions, or `limit` where that is less. `sharing`: in which all others share messages with
  /// these.
  double least(bool sharing, double limit = std::numeric_limits<double>::max()) {
    const auto all = CollectiveSet(sets_.size() - 1);
    const int64_t lastHead = sharing && !link_.others.empty() ? link_.others.front().head : 0;
    std::vector<Labels> labels(sets_.size());
    labels[0].add({0, link_.least, 0, sharing ? link_.others.size() : 0});
    for (CollectiveSet sent = 0; sent < all; ++sent) {
      const CollectiveSet open = openBehind(sent);
      for (const Label &label : labels[sent].all()) {
        const int64_t rest = restOf(all & ~sent, label.others);
        for (CollectiveSet message = open; message != 0; message = (message - 1) & open) {
          const SetTimes &times = sets_[message];
          int64_t begin = std::max(label.end, sets_[sent | message].ready);
          if ((sent | message) == all)
            begin = std::max(begin, lastHead);
          const int64_t end = begin + times.start + times.adds;
          const Label next{end, std::max(label.time, end + rest),
                           label.starts + std::max<int64_t>(0, times.start - times.counted),
                           readyBehind(begin, label.others)};
          if (timeOf(next) < limit)
            labels[sent | message].add(next);
        }
      }
    }
    for (const Label &label : labels[all].all())
      limit = std::min(limit, timeOf(label));
    return limit;
  }

private:
  static constexpr int64_t kUnknown = -1;

  double timeOf(const Label &label) const {
    return (1 - link_.slowing) * double(label.time) + link_.slowing * double(label.starts);
  }

  void addTimes(CollectiveSet set) {
    SetTimes &times = sets_[set];
    int64_t own = 0, paid = kUnknown;
    for (CollectiveSet left = set; left != 0; left &= left - 1) {
      const DividedCollective &one = link_.collectives[size_t(std::countr_zero(left))];
      times.ready = std::max(times.ready, one.head);
      times.start = std::max(times.start, one.start);
      times.adds += one.adds;
      if (one.isCounted)
        own = std::max(own, one.start);
      else
        paid = paid == kUnknown ? one.paid : std::min(paid, one.paid);
    }
    times.counted = own > 0 ? own : std::max<int64_t>(0, paid);
  }

  /// What can be sent next.
  CollectiveSet openBehind(CollectiveSet sent) const {
    CollectiveSet open = 0;
    for (size_t i = 0; i < link_.collectives.size(); ++i)
      if (!(sent >> i & 1) && (link_.collectives[i].waits & ~sent) == 0)
        open |= CollectiveSet(1) << i;
    return open;
  }

  /// How many of the first `others` are not ready for a message that begins then.
  size_t readyBehind(int64_t begin, size_t others) const {
    while (others > 0 && link_.others[others - 1].head <= begin)
      --others;
    return others;
  }

  /// From the begin of the first kernel behind the set or these others to the end of everything, at least.
  int64_t restOf(CollectiveSet set, size_t others) {
    int64_t &rest = rest_[set * (link_.others.size() + 1) + others];
    if (rest != kUnknown)
      return rest;
    rest = 0;
    for (const DividedKernel &kernel : kernels_)
      if ((kernel.behind & set) != 0 || kernel.other < others)
        rest = std::max(rest, kernel.tail) + kernel.duration;
    for (CollectiveSet left = set; left != 0; left &= left - 1)
      rest = std::max(rest, link_.collectives[size_t(std::countr_zero(left))].tail);
    for (size_t i = 0; i < others; ++i)
      rest = std::max(rest, link_.others[i].tail);
    return rest;
  }

  const DividedLink &link_;
  std::vector<SetTimes> sets_;
  std::vector<DividedKernel> kernels_; // by tail
  std::vector<int64_t> rest_;          // by set and number of others
};

} // namespace

double leastDivided(const DividedLink &link) {
  assert(link.collectives.size() <= kMostDivided);
  Divisions divisions(link);
  if (link.others.empty())
    return divisions.least(/*sharing=*/false);
  int64_t start = std::numeric_limits<int64_t>::max();
  for (const OtherCollective &other : link.others)
    start = std::min(start, other.start);
  return std::min(divisions.least(/*sharing=*/true), divisions.least(/*sharing=*/false) + link.slowing * double(start));
}

} // namespace tessera::strategies
