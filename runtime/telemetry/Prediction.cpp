#include "runtime/telemetry/Prediction.h"

#include "runtime/plan/Recipe.h"
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

/// What a report says of a program's steps; nothing if it does not.
std::optional<std::vector<int64_t>> stepTimes(const nlohmann::json &report, const plan::Program &program) {
  if (!report.is_object() || !report.contains("functions") || !report["functions"].is_array())
    return std::nullopt;
  for (const nlohmann::json &function : report["functions"]) {
    if (!function.is_object() || function.value("name", nlohmann::json()) != program.name() ||
        !function.contains("step_ns"))
      continue;
    const nlohmann::json &list = function["step_ns"];
    if (!list.is_array() || list.size() != size_t(program.steps_size()))
      return std::nullopt;
    const TimeOrder order(program);
    std::vector<int64_t> times;
    double sum = 0;
    for (const nlohmann::json &ns : list) {
      if (!ns.is_number_integer() || ns.get<int64_t>() < 0)
        return std::nullopt;
      sum += double(ns.get<int64_t>()) * order.timesOf(uint32_t(times.size()));
      times.push_back(ns.get<int64_t>());
    }
    return sum <= kLongest ? std::optional(times) : std::nullopt;
  }
  return std::nullopt;
}

} // namespace

Prediction Prediction::of(const plan::Program &program, const std::vector<int64_t> &ns) {
  Prediction predicted;
  const TimeOrder order(program);
  int64_t kernels = 0;
  std::vector<int64_t> ends(ns.size(), 0); // by step, in its last call
  for (const SectionCall &call : order.calls()) {
    const Section &section = order.sections()[call.section];
    std::array<int64_t, plan::Resource_ARRAYSIZE> free = {}; // when a resource has ended its last step
    free.fill(predicted.end);
    for (uint32_t s = section.begin; s < section.end; ++s) {
      const plan::Step &step = program.steps(int(s));
      int64_t begin = free[size_t(step.resource())];
      for (const uint32_t other : step.waits())
        begin = std::max(begin, ends[other]);
      ends[s] = free[size_t(step.resource())] = begin + ns[s];
      predicted.end = std::max(predicted.end, ends[s]);
      if (!step.has_collective())
        kernels += ns[s];
      if (ns[s] > 0)
        predicted.runs.push_back({{s, call.index}, begin, ends[s]});
    }
  }
  predicted.exposed = predicted.end - kernels;
  return predicted;
}

std::optional<Prediction> Prediction::read(const std::string &folder, const plan::Program &program) {
  const Result<std::string> text = readFile(folder + "/" + kReportName, kMostBytes);
  if (!text || nestsDeeper(*text, 64))
    return std::nullopt;
  const nlohmann::json report = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const std::optional<std::vector<int64_t>> times = stepTimes(report, program);
  return times ? std::optional(of(program, *times)) : std::nullopt;
}

} // namespace tessera::rt
