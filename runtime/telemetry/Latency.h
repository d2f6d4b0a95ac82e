//===- Latency.h - how long batches of an inference took --------------------------------------------===//
//
//   Latency told = latencyOf({0.9, 0.1, 0.1, 0.1, 0.12}, 8);   // five batches of 8 samples
//   told.warmup == 2; told.batches == 3; told.median == 0.1; told.p99 == 0.12
//   latencyText(told);   // "latency of a batch: median 100 ms, p90 120 ms, p99 120 ms, over 3 batches after 2 ..."
//
// The first batches of a run touch memory for the first time, and a device may record its graphs. They are left out: 5,
// or half of the batches where there are fewer than 10.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_LATENCY_H
#define TESSERA_RUNTIME_TELEMETRY_LATENCY_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

struct Latency {
  int64_t batches = 0, warmup = 0;     // that count, and that were left out before them
  double median = 0, p90 = 0, p99 = 0; // seconds: the least that so many of the batches did not exceed
  double samplesPerSecond = 0;         // while batches ran
};

/// `seconds`: of at least one batch, in order; a batch has `samples` samples.
Latency latencyOf(const std::vector<double> &seconds, uint64_t samples);

/// The numbers under the names that logs and JSON have for them.
std::vector<std::pair<std::string, double>> latencyFields(const Latency &latency);
std::string latencyText(const Latency &latency);
/// One JSON object and a line end.
std::string latencyJson(const Latency &latency);

} // namespace tessera::rt

#endif
