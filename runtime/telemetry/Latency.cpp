#include "runtime/telemetry/Latency.h"

#include "runtime/telemetry/Progress.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::rt {
namespace {

/// Batches that are left out at most. The first touches memory and fills caches of kernels; a device records its graphs
/// within the next few.
constexpr size_t kWarmup = 5;

} // namespace

Latency latencyOf(const std::vector<double> &seconds, uint64_t samples) {
  Latency latency;
  const size_t warmup = std::min(kWarmup, seconds.size() / 2);
  std::vector<double> sorted(seconds.begin() + int64_t(warmup), seconds.end());
  std::sort(sorted.begin(), sorted.end());
  auto atLeast = [&](double share) {
    const auto rank = size_t(std::ceil(share * double(sorted.size())));
    return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
  };
  latency.batches = int64_t(sorted.size());
  latency.warmup = int64_t(warmup);
  latency.median = atLeast(0.5);
  latency.p90 = atLeast(0.9);
  latency.p99 = atLeast(0.99);
  const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  latency.samplesPerSecond = double(samples) * double(sorted.size()) / std::max(total, 1e-9);
  return latency;
}

std::vector<std::pair<std::string, double>> latencyFields(const Latency &latency) {
  return {{"batches", double(latency.batches)}, {"warmup_batches", double(latency.warmup)},
          {"latency_median", latency.median},   {"latency_p90", latency.p90},
          {"latency_p99", latency.p99},         {"samples_per_second", latency.samplesPerSecond}};
}

std::string latencyText(const Latency &latency) {
  auto batches = [](int64_t count) { return std::to_string(count) + (count == 1 ? " batch" : " batches"); };
  auto milliseconds = [](double seconds) { return numberText(seconds * 1e3, 4) + " ms"; };
  return "latency of a batch: median " + milliseconds(latency.median) + ", p90 " + milliseconds(latency.p90) +
         ", p99 " + milliseconds(latency.p99) + ", over " + batches(latency.batches) +
         (latency.warmup == 0 ? "" : " after " + std::to_string(latency.warmup) + " to warm up") + "; " +
         numberText(latency.samplesPerSecond, 4) + " samples/s";
}

std::string latencyJson(const Latency &latency) {
  std::string text = "{";
  for (const auto &[name, value] : latencyFields(latency))
    text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + numberText(value, 17);
  return text + "}\n";
}

} // namespace tessera::rt
