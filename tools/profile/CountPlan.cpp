#include "tools/profile/CountPlan.h"

#include "runtime/backend/cuda/count/CountWork.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Printable.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using rt::cuda::DeviceWork;

/// Of a kind of kernel, or of all.
struct Sum {
  uint64_t launches = 0;
  double bytes = 0, flops = 0;
  double seconds = 0, arithmetic = 0, memory = 0, launching = 0; // the parts of the seconds by what limits them

  void add(const Sum &other) {
    launches += other.launches;
    bytes += other.bytes;
    flops += other.flops;
    seconds += other.seconds;
    arithmetic += other.arithmetic;
    memory += other.memory;
    launching += other.launching;
  }
  const char *limit() const {
    const double most = std::max({arithmetic, memory, launching});
    return most == launching ? "launches" : most == arithmetic ? "arithmetic" : "memory";
  }
};

Sum sumOf(const DeviceWork &work, const strategies::Topology &topology) {
  const double arithmetic = work.flops / topology.rate(work.bits),
               memory = double(work.bytes) / topology.memoryBandwidth;
  const auto times = double(work.times);
  Sum sum;
  sum.launches = work.times;
  sum.bytes = double(work.bytes) * times;
  sum.flops = work.flops * times;
  sum.launching = topology.launch * times;
  (arithmetic > memory ? sum.arithmetic : sum.memory) = std::max(arithmetic, memory) * times;
  sum.seconds = sum.launching + sum.arithmetic + sum.memory;
  return sum;
}

Json asJson(const Sum &sum) {
  return {{"launches", sum.launches},
          {"bytes", sum.bytes},
          {"flops", sum.flops},
          {"seconds", sum.seconds},
          {"limit", sum.limit()}};
}

/// A line of the table. Names of steps are longer than those of kinds, and stand at the end.
std::string line(const std::string &name, const Sum &sum, const std::string &step = "") {
  char text[160];
  std::snprintf(text, sizeof text, "%-24s %9llu %10.2f %10.3f %10.3f  %s", name.substr(0, 24).c_str(),
                static_cast<unsigned long long>(sum.launches), sum.bytes / 1e9, sum.flops / 1e12, 1e3 * sum.seconds,
                sum.limit());
  return text + (step.empty() ? "" : "  " + step) + "\n";
}

} // namespace

llvm::Expected<std::string> countPlan(const std::string &folder, const strategies::Topology &topology, bool tf32,
                                      bool json, int64_t largest) {
  plan::Plan plan;
  if (rt::Status status = rt::visitPlanDirectory(folder,
                                                 [&](const plan::Plan &rank) {
                                                   if (rank.rank() == 0)
                                                     plan = rank;
                                                 });
      !status)
    return llvm::createStringError(status.message());
  rt::LoadOptions options;
  options.device.tf32 = tf32;
  Json all = {{"model", plan.model()}, {"topology", topology.name}, {"programs", Json::array()}};
  std::string text;
  for (int p = 0; p < plan.programs_size(); ++p) {
    const plan::Program &program = plan.programs(p);
    rt::Result<std::vector<DeviceWork>> list = rt::cuda::countWork(plan, p, options);
    if (!list)
      return llvm::createStringError("%s: program '%s': %s", folder.c_str(), program.name().c_str(),
                                     list.status().message().c_str());
    struct Step {
      std::string name, kind;
      Sum sum;
    };
    std::map<std::string, Sum> kinds;
    std::vector<Step> steps; // that have several launches: once
    Sum total;
    for (const DeviceWork &work : *list) {
      const Sum sum = sumOf(work, topology);
      const std::string kind = work.kind + (work.library ? " (library)" : "");
      kinds[kind].add(sum);
      if (steps.empty() || steps.back().name != work.step || steps.back().kind != kind)
        steps.push_back({work.step, kind, Sum()});
      steps.back().sum.add(sum);
      total.add(sum);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step &a, const Step &b) { return a.sum.seconds > b.sum.seconds; });
    steps.resize(std::min(steps.size(), size_t(largest)));
    uint64_t collectives = 0, sent = 0;
    const rt::TimeOrder order(program);
    for (int s = 0; s < program.steps_size(); ++s)
      if (program.steps(s).has_collective()) {
        collectives += order.timesOf(uint32_t(s));
        sent += order.timesOf(uint32_t(s)) * rt::bytesSent(plan, program.steps(s).collective());
      }
    std::vector<std::pair<std::string, Sum>> rows(kinds.begin(), kinds.end());
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
    Json byKind = Json::object();
    text += (p > 0 ? "\n" : "") +
            ("program '" + rt::printable(program.name()) + "' of " + rt::printable(plan.model())) +
            ", rank 0, on a device of " + topology.name + "\n" +
            "kind                      launches         GB      TFLOP         ms  limited by\n";
    for (const auto &[kind, sum] : rows) {
      byKind[kind] = asJson(sum);
      text += line(rt::printable(kind), sum);
    }
    text += line("sum", total);
    if (collectives > 0)
      text +=
          "and " + std::to_string(collectives) + " collectives, which send " + std::to_string(sent / 1000000) + " MB\n";
    Json told = asJson(total);
    told["name"] = program.name();
    told["collectives"] = collectives;
    told["bytes_sent"] = sent;
    told["kinds"] = std::move(byKind);
    if (largest > 0)
      told["steps"] = Json::array();
    for (const Step &step : steps) {
      text += line(rt::printable(step.kind), step.sum, rt::printable(step.name));
      Json one = asJson(step.sum);
      one["name"] = step.name;
      one["kind"] = step.kind;
      told["steps"].push_back(std::move(one));
    }
    all["programs"].push_back(std::move(told));
  }
  return json ? all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n" : text;
}

} // namespace tessera
