// Which plans of --pipeline auto are made, on plans of which everything is known.
#include "compiler/driver/stages/StagePlans.h"

#include "catch2/catch.hpp"

#include <algorithm>
#include <random>

using namespace tessera;
using strategies::Cost;
using strategies::kForbidden;

namespace {

/// A plan as it is: the strategies that take least take `first`, whether or not they fit; those that fit take
/// `fitting`.
struct Plan {
  int64_t stages;
  Cost estimate, first;
  bool fitsFirst;
  Cost fitting; // kForbidden: none fit
};

struct Made {
  std::optional<size_t> best;
  Cost least = kForbidden;
  std::vector<size_t> once, whole;
};

Made make(
    const std::vector<Plan> &plans, std::function<bool()> stopped = [] { return false; }) {
  std::vector<StagePlanToMake> list;
  for (const Plan &plan : plans)
    list.push_back({plan.stages, plan.estimate});
  Made made;
  auto tell = [&](StagePlanMade found) {
    if (found.fits)
      made.least = std::min(made.least, found.predicted);
    return found;
  };
  made.best = makeStagePlans(list, {.once =
                                        [&](size_t i) {
                                          made.once.push_back(i);
                                          return tell({plans[i].fitsFirst, plans[i].first});
                                        },
                                    .whole =
                                        [&](size_t i, Cost longEnough) {
                                          made.whole.push_back(i);
                                          CHECK(plans[i].first <= longEnough);
                                          if (plans[i].fitting >= longEnough && !plans[i].fitsFirst)
                                            return tell({}); // given up
                                          return tell({plans[i].fitting < kForbidden, plans[i].fitting});
                                        },
                                    .stopped = std::move(stopped)});
  return made;
}

/// What is best if every plan is made to fit in turn, until none of the others promises less.
Cost inTurn(const std::vector<Plan> &plans) {
  Cost least = kForbidden;
  for (const Plan &plan : plans)
    if (plan.estimate < least)
      least = std::min(least, plan.fitting);
  return least;
}

} // namespace

TEST_CASE("a plan that fits at once spares the others the search for one that does") {
  const Made made = make({{8, 100, 101, false, 140}, {8, 102, 101, true, 101}, {4, 110, 111, false, 111}});
  CHECK(made.best == 1);
  CHECK(made.once == std::vector<size_t>{0, 1});
  CHECK(made.whole == std::vector<size_t>{1}); // the first one promises no less than 101
}

TEST_CASE("a plan that promises less is made to fit") {
  const Made made = make({{8, 100, 100, false, 103}, {8, 102, 104, true, 104}});
  CHECK(made.best == 0);
  CHECK(made.least == 103);
  CHECK(made.whole == std::vector<size_t>{1, 0});
}

TEST_CASE("what is computed again may make the best plan faster") {
  const Made made = make({{8, 100, 105, true, 98}, {4, 101, 103, false, 104}});
  CHECK(made.best == 0);
  CHECK(made.least == 98);
  CHECK(made.whole == std::vector<size_t>{0});
}

TEST_CASE("where no plan fits at once, each is made to fit") {
  const Made made =
      make({{8, 100, 100, false, kForbidden}, {8, 101, 102, false, 110}, {4, 103, 101, false, kForbidden}});
  CHECK(made.best == 1);
  CHECK(made.whole == std::vector<size_t>{0, 2, 1}); // those first that promise most
  CHECK(!make({{8, 100, 100, false, kForbidden}}).best);
  CHECK(!make({{8, 100, kForbidden, false, kForbidden}}).best);
  CHECK(make({{8, 100, kForbidden, false, kForbidden}}).whole.empty());
}

TEST_CASE("few plans are made, and few of a kind") {
  std::vector<Plan> plans;
  for (int64_t stages : {8, 8, 8, 4, 4, 4, 2, 1, 1, 1})
    plans.push_back({stages, 100 + Cost(plans.size()), 200, false, kForbidden});
  CHECK(make(plans).once == std::vector<size_t>{0, 1, 3, 4, 7, 8});
}

TEST_CASE("after an interrupt nothing more is made once a plan fits") {
  const Made made =
      make({{8, 100, 100, false, 101}, {4, 101, 110, true, 110}, {2, 102, 103, true, 103}}, [] { return true; });
  CHECK(made.once == std::vector<size_t>{0, 1});
  CHECK(made.whole.empty());
  CHECK(made.best == 1);
}

TEST_CASE("no plan is lost by the order in which they are made") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<Plan> plans(1 + random() % 4);
    for (size_t i = 0; i < plans.size(); ++i) {
      Plan &plan = plans[i];
      plan.stages = 1 + int64_t(random() % 2) + int64_t(i);
      plan.first = 100 + Cost(random() % 20);
      plan.fitsFirst = random() % 3 == 0;
      // Strategies that fit take no less than those that take least; the first search of a plan that fits may be improved.
      plan.fitting = plan.fitsFirst ? plan.first : random() % 3 ? plan.first + Cost(random() % 20) : kForbidden;
      plan.estimate = plan.first - Cost(random() % 3);
    }
    std::sort(plans.begin(), plans.end(), [](const Plan &a, const Plan &b) { return a.estimate < b.estimate; });
    const Made made = make(plans);
    CHECK(made.least <= inTurn(plans));
    CHECK(made.best.has_value() == (made.least < kForbidden));
    if (made.best)
      CHECK(plans[*made.best].fitting == made.least);
  }
}
