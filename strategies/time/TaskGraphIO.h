//===- TaskGraphIO.h - task graphs as files -------------------------------------------------------===//
//
// A file is one JSON object. It may come from anywhere, so every index, sign and size is checked, and a bad file gives
// one sentence.
//
//   {"resources": ["rank 0", "link"],
//    "pools": [{"name": "rank 0", "limit": 64}],
//    "tasks": [{"name": "gradient", "duration": 10, "resources": [0]},
//              {"name": "all-reduce", "duration": 30, "resources": [1], "needs": [0]},
//              {"name": "update", "duration": 5, "resources": [0], "needs": [{"task": 1, "lag": 2}]}],
//    "buffers": [{"pool": 0, "bytes": 16, "maker": 0, "from_end": false, "users": [1]}]}
//
// Empty lists, a missing limit, a lag of 0 and "from_end": false are left out.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_TIME_TASKGRAPHIO_H
#define TESSERA_STRATEGIES_TIME_TASKGRAPHIO_H

#include "strategies/time/TaskGraph.h"

#include <optional>

namespace tessera::strategies {

/// The checked graph, or nothing and a sentence in `error` that begins with `name`.
std::optional<TaskGraph> parseTaskGraph(const std::string &text, const std::string &name, std::string &error);

std::string toJson(const TaskGraph &graph);

} // namespace tessera::strategies

#endif
