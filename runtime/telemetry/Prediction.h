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
//   std::optional<Prediction> predicted = Prediction::read("plan", program);
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
  int64_t end = 0;       // of the program
  int64_t exposed = 0;   // what collectives take of it that no kernel hides

  /// `ns`: of one run, by step. The program is one of a plan without stages that passed the checker.
  static Prediction of(const plan::Program &program, const std::vector<int64_t> &ns);
  /// By the report in a plan's folder. Nothing if there is none, or if it does not say what the program's steps take, as
  /// those of older compilers and of pipelines do not.
  static std::optional<Prediction> read(const std::string &folder, const plan::Program &program);
};

} // namespace tessera::rt

#endif
