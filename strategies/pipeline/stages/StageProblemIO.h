//===- StageProblemIO.h - problems and plans of stages as files ------------------------------------===//
//
// A problem is one JSON object. Every number is checked, and a bad file gives one sentence.
//
//   {"micro_batches": 8,
//    "goal": "batch",                                   or "bottleneck", the default
//    "in_flight": "1f1b",                               the default, or "gpipe" or "zb-h2"
//    "devices": [{"count": 4, "memory": 1000, "bandwidth": 2.5}],
//    "nodes": [{"forward": 3, "input": 3, "weight": 2, "fixed": 40, "held": 10},
//              {"forward": 5, "input": 4, "weight": 4, "fixed": 60, "held": 12, "synced": 20}],
//    "values": [{"from": 0, "to": [1], "bytes": 6},
//               {"from": 1, "to": [0], "bytes": 6, "order": "backward"}]}
//
// More may be said: "stages": 2 asks for so many, and "stage": 0 binds a node to one of them; "most_replicas": 4 lets a
// stage have up to 4. Several "ways", each {"devices": KIND, "size": DEVICES}, are the choices of a stage; without them
// there is one for each kind of devices, with one device. "stage_ways": [1, 0] says in which way each of the "stages"
// is run. A node may list its costs by way, and variants in each, and say null where it cannot be run:
//
//   {"ways": [{"variants": [{"forward": 8, "held": 10}, {"forward": 11, "held": 2}]}, {"forward": 4, "held": 5}, null]}
//
// "places" are stages that share their devices, with the micro-batches that each holds at the moments at which they
// hold most. Of four stages that lie there and back on two devices:
//
//   "places": [{"stages": [0, 3], "in_flight": [[4, 0], [3, 1]]}, {"stages": [1, 2], "in_flight": [[2, 2], [3, 1]]}]
//
// The order of a value is "forward" if nothing is said, "backward", or "any". It may list by way what it needs beyond
// its bytes: "sent": [0, 4, 0] by its producer's way, "received" by its reader's. Without "memory" there is no limit,
// without "bandwidth" transfers take no time.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_STAGEPROBLEMIO_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_STAGEPROBLEMIO_H

#include "strategies/pipeline/stages/StageProblem.h"

#include <optional>

namespace tessera::strategies {

/// The checked problem, or nothing and a sentence in `error` that begins with `name`.
std::optional<StageProblem> parseStageProblem(const std::string &text, const std::string &name, std::string &error);

/// {"stages": [{"nodes": [0, 1], "variants": [0, 0], "way": 0, "replicas": 1}, ..]}
std::string toJson(const StagePlan &plan);

} // namespace tessera::strategies

#endif
