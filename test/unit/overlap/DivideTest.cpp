// The bound over divisions into messages, against all divisions one by one.
#include "strategies/overlap/Divide.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

using namespace tessera::strategies;

namespace {

/// All divisions and their orders, by the rules of Divide.h, without labels. Nothing is known of others.
class AllDivisions {
public:
  explicit AllDivisions(const DividedLink &link)
      : link_(link), all_((CollectiveSet(1) << link.collectives.size()) - 1) {}

  double least() const { return behind(0, 0, link_.least, 0); }

private:
  double behind(CollectiveSet sent, int64_t end, int64_t time, int64_t starts) const {
    if (sent == all_)
      return (1 - link_.slowing) * double(time) + link_.slowing * double(starts);
    double best = 1e18;
    for (CollectiveSet message = 1; message <= all_; ++message) {
      int64_t start = 0, adds = 0, own = 0, paid = 1'000'000;
      bool isReady = (message & sent) == 0;
      for (size_t i = 0; i < link_.collectives.size(); ++i)
        if (message >> i & 1) {
          const DividedCollective &one = link_.collectives[i];
          isReady = isReady && (one.waits & ~sent) == 0;
          start = std::max(start, one.start);
          adds += one.adds;
          (one.isCounted ? own : paid) = one.isCounted ? one.start : std::min(paid, one.paid);
        }
      if (!isReady)
        continue;
      const int64_t ends = std::max(end, ready(sent | message)) + start + adds;
      best = std::min(best, behind(sent | message, ends, std::max(time, ends + rest(all_ & ~sent)),
                                   starts + std::max<int64_t>(0, start - (own > 0 ? own : paid))));
    }
    return best;
  }

  int64_t ready(CollectiveSet set) const {
    std::vector<DividedKernel> kernels = link_.kernels;
    std::sort(kernels.begin(), kernels.end(), [](auto &a, auto &b) { return a.head < b.head; });
    int64_t time = 0;
    for (const DividedKernel &kernel : kernels)
      if (kernel.before & set)
        time = std::max(time, kernel.head) + kernel.duration;
    for (size_t i = 0; i < link_.collectives.size(); ++i)
      if (set >> i & 1)
        time = std::max(time, link_.collectives[i].head);
    return time;
  }

  int64_t rest(CollectiveSet set) const {
    std::vector<DividedKernel> kernels = link_.kernels;
    std::sort(kernels.begin(), kernels.end(), [](auto &a, auto &b) { return a.tail < b.tail; });
    int64_t time = 0;
    for (const DividedKernel &kernel : kernels)
      if (kernel.behind & set)
        time = std::max(time, kernel.tail) + kernel.duration;
    for (size_t i = 0; i < link_.collectives.size(); ++i)
      if (set >> i & 1)
        time = std::max(time, link_.collectives[i].tail);
    return time;
  }

  const DividedLink &link_;
  const CollectiveSet all_;
};

/// The link, of which only the first collectives are looked at.
DividedLink firstOf(const DividedLink &link, size_t count) {
  DividedLink first = link;
  const CollectiveSet kept = (CollectiveSet(1) << count) - 1;
  first.collectives.resize(count);
  for (DividedCollective &one : first.collectives)
    one.waits &= kept;
  std::vector<size_t> others;
  for (size_t i = count; i < link.collectives.size(); ++i)
    others.push_back(i);
  auto head = [&](size_t i) { return link.collectives[i].head; };
  std::sort(others.begin(), others.end(), [&](size_t a, size_t b) { return head(a) > head(b); });
  for (size_t i : others)
    first.others.push_back({link.collectives[i].start, head(i), link.collectives[i].tail});
  for (DividedKernel &kernel : first.kernels) {
    for (size_t i = others.size(); i-- > 0;)
      if (kernel.behind >> others[i] & 1)
        kernel.other = i;
    kernel.before &= kept;
    kernel.behind &= kept;
  }
  return first;
}

} // namespace

TEST_CASE("one message begins late, and two have two starts") {
  DividedLink link;
  link.collectives = {{10, 5, 0, 0}, {10, 1, 0, 0}};
  link.kernels = {{20, 0, 0, 0b11, 0}, {30, 20, 0, 0b10, 0}, {25, 0, 0, 0, 0b01}, {4, 0, 0, 0, 0b10}};
  link.slowing = 0.5;
  // One: 50 + 10 + 6 + 25 + 4 = 95. Two: the first ends at 35, the second at 61, and 4 follow.
  CHECK(leastDivided(link) == Approx((65 + 20) / 2.0));
  link.collectives[0].isCounted = true;
  CHECK(leastDivided(link) == Approx((65 + 10) / 2.0));
  link.collectives[1].paid = 7;
  CHECK(leastDivided(link) == Approx((65 + 3) / 2.0));
  link.least = 70;
  CHECK(leastDivided(link) == Approx((70 + 3) / 2.0));
}

TEST_CASE("the others are sent with these, or have a start") {
  DividedLink link;
  link.collectives = {{10, 5, 0, 0}};
  link.collectives[0].isCounted = true;
  link.kernels = {{20, 0, 0, 0b1, 0}, {8, 0, 0, 0, 0b1}, {4, 0, 0, 0, 0, 0}};
  link.others = {{6, 40, 0}};
  link.slowing = 0.5;
  CHECK(leastDivided(link) == Approx((43 + 6) / 2.0)); // 20 + 15 + 8: by itself
  link.others = {{60, 40, 0}};
  CHECK(leastDivided(link) == Approx((40 + 15 + 8 + 4) / 2.0)); // with it
}

TEST_CASE("no division of random collectives takes less, whatever is known of them") {
  std::mt19937 random(5);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  int exact = 0, close = 0, helped = 0;
  for (int trial = 0; trial < 500; ++trial) {
    DividedLink link;
    link.slowing = below(6) / 10.0;
    link.least = below(300);
    for (int i = 0; i < 5; ++i)
      link.collectives.push_back({below(60), below(40), below(200), below(60), i == 0 && below(2), 0,
                                  i > 0 && below(4) == 0 ? CollectiveSet(1) << below(i) : 0});
    for (int k = 0; k < 10; ++k)
      link.kernels.push_back({below(40), below(200), below(60), below(2) ? CollectiveSet(below(32)) : 0,
                              CollectiveSet(below(2) ? 1 << below(5) : 0)});
    const double least = AllDivisions(link).least();
    INFO("trial " << trial);
    const double found = leastDivided(link);
    CHECK(found <= least + 1e-6);
    exact += found >= least - 1e-6;
    DividedLink first = firstOf(link, 3);
    const double some = leastDivided(first);
    CHECK(some <= least + 1e-6);
    close += some >= 0.9 * least;
    first.others.clear();
    helped += leastDivided(first) < some - 1e-6;
  }
  CHECK(exact > 480);
  CHECK(close > 150);
  CHECK(helped > 100);
}
