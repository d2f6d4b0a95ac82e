#include "runtime/session/Profile.h"

#include "runtime/backend/KernelWork.h"
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Session.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tessera::rt {
namespace {

constexpr size_t kLosses = 3, kImplementations = 20, kSteps = 30; // rows that are printed

/// Adds up steps under the name that `name` gives each.
template <typename Name>
std::vector<CostSum> sumBy(const std::vector<StepCost> &steps, const MachineRates &rates, const Name &name) {
  std::map<std::string, CostSum> sums;
  for (const StepCost &step : steps) {
    CostSum &sum = sums[name(step)];
    const auto rate = rates.products.find(step.type);
    const double computing = rate == rates.products.end() ? 0 : step.flops / rate->second,
                 moving = rates.bandwidth > 0 ? step.bytes / rates.bandwidth : 0;
    sum.calls += step.calls;
    sum.seconds += step.seconds;
    sum.flops += step.flops;
    sum.bytes += step.bytes;
    sum.computing += computing;
    sum.moving += moving;
    sum.limit += std::max(computing, moving);
  }
  std::vector<CostSum> result;
  for (auto &[key, sum] : sums) {
    sum.name = key;
    result.push_back(sum);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const CostSum &a, const CostSum &b) { return a.seconds > b.seconds; });
  return result;
}

std::string percent(double part, double whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", whole > 0 ? 100 * part / whole : 0);
  return text;
}

std::string gigas(double rate) { return numberText(rate / 1e9, 3); }

/// Whether a kernel is made of products, so that their rate is its limit.
bool isProduct(const std::string &kernel) {
  return kernel.starts_with("matmul") || kernel.starts_with("conv") || kernel.starts_with("attention");
}

struct Step {
  StepCost cost;
  std::string name;
};

/// What one run of a program takes and does, step by step.
std::vector<Step> stepsOf(Session &s, int p, const std::vector<KernelCall> &calls) {
  const plan::Plan &plan = s.executor.plan();
  const StepTimes &times = s.executor.times(p);
  std::vector<Step> steps;
  std::vector<std::pair<size_t, StepCost>> elsewhere; // of steps that run in the place of others
  for (int i = 0; i < plan.programs(p).steps_size(); ++i) {
    const plan::Step &step = plan.programs(p).steps(i);
    StepCost cost;
    cost.calls = s.executor.order(p).timesOf(uint32_t(i));
    cost.seconds = times.seconds[size_t(i)] / double(times.measured);
    if (const CollectiveCall *call = s.executor.collective(p, i)) {
      cost.kind = collectiveName(step.collective().kind());
      cost.implementation = "collective: " + cost.kind + (call->joined() ? ", sent with an earlier step" : "");
      cost.bytes = double(bytesSent(plan, step.collective())) * double(cost.calls);
    } else {
      cost.implementation = s.executor.loaded().describe(uint32_t(p), uint32_t(i));
      if (const PeerCall *peer = s.executor.peerCall(p, i)) {
        cost.kind = peer->sends() ? "send" : "receive";
        cost.bytes = double(peer->bytes()) * double(cost.calls);
      } else if (const KernelCall &call = calls[size_t(i)]; call.kernel) {
        const KernelWork work = workOf(call);
        cost.type = (call.inputs.empty() ? call.outputs : call.inputs)[0].dtype;
        cost.kind = call.name() + " " + dtypeName(cost.type);
        cost.flops = work.flops.value_or(0) * double(cost.calls);
        cost.bytes = double(work.bytes) * double(cost.calls);
      }
      if (const auto as = s.executor.asRun(p, i)) {
        cost.implementation = as->implementation;
        cost.bytes = double(as->bytes) * double(cost.calls);
        if (as->place != uint32_t(i)) {
          elsewhere.emplace_back(as->place, std::exchange(cost, StepCost()));
        }
      }
    }
    steps.push_back({std::move(cost), step.name()});
  }
  for (const auto &[place, other] : elsewhere) {
    StepCost &cost = steps[place].cost;
    cost.flops += other.flops;
    if (isProduct(other.kind) && !isProduct(cost.kind)) {
      cost.kind = other.kind;
      cost.type = other.type;
    }
  }
  std::erase_if(steps, [](const Step &step) { return step.cost.kind.empty(); });
  return steps;
}

/// Measures what the plan's products and loops are held against. Ranks that share a machine measure at once.
Status measureRates(Session &s, const std::vector<std::vector<KernelCall>> &calls, MachineRates &rates) {
  std::set<plan::DType> types;
  for (const auto &program : calls)
    for (const KernelCall &call : program)
      if (call.kernel && isProduct(call.name()) && isFloat(call.inputs[0].dtype))
        types.insert(call.inputs[0].dtype);
  Backend &backend = *s.platform.backend;
  const LoadOptions load = loadOptions(s.options);
  TESSERA_RETURN_IF_ERROR(s.executor.everyone().barrier());
  Result<double> bandwidth = measureBandwidth(backend, load);
  TESSERA_RETURN_IF_ERROR(s.executor.everyone().barrier());
  Status unknown = bandwidth.status();
  if (bandwidth)
    rates.bandwidth = *bandwidth;
  for (const plan::DType type : types)
    if (Result<double> rate = measureProducts(backend, load, type))
      rates.products[type] = *rate;
    else
      unknown = rate.status();
  if (!unknown && s.leader())
    s.console.line("note: the machine's rates are not all known: " + unknown.message());
  return Status();
}

void printSteps(Session &s, int program, std::vector<Step> steps) {
  const double total =
      std::accumulate(steps.begin(), steps.end(), 0.0, [](double a, const Step &b) { return a + b.cost.seconds; });
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step &a, const Step &b) { return a.cost.seconds > b.cost.seconds; });
  auto row = [&](double seconds, const std::string &what) {
    char text[64];
    std::snprintf(text, sizeof text, "  %9.3f ms %5.1f %%  ", seconds * 1e3, 100 * seconds / std::max(total, 1e-12));
    s.console.line(text + what);
  };
  s.console.line("profile of program " + s.executor.plan().programs(program).name() +
                 " on rank 0: " + numberText(total * 1e3, 4) + " ms a run; by kernel:");
  std::vector<StepCost> costs;
  for (const Step &step : steps)
    costs.push_back(step.cost);
  const std::vector<CostSum> sums = sumBy(costs, {}, [](const StepCost &step) { return step.implementation; });
  for (size_t i = 0; i < std::min(sums.size(), kImplementations); ++i)
    row(sums[i].seconds, std::to_string(sums[i].calls) + " x " + sums[i].name);
  s.console.line("by step:");
  for (size_t i = 0; i < std::min(steps.size(), kSteps); ++i)
    row(steps[i].cost.seconds, steps[i].name +
                                   (steps[i].cost.calls == 1 ? "" : " x " + std::to_string(steps[i].cost.calls)) +
                                   "  (" + steps[i].cost.implementation + ")");
}

} // namespace

std::vector<CostSum> sumByKind(const std::vector<StepCost> &steps, const MachineRates &rates) {
  return sumBy(steps, rates, [](const StepCost &step) { return step.kind; });
}

std::vector<CostSum> largestLosses(const std::vector<StepCost> &steps, const MachineRates &rates, size_t count) {
  std::vector<CostSum> sums =
      sumBy(steps, rates, [](const StepCost &step) { return step.kind + ", " + step.implementation; });
  std::stable_sort(sums.begin(), sums.end(), [](const CostSum &a, const CostSum &b) { return a.lost() > b.lost(); });
  while (!sums.empty() && (sums.size() > count || sums.back().lost() <= 0))
    sums.pop_back();
  return sums;
}

std::vector<std::string> limitsText(const std::vector<StepCost> &steps, const MachineRates &rates) {
  std::vector<std::string> lines;
  CostSum all;
  const std::vector<CostSum> kinds = sumByKind(steps, rates);
  for (const CostSum &kind : kinds) {
    all.seconds += kind.seconds;
    all.limit += kind.limit;
  }
  std::string machine;
  for (const auto &[type, rate] : rates.products)
    machine += (machine.empty() ? "products " : ", ") + gigas(rate) + " GFLOP/s in " + dtypeName(type);
  machine += (machine.empty() ? "" : "; ") + std::string("memory ") + gigas(rates.bandwidth) + " GB/s";
  lines.push_back("this machine's limits, measured now: " + machine);
  lines.push_back("at them a run takes " + numberText(all.limit * 1e3, 4) + " ms, " + percent(all.limit, all.seconds) +
                  " of " + numberText(all.seconds * 1e3, 4) + " ms:");
  lines.push_back("         ms   of run  at limit   GFLOP/s  of peak      GB/s  of peak    calls  kind");
  for (const CostSum &kind : kinds) {
    char text[160];
    const double seconds = std::max(kind.seconds, 1e-12);
    const bool computes = kind.computing > 0;
    std::snprintf(text, sizeof text, "  %9.3f %8s %9s %9s %8s %9s %8s %8llu  ", kind.seconds * 1e3,
                  percent(kind.seconds, all.seconds).c_str(), percent(kind.limit, kind.seconds).c_str(),
                  computes ? gigas(kind.flops / seconds).c_str() : "-",
                  computes ? percent(kind.computing, kind.seconds).c_str() : "-", gigas(kind.bytes / seconds).c_str(),
                  percent(kind.moving, kind.seconds).c_str(), static_cast<unsigned long long>(kind.calls));
    lines.push_back(text + kind.name);
  }
  const std::vector<CostSum> losses = largestLosses(steps, rates, kLosses);
  if (!losses.empty())
    lines.push_back("largest losses, in time beyond the limit:");
  for (const CostSum &loss : losses) {
    char text[64];
    std::snprintf(text, sizeof text, "  %9.3f ms  ", loss.lost() * 1e3);
    lines.push_back(text + loss.name + ": " + std::to_string(loss.calls) + (loss.calls == 1 ? " call" : " calls") +
                    " at " + percent(loss.limit, loss.seconds) + " of the limit by " +
                    (loss.computing > loss.moving ? "arithmetic" : "memory"));
  }
  return lines;
}

Status showProfile(Session &s) {
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(s.executor.plan(), loadOptions(s.options));
  if (!calls)
    return calls.status();
  MachineRates rates;
  TESSERA_RETURN_IF_ERROR(measureRates(s, *calls, rates));
  if (!s.leader())
    return Status();
  for (int p = 0; p < s.executor.plan().programs_size(); ++p) {
    if (s.executor.times(p).measured == 0)
      continue;
    std::vector<Step> steps = stepsOf(s, p, (*calls)[size_t(p)]);
    std::vector<StepCost> costs;
    for (const Step &step : steps)
      costs.push_back(step.cost);
    printSteps(s, p, std::move(steps));
    for (const std::string &line : limitsText(costs, rates))
      s.console.line(line);
  }
  return Status();
}

} // namespace tessera::rt
