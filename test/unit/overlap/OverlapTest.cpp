// Which collectives run beside kernels: of plain data.
#include "strategies/overlap/Overlap.h"

#include "dialects/graph/flow/Order.h"
#include "dialects/graph/flow/Sections.h"

#include <algorithm>
#include <catch2/catch.hpp>

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
  OverlapRule rule;
  int x = flow.addValue({8}, 32, /*kept=*/true);

  int kernel(std::vector<int> reads, int64_t ns, int64_t bytes = 0, Section section = Section::Begin) {
    const int made = flow.addValue({8}, bytes);
    flow.addStep(LoopPart::None, reads, {made}, section);
    rule.times.push_back({ns});
    return made;
  }
  int sum(int value, int64_t ns, int link = 0, Section section = Section::Begin) {
    const int made = flow.addValue({8}, flow.values[size_t(value)].bytes);
    flow.values[size_t(made)].viewOf = value; // in place
    flow.addStep(LoopPart::None, {value}, {made}, section);
    rule.times.push_back({ns, link});
    return made;
  }
  Overlap found() const {
    std::optional<Overlap> found = overlap(flow, rule);
    REQUIRE(found);
    return *found;
  }
};

/// Whether every step comes behind what makes what it reads.
bool inOrder(const DataFlow &flow, const std::vector<int> &order) {
  std::vector<int> place(flow.steps.size(), -1);
  for (size_t p = 0; p < order.size(); ++p)
    place[size_t(order[p])] = int(p);
  for (size_t s = 0; s < flow.steps.size(); ++s) {
    if (place[s] < 0)
      return false;
    for (int value : flow.steps[s].reads)
      if (const int maker = flow.values[size_t(value)].maker; maker >= 0 && place[size_t(maker)] > place[s])
        return false;
  }
  return order.size() == flow.steps.size();
}

/// Three gradients, one of the next, with their sums and updates.
Program gradients(int64_t bytes) {
  Program p;
  int g = p.x;
  for (int i = 0; i < 3; ++i) {
    g = p.kernel({g}, 100, bytes);
    p.kernel({p.sum(p.kernel({g}, 0, bytes), 80)}, 10);
  }
  return p;
}

} // namespace

TEST_CASE("a sum runs under the next gradient, and its update waits for neither") {
  Program p;
  const int g1 = p.kernel({p.x}, 100), s1 = p.sum(g1, 80);
  p.kernel({s1}, 10);
  const int g2 = p.kernel({g1}, 100), s2 = p.sum(g2, 80);
  p.kernel({s2}, 10);
  CHECK(inLine(p.flow, p.rule) == 380);
  const Overlap found = p.found();
  CHECK(found.order == std::vector<int>{0, 1, 3, 2, 4, 5}); // the first update runs under the second sum
  CHECK(found.beside == std::vector<bool>{false, true, false, false, true, false});
  CHECK(found.predicted == 100 + 100 + 80 + 10);
  CHECK(found.exposed == 70); // of the second sum, less the update under it
}

TEST_CASE("kernels take longer beside collectives") {
  Program p;
  const int g = p.kernel({p.x}, 100);
  p.kernel({g}, 100);
  p.sum(g, 50);
  CHECK(p.found().predicted == 200);
  for (StepTime &time : p.rule.times)
    time.work = 0.2;
  CHECK(p.found().predicted == 210);
  CHECK(p.found().exposed == 0);
}

TEST_CASE("what is on the way of everything else is sent in line where the other thread is busy") {
  Program p;
  const int a = p.kernel({p.x}, 10);
  const int g = p.sum(p.kernel({p.x}, 10), 1000, /*link=*/0);
  int v = a;
  for (int i = 0; i < 4; ++i)
    v = p.kernel({p.sum(v, 5, /*link=*/1)}, 100);
  p.kernel({v, g}, 10);
  const Overlap found = p.found();
  for (size_t s = 0; s < p.rule.times.size(); ++s)
    CHECK(found.beside[s] == (p.rule.times[s].link == 0));
  CHECK(found.predicted == 10 + 1000 + 10);
}

TEST_CASE("what is in flight is memory") {
  const Program p = gradients(64);
  const Overlap free = p.found();
  CHECK(free.predicted == 3 * 100 + 80 + 10);
  Program tight = p;
  tight.rule.room = free.peakBytes - 1;
  const std::optional<Overlap> less = overlap(tight.flow, tight.rule);
  REQUIRE(less);
  CHECK(less->peakBytes <= tight.rule.room);
  CHECK(less->predicted > free.predicted);
  tight.rule.room = 63;
  CHECK(!overlap(tight.flow, tight.rule));
}

TEST_CASE("what is sent early leaves memory for what comes first") {
  Program p;
  const int first = p.kernel({p.x}, 100, 4), second = p.kernel({first}, 100, 6), third = p.kernel({second}, 100);
  const int fetched = p.flow.addValue({8}, 4);
  p.flow.addStep(LoopPart::None, {p.x}, {fetched});
  p.rule.times.push_back({90, /*link=*/0});
  p.kernel({third, fetched}, 100);
  CHECK(p.found().predicted == 400);
  p.rule.room = 10; // of which the second kernel needs all
  CHECK(p.found().predicted == 400);
  CHECK(p.found().peakBytes <= 10);
}

TEST_CASE("sections come one after the other, and the body runs for each micro-batch") {
  Program p;
  p.rule.runs = 4;
  const int w = p.kernel({p.x}, 10);
  const int a = p.kernel({w}, 100, 0, Section::Body), s = p.sum(a, 80, 0, Section::Body);
  p.kernel({s}, 10, 0, Section::Body);
  p.kernel({a}, 50, 0, Section::Body);
  const int g = p.kernel({a}, 7, 0, Section::End);
  p.kernel({p.sum(g, 30, 0, Section::End)}, 10, 0, Section::End);
  const Overlap found = p.found();
  CHECK(inOrder(p.flow, found.order));
  CHECK(found.predicted == 10 + 4 * (100 + 80 + 10) + 7 + 30 + 10);
  CHECK(inLine(p.flow, p.rule) == 10 + 4 * (100 + 80 + 10 + 50) + 7 + 30 + 10);
  for (size_t i = 1; i < found.order.size(); ++i)
    CHECK(p.flow.steps[size_t(found.order[i - 1])].section <= p.flow.steps[size_t(found.order[i])].section);
}

TEST_CASE("a program without collectives stays as it is") {
  Program p;
  p.kernel({p.x}, 100);
  CHECK(!overlap(p.flow, p.rule));
}

TEST_CASE("schedules of random programs keep their order, and take no longer than in line") {
  std::mt19937 random(7);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int trial = 0; trial < 200; ++trial) {
    Program p;
    std::vector<int> values = {p.x};
    const int steps = 2 + below(30);
    for (int s = 0; s < steps; ++s) {
      std::vector<int> reads = {values[size_t(below(int(values.size())))]};
      if (below(2))
        reads.push_back(values[size_t(below(int(values.size())))]);
      values.push_back(p.kernel(reads, below(100), 1 + below(1000)));
      if (below(3) == 0)
        values.push_back(p.sum(values.back(), below(200), below(2)));
    }
    const std::optional<Overlap> found = overlap(p.flow, p.rule);
    if (!found)
      continue;
    INFO("trial " << trial);
    CHECK(inOrder(p.flow, found->order));
    CHECK(found->predicted <= inLine(p.flow, p.rule));
    std::vector<int64_t> busy(3, 0); // kernels, links
    for (const StepTime &time : p.rule.times)
      busy[size_t(time.link + 1)] += time.ns;
    for (int64_t least : busy)
      CHECK(found->predicted >= least);
    CHECK(found->exposed == found->predicted - busy[0]);
    Program tight = p;
    tight.rule.room = found->peakBytes;
    CHECK(overlap(tight.flow, tight.rule)->predicted == found->predicted);
    CHECK(!overlap(p.flow, p.rule, found->predicted));
    const std::optional<Overlap> below = overlap(p.flow, p.rule, found->predicted + 1);
    REQUIRE(below);
    CHECK(below->order == found->order);
    CHECK(below->beside == found->beside);
  }
}

TEST_CASE("a rank of a pipeline has several sections in its body") {
  Program p;
  p.rule.runs = 4;
  const Section forward = graph::forwardOf(0), input = graph::inputOf(0), weight = graph::weightOf(0);
  const int a = p.kernel({p.x}, 100, 64, forward);
  const int b = p.kernel({p.sum(a, 50, 0, forward)}, 10, 64, forward); // nothing else is there to do
  const int c = p.kernel({b}, 100, 64, input);
  p.kernel({p.sum(c, 60, 0, input)}, 10, 64, input); // its sum runs under the next gradient
  p.kernel({c}, 100, 64, input);
  const int w = p.kernel({a}, 100, 64, weight);
  for (int i = 0; i < 3; ++i) { // at the end a gradient is summed beside the update before
    const int gradient = p.kernel({w}, 0, 32, Section::End);
    p.kernel({p.sum(gradient, 40, 0, Section::End)}, 40, 32, Section::End);
  }
  const Overlap found = p.found();
  std::vector<int64_t> times;
  std::vector<Section> sections;
  for (const SectionTime &time : found.sections) {
    sections.push_back(time.section);
    times.push_back(time.ns);
  }
  CHECK(sections == std::vector<Section>{forward, input, weight, Section::End});
  CHECK(times == std::vector<int64_t>{160, 210, 100, 160});
  CHECK(found.predicted == 4 * (160 + 210 + 100) + 160);
  CHECK(found.exposed == 4 * 50 + 40);
  CHECK(inOrder(p.flow, found.order));
  // What one section leaves for another lives in between.
  CHECK(found.peakBytes >= 64 + 64);
  std::vector<int> of(p.flow.steps.size());
  for (size_t at = 0; at < found.order.size(); ++at)
    of[at] = int(p.flow.steps[size_t(found.order[at])].section);
  CHECK(std::is_sorted(of.begin(), of.end()));
  p.rule.room = 64;
  CHECK_FALSE(overlap(p.flow, p.rule));
}

TEST_CASE("slower kernels make the section longer in which they are") {
  Program p;
  p.rule.runs = 2;
  const int a = p.kernel({p.x}, 100, 0, graph::forwardOf(0));
  p.kernel({p.sum(a, 40, 0, graph::forwardOf(0))}, 10, 0, graph::forwardOf(0));
  p.kernel({a}, 100, 0, graph::forwardOf(0));
  p.kernel({a}, 100, 0, graph::weightOf(0));
  for (StepTime &time : p.rule.times)
    time.work = time.link >= 0 ? 0.5 : 0;
  const Overlap found = p.found();
  REQUIRE(found.sections.size() == 2);
  CHECK(found.sections[0].ns == 210 + 20);
  CHECK(found.sections[1].ns == 100);
  CHECK(found.predicted == 2 * 330);
}

TEST_CASE("a schedule is only looked for below the time that is given") {
  Program p;
  const int a = p.kernel({p.x}, 10), b = p.sum(a, 6);
  p.kernel({b, p.kernel({a}, 8)}, 5);
  const Overlap found = p.found();
  CHECK(!overlap(p.flow, p.rule, found.predicted));
  const std::optional<Overlap> below = overlap(p.flow, p.rule, found.predicted + 1);
  REQUIRE(below);
  CHECK(below->predicted == found.predicted);
  CHECK(below->order == found.order);
}
