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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// The versions of the format that are read (plan.proto says how it evolves); the newest is written.
constexpr uint32_t kOldestPlanVersion = 1, kPlanVersion = 1;
/// Larger plan files are refused before they are parsed. (Weights are not in them.)
constexpr uint64_t kMaxPlanBytes = uint64_t(64) << 20;
constexpr uint32_t kMaxRanks = 4096;

struct PlanDirectory {
  std::string path;
  std::vector<plan::Plan> ranks;
  std::optional<plan::Plan> sequential;
  std::string weights; // path of the weights file; empty: the plan has none
};

/// Whether plans of this version are read; if not, what its reader may do about it.
Status checkVersion(const plan::Plan &plan);

/// One plan from bytes. `what` opens the messages: a path.
Result<plan::Plan> parsePlan(std::string_view bytes, const std::string &what);

/// The files of a plan directory that are there: plans, weights, and what the compiler tells of itself.
std::vector<std::string> planFiles(const std::string &path);

/// Reads and checks all of a plan directory. Says what is missing or wrong and in which file.
Result<PlanDirectory> readPlanDirectory(const std::string &path);

/// A plan as its file holds it, but for plan_id, which is left out and follows from all plans.
struct PlanContents {
  std::string bytes;
  size_t idAt; // where plan_id's field belongs
  explicit PlanContents(const plan::Plan &plan);
};

/// Makes the directory, removes the plan files that are there, writes these with their plan_id.
/// The weights are the caller's (SafetensorsWriter), to be written before.
Status writePlanDirectory(const std::string &path, const std::vector<PlanContents> &ranks,
                          const std::optional<PlanContents> &sequential);

/// The hash that is plan_id: over all ranks' plans with plan_id empty, and the sequential one.
std::string computePlanId(const std::vector<PlanContents> &ranks, const std::optional<PlanContents> &sequential);

/// The same bytes for equal messages, on every machine.
std::string serialize(const plan::Plan &plan);

} // namespace tessera::rt

#endif
