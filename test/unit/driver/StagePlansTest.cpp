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
  std::vector<size_t> together; // how many were searched once at a time
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
                                        [&](llvm::ArrayRef<size_t> list) {
                                          std::vector<StagePlanMade> found;
                                          made.together.push_back(list.size());
                                          for (size_t i : list) {
                                            made.once.push_back(i);
                                            found.push_back(tell({plans[i].fitsFirst, plans[i].first}));
                                          }
                                          return found;
                                        },
                                    .whole =
                                        [&](llvm::ArrayRef<size_t> list, Cost longEnough) {
                                          CHECK((list.size() == 1 || longEnough < kForbidden));
                                          std::vector<StagePlanMade> found;
                                          for (size_t i : list) {
                                            made.whole.push_back(i);
                                            CHECK(plans[i].first <= longEnough);
                                            const bool isGivenUp =
                                                plans[i].fitting >= longEnough && !plans[i].fitsFirst;
                                            found.push_back(tell({!isGivenUp && plans[i].fitting < kForbidden,
                                                                  isGivenUp ? kForbidden : plans[i].fitting}));
                                          }
                                          return found;
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

TEST_CASE("two plans are made at a time if the second one promises about as much") {
  CHECK(make({{8, 1000, 1001, true, 1001}, {8, 1010, 1012, true, 1012}}).together == std::vector<size_t>{2});
  CHECK(make({{8, 1000, 1100, true, 1100}, {8, 1020, 1021, true, 1021}}).together == std::vector<size_t>{1, 1});
  CHECK(make({{8, 1000, 1001, true, 1001}, {8, 1020, 1021, true, 1021}}).together == std::vector<size_t>{1});
  const Made made = make({{8, 1000, 1100, false, 1150}, {4, 1005, 1090, false, 1120}});
  CHECK(made.together == std::vector<size_t>{2});
  CHECK(made.best == 1);
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
