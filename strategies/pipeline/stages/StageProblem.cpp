#include "strategies/pipeline/stages/StageProblem.h"

#include <algorithm>
#include <cmath>

namespace tessera::strategies {

namespace {

constexpr int64_t kLargest = int64_t(1) << 53; // of one number in a problem
constexpr double kMost = 4e18;                 // of what is added up
constexpr int kMostNodes = 20'000;             // who reaches whom is a table of bits
constexpr int kMostDevices = 1 << 20;
constexpr size_t kMostWays = 32;
constexpr size_t kMostMoments = 10'000; // of all places

std::string stageName(size_t i) { return "stage " + std::to_string(i); }

bool inRange(int64_t n) { return n >= 0 && n <= kLargest; }

std::string checkDevices(const StageProblem &problem) {
  if (problem.devices.empty() || problem.devices.size() > kMostDeviceKinds)
    return "a problem has 1 to " + std::to_string(kMostDeviceKinds) + " kinds of devices";
  for (size_t k = 0; k < problem.devices.size(); ++k) {
    const StageDevices &kind = problem.devices[k];
    if (kind.count < 0 || kind.count > kMostDevices || kind.memory > kLargest || !(kind.bandwidth >= 0) ||
        !std::isfinite(kind.bandwidth))
      return "device kind " + std::to_string(k) + " has a number that is out of range";
  }
  if (problem.ways.empty() || problem.ways.size() > kMostWays)
    return "a problem has 1 to " + std::to_string(kMostWays) + " ways";
  for (size_t w = 0; w < problem.ways.size(); ++w)
    if (problem.ways[w].devices < 0 || problem.ways[w].devices >= int(problem.devices.size()) ||
        problem.ways[w].size < 1)
      return "way " + std::to_string(w) + " needs a known kind of device, and one device at least";
  if (problem.microBatches < 1 || problem.mostReplicas < 1)
    return "a problem needs one micro-batch and one replica at least";
  return "";
}

std::string checkNode(const StageProblem &problem, size_t n, double &time, double &memory, double &synced) {
  const StageNode &node = problem.nodes[n];
  const std::string name = "node " + std::to_string(n);
  if (node.stage < -1 || (node.stage >= 0 && node.stage >= problem.stages))
    return name + " is bound to stage " + std::to_string(node.stage) + " of " + std::to_string(problem.stages);
  if (node.ways.size() != problem.ways.size())
    return name + " needs an entry for each of the " + std::to_string(problem.ways.size()) + " ways";
  double longest = 0, largest = 0, most = 0;
  bool possible = false;
  for (const StageNodeWay &way : node.ways) {
    if (!inRange(way.synced))
      return name + " has a number that is negative or too large";
    most = std::max(most, double(way.synced));
    for (const StageVariant &variant : way.variants) {
      for (int64_t number : {variant.forward, variant.input, variant.weight, variant.fixed, variant.held})
        if (!inRange(number))
          return name + " has a number that is negative or too large";
      longest = std::max(longest, double(variant.time()));
      largest = std::max(largest, double(variant.fixed) + double(variant.held) * problem.microBatches);
      possible = true;
    }
  }
  if (!possible)
    return name + " can be run in no way";
  time += longest;
  memory += largest;
  synced += most;
  return "";
}

std::string checkValue(const StageProblem &problem, size_t v, double &bytes) {
  const StageValue &value = problem.values[v];
  const std::string name = "value " + std::to_string(v);
  auto isNode = [&](int node) { return node >= 0 && node < int(problem.nodes.size()); };
  if (!isNode(value.from) || !std::all_of(value.to.begin(), value.to.end(), isNode))
    return name + " names a node that there is not";
  double largest = double(value.bytes);
  for (const auto *more : {&value.sent, &value.received}) {
    if (!more->empty() && more->size() != problem.ways.size())
      return name + " needs an entry for each of the " + std::to_string(problem.ways.size()) + " ways";
    for (int64_t number : *more) {
      if (!inRange(number))
        return name + " has a number that is negative or too large";
      largest = std::max(largest, double(value.bytes) + double(number));
    }
  }
  if (!inRange(value.bytes))
    return name + " has a number that is negative or too large";
  bytes += largest * double(value.to.size() + 1);
  return "";
}

std::string checkPlaces(const StageProblem &problem) {
  if (problem.places.empty())
    return "";
  if (problem.stages == 0)
    return "places need a number of stages";
  if (problem.ways.size() > 1 || problem.mostReplicas > 1)
    return "stages that lie in places have one way and one replica";
  for (size_t n = 0; n < problem.nodes.size(); ++n)
    if (problem.nodes[n].ways[0].variants.size() > 1)
      return "node " + std::to_string(n) + " has several variants, but stages that lie in places have none to choose";
  std::vector<bool> lies(size_t(problem.stages), false);
  size_t moments = 0;
  for (size_t p = 0; p < problem.places.size(); ++p) {
    const StagePlace &place = problem.places[p];
    const std::string name = "place " + std::to_string(p);
    std::vector<int> most(place.stages.size(), 0);
    for (const std::vector<int> &moment : place.inFlight) {
      if (moment.size() != place.stages.size())
        return name + " has " + std::to_string(place.stages.size()) + " stages, but a moment of " +
               std::to_string(moment.size());
      for (size_t i = 0; i < moment.size(); ++i) {
        if (moment[i] < 0 || moment[i] > problem.microBatches)
          return name + " holds " + std::to_string(moment[i]) + " micro-batches of " +
                 std::to_string(problem.microBatches);
        most[i] = std::max(most[i], moment[i]);
      }
    }
    for (size_t i = 0; i < most.size(); ++i) {
      const int stage = place.stages[i];
      if (stage < 0 || stage >= problem.stages || lies[size_t(stage)])
        return name + " has " + stageName(size_t(stage)) + ", which there is not or which another place has";
      lies[size_t(stage)] = true;
      if (most[i] == 0)
        return name + " holds no micro-batch of " + stageName(size_t(stage)) + " at any moment";
    }
    moments += place.inFlight.size();
  }
  if (moments > kMostMoments)
    return "more than " + std::to_string(kMostMoments) + " moments of places";
  const auto none = std::find(lies.begin(), lies.end(), false);
  return none == lies.end() ? "" : stageName(size_t(none - lies.begin())) + " lies in no place";
}

} // namespace

std::string checkStageProblem(const StageProblem &problem) {
  if (std::string error = checkDevices(problem); !error.empty())
    return error;
  if (problem.nodes.empty())
    return "there is no node";
  if (problem.nodes.size() > size_t(kMostNodes))
    return "more than " + std::to_string(kMostNodes) + " nodes";
  if (problem.stages < 0 || problem.stages > int(problem.nodes.size()))
    return std::to_string(problem.nodes.size()) + " nodes make no " + std::to_string(problem.stages) + " stages";
  if (!problem.stageWays.empty() && int(problem.stageWays.size()) != problem.stages)
    return std::to_string(problem.stageWays.size()) + " stages are bound to ways, of " + std::to_string(problem.stages);
  for (int way : problem.stageWays)
    if (way < 0 || way >= int(problem.ways.size()))
      return "a stage is bound to way " + std::to_string(way) + " of " + std::to_string(problem.ways.size());
  double time = 0, memory = 0, synced = 0, bytes = 0;
  for (size_t n = 0; n < problem.nodes.size(); ++n)
    if (std::string error = checkNode(problem, n, time, memory, synced); !error.empty())
      return error;
  for (size_t v = 0; v < problem.values.size(); ++v)
    if (std::string error = checkValue(problem, v, bytes); !error.empty())
      return error;
  if (std::string error = checkPlaces(problem); !error.empty())
    return error;
  double moving = 0;
  for (const StageDevices &kind : problem.devices)
    if (kind.bandwidth > 0)
      moving = std::max(moving, (bytes + 2 * synced) / kind.bandwidth);
  // Each stage rounds three divisions up.
  const double rounding = 3 * double(problem.nodes.size());
  if (!((time + moving + rounding) * (double(problem.microBatches) + 1) < kMost) || !(memory < kMost) ||
      !(bytes + 2 * synced < kMost))
    return "the numbers are too large to be added up";
  return "";
}

StageTimes stageTimes(const StageProblem &problem, int way, int replicas, int64_t time, int64_t bytes, int64_t synced) {
  const double bandwidth = problem.devices[size_t(problem.ways[size_t(way)].devices)].bandwidth;
  StageTimes times{.latency = time, .interval = 0};
  if (bandwidth > 0)
    times.latency += int64_t(std::ceil(double(bytes) / bandwidth));
  times.interval = ceilDiv(times.latency, replicas);
  if (bandwidth > 0 && replicas > 1)
    times.interval +=
        int64_t(std::ceil(2.0 * (replicas - 1) / replicas * double(synced) / problem.microBatches / bandwidth));
  return times;
}

int64_t microBatchesInFlight(const StageProblem &problem, int replicas, int64_t behind) {
  for (const StagePlace &place : problem.places)
    for (size_t i = 0; i < place.stages.size(); ++i)
      if (place.stages[i] == problem.stages - 1 - behind) {
        int most = 0;
        for (const std::vector<int> &moment : place.inFlight)
          most = std::max(most, moment[i]);
        return most;
      }
  const int64_t all = problem.microBatches / replicas;
  const int64_t later = ceilDiv(behind, replicas);
  switch (problem.inFlight) {
  case InFlight::OneForwardOneBackward:
    return std::min(all, later + 1);
  case InFlight::ZeroBubble2:
    return std::min(all, 2 * later + 1);
  case InFlight::All:
    break;
  }
  return all;
}

StageRating rateStages(const StageProblem &problem, const StagePlan &plan) {
  StageRating rating;
  auto fail = [&](const std::string &what) {
    rating.error = what;
    return rating;
  };
  std::vector<int> at(problem.nodes.size(), -1);
  std::vector<int64_t> used(problem.devices.size(), 0);
  int64_t behind = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    const Stage &stage = plan[i];
    if (stage.nodes.empty() || stage.variants.size() != stage.nodes.size())
      return fail(stageName(i) + " has no node, or not a variant for each");
    if (stage.way < 0 || stage.way >= int(problem.ways.size()))
      return fail(stageName(i) + " is run in no known way");
    if (stage.replicas < 1 || stage.replicas > problem.mostReplicas || problem.microBatches % stage.replicas)
      return fail(stageName(i) + ": " + std::to_string(stage.replicas) + " replicas are not allowed");
    for (int node : stage.nodes) {
      if (node < 0 || node >= int(problem.nodes.size()))
        return fail(stageName(i) + " has a node that there is not");
      if (at[size_t(node)] >= 0)
        return fail("node " + std::to_string(node) + " is in two stages");
      if (const int bound = problem.nodes[size_t(node)].stage; bound >= 0 && bound != int(i))
        return fail("node " + std::to_string(node) + " is in " + stageName(i) + ", but bound to " +
                    stageName(size_t(bound)));
      at[size_t(node)] = int(i);
    }
    const StageWay &way = problem.ways[size_t(stage.way)];
    if (int(plan.size()) == problem.stages && !mayRun(problem, int(i), stage.way))
      return fail(stageName(i) + " is run in way " + std::to_string(stage.way) + ", but bound to way " +
                  std::to_string(problem.stageWays[i]));
    used[size_t(way.devices)] += int64_t(way.size) * stage.replicas;
    behind += stage.replicas;
  }
  for (size_t node = 0; node < at.size(); ++node)
    if (at[node] < 0)
      return fail("node " + std::to_string(node) + " is in no stage");
  for (size_t k = 0; k < used.size(); ++k)
    if (used[k] > problem.devices[k].count)
      return fail(std::to_string(used[k]) + " devices of kind " + std::to_string(k) + " are used of " +
                  std::to_string(problem.devices[k].count));
  if (problem.stages > 0 && plan.size() != size_t(problem.stages))
    return fail("there are " + std::to_string(plan.size()) + " stages, not " + std::to_string(problem.stages));

  rating.stages.resize(plan.size());
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const StageValue &value = problem.values[v];
    const int from = at[size_t(value.from)];
    std::vector<int> readers;
    for (int node : value.to)
      if (const int to = at[size_t(node)]; to != from) {
        if ((value.order == ValueOrder::Backward && to > from) || (value.order == ValueOrder::Forward && to < from))
          return fail("value " + std::to_string(v) + " goes from " + stageName(size_t(from)) + " to " +
                      stageName(size_t(to)));
        if (std::find(readers.begin(), readers.end(), to) == readers.end())
          readers.push_back(to);
      }
    auto more = [&](const std::vector<int64_t> &bytes, int stage) {
      return value.bytes + (bytes.empty() ? 0 : bytes[size_t(plan[size_t(stage)].way)]);
    };
    if (!readers.empty())
      rating.stages[size_t(from)].moved += more(value.sent, from);
    for (int to : readers)
      rating.stages[size_t(to)].moved += more(value.received, to);
  }

  int64_t latency = 0;
  std::vector<int64_t> fixed(plan.size(), 0), held(plan.size(), 0);
  for (size_t i = 0; i < plan.size(); ++i) {
    const Stage &stage = plan[i];
    StageRate &rate = rating.stages[i];
    behind -= stage.replicas;
    rate.inFlight = microBatchesInFlight(problem, stage.replicas, behind);
    int64_t synced = 0;
    for (size_t n = 0; n < stage.nodes.size(); ++n) {
      const StageNodeWay &way = problem.nodes[size_t(stage.nodes[n])].ways[size_t(stage.way)];
      if (stage.variants[n] < 0 || stage.variants[n] >= int(way.variants.size()))
        return fail(stageName(i) + ": node " + std::to_string(stage.nodes[n]) + " cannot be run so");
      const StageVariant &variant = way.variants[size_t(stage.variants[n])];
      rate.forward += variant.forward;
      rate.input += variant.input;
      rate.weight += variant.weight;
      fixed[i] += variant.fixed;
      held[i] += variant.held;
      synced += way.synced;
    }
    rate.memory = fixed[i] + rate.inFlight * held[i];
    const int64_t limit = problem.devices[size_t(problem.ways[size_t(stage.way)].devices)].memory;
    if (limit >= 0 && rate.memory > limit)
      return fail(stageName(i) + " needs " + std::to_string(rate.memory) + " bytes of " + std::to_string(limit));
    rate.times =
        stageTimes(problem, stage.way, stage.replicas, rate.forward + rate.input + rate.weight, rate.moved, synced);
    rating.bottleneck = std::max(rating.bottleneck, rate.times.interval);
    latency += rate.times.latency;
  }
  for (const StagePlace &place : problem.places) {
    int64_t &most = rating.places.emplace_back(0);
    for (const std::vector<int> &moment : place.inFlight) {
      int64_t bytes = 0;
      for (size_t i = 0; i < moment.size(); ++i)
        bytes += fixed[size_t(place.stages[i])] + moment[i] * held[size_t(place.stages[i])];
      most = std::max(most, bytes);
    }
    const int64_t limit = problem.devices[size_t(problem.ways[0].devices)].memory;
    if (limit >= 0 && most > limit)
      return fail("the stages of place " + std::to_string(rating.places.size() - 1) + " need " + std::to_string(most) +
                  " bytes of " + std::to_string(limit));
  }
  rating.batch = latency + (problem.microBatches - 1) * rating.bottleneck;
  rating.value = problem.goal == StageGoal::Bottleneck ? rating.bottleneck : rating.batch;
  return rating;
}

} // namespace tessera::strategies
