//===- Measured.h - a run's trace and log, for the page ----------------------------------------------===//
#ifndef TESSERA_TOOLS_PAGE_MEASURED_H
#define TESSERA_TOOLS_PAGE_MEASURED_H

#include "runtime/support/Status.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

/// A file of tessera-run --trace, its last step: {"file", "step", "steps": seconds of each step on rank 0, "num_ranks",
/// "names": [...], "ranks": [{"rank", "events": [[track, name, begin, length], ...], "compute_us",
/// "communication_us"}], "kinds": [{"kind", "axes", "count", "bytes_sent", "us"}]}. Tracks: 0 steps, 1 compute,
/// 2 communication. `name` is an index, times are in microseconds from the step's begin, "kinds" are sums over rank 0's
/// step. At most eight ranks are kept. The error says what is wrong with the file, also if it is of another plan than
/// `planId`.
rt::Result<Json> readTrace(const std::string &path, const std::string &planId);

/// A file of tessera-run --log: {"file", "train": {"step": [...], "loss": [...], ...}, "eval": {...}}. A missing number
/// is null. Every n-th step is kept where there are more than 2000. An unfinished last line is left out.
rt::Result<Json> readLog(const std::string &path);

} // namespace tessera

#endif
