//===- Traffic.h - what the ranks send each other in a step -------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_TRAFFIC_H
#define TESSERA_TOOLS_PAGE_TRAFFIC_H

#include "runtime/plan/PlanFile.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

/// More ranks than these have their sums, but no matrix.
constexpr size_t kMatrixRanks = 64;

/// Of the first program:
///   "kinds": [{"kind", "axes", "count", "bytes_sent", "cost_ns", "latency_ns"}], as predicted, per rank;
///   "planned": [{"kind", "axes", "count", "bytes_sent"}], as rank 0's plan has them, after collectives were joined;
///   "rank_bytes": what each rank sends;
///   "matrix": by sender and receiver, bytes (null for more than kMatrixRanks ranks). What a collective sends is shared
///   evenly among the other ranks of its group, but for those that name their receivers (permute, halo).
Json trafficJson(const Json &function, const rt::PlanDirectory &plans);

} // namespace tessera

#endif
