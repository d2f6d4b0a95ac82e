// The least time of a program: no way of joining its collectives and no schedule of it takes less.
#include "strategies/overlap/LeastTime.h"
#include "strategies/overlap/Overlap.h"

#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Sections.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

using namespace tessera;
using namespace tessera::strategies;
using graph::DataFlow;
using graph::LoopPart;
using graph::Section;

namespace {

/// A program of kernels and collectives with one result each.
struct Program {
  DataFlow flow;
  LeastSteps steps;
  int x = flow.addValue({8}, 32, /*kept=*/true);

  int add(const std::vector<int> &reads, LeastStep time, Section section = Section::Begin) {
    const int made = flow.addValue({8}, 32);
    flow.addStep(LoopPart::None, reads, {made}, section);
    steps.times.push_back(time);
    return made;
  }
  int kernel(const std::vector<int> &reads, int64_t ns, Section section = Section::Begin) {
    return add(reads, {ns}, section);
  }
  int64_t least(bool divide = true) const { return leastTime(flow, steps, divide); }
};

/// What collectives take: a start and their bytes. Beside kernels they delay them by a part of that.
struct Link {
  int64_t start;
  double work;
};

/// The time of a program whose collectives are sent as these messages: the least of what overlap() finds and in line.
int64_t scheduled(const Program &program, const std::vector<std::vector<int>> &messages, const Link &link) {
  const graph::MessageFlow sent(program.flow, messages);
  OverlapRule rule;
  for (const std::vector<int> &members : sent.members) {
    StepTime &time = rule.times.emplace_back();
    for (int member : members) {
      const LeastStep &step = program.steps.times[size_t(member)];
      time.link = step.link;
      time.ns += step.link < 0 ? step.ns : step.least.ns;
    }
    if (time.link >= 0) {
      time.ns += link.start;
      time.work = link.work;
    }
  }
  const int64_t line = inLine(sent.flow, rule);
  const std::optional<Overlap> found = overlap(sent.flow, rule);
  return found ? std::min(line, found->predicted) : line;
}

/// By step the steps that it waits for.
std::vector<std::vector<bool>> waits(const DataFlow &flow) {
  std::vector<std::vector<bool>> waits(flow.steps.size(), std::vector<bool>(flow.steps.size(), false));
  for (size_t s = 0; s < flow.steps.size(); ++s)
    for (int value : flow.steps[s].reads)
      if (const int maker = flow.values[size_t(value)].maker; maker >= 0) {
        waits[s][size_t(maker)] = true;
        for (size_t before = 0; before < s; ++before)
          waits[s][before] = waits[s][before] || waits[size_t(maker)][before];
      }
  return waits;
}

/// All ways to join some of the collectives of a link, each as lists of two steps or more, without those in which
/// messages wait for each other.
std::vector<std::vector<std::vector<int>>> waysToJoin(const Program &program) {
  const auto before = waits(program.flow);
  std::vector<std::vector<std::vector<int>>> ways = {{}};
  for (int s = 0; s < int(program.flow.steps.size()); ++s) {
    const int link = program.steps.times[size_t(s)].link;
    if (link < 0)
      continue;
    for (size_t w = 0, known = ways.size(); w < known; ++w) {
      for (size_t m = 0; m < ways[w].size(); ++m) {
        const std::vector<int> &message = ways[w][m];
        if (program.steps.times[size_t(message.front())].link == link &&
            std::none_of(message.begin(), message.end(),
                         [&](int member) { return before[size_t(s)][size_t(member)]; })) {
          auto joined = ways[w];
          joined[m].push_back(s);
          ways.push_back(std::move(joined));
        }
      }
      ways[w].push_back({s});
    }
  }
  auto inCircle = [&](const std::vector<std::vector<int>> &messages) {
    auto after = [&](const std::vector<int> &a, const std::vector<int> &b) {
      for (int x : a)
        for (int y : b)
          if (before[size_t(x)][size_t(y)])
            return true;
      return false;
    };
    std::vector<std::vector<bool>> path(messages.size(), std::vector<bool>(messages.size()));
    for (size_t i = 0; i < messages.size(); ++i)
      for (size_t j = 0; j < messages.size(); ++j)
        path[i][j] = after(messages[i], messages[j]);
    for (size_t k = 0; k < messages.size(); ++k)
      for (size_t i = 0; i < messages.size(); ++i)
        for (size_t j = 0; j < messages.size(); ++j)
          path[i][j] = path[i][j] || (path[i][k] && path[k][j]);
    for (size_t i = 0; i < messages.size(); ++i)
      if (path[i][i])
        return true;
    return false;
  };
  ways.erase(std::remove_if(ways.begin(), ways.end(), inCircle), ways.end());
  return ways;
}

} // namespace

TEST_CASE("what reads a collective waits for all of it, and its link for its part of a message") {
  Program p;
  const int a = p.kernel({p.x}, 100);
  p.kernel({p.add({a}, {80, 0, {50}, {50}})}, 10);
  CHECK(p.least() == 100 + 80 + 10);
  // Two of them share a message: its link is busy for both parts, from the first gradient on.
  Program q;
  const int g = q.kernel({q.x}, 10);
  q.add({g}, {80, 0, {50}, {50}});
  q.add({g}, {80, 0, {50}, {50}});
  q.kernel({g}, 5);
  CHECK(q.least() == 10 + 30 + 2 * 50); // the rest of its time follows one of them
}

TEST_CASE("collectives that wait for each other are in different messages") {
  Program p;
  int v = p.x;
  for (int i = 0; i < 3; ++i)
    v = p.add({p.kernel({v}, 10)}, {40, 0, {1}, {1}});
  p.add({p.kernel({p.x}, 10)}, {50, 0, {11}, {11}}); // it may share any of their messages
  p.add({p.kernel({p.x}, 200)}, {41, 0, {2}, {2}});
  p.steps.slowing = 0.5;
  const int64_t kernels = 3 * 10 + 10 + 200, messages = 3 * 40 + 11 + 2;
  CHECK(p.least(/*divide=*/false) == ((kernels + 40) + (kernels + messages)) / 2); // a message follows the last kernel
  CHECK(p.least() == ((kernels + 42) + (kernels + messages)) / 2); // two sums share it, or there are more starts
  p.steps.slowing = 0;
  for (LeastStep &time : p.steps.times)
    time.work = time.link < 0 ? 0 : time.ns; // cores do both
  CHECK(p.least() == kernels + 3 * 40);      // each of them has its start
}

TEST_CASE("kernels and what delays them come one after the other") {
  Program p;
  const int g = p.kernel({p.x}, 100);
  p.add({g}, {51, 0, {51, 10}, {51, 10}, 10});
  p.kernel({g}, 100);
  CHECK(p.least() == 200 + 10);
  p.steps.slowing = 0.5;
  CHECK(p.least() == 100 + 125); // half of 200, and half of all kernels and messages, rounded down
}

TEST_CASE("each section is passed by itself, those of the body for each micro-batch") {
  Program p;
  p.steps.runs = 4;
  const int w = p.kernel({p.x}, 10);
  const int a = p.kernel({w}, 100, Section::Body), s = p.add({a}, {80, 0, {80}, {80}}, Section::Body);
  p.kernel({s}, 10, Section::Body);
  p.kernel({a}, 50, Section::Body);
  const int g = p.kernel({a}, 7, Section::End);
  p.kernel({p.add({g}, {30, 0, {20}, {20}}, Section::End)}, 10, Section::End);
  CHECK(p.least() == 10 + 4 * (100 + 80 + 10) + 7 + 30 + 10);
}

TEST_CASE("no joining and no schedule of a random program takes less, and the least is often reached") {
  std::mt19937 random(11);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  int ways = 0, reached = 0, without = 0, joinedIsBest = 0;
  double gap = 0, gapWithout = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Link link{below(60), trial % 3 == 0 ? 0.0 : below(10) / 10.0};
    Program p;
    p.steps.slowing = link.work;
    std::vector<int> values = {p.x};
    const int links = 1 + below(2);
    for (int s = 0, sums = 0; s < 9; ++s) {
      std::vector<int> reads = {values[size_t(below(int(values.size())))]};
      if (below(2))
        reads.push_back(values[size_t(below(int(values.size())))]);
      values.push_back(p.kernel(reads, below(100)));
      if (sums < 5 && below(2)) {
        const int64_t bytes = below(100);
        const MessagePart part{bytes, int64_t(link.work * double(bytes))};
        const auto alone = int64_t(link.work * double(link.start + bytes));
        values.push_back(p.add({values.back()}, {link.start + bytes, below(links), part, part, alone}));
        ++sums;
      }
    }
    INFO("trial " << trial);
    const int64_t least = p.least();
    int64_t best = scheduled(p, {}, link);
    const int64_t alone = best;
    for (const auto &way : waysToJoin(p)) {
      const int64_t time = scheduled(p, way, link);
      CHECK(time >= least);
      best = std::min(best, time);
      ++ways;
    }
    reached += best == least;
    without += best == p.least(/*divide=*/false);
    gap += 1 - double(least) / double(best);
    gapWithout += 1 - double(p.least(/*divide=*/false)) / double(best);
    joinedIsBest += best < alone;
  }
  CHECK(ways > 3000);
  CAPTURE(reached, without, gap / 400, gapWithout / 400);
  CHECK(reached > 150);
  CHECK(gap < 0.6 * gapWithout);
  CHECK(joinedIsBest > 30);
}
