//===- StrategyGraphIO.h - strategy graphs as files ------------------------------------------===//
//
// These functions read and write the file form that StrategyGraph.h describes: one JSON object, plain or gzip. A file
// whose name ends in ".gz" is written compressed; the reader looks at the content. Files come from strangers, so every
// count, length, index and number is checked, and the parser limits its recursion. A bad file gives one sentence in
// `error`.
//
// The contest's form is extended by optional keys: "aliases" (pairs of nodes that choose the same option index; pairs
// that close a cycle are an error), "nodes.names", and "data_parallel" (per node the option that plain data parallelism
// takes, a baseline). The "usages" of a node may be an empty list: the node uses no memory. "usage_limit" may be
// missing: there is no limit. Other keys are skipped. An edge from a node to itself counts its diagonal. Several edges
// between two nodes add up.
//
// Example:
//   std::string error;
//   std::optional<StrategyGraph> graph = readStrategyGraph("B.json.gz", error);
//   if (!graph)
//     fail(error); // "B.json.gz: edge 7: 12 costs, but nodes 3 and 4 have 4 x 4 options"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_STRATEGYGRAPHIO_H
#define TESSERA_STRATEGIES_SPACE_STRATEGYGRAPHIO_H

#include "strategies/space/StrategyGraph.h"

#include <optional>
#include <string>

namespace tessera::strategies {

/// Empty if `graph` is well formed, else one sentence that says what is wrong. Checked are lengths, indices, signs,
/// aliases with unequal option counts or in a cycle, and sums that would overflow.
std::string checkStrategyGraph(const StrategyGraph &graph);

/// The checked graph, or nothing and a sentence in `error` that starts with the path.
std::optional<StrategyGraph> readStrategyGraph(const std::string &path, std::string &error);

/// Like readStrategyGraph, from text in memory; `name` stands for the path in messages.
std::optional<StrategyGraph> parseStrategyGraph(const std::string &text, const std::string &name, std::string &error);

/// The graph as JSON text.
std::string toJson(const StrategyGraph &graph);

/// False and a sentence in `error` if the file cannot be written; no half-written file stays
/// behind.
bool writeStrategyGraph(const StrategyGraph &graph, const std::string &path, std::string &error);

} // namespace tessera::strategies

#endif
