//===- Prediction.h - when the compiler expects a program's steps to run ---------------------------===//
//
// The compiler writes into report.json what each step of a plan is predicted to take. When a step runs follows from the
// plan: its resource runs its steps in order, a step begins when those that it waits for have ended, and a call of a
// section when all of the call before it have.
//
//   g, sum g beside kernels, h, update       10, 30, 25 and 5 us, of which the last waits for the sum
//   compute        g 0..10   h 10..35   update 40..45
//   communication            sum 10..40                       5 us of it are exposed: no kernel hides them
//
// A stage of a pipeline waits for others. What it waits for stands in their plans, so the report says of such a program
// when each call of a section begins:
//
//   f, the same again, b (10 ns each), called at 0, 10 and 45 ns of a step of 60 ns
//   compute        f 0..10  f 10..20   b 45..55               30 ns of it wait for other stages
//
//   std::optional<Prediction> predicted = Prediction::read("plan", plan, program);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TELEMETRY_PREDICTION_H
#define TESSERA_RUNTIME_TELEMETRY_PREDICTION_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

struct Prediction {
  /// One run of a step; times are in ns from the program's begin.
  struct Run {
    StepInTime at;
    int64_t begin = 0, end = 0;
  };
  std::vector<Run> runs; // in the order of the plan, those left out that take nothing
  int64_t end = 0;       // of the program; in a pipeline on all ranks
  int64_t kernels = 0;   // what they take of it
  int64_t exposed = 0;   // what collectives take of it that no kernel hides
  int64_t waiting = 0;   // the rest, in which a stage waits for others

  /// When a stage's calls begin, and what all ranks take for the program, in ns.
  struct Calls {
    std::vector<int64_t> begins; // by call, those left out that the plan leaves out
    int64_t end = 0;
  };
  /// `ns`: of one run, by step. The program is one of a plan that passed the checker, and `calls` of one with stages.
  static Prediction of(const plan::Program &program, const std::vector<int64_t> &ns,
                       const std::optional<Calls> &calls = {});
  /// Of a plan's program, by the report in the plan's folder. Nothing if there is none, or if it does not say what the
  /// program's steps take, as those of older compilers do not, nor of a pipeline's programs without micro-batches.
  static std::optional<Prediction> read(const std::string &folder, const plan::Plan &plan, int program);
  /// The same of all stages, by the plans of all ranks. Empty if it is not known of all.
  static std::vector<Prediction> readStages(const std::string &folder, const std::vector<plan::Plan> &ranks,
                                            int program);
};

} // namespace tessera::rt

#endif
