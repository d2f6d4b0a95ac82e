// Cuts of networks into stages: all there are, on small graphs; proven optima that others found; large graphs.
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/stages/Downsets.h"
#include "strategies/pipeline/stages/EvenCuts.h"
#include "strategies/pipeline/stages/FindStages.h"
#include "strategies/pipeline/stages/MovedBytes.h"
#include "strategies/pipeline/stages/OpenStage.h"
#include "strategies/pipeline/stages/Room.h"
#include "strategies/pipeline/stages/SharedMemory.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>

using namespace tessera::strategies;
using Json = nlohmann::json;

namespace {

/// The judge's value of what was found; it must agree with the search.
int64_t check(const StageProblem &problem, const FoundStages &found) {
  REQUIRE(!found.plan.empty());
  const StageRating rating = rateStages(problem, found.plan);
  CHECK(rating.error == "");
  CHECK(rating.value == found.value);
  CHECK(found.lowerBound <= found.value);
  return rating.value;
}

/// Every plan of at most `mostStages` stages, judged; nothing if none is allowed.
std::optional<int64_t> bestOfAll(const StageProblem &problem, int mostStages) {
  std::optional<int64_t> best;
  const int n = int(problem.nodes.size());
  StagePlan plan;
  std::function<void(size_t)> variants = [&](size_t s) {
    if (s == plan.size()) {
      const StageRating rating = rateStages(problem, plan);
      if (rating.error.empty() && (!best || rating.value < *best))
        best = rating.value;
      return;
    }
    Stage &stage = plan[s];
    for (int way = 0; way < int(problem.ways.size()); ++way)
      for (int replicas = 1; replicas <= problem.mostReplicas; ++replicas) {
        if (problem.microBatches % replicas)
          continue;
        stage.way = way;
        stage.replicas = replicas;
        std::function<void(size_t)> choose = [&](size_t i) {
          if (i == stage.nodes.size())
            return variants(s + 1);
          const size_t count = problem.nodes[size_t(stage.nodes[i])].ways[size_t(way)].variants.size();
          for (size_t v = 0; v < count; ++v) {
            stage.variants[i] = int(v);
            choose(i + 1);
          }
        };
        choose(0);
      }
  };
  std::vector<int> at(size_t(n), 0);
  std::function<void(int, int)> place = [&](int node, int stages) {
    if (node == n) {
      plan.assign(size_t(stages), {});
      for (int i = 0; i < n; ++i)
        plan[size_t(at[size_t(i)])].nodes.push_back(i);
      for (Stage &stage : plan) {
        if (stage.nodes.empty())
          return;
        stage.variants.assign(stage.nodes.size(), 0);
      }
      return variants(0);
    }
    for (int s = 0; s < stages; ++s) {
      at[size_t(node)] = s;
      place(node + 1, stages);
    }
  };
  for (int stages = 1; stages <= mostStages; ++stages)
    place(0, stages);
  return best;
}

/// Random graphs with everything that a problem can have.
StageProblem randomProblem(std::mt19937 &random, int nodes) {
  auto upTo = [&](int most) { return int64_t(random() % unsigned(most + 1)); };
  StageProblem problem;
  problem.microBatches = int(std::array{1, 2, 4, 6}[size_t(upTo(3))]);
  problem.mostReplicas = int(1 + upTo(1));
  problem.goal = upTo(1) ? StageGoal::Batch : StageGoal::Bottleneck;
  problem.inFlight = InFlight(upTo(2));
  const int kinds = int(1 + upTo(1));
  for (int k = 0; k < kinds; ++k)
    problem.devices.push_back(
        {int(1 + upTo(2)), upTo(3) ? 10 + upTo(60) : -1, std::array{0.0, 1.0, 2.5}[size_t(upTo(2))]});
  for (int w = 0; w < kinds; ++w)
    problem.ways.push_back({w, 1});
  if (kinds == 1 && upTo(1))
    problem.ways.push_back({0, 2});
  for (int n = 0; n < nodes; ++n) {
    StageNode node;
    for (size_t w = 0; w < problem.ways.size(); ++w) {
      node.ways.emplace_back();
      if (w > 0 && upTo(5) == 0)
        continue;
      node.ways[w].synced = upTo(1) * upTo(20);
      const bool light = upTo(3) == 0;
      for (int64_t v = 0, count = 1 + (light ? 0 : upTo(4) / 4); v < count; ++v)
        node.ways[w].variants.push_back({light ? 0 : upTo(9), light ? 0 : upTo(9), 0, upTo(1) * upTo(8), upTo(6)});
      if (light)
        node.ways[w].synced = 0;
    }
    problem.nodes.push_back(node);
  }
  for (int from = 0; from < nodes; ++from) {
    StageValue value{.from = from,
                     .to = {},
                     .bytes = upTo(6),
                     .order = upTo(7) ? ValueOrder::Forward : ValueOrder(1 + upTo(1)),
                     .sent = {},
                     .received = {}};
    for (int to = 0; to < nodes; ++to)
      if ((value.order == ValueOrder::Backward ? to < from : value.order == ValueOrder::Any || to > from) &&
          upTo(2) == 0)
        value.to.push_back(to);
    if (upTo(4) == 0)
      for (size_t w = 0; w < problem.ways.size(); ++w) {
        value.sent.push_back(upTo(4));
        value.received.push_back(upTo(4));
      }
    problem.values.push_back(value);
  }
  if (upTo(2) == 0)
    problem.stages = int(1 + upTo(2));
  if (problem.stages > 0 && problem.ways.size() > 1 && upTo(2))
    for (int s = 0; s < problem.stages; ++s)
      problem.stageWays.push_back(int(upTo(int(problem.ways.size()) - 1)));
  if (problem.stages > 1 && upTo(1)) // some nodes are bound to stages, mostly so that others can follow
    for (int n = 0; n < nodes; ++n)
      if (upTo(1))
        problem.nodes[size_t(n)].stage = upTo(4) ? n * problem.stages / nodes : int(upTo(problem.stages - 1));
  return problem;
}

/// The places of stages that lie on devices in an order with a name.
std::vector<StagePlace> placesOf(const std::string &name, int devices, int chunks, int microBatches) {
  const bool returns = name == "zb-v";
  const Pipeline pipeline =
      evenPipeline({.devices = devices, .microBatches = microBatches, .chunks = chunks, .returns = returns});
  std::vector<StagePlace> places(static_cast<size_t>(devices));
  const StagePlaces where{devices, chunks, returns};
  for (int s = 0; s < where.stages(); ++s)
    places[size_t(where.deviceOf(s))].stages.push_back(s);
  for (const NamedOrder &named : namedOrders(pipeline))
    if (named.name == name) {
      const auto held = mostHeld(pipeline, named.order);
      for (size_t d = 0; d < held.size(); ++d)
        places[d].inFlight = held[d];
    }
  return places;
}

Json read(const std::string &name) {
  std::ifstream file(TESSERA_TEST_DIR "/" + name);
  return Json::parse(file);
}

/// A chain of equal nodes, each of which also reads the one `skip` before it.
StageProblem skips(int nodes, int skip, int devices) {
  StageProblem problem;
  problem.devices = {{devices, -1, 1}};
  problem.ways = {{0, 1}};
  for (int n = 0; n < nodes; ++n) {
    problem.nodes.push_back({{{{{.forward = 10}}, 0}}});
    StageValue value{.from = n, .to = {}, .bytes = 1, .order = ValueOrder::Forward, .sent = {}, .received = {}};
    for (int to : {n + 1, n + skip})
      if (to < nodes)
        value.to.push_back(to);
    problem.values.push_back(value);
  }
  return problem;
}

} // namespace

TEST_CASE("what stages along an order move is what their units move one by one") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    StageProblem problem = randomProblem(random, 3 + round % 10);
    for (StageDevices &kind : problem.devices)
      kind.bandwidth = 1; // a unit of time for each byte
    const Units units = makeUnits(problem);
    for (size_t way = 0; way < problem.ways.size(); ++way) {
      MovedBytes moved(units, way);
      for (int turn = 0; turn < 2; ++turn) // and from the start again
        for (int begin = 0; begin < units.count(); begin += 1 + turn) {
          moved.begin(begin);
          OpenStage stage(problem, units);
          int64_t bytes = 0;
          for (int end = begin; end < units.count(); ++end) {
            stage.add(end);
            bytes += moved.more(end);
            CHECK(stage.times(way, 1, 0).latency == bytes);
          }
        }
    }
  }
}

TEST_CASE("small graphs: the best of all plans") {
  std::mt19937 random(3);
  int fit = 0, none = 0, bound = 0, boundWays = 0, noRoom = 0;
  for (int i = 0; i < 1500; ++i) {
    const StageProblem problem = randomProblem(random, 2 + int(random() % 4));
    INFO("problem " << i);
    if (problem.stages > int(problem.nodes.size()))
      continue;
    REQUIRE(checkStageProblem(problem) == "");
    int devices = 0;
    for (const StageDevices &kind : problem.devices)
      devices += kind.count;
    const std::optional<int64_t> best = bestOfAll(problem, std::min(devices, int(problem.nodes.size())));
    const FoundStages found = findStages(problem);
    CHECK(found.complete);
    if (!best) {
      CHECK(found.plan.empty());
      CHECK(found.infeasible);
      ++none;
      noRoom += !hasRoom(problem);
      continue;
    }
    ++fit;
    CHECK(hasRoom(problem));
    bound += std::any_of(problem.nodes.begin(), problem.nodes.end(), [](const StageNode &n) { return n.stage >= 0; });
    boundWays += std::ranges::adjacent_find(problem.stageWays, std::ranges::not_equal_to()) != problem.stageWays.end();
    const int64_t value = check(problem, found);
    CHECK(value == *best);
    CHECK(found.optimal());
  }
  CHECK(fit > 500);
  CHECK(bound > 40);
  CHECK(boundWays > 20); // different ones
  CHECK(none > 40);
  CHECK(noRoom > 10);
}

TEST_CASE("small graphs: the best of all plans of stages that share places") {
  std::mt19937 random(17);
  int fit = 0, none = 0, decides = 0, noRoom = 0;
  for (int i = 0; i < 600; ++i) {
    INFO("problem " << i);
    const int nodes = 4 + int(random() % 4);
    StageProblem problem = randomProblem(random, nodes);
    problem.ways.resize(1);
    problem.mostReplicas = 1;
    problem.stages = random() % 3 ? 4 : 3;
    problem.stageWays.clear();
    problem.microBatches = 4;
    problem.devices[0].count = problem.stages;
    for (StageNode &node : problem.nodes) {
      node.stage = -1;
      node.ways.resize(1);
      node.ways[0].variants.resize(1);
    }
    for (StageValue &value : problem.values)
      value.sent = value.received = {};
    if (random() % 4 == 0) { // any places and moments
      problem.places.resize(2);
      for (int s = 0; s < problem.stages; ++s)
        problem.places[s < 2 ? size_t(s) : random() % 2].stages.push_back(s);
      for (StagePlace &place : problem.places) {
        std::shuffle(place.stages.begin(), place.stages.end(), random);
        place.inFlight.assign(1 + random() % 3, std::vector<int>(place.stages.size(), 1));
        for (std::vector<int> &moment : place.inFlight)
          for (int &held : moment)
            held = int(random() % 5);
        for (int &held : place.inFlight[0])
          held = std::max(held, 1);
      }
    } else {
      problem.places = problem.stages == 3 ? placesOf("1f1b", 3, 1, 4)
                       : random() % 2 == 0 ? placesOf("zb-v", 2, 2, 4)
                                           : placesOf("interleaved", 2, 2, 4);
    }
    REQUIRE(checkStageProblem(problem) == "");
    StageProblem unlimited = problem;
    unlimited.devices[0].memory = -1;
    if (const FoundStages found = findStages(unlimited); !found.plan.empty()) { // just too much for it, or just not
      const StageRating rating = rateStages(unlimited, found.plan);
      problem.devices[0].memory =
          std::max<int64_t>(0, *std::max_element(rating.places.begin(), rating.places.end()) - int64_t(random() % 20));
    }
    const std::optional<int64_t> best = bestOfAll(problem, problem.stages);
    const FoundStages found = findStages(problem);
    CHECK(found.complete);
    if (!best) {
      CHECK(found.plan.empty());
      CHECK(found.infeasible);
      ++none;
      noRoom += !hasRoom(problem);
      continue;
    }
    ++fit;
    CHECK(hasRoom(problem));
    CHECK(check(problem, found) == *best);
    CHECK(found.optimal());
    decides += findStages(unlimited).value < *best;
  }
  CHECK(fit > 200);
  CHECK(decides > 50);
  CHECK(none > 40);
  CHECK(noRoom > 10);
}

TEST_CASE("stages that share a place share its memory") {
  // There and back on two devices, of which the first has the stages 0 and 3: with four micro-batches it holds four of
  // the one, or three of it and one of the other.
  const std::vector<StagePlace> places = placesOf("zb-v", 2, 2, 4);
  CHECK(places[0].stages == std::vector<int>{0, 3});
  CHECK(places[0].inFlight == std::vector<std::vector<int>>{{3, 1}, {4, 0}});
  StageProblem problem = skips(16, 1, 4);
  problem.microBatches = 4;
  problem.stages = 4;
  for (StageNode &node : problem.nodes)
    node.ways[0].variants[0].held = 1;
  problem.nodes[0].ways[0].variants[0].fixed = 8; // a table at both ends
  problem.nodes[15].ways[0].variants[0].fixed = 4;
  problem.places = places;
  problem.devices[0].memory = 28; // of both tables, and 16 for what it holds
  FoundStages found = findStages(problem);
  CHECK(check(problem, found) == 42);
  CHECK(found.optimal());
  CHECK(rateStages(problem, found.plan).places[0] == 28);
  // With less room a node goes from the device's first stage to its last, though each would have room alone.
  problem.devices[0].memory = 27;
  CHECK(rateStages(problem, found.plan).error == "the stages of place 0 need 28 bytes of 27");
  found = findStages(problem);
  CHECK(found.optimal());
  CHECK(check(problem, found) == 51);
  CHECK(found.plan[3].nodes.size() == 5);
  problem.devices[0].memory = 15;
  CHECK(findStages(problem).infeasible);
}

TEST_CASE("where no plan fits, the best in any memory is asked for in the same search") {
  for (const char *name : {"1f1b", "zb-v"}) { // stages with devices of their own, stages that share them
    StageProblem problem = skips(200, 7, 16);
    problem.stages = 8;
    problem.microBatches = 16;
    problem.goal = StageGoal::Batch;
    for (StageNode &node : problem.nodes)
      node.ways[0].variants[0].held = 10;
    if (name == std::string("zb-v"))
      problem.places = placesOf(name, 4, 2, 16);
    const FoundStages unlimited = findStages(problem, {.work = 0.1});
    problem.devices[0].memory = 100;
    CHECK(findStages(problem, {.work = 0.1}).plan.empty());
    const FoundStages found = findStages(problem, {.work = 0.1, .mayExceed = true});
    CHECK(found.value == unlimited.value);
    CHECK(!found.infeasible);
    problem.devices[0].memory = 200 * 10 * 16;
    CHECK(rateStages(problem, findStages(problem, {.work = 0.1, .mayExceed = true}).plan).error.empty());
  }
}

TEST_CASE("large graphs: stages without room are not looked at, whatever they take") {
  StageProblem problem = skips(2000, 7, 16);
  problem.stages = 16;
  problem.microBatches = 16;
  problem.goal = StageGoal::Batch;
  for (StageNode &node : problem.nodes)
    node.ways[0].variants[0].held = 10;
  problem.places = placesOf("zb-v", 8, 2, 16);
  const Units units = makeUnits(problem);
  const int64_t any = std::numeric_limits<int64_t>::max();
  problem.devices[0].memory = 2000 * 10 * 16;
  const EvenlyCut cut = cutEvenly(problem, units, any);
  REQUIRE(!cut.plan.empty());
  problem.devices[0].memory = 100; // of ten nodes; a stage needs 125
  const EvenlyCut none = cutEvenly(problem, units, any);
  CHECK(none.plan.empty());
  CHECK(none.steps == cut.steps); // of the cut in any memory, from which shares of the place follow
}

TEST_CASE("large graphs: stages that share a place are cut so that they have room") {
  for (const char *name : {"zb-v", "interleaved"})
    for (GivesUp end : {GivesUp::First, GivesUp::Last}) {
      INFO(name);
      StageProblem problem = skips(2000, 7, 16);
      problem.stages = 16;
      problem.microBatches = 16;
      problem.goal = StageGoal::Batch;
      for (StageNode &node : problem.nodes)
        node.ways[0].variants[0].held = 10;
      problem.nodes[end == GivesUp::First ? 0 : 1999].ways[0].variants[0].fixed = 4000; // a large table at one end
      problem.places = placesOf(name, 8, 2, 16);
      const FoundStages even = findStages(problem, {.work = 0.1, .mostDownsets = 4000});
      const StageRating rating = rateStages(problem, even.plan);
      const int64_t need = *std::max_element(rating.places.begin(), rating.places.end());
      problem.devices[0].memory = need - 3000;
      const FoundStages found = findStages(problem, {.work = 0.1, .mostDownsets = 4000});
      REQUIRE(!found.plan.empty());
      check(problem, found);
      // A stage of 125 nodes gets some more, since that of the table has fewer.
      CHECK(double(found.value) < 1.05 * double(even.value));
      CHECK(found.lowerBound >= even.lowerBound);
    }
}

TEST_CASE("small graphs: every downset once, with every unit that can follow") {
  std::mt19937 random(5);
  int some = 0;
  for (int i = 0; i < 200; ++i) {
    const Units units = makeUnits(randomProblem(random, 2 + int(random() % 8)), false);
    const int n = units.count();
    for (int width : {0, 1, 2, n}) {
      INFO("problem " << i << ", width " << width);
      // By unit, what must be taken before it.
      std::vector<unsigned> before(size_t(n), 0);
      for (int u = 0; u < n; ++u)
        for (int v = u + 1; v < n; ++v)
          if (v - u > width || units.reaches(u, v))
            before[size_t(v)] |= 1U << u;
      auto follows = [&](unsigned set, int u) {
        return !(set >> u & 1) && (set & before[size_t(u)]) == before[size_t(u)];
      };
      std::set<unsigned> sets{0};
      for (auto set = sets.begin(); set != sets.end(); ++set) // what is inserted is larger
        for (int u = 0; u < n; ++u)
          if (follows(*set, u))
            sets.insert(*set | 1U << u);
      const std::optional<Downsets> lattice = Downsets::build(units, width, 1000);
      REQUIRE(lattice);
      REQUIRE(lattice->count() == sets.size());
      some += sets.size() > size_t(n) + 1;
      auto setOf = [&](uint32_t id) {
        unsigned set = 0;
        for (int u : lattice->units(id))
          set |= 1U << u;
        return set;
      };
      for (uint32_t id = 0; id < lattice->count(); ++id) {
        const unsigned set = setOf(id);
        CHECK(sets.erase(set) == 1);
        size_t following = 0;
        for (int u = 0; u < n; ++u)
          following += follows(set, u);
        CHECK(lattice->edges(id).size() == following);
        for (const DownsetEdge &edge : lattice->edges(id)) {
          CHECK(follows(set, edge.unit));
          CHECK(edge.next > id);
          CHECK(setOf(edge.next) == (set | 1U << edge.unit));
        }
      }
    }
  }
  CHECK(some > 100);
}

TEST_CASE("published cuts with proven optima are reached") {
  int instances = 0, chains = 0, same = 0;
  for (const Json &instance : read("stage_cuts.json")) {
    INFO(instance["name"]);
    StageProblem problem;
    problem.microBatches = instance["micro"];
    problem.stages = instance["stages"];
    problem.devices = {{problem.stages, instance["limit"], 1}};
    problem.ways = {{0, 1}};
    for (size_t n = 0; n < instance["time"].size(); ++n) {
      auto of = [&](const char *key) { return instance[key][n].get<int64_t>(); };
      problem.nodes.push_back({{{{{.forward = of("time"), .fixed = of("param"), .held = of("act")}}, 0}}});
      problem.values.push_back(
          {.from = int(n), .to = {}, .bytes = of("ship"), .order = ValueOrder::Forward, .sent = {}, .received = {}});
    }
    for (const Json &edge : instance["edges"])
      problem.values[edge[0].get<size_t>()].to.push_back(edge[1]);
    REQUIRE(checkStageProblem(problem) == "");
    for (StageGoal goal : {StageGoal::Bottleneck, StageGoal::Batch}) {
      problem.goal = goal;
      const FoundStages found = findStages(problem);
      CHECK(check(problem, found) ==
            instance["best"][goal == StageGoal::Bottleneck ? "bottleneck" : "batch"].get<int64_t>());
      CHECK(found.optimal());
      // Where there are too many downsets, those near good orders give nearly as much, and the bound stays a bound. A
      // chain has no fewer downsets: its cuts are those with the shortest interval, and nearly the shortest sum.
      const FoundStages near = findStages(problem, {.mostDownsets = found.downsets - 1});
      CHECK(!near.complete);
      CHECK(near.downsets < found.downsets);
      CHECK(near.lowerBound <= found.value);
      const bool chain = found.downsets == problem.nodes.size() + 1;
      chains += chain;
      same += check(problem, near) == found.value;
      CHECK(double(near.value) <= (!chain ? 1.05 : goal == StageGoal::Batch ? 1.06 : 1) * double(found.value));
    }
    ++instances;
  }
  CHECK(instances == 15);
  CHECK(chains == 16);
  CHECK(same >= 23);
}

TEST_CASE("activations in flight move the cuts to where there is room") {
  // The first stage holds as many micro-batches as there are stages, the last one holds one.
  StageProblem problem;
  problem.microBatches = 8;
  problem.devices = {{2, 12, 0}};
  problem.ways = {{0, 1}};
  for (int n = 0; n < 8; ++n) {
    problem.nodes.push_back({{{{{.forward = 1, .held = 2}}, 0}}});
    if (n > 0)
      problem.values.push_back(
          {.from = n - 1, .to = {n}, .bytes = 1, .order = ValueOrder::Forward, .sent = {}, .received = {}});
  }
  const FoundStages found = findStages(problem);
  CHECK(check(problem, found) == 5);
  REQUIRE(found.plan.size() == 2);
  CHECK(found.plan[0].nodes.size() == 3);
  // With all micro-batches in flight nothing fits, and more so with fewer devices.
  problem.inFlight = InFlight::All;
  CHECK(findStages(problem).infeasible);
  // To compute activations again costs time where memory is short, and only there.
  problem.inFlight = InFlight::OneForwardOneBackward;
  for (StageNode &node : problem.nodes)
    node.ways[0].variants.push_back({.forward = 1, .input = 1, .held = 1});
  problem.devices[0].memory = 9;
  const FoundStages again = findStages(problem);
  CHECK(check(problem, again) == 6); // 3 nodes, two of them computed again, and 5 nodes, of them one
  CHECK(again.optimal());
}

TEST_CASE("stages without room for all nodes are not searched") {
  // 4 stages hold 4, 3, 2 and 1 micro-batches: 12/4 + 12/3 + 12/2 + 12/1 bytes of one of them at most.
  StageProblem problem = skips(1000, 30, 4);
  problem.microBatches = 8;
  for (int n = 0; n < 25; ++n)
    problem.nodes[size_t(n) * 40].ways[0].variants[0].held = 1;
  problem.devices[0].memory = 12;
  CHECK(hasRoom(problem));
  problem.nodes[1].ways[0].variants[0].held = 1;
  CHECK(!hasRoom(problem));
  const FoundStages none = findStages(problem);
  CHECK(none.infeasible);
  CHECK(none.plan.empty());
  CHECK(none.downsets == 0);
  // What is fixed costs least where most micro-batches are held: of 12 bytes 4 are one of a micro-batch.
  problem.nodes[1].ways[0].variants[0] = {.forward = 10, .fixed = 4};
  problem.nodes[0].ways[0].variants[0].held = 0;
  CHECK(hasRoom(problem));
  problem.nodes[1].ways[0].variants[0].fixed = 5;
  CHECK(!hasRoom(problem));
  problem.nodes[1].ways[0].variants.push_back({.forward = 20});
  CHECK(hasRoom(problem));
}

TEST_CASE("nodes that wait for one another share a stage") {
  StageProblem problem = skips(4, 9, 4);
  problem.values.push_back(
      {.from = 2, .to = {1}, .bytes = 0, .order = ValueOrder::Forward, .sent = {}, .received = {}});
  const FoundStages found = findStages(problem);
  CHECK(found.units == 3);
  CHECK(check(problem, found) == 22);
  REQUIRE(found.plan.size() == 3);
  CHECK(found.plan[1].nodes == std::vector<int>{1, 2});
}

TEST_CASE("transfers that take longer than all work leave no interval out") {
  // A cut has an interval of 10,000 units, more than eight times the work of every stage: it is found without a limit.
  StageProblem problem;
  problem.devices = {{2, -1, 1}};
  problem.ways = {{0, 1}};
  problem.stages = 2;
  for (int n = 0; n < 19; ++n) {
    problem.nodes.push_back({{{{{.forward = 1}}, 0}}});
    if (n > 0)
      problem.values.push_back(
          {.from = n - 1, .to = {n}, .bytes = 10000, .order = ValueOrder::Forward, .sent = {}, .received = {}});
  }
  const FoundStages found = findStages(problem);
  check(problem, found);
  CHECK(found.plan.size() == 2);
  CHECK(found.optimal());
}

TEST_CASE("nodes are in the stages to which they are bound") {
  // Two chains side by side, 600 nodes in all, have too many downsets to be looked at. Along no order in which the
  // chains alternate there is a cut that has one of them before the other.
  StageProblem problem;
  problem.stages = 4;
  problem.devices = {{4, -1, 1}};
  problem.ways = {{0, 1}};
  for (int n = 0; n < 600; ++n) {
    problem.nodes.push_back({{{{{.forward = 10}}, 0}}, n % 2 ? 2 + n / 300 : n / 300});
    StageValue value{.from = n, .to = {}, .bytes = 1, .order = ValueOrder::Forward, .sent = {}, .received = {}};
    if (n + 2 < 600)
      value.to.push_back(n + 2);
    problem.values.push_back(value);
  }
  CHECK(check(problem, findStages(problem, {.work = 1, .mostDownsets = 4000})) == 1501);
  // One node of a chain decides for those that it waits for, and for those that wait for it.
  problem = skips(40, 1, 3);
  problem.stages = 3;
  problem.nodes[30].stage = 1;
  const FoundStages found = findStages(problem);
  CHECK(found.optimal());
  CHECK(check(problem, found) == 161); // 15 or 16 nodes in each of the first two stages, 9 behind
  problem.nodes[20].stage = 2;
  CHECK(findStages(problem).infeasible);
}

TEST_CASE("stages are run in the ways to which they are bound") {
  // Four devices do an operator in a quarter of the time, so a stage of four takes four times the nodes of one.
  StageProblem problem = skips(500, 1, 5);
  problem.ways = {{0, 1}, {0, 4}};
  problem.stages = 2;
  for (StageNode &node : problem.nodes)
    node.ways = {{{{.forward = 40}}, 0}, {{{.forward = 10}}, 0}};
  for (const std::vector<int> &ways : {std::vector{1, 0}, std::vector{0, 1}}) {
    problem.stageWays = ways;
    const FoundStages found = findStages(problem, {.work = 1, .mostDownsets = 4000});
    CHECK(found.optimal());
    CHECK(check(problem, found) == 4001); // 400 and 100 nodes, and one message
    REQUIRE(found.plan.size() == 2);
    CHECK(found.plan[0].nodes.size() == (ways[0] == 1 ? 400 : 100));
    CHECK((found.plan[0].way == ways[0] && found.plan[1].way == ways[1]));
  }
  // A plan in other ways is none.
  FoundStages found = findStages(problem);
  problem.stageWays = {1, 0};
  CHECK(rateStages(problem, found.plan).error == "stage 0 is run in way 0, but bound to way 1");
  // Nodes that a way cannot run are in the other stage, also where there are too many downsets.
  for (int n = 0; n < 500; ++n)
    if (n >= 450)
      problem.nodes[size_t(n)].ways[1].variants.clear();
  found = findStages(problem, {.work = 1, .mostDownsets = 100});
  CHECK(check(problem, found) == 4001);
  problem.nodes[0].ways[1].variants.clear();
  CHECK(findStages(problem).infeasible);
}

TEST_CASE("many stages of many nodes are cut well with little work") {
  for (int stages : {4, 32, 64})
    for (StageGoal goal : {StageGoal::Bottleneck, StageGoal::Batch}) {
      // Layers of a long node and short ones between which more is sent.
      StageProblem problem = skips(2000, 1, stages);
      problem.stages = stages;
      problem.goal = goal;
      problem.microBatches = 16;
      for (size_t n = 0; n < problem.nodes.size(); ++n) {
        problem.nodes[n].ways[0].variants[0].forward = n % 8 == 3 ? 500 : 40;
        problem.values[n].bytes = n % 8 == 7 ? 10 : 200;
      }
      INFO(stages);
      const FoundStages little = findStages(problem, {.work = 0.02, .mostDownsets = 4000});
      const FoundStages much = findStages(problem, {.work = 1, .mostDownsets = 4000});
      CHECK(double(check(problem, little)) <= 1.005 * double(check(problem, much)));
    }
}

TEST_CASE("large graphs: a good answer and an honest bound") {
  for (int skip : {2, 7}) {
    const StageProblem problem = skips(2000, skip, 16);
    const FoundStages found = findStages(problem, {.work = 0.3});
    CHECK(double(check(problem, found)) < 1.02 * 10 * 2000 / 16);
    CHECK(found.lowerBound >= 10 * 2000 / 16);
    CHECK(findStages(problem, {.work = 0.3}).value == found.value);
  }
  // Independent chains have more downsets than can be looked at.
  StageProblem problem;
  problem.devices = {{7, -1, 1}};
  problem.ways = {{0, 1}};
  std::mt19937 random(1);
  int64_t all = 0;
  for (int n = 0; n < 400; ++n) {
    problem.nodes.push_back({{{{{.forward = 50 + int64_t(random() % 100)}}, 0}}});
    all += problem.nodes.back().ways[0].variants[0].forward;
    if (n >= 40)
      problem.values.push_back(
          {.from = n - 40, .to = {n}, .bytes = 1, .order = ValueOrder::Forward, .sent = {}, .received = {}});
  }
  const FoundStages found = findStages(problem, {.work = 0.5});
  CHECK(!found.complete);
  CHECK(found.lowerBound >= all / 7);
  CHECK(double(check(problem, found)) < 1.05 * double(found.lowerBound));
}
