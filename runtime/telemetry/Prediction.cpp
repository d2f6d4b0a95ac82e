#include "runtime/telemetry/Prediction.h"

#include "runtime/plan/Recipe.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/File.h"
#include "runtime/support/Nesting.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

constexpr uint64_t kMostBytes = uint64_t(256) << 20;
/// A program that is said to take longer, in ns, is of a damaged report.
constexpr double kLongest = 1e16;

using Json = nlohmann::json;

/// The element of a list of objects that has this name; null if there is none.
const Json *named(const Json &object, const char *list, const std::string &name) {
  if (!object.is_object() || !object.contains(list) || !object[list].is_array())
    return nullptr;
  for (const Json &one : object[list])
    if (one.is_object() && one.value("name", Json()) == name)
      return &one;
  return nullptr;
}

/// A time in ns.
std::optional<int64_t> timeIn(const Json &value) {
  const bool good = value.is_number_integer() && value.get<int64_t>() >= 0 && double(value.get<int64_t>()) <= kLongest;
  return good ? std::optional(value.get<int64_t>()) : std::nullopt;
}

/// A list of so many times.
std::optional<std::vector<int64_t>> timesIn(const Json &object, const char *field, size_t count) {
  if (!object.contains(field) || !object[field].is_array() || object[field].size() != count)
    return std::nullopt;
  std::vector<int64_t> times;
  for (const Json &value : object[field]) {
    const std::optional<int64_t> ns = timeIn(value);
    if (!ns)
      return std::nullopt;
    times.push_back(*ns);
  }
  return times;
}

/// What a report says of a program's steps; nothing if it does not.
std::optional<std::vector<int64_t>> stepTimes(const Json &object, const plan::Program &program) {
  std::optional<std::vector<int64_t>> times = timesIn(object, "step_ns", size_t(program.steps_size()));
  if (!times)
    return times;
  const TimeOrder order(program);
  double sum = 0;
  for (uint32_t s = 0; s < times->size(); ++s)
    sum += double((*times)[s]) * order.timesOf(s);
  return sum <= kLongest ? times : std::nullopt;
}

/// Null if there is none.
Json readReport(const std::string &folder) {
  const Result<std::string> text = readFile(folder + "/" + kReportName, kMostBytes);
  return !text || nestsDeeper(*text, 64) ? Json() : Json::parse(*text, nullptr, /*allow_exceptions=*/false);
}

std::optional<Prediction> predictionIn(const Json &report, const plan::Plan &plan, int number) {
  const plan::Program &program = plan.programs(number);
  const Stages stages = stagesOf(plan);
  if (stages.count() < 2) {
    const Json *function = named(report, "functions", program.name());
    const auto times = function ? stepTimes(*function, program) : std::nullopt;
    return times ? std::optional(Prediction::of(program, *times)) : std::nullopt;
  }
  if (!report.is_object() || !report.contains("pipeline") || !report["pipeline"].is_object())
    return std::nullopt;
  const Json &pipeline = report["pipeline"];
  if (!pipeline.contains("places") || !pipeline["places"].is_array() || pipeline["places"].size() != stages.count())
    return std::nullopt;
  const std::optional<int64_t> end = timeIn(pipeline.value("predicted_ns", Json()));
  const Json *known = named(pipeline["places"][stages.of(plan.rank())], "programs", program.name());
  const auto times = known ? stepTimes(*known, program) : std::nullopt;
  const auto begins = known ? timesIn(*known, "call_ns", TimeOrder(program).calls().size()) : std::nullopt;
  if (!end || !times || !begins)
    return std::nullopt;
  return Prediction::of(program, *times, Prediction::Calls{*begins, *end});
}

} // namespace

Prediction Prediction::of(const plan::Program &program, const std::vector<int64_t> &ns,
                          const std::optional<Calls> &calls) {
  Prediction predicted;
  const TimeOrder order(program);
  std::vector<int64_t> ends(ns.size(), 0); // by step, in its last call
  int64_t busy = 0;
  for (size_t c = 0; c < order.calls().size(); ++c) {
    const SectionCall &call = order.calls()[c];
    const Section &section = order.sections()[call.section];
    const int64_t from = calls ? std::max(predicted.end, calls->begins[c]) : predicted.end;
    std::array<int64_t, plan::Resource_ARRAYSIZE> free = {}; // when a resource has ended its last step
    free.fill(from);
    int64_t end = from;
    for (uint32_t s = section.begin; s < section.end; ++s) {
      const plan::Step &step = program.steps(int(s));
      int64_t begin = free[size_t(step.resource())];
      for (const uint32_t other : step.waits())
        begin = std::max(begin, ends[other]);
      ends[s] = free[size_t(step.resource())] = begin + ns[s];
      end = std::max(end, ends[s]);
      if (step.has_kernel())
        predicted.kernels += ns[s];
      if (ns[s] > 0)
        predicted.runs.push_back({{s, call.index}, begin, ends[s]});
    }
    busy += end - from;
    predicted.end = end;
  }
  predicted.exposed = busy - predicted.kernels;
  if (calls)
    predicted.end = std::max(predicted.end, calls->end);
  predicted.waiting = predicted.end - busy;
  return predicted;
}

std::optional<Prediction> Prediction::read(const std::string &folder, const plan::Plan &plan, int program) {
  return predictionIn(readReport(folder), plan, program);
}

std::vector<Prediction> Prediction::readStages(const std::string &folder, const std::vector<plan::Plan> &ranks,
                                               int program) {
  const Json report = readReport(folder);
  const Stages stages = stagesOf(ranks.front());
  std::vector<Prediction> found;
  for (uint32_t s = 0; s < stages.count(); ++s) {
    std::optional<Prediction> one = predictionIn(report, ranks[stages.firstOf(s)], program);
    if (!one)
      return {};
    found.push_back(std::move(*one));
  }
  return found;
}

} // namespace tessera::rt
