//===- Progress.h - what a run shows and logs -----------------------------------------------------===//
//
// On a terminal, progress is one line that is rewritten; otherwise it is plain lines, some twenty over a run. The log
// has one JSON object per line. Rank 0 writes both.
//
//   Console console(stdout);
//   TESSERA_RETURN_IF_ERROR(console.openLog("run.jsonl"));
//   Progress progress(console, 100, 32);              // 100 steps of 32 samples
//   progress.step(1, 2.31, 0.05);                     // "step 1/100 loss 2.31 640 samples/s 5 s left"
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_PROGRESS_H
#define TESSERA_RUNTIME_TELEMETRY_PROGRESS_H

#include "runtime/support/Status.h"
#include "runtime/telemetry/EventFile.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class Console {
public:
  /// A null `out` is silent. With `plain`, a terminal is treated as a file.
  explicit Console(std::FILE *out, bool plain = false);
  ~Console();
  Console(const Console &) = delete;
  Console &operator=(const Console &) = delete;

  /// Creates the log anew, or appends to it.
  Status openLog(const std::string &path, bool append);
  /// From now on log() writes to event files for TensorBoard, too.
  Status openEvents(const std::string &folder);
  void line(const std::string &text);
  /// Shows a line that the next one replaces. Shown on terminals only.
  void transient(const std::string &text);
  /// Whether log() writes anywhere.
  bool logs() const { return log_ || events_; }
  /// Logs one JSON object. A value that is not finite becomes null, and "step" and the like print as integers. If
  /// `list` is not empty, it becomes an array under `name` at the object's end.
  Status log(const std::vector<std::pair<std::string, double>> &fields, const std::string &name = "",
             const std::vector<double> &list = {});
  bool terminal() const { return terminal_; }

private:
  std::FILE *out_;
  std::FILE *log_ = nullptr;
  std::optional<EventFile> events_;
  std::string logPath_;
  bool terminal_ = false, transientShown_ = false;
};

class Progress {
public:
  Progress(Console &console, int64_t first, int64_t last, uint64_t samplesPerStep);
  /// Called after a step with its number from 1, its loss and its seconds.
  void step(int64_t number, double loss, double seconds);
  /// The median of the steps' seconds.
  double medianSeconds() const;
  double totalSeconds() const { return total_; }

private:
  Console &console_;
  int64_t first_, last_;
  uint64_t samples_;
  double total_ = 0, recent_ = 0; // recent: moving average
  std::vector<double> seconds_;
};

std::string durationText(double seconds); // "1 h 05 min", "12 s"
std::string numberText(double value, int digits = 6);

} // namespace tessera::rt

#endif
