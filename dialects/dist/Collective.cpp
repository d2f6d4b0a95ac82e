//===- Collective.cpp - names, bytes and the default price of collectives ---------------------===//
#include "dialects/dist/Reshard.h"
#include "dialects/dist/wire/WirePlanner.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace tessera::dist {

static constexpr llvm::StringLiteral kNames[] = {"slice",      "all-gather", "all-reduce", "reduce-scatter",
                                                 "all-to-all", "permute",    "halo",       "fit",
                                                 "broadcast",  "exchange",   "fold"};

llvm::StringRef stringify(CollectiveKind kind) { return kNames[int(kind)]; }

std::optional<CollectiveKind> parseCollectiveKind(llvm::StringRef text) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i])
      return CollectiveKind(i);
  return std::nullopt;
}

bool communicates(CollectiveKind kind) {
  return kind != CollectiveKind::Slice && kind != CollectiveKind::Fit && kind != CollectiveKind::Fold;
}

/// The most that one rank sends or receives: the sum of this part of its loads.
static double mostOf(const Collective &exchange, int64_t PeerLoad::*part) {
  int64_t most = 0;
  for (const RankLoad &load : exchange.loads) {
    int64_t sum = 0;
    for (const PeerLoad &peers : load)
      sum += peers.*part;
    most = std::max(most, sum);
  }
  return double(most);
}

double bytesSent(const Mesh &mesh, const Collective &c, int64_t elementBytes) {
  if (c.wire) {
    double sum = 0;
    for (const SentPart &part : sentBy(mesh, c, elementBytes))
      sum += bytesSent(mesh, part.collective, part.elementBytes);
    return sum;
  }
  double in = double(elementBytes);
  for (int64_t d : c.localIn)
    in *= double(d);
  double n = double(mesh.size(c.axes));
  switch (c.kind) {
  case CollectiveKind::Slice:
  case CollectiveKind::Fit:
  case CollectiveKind::Fold:
    return 0;
  case CollectiveKind::Exchange:
    return mostOf(c, &PeerLoad::elements) * double(elementBytes);
  case CollectiveKind::AllGather:
    return (n - 1) * in;
  case CollectiveKind::AllReduce:
    return 2 * (n - 1) / n * in;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return (n - 1) / n * in;
  case CollectiveKind::Broadcast:
    return n > 1 ? in : 0;
  case CollectiveKind::Permute:
    for (auto [rank, source] : llvm::enumerate(c.sources))
      if (int64_t(rank) != source)
        return in;
    return 0;
  case CollectiveKind::Halo: {
    if (n == 1 || c.localIn[c.dim] == 0)
      return 0;
    double row = in / double(c.localIn[c.dim]);
    return row * double(c.haloLo + c.haloHi);
  }
  }
  return 0;
}

CollectiveCost defaultCollectiveCost(const Mesh &mesh) {
  return [mesh](const Collective &c, int64_t elementBytes) {
    // A local step is cheaper than any exchange but not free, so that the planner adds none without need.
    double fixed = c.kind == CollectiveKind::Exchange ? mostOf(c, &PeerLoad::messages)
                   : communicates(c.kind)             ? 1.0
                                                      : 0.25;
    return fixed + bytesSent(mesh, c, elementBytes);
  };
}
} // namespace tessera::dist
