//===- Compare.h - what differs between two plans of one model, and what it costs ---------------------===//
//
//   rt::Result<Json> compared = comparePages(pageData(...), "a", pageData(...), "b");
//
// Operators are matched by name. Those that differ alike are one row, as the twelve layers of a GPT are.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_COMPARE_H
#define TESSERA_TOOLS_PAGE_COMPARE_H

#include "runtime/support/Status.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

/// Of two pages' data (PageData.h):
///   "names": what the plans are called;
///   "plans": of each "model", "mesh", "mode", "topology", "recompute", "plan_id", "num_ranks", "global_batch", "head";
///   "num_same", "num_cut": operators that are alike in cut and time, and that are cut another way;
///   "num_only": operators that only one of the plans has, by plan;
///   "num_rows", "rows": [{"name", "node", "alike", "cut", "plans": [...], "more_ns"}, ...], at most 200, the largest
///     difference of time first. `node` is the first plan's, -1 where it has none; `cut` tells whether the operator is
///     cut another way; `plans` has of each plan null or "strategy", "sharding", "global", "local" (of the first
///     result), "compute_ns", "communication_ns"; `more_ns` is what the rows' operators together take more in the
///     second plan;
///   "collectives": [[kind, axes, first, second], ...], each [count, bytes_sent, cost_ns];
///   "memory": [[kind, bytes in the first, in the second], ...] at the arenas' peaks.
/// The error says that no operator of one plan is in the other.
rt::Result<Json> comparePages(const Json &first, const std::string &firstName, const Json &second,
                              const std::string &secondName);

} // namespace tessera

#endif
