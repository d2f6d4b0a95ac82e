//===- Trace.h - some steps of a run, for Perfetto ----------------------------------------------===//
//
// Records what a rank does in some training steps; then rank 0 writes all ranks' events to one file in the trace event
// format of Chrome, which https://ui.perfetto.dev opens. A rank is a process with four tracks: the steps and their
// phases, kernels (bytes, flops), collectives (kind, group, bytes sent, bandwidth), and the thread that prepares
// batches. Above what a rank measured stands what was predicted of each step, from its first kernel or message on.
//
//   Trace trace(executor, {10, 12}, "trace.json", Prediction::read("plan", plan, program));
//   DataOptions options;
//   options.produced = trace.producer();
//   for (int64_t step = 1; ; ++step) {
//     trace.begin(step);                                  // nothing happens before step 10
//     trace.phase("reading a batch");
//     ...                                                 // Executor::run: every kernel is waited for and noted
//     TESSERA_RETURN_IF_ERROR(trace.end());               // after step 12: writes the file
//   }
//   TESSERA_RETURN_IF_ERROR(trace.finish());              // writes what there is if the run ended before
//
// Times are those of the machine's monotonic clock. Clocks of other machines are aligned by barriers, to about the
// latency of one. On a backend that runs whole programs (cuda) the steps of a trace are run one by one, as with
// --profile: the times are those of the kernels alone, and nothing overlaps.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_TRACE_H
#define TESSERA_RUNTIME_TELEMETRY_TRACE_H

#include "runtime/data/DataSource.h"
#include "runtime/executor/Executor.h"
#include "runtime/telemetry/Prediction.h"

#include <mutex>

namespace tessera::rt {

/// Training steps, counted from 1 as the log does; both included.
struct StepRange {
  int64_t first = 0, last = 0; // 0: none
};

/// "10:12" or "10"; more than 100 steps are refused, since all is kept in memory.
Result<StepRange> parseStepRange(const std::string &text);

class Trace {
public:
  /// The executor outlives it. `predicted`: of the program that a step runs; nothing: it is not shown.
  Trace(Executor &executor, StepRange range, std::string file, std::optional<Prediction> predicted = std::nullopt);
  ~Trace();

  /// Replaces the range. Called before the first begin().
  void trace(StepRange range) { range_ = range; }
  void begin(int64_t step);
  /// Names what the rank does from now on. `what` is a string literal.
  void phase(const char *what);
  /// Called by all ranks after a step. Writes the file after the last step of the range.
  Status end();
  /// Called by all ranks at the end of the run.
  Status finish();

  /// The callback for DataOptions. It is safe from any thread as long as this object lives.
  DataOptions::Produced producer();

private:
  using Time = std::chrono::steady_clock::time_point;
  enum class Track { Step, Compute, Communication, Input };
  struct Event {
    Track track;
    Time begin, end;
    const char *what = nullptr; // of phases
    int64_t number = 0;         // of a step, a batch; of a program's step
    int program = 0;
    uint32_t index = 0; // of the call that a program's step runs in
  };

  bool active() const { return step_ != 0; }
  void closePhase(Time now);
  Status write();
  std::string text(int64_t shift) const;
  std::string stepText(const Event &event) const;
  std::string predictedText(const std::vector<Event> &sorted, int64_t shift) const;

  Executor &executor_;
  StepRange range_;
  const std::string file_;
  const std::optional<Prediction> predicted_;
  int64_t step_ = 0; // that is being recorded; 0: none
  Time stepBegin_, phaseBegin_;
  const char *phase_ = nullptr;
  bool written_ = false;
  std::vector<Event> events_;
  std::mutex mutex_;          // of inputs_ and closed_
  std::vector<Event> inputs_; // before the range only the last few
  bool closed_ = false;
};

} // namespace tessera::rt

#endif
