#include "strategies/pipeline/stages/StageProblemIO.h"

#include "strategies/time/JsonReader.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

constexpr int kDeepest = 8;         // the format nests seven levels deep
constexpr size_t kMostWays = 1'000; // more is no list of ways (checkStageProblem has the limit)

class Reader {
public:
  explicit Reader(JsonReader &read) : read_(read) {}

  StageProblem problem(const Json &json) {
    StageProblem problem;
    if (!read_.isObject(json, "the file's content"))
      return problem;
    auto index = [&](const char *key, int missing) {
      return json.contains(key) ? read_.index(json, key, "the problem") : missing;
    };
    problem.microBatches = index("micro_batches", 1);
    problem.mostReplicas = index("most_replicas", 1);
    problem.stages = index("stages", 0);
    for (const Json &way : read_.list(json, "stage_ways", ""))
      problem.stageWays.push_back(read_.index(way, "the problem: a stage's way"));
    problem.goal =
        oneOf(json, "the problem", "goal", {"bottleneck", "batch"}) == 1 ? StageGoal::Batch : StageGoal::Bottleneck;
    problem.inFlight = InFlight(oneOf(json, "the problem", "in_flight", {"1f1b", "gpipe", "zb-h2"}));
    devices(json, problem);
    for (const Json &item : read_.list(json, "places", "")) {
      if (!good())
        return problem;
      problem.places.push_back(place(item, "place " + std::to_string(problem.places.size())));
    }
    for (const Json &item : read_.list(json, "nodes", "")) {
      if (!good())
        return problem;
      problem.nodes.push_back(node(item, "node " + std::to_string(problem.nodes.size()), problem.ways.size()));
    }
    for (const Json &item : read_.list(json, "values", "")) {
      if (!good())
        return problem;
      problem.values.push_back(value(item, "value " + std::to_string(problem.values.size())));
    }
    return problem;
  }

private:
  bool good() const { return read_.error.empty(); }

  /// The place of a member's text among those that are allowed; the first one is the default.
  int oneOf(const Json &json, const std::string &where, const char *key, const std::vector<std::string> &allowed) {
    if (!json.contains(key))
      return 0;
    const auto place = std::find(allowed.begin(), allowed.end(), read_.text(json, key, where));
    if (place != allowed.end())
      return int(place - allowed.begin());
    std::string list;
    for (const std::string &text : allowed)
      list += (list.empty() ? "'" : text == allowed.back() ? "' or '" : "', '") + text;
    read_.fail(where + ": '" + key + "' is not " + list + "'");
    return 0;
  }

  void devices(const Json &json, StageProblem &problem) {
    for (const Json &item : read_.list(json, "devices", "")) {
      const std::string where = "device kind " + std::to_string(problem.devices.size());
      if (!good() || !read_.isObject(item, where))
        return;
      StageDevices kind;
      kind.count = read_.index(item, "count", where);
      kind.memory = std::max<int64_t>(read_.whole(item, "memory", where, -1), -1);
      kind.bandwidth = read_.number(item, "bandwidth", where, 0);
      problem.devices.push_back(kind);
    }
    for (const Json &item : read_.list(json, "ways", "")) {
      const std::string where = "way " + std::to_string(problem.ways.size());
      if (!good() || !read_.isObject(item, where))
        return;
      StageWay way;
      way.devices = item.contains("devices") ? read_.index(item, "devices", where) : 0;
      way.size = item.contains("size") ? read_.index(item, "size", where) : 1;
      problem.ways.push_back(way);
    }
    if (problem.ways.size() > kMostWays || problem.devices.size() > kMostWays)
      read_.fail("there are too many kinds of devices, or ways");
    if (!json.contains("ways"))
      for (size_t k = 0; k < problem.devices.size(); ++k)
        problem.ways.push_back({int(k), 1});
  }

  StagePlace place(const Json &json, const std::string &where) {
    StagePlace place;
    if (!read_.isObject(json, where))
      return place;
    for (const Json &stage : read_.list(json, "stages", where))
      place.stages.push_back(read_.index(stage, where + ": a stage"));
    for (const Json &moment : read_.list(json, "in_flight", where)) {
      if (!good())
        return place;
      if (!moment.is_array()) {
        read_.fail(where + ": a moment of 'in_flight' is no list");
        return place;
      }
      place.inFlight.emplace_back();
      for (const Json &held : moment)
        place.inFlight.back().push_back(read_.index(held, where + ": micro-batches in flight"));
    }
    return place;
  }

  StageVariant variant(const Json &json, const std::string &where) {
    StageVariant variant;
    if (!read_.isObject(json, where))
      return variant;
    variant.forward = read_.whole(json, "forward", where, 0);
    variant.input = read_.whole(json, "input", where, 0);
    variant.weight = read_.whole(json, "weight", where, 0);
    variant.fixed = read_.whole(json, "fixed", where, 0);
    variant.held = read_.whole(json, "held", where, 0);
    return variant;
  }
  StageNodeWay nodeWay(const Json &json, const std::string &where) {
    StageNodeWay way;
    if (json.is_null() || !read_.isObject(json, where))
      return way;
    way.synced = read_.whole(json, "synced", where, 0);
    for (const Json &item : read_.list(json, "variants", where)) {
      if (!good())
        return way;
      way.variants.push_back(variant(item, where + ": variant " + std::to_string(way.variants.size())));
    }
    if (!json.contains("variants"))
      way.variants.push_back(variant(json, where));
    return way;
  }
  StageNode node(const Json &json, const std::string &where, size_t ways) {
    StageNode node;
    if (!read_.isObject(json, where))
      return node;
    if (json.contains("stage"))
      node.stage = read_.index(json, "stage", where);
    if (!json.contains("ways")) {
      node.ways.assign(std::min(ways, kMostWays), nodeWay(json, where));
      return node;
    }
    for (const Json &item : read_.list(json, "ways", where)) {
      if (!good())
        return node;
      node.ways.push_back(nodeWay(item, where + ": way " + std::to_string(node.ways.size())));
    }
    return node;
  }
  StageValue value(const Json &json, const std::string &where) {
    StageValue value;
    if (!read_.isObject(json, where))
      return value;
    value.from = read_.index(json, "from", where);
    for (const Json &to : read_.list(json, "to", where))
      value.to.push_back(read_.index(to, where + ": a reader"));
    value.bytes = read_.whole(json, "bytes", where, 0);
    value.order = ValueOrder(oneOf(json, where, "order", {"forward", "backward", "any"}));
    for (auto [key, list] : {std::pair("sent", &value.sent), std::pair("received", &value.received)})
      for (const Json &bytes : read_.list(json, key, where))
        list->push_back(read_.whole(bytes, where + ": '" + key + "'"));
    return value;
  }

  JsonReader &read_;
};

StageProblem readProblem(JsonReader &read, const Json &json) { return Reader(read).problem(json); }

void append(std::string &text, const char *key, const std::vector<int> &numbers) {
  text += std::string("\"") + key + "\": [";
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? "," : "") + std::to_string(numbers[i]);
  text += "], ";
}

} // namespace

std::optional<StageProblem> parseStageProblem(const std::string &text, const std::string &name, std::string &error) {
  return readChecked<StageProblem>(text, name, kDeepest, error, readProblem, checkStageProblem);
}

std::string toJson(const StagePlan &plan) {
  std::string text = "{\"stages\": [";
  for (size_t i = 0; i < plan.size(); ++i) {
    text += i ? ",\n  {" : "\n  {";
    append(text, "nodes", plan[i].nodes);
    append(text, "variants", plan[i].variants);
    text += "\"way\": " + std::to_string(plan[i].way) + ", \"replicas\": " + std::to_string(plan[i].replicas) + "}";
  }
  return text + "]}\n";
}

} // namespace tessera::strategies
