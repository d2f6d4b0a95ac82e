//===- RandomStrategies.h - programs under random strategies, run on their ranks -----------------===//
//
// annotateRandomly gives every operator a strategy drawn from those its rule allows, and every argument and
// result a random sharding; partitioned makes the ranks' plans; execute runs them on the reference backend in
// float64: some steps of @train, then every other program once. Inputs and parameters are a hash of name, place
// and step, so they do not depend on the mesh.
//
//   annotateRandomly(*module, mesh, seed);
//   std::string wrong = difference(expected, execute(partitioned(*module, fuse), {}), 1e-10);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_E2E_RANDOMSTRATEGIES_H
#define TESSERA_TEST_E2E_RANDOMSTRATEGIES_H

#include "compiler/training/TrainingOptions.h"
#include "dialects/dist/Mesh.h"
#include "runtime/plan/plan.pb.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace tessera::test {

using Values = std::vector<double>;
/// Global tensors by name: losses by step, outputs, parameters and states. Elements on other ranks are kElsewhere.
using Outcome = std::map<std::string, Values>;
inline constexpr double kElsewhere = 1e300;

inline constexpr int kSteps = 3;

/// Prepares the module as tessera-compile does: makes @train and @eval of @forward, and @infer where it is trained,
/// decomposes normalisations, merges equal operators. Throws std::runtime_error.
void prepare(mlir::ModuleOp module, const compiler::TrainingOptions *training);

void annotateRandomly(mlir::ModuleOp module, const dist::Mesh &mesh, unsigned seed);

/// One plan per rank of an annotated module, which is consumed. Throws std::runtime_error.
std::vector<plan::Plan> partitioned(mlir::ModuleOp module, bool fuse);

/// In [0, 1): a hash of name and place, the same on every mesh. Inputs of a step and, with step 0, parameters are this
/// minus 0.5.
double uniform(const std::string &name, size_t index, int step);

struct Feeds {
  int64_t classes = 4, ids = 8;      // integer targets and integer inputs lie below these
  double jitter = 0;                 // relative change of every real input and parameter
  std::string backend = "reference"; // or cuda: a device for each rank
  bool widen = true;                 // in double precision what the plan has in single
  int threads = 1;                   // of a rank
  int steps = kSteps;                // of a training
};
/// Runs the plans. Returns what every rank holds at the end. Throws std::runtime_error.
std::vector<Outcome> execute(const std::vector<plan::Plan> &plans, const Feeds &feeds);

/// The largest difference of a tensor over its largest element (over 1e-3 where that is smaller).
double distance(const Values &expected, const Values &got);

/// Empty if every rank holds what is expected of its parts, else the first tensor that differs. With the limit 0 bits
/// must be equal; one NaN is as good as another.
std::string difference(const Outcome &expected, const std::vector<Outcome> &ranks, double limit);

} // namespace tessera::test

#endif
