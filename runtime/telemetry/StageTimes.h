//===- StageTimes.h - what the stages of a pipeline do of a step, measured beside predicted ---------===//
//
// The ranks of a stage wait for other stages, and for each other. What they wait for other stages is the bubble:
//
//   StageTimes times(plan, predictions);                          // 2 stages of 1 rank
//   times.step({0.012, 0.013}, {0.003, 0.001}, {0.016, 0.016});   // by rank: own, waiting, all
//   times.summary();
//       // "bubble: 12.5 % of the ranks' time, predicted 10.3 %"
//       // "stage 0 (rank 0): 12 ms of its own a step, predicted 11 ms; 3 ms waiting for others, predicted 2.9 ms"
//       // "stage 1 (rank 1): ..."
//
// Times of a stage are means over its ranks. The first step, in which much is set up, does not count.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_STAGETIMES_H
#define TESSERA_RUNTIME_TELEMETRY_STAGETIMES_H

#include "runtime/plan/stages/Stages.h"
#include "runtime/telemetry/Prediction.h"
#include "runtime/telemetry/RankTimes.h"

#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

class StageTimes {
public:
  /// Of a program of a plan with stages. `predicted`: by stage; empty if it is not known.
  StageTimes(const plan::Plan &plan, int program, std::vector<Prediction> predicted);

  /// Notes a step, in seconds by rank: its own time, what it waited for other stages, and the whole step. `waited` is
  /// empty if it is not known.
  void step(const std::vector<double> &own, const std::vector<double> &waited, const std::vector<double> &whole);
  /// The part of a step's time in which ranks wait for other stages.
  static double bubble(const std::vector<double> &waited, const std::vector<double> &whole);
  /// A warning once a stage is so much slower than predicted that it holds up the others; else empty.
  std::string warning() { return slow_ ? slow_->warning() : ""; }
  /// Lines about all steps. Empty if no step counted.
  std::vector<std::string> summary() const;

private:
  std::vector<double> ofStages(const std::vector<double> &ranks) const;

  const Stages stages_;
  std::vector<std::string> names_;
  const std::vector<Prediction> predicted_;
  std::optional<RankTimes> slow_;
  std::vector<double> own_, waited_; // by stage, summed over steps; `waited_` is empty if it is not known
  double bubbles_ = 0;
  int64_t steps_ = -1; // that count
};

} // namespace tessera::rt

#endif
