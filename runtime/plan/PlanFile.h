//===- PlanFile.h - plan directories on disk --------------------------------------------------===//
//
//   plan/rank0.plan ... plan/rank<N-1>.plan   one protobuf message per rank
//   plan/sequential.plan                      the unpartitioned program as a plan of one rank
//   plan/weights.safetensors                  parameters and initial states (Plan.weights_file)
//
// The writer puts every file in place atomically, rank0.plan last, so that a directory with a
// rank0.plan is whole. It also sets plan_id, a hash over all files, which the reader recomputes:
// files of different compilations, or damaged ones, do not run together.
//
//   Result<PlanDirectory> dir = readPlanDirectory("plan");     // read, then checked by checkPlans
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_PLANFILE_H
#define TESSERA_RUNTIME_PLAN_PLANFILE_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// The versions of the format that are read (plan.proto says how it evolves).
constexpr uint32_t kOldestPlanVersion = 1, kPlanVersion = 11;
/// Larger plan files are refused before they are parsed. (Weights are not in them.)
constexpr uint64_t kMaxPlanBytes = uint64_t(64) << 20;
constexpr uint32_t kMaxRanks = 4096;

struct PlanDirectory {
  std::string path;
  std::vector<plan::Plan> ranks;
  std::optional<plan::Plan> sequential;
  std::string weights; // path of the weights file; empty: the plan has none
};

/// The version that a writer sets: the lowest one whose readers understand everything that the plan uses.
uint32_t neededVersion(const plan::Plan &plan);

/// An error if plans of this version are not read; it says what a user can do.
Status checkVersion(const plan::Plan &plan);

/// Parses one plan. `what` opens the messages: a path.
Result<plan::Plan> parsePlan(std::string_view bytes, const std::string &what);

/// The files of a plan directory that exist: plans, weights, and what the compiler writes beside them.
std::vector<std::string> planFiles(const std::string &path);

/// Reads and checks a whole plan directory. The error names the file that is missing or wrong.
Result<PlanDirectory> readPlanDirectory(const std::string &path);

/// The same without keeping the plans: `each` sees every rank's once, in order. What `each` learns counts only if the
/// result is no error, since plans are compared with each other and with plan_id at the end.
Status visitPlanDirectory(const std::string &path, const std::function<void(const plan::Plan &)> &each);

/// A serialised plan without its plan_id, which is computed from all plans together.
struct PlanContents {
  std::string bytes;
  size_t idAt; // the position at which plan_id's field belongs
  explicit PlanContents(const plan::Plan &plan);
};

/// Makes the directory, removes the plan files in it, and writes these plans with their plan_id. The caller writes the
/// weights (SafetensorsWriter) before.
Status writePlanDirectory(const std::string &path, const std::vector<PlanContents> &ranks,
                          const std::optional<PlanContents> &sequential);

/// The hash that is plan_id: over all ranks' plans with plan_id empty, and the sequential one.
std::string computePlanId(const std::vector<PlanContents> &ranks, const std::optional<PlanContents> &sequential);

/// Serialises a plan. Equal messages give equal bytes on every machine.
std::string serialize(const plan::Plan &plan);

} // namespace tessera::rt

#endif
