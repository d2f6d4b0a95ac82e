//===- Traffic.h - what the ranks send each other in a step -------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_TRAFFIC_H
#define TESSERA_TOOLS_PAGE_TRAFFIC_H

#include "runtime/plan/plan.pb.h"
#include "tools/dump/ReportFields.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// More ranks than these have their sums, but no matrix.
constexpr size_t kMatrixRanks = 64;

/// What a rank sends in its first program.
struct RankTraffic {
  uint64_t sent = 0;
  std::vector<double> to; // by receiver, bytes. What a collective sends is shared evenly among the other ranks of
                          // its group, but for those that name their receivers (permute, halo, exchange).
  std::map<std::pair<std::string, std::string>, std::pair<uint64_t, double>> kinds; // by kind and axes: number, bytes
};

/// `ranks`: how many there are in all.
RankTraffic trafficOf(const plan::Plan &plan, size_t ranks);

/// Of the first program:
///   "kinds": [{"kind", "axes", "count", "bytes_sent", "cost_ns", "latency_ns"}], as predicted, per rank;
///   "planned": [{"kind", "axes", "count", "bytes_sent"}], as rank 0's plan has them, after collectives were joined;
///   "rank_bytes": what each rank sends;
///   "matrix": by sender and receiver, bytes (null for more than kMatrixRanks ranks).
Json trafficJson(const Json &function, const std::vector<RankTraffic> &ranks);

} // namespace tessera

#endif
