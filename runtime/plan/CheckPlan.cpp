// checkPlan: the header, the groups, the buffers; the other parts are in files of their own.
#include "runtime/plan/Alignment.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/stages/Stages.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tessera::rt {
namespace {

constexpr uint64_t kMaxArena = uint64_t(1) << 46; // twice that, when run in float64, is a process's address space
constexpr int kMaxDimensions = 16;

/// Stages with meshes of their own. `inMesh`: the ranks of this one's.
Status checkStageRanks(const plan::Plan &plan, uint64_t inMesh) {
  if (!hasOwnMeshes(plan))
    return Status();
  if (plan.stage_ranks_size() < 2 || uint32_t(plan.stage_ranks_size()) != plan.stages())
    return Status::error("has " + std::to_string(plan.stages()) + " stages, but numbers of ranks for " +
                         std::to_string(plan.stage_ranks_size()));
  uint64_t sum = 0;
  for (uint32_t ranks : plan.stage_ranks()) {
    sum += ranks;
    if (ranks == 0 || sum > kMaxRanks)
      return Status::error("a stage of " + std::to_string(ranks) + " ranks makes the number of ranks invalid");
  }
  if (plan.rank() >= sum)
    return Status::error("the rank lies outside the stages of " + std::to_string(sum) + " ranks");
  const Stages stages = stagesOf(plan);
  if (const uint32_t stage = stages.of(plan.rank()); stages.ranksOf(stage) != inMesh)
    return Status::error("stage " + std::to_string(stage) + " has " + std::to_string(stages.ranksOf(stage)) +
                         " ranks, but a mesh of " + std::to_string(inMesh));
  return Status();
}

Status checkHeader(const plan::Plan &plan) {
  TESSERA_RETURN_IF_ERROR(checkVersion(plan));
  if (const uint32_t needed = neededVersion(plan); plan.version() < needed)
    return Status::error(
        "has format version " + std::to_string(plan.version()) + ", but uses what version " + std::to_string(needed) +
        " has brought: calls of sections, exchanges, sums as trees, leaves, frames, stages, sends, kernels that "
        "round inside, runs, or stages with meshes of their own");
  uint64_t ranks = 1;
  std::set<std::string> names;
  for (const plan::MeshAxis &axis : plan.mesh()) {
    ranks *= axis.size();
    if (ranks == 0 || ranks > kMaxRanks)
      return Status::error("mesh axis " + quoted(axis.name()) + " of size " + std::to_string(axis.size()) +
                           " makes the number of ranks invalid");
    if (!names.insert(axis.name()).second)
      return Status::error("two mesh axes are called " + quoted(axis.name()));
  }
  TESSERA_RETURN_IF_ERROR(checkStageRanks(plan, ranks));
  if (hasOwnMeshes(plan))
    ranks = stagesOf(plan).ranks();
  if (plan.rank() >= ranks)
    return Status::error("the rank lies outside the mesh of " + std::to_string(ranks) + " ranks");
  if (plan.arena_bytes() > kMaxArena)
    return Status::error("an arena of " + std::to_string(plan.arena_bytes()) + " bytes is not possible");
  if (!hasOwnMeshes(plan) && plan.stages() > 1 && (plan.mesh_size() == 0 || plan.mesh(0).size() != plan.stages()))
    return Status::error("has " + std::to_string(plan.stages()) +
                         " stages, which are not the size of its first mesh axis");
  const Stages stages = stagesOf(plan);
  const std::string &weights = plan.weights_file();
  if (weights == "." || weights == ".." || weights.find('/') != std::string::npos ||
      weights.find('\0') != std::string::npos)
    return Status::error("the weight file " + quoted(weights) + " is not the name of a file beside the plan");
  for (int g = 0; g < plan.groups_size(); ++g) {
    const auto &members = plan.groups(g).ranks();
    std::set<uint32_t> distinct(members.begin(), members.end());
    std::string group = "group " + std::to_string(g) + " " + quoted(plan.groups(g).name());
    if (distinct.size() != size_t(members.size()))
      return Status::error(group + " names a rank twice");
    if (distinct.empty() || *distinct.rbegin() >= ranks)
      return Status::error(group + " is empty or names a rank outside the mesh of " + std::to_string(ranks));
    if (!distinct.count(plan.rank()))
      return Status::error(group + " does not contain the rank itself");
    if (const uint32_t run = plan.groups(g).run(); run > 0 && uint32_t(members.size()) % run != 0)
      return Status::error(group + " has " + std::to_string(members.size()) + " ranks, which runs of " +
                           std::to_string(run) + " do not divide");
    if (stages.of(*distinct.begin()) != stages.of(*distinct.rbegin()))
      return Status::error(group + " contains ranks of two stages, which meet by sends and receives alone");
  }
  std::set<std::string> programs;
  for (const plan::Program &program : plan.programs())
    if (!programs.insert(program.name()).second)
      return Status::error("two programs are called " + quoted(program.name()));
  return Status();
}

/// Follows aliases to the buffer that owns the bytes.
Status resolveAlias(const plan::Plan &plan, uint32_t b, std::vector<BufferRange> &ranges) {
  const plan::Buffer &buffer = plan.buffers(int(b));
  uint32_t root = b;
  // More than 64 hops are an error, so that a cycle ends, too.
  for (int hops = 0; plan.buffers(int(root)).alias_of_plus_one() != 0; ++hops) {
    root = plan.buffers(int(root)).alias_of_plus_one() - 1;
    if (root >= ranges.size())
      return Status::error(bufferText(plan, b) + " is an alias of buffer " + std::to_string(root) +
                           ", which does not exist");
    if (hops >= 64)
      return Status::error(bufferText(plan, b) + " is an alias of itself, or over more than 64 other aliases");
  }
  ranges[b].root = root;
  if (root == b)
    return Status();
  const plan::Buffer &owner = plan.buffers(int(root));
  if (ranges[b].begin < ranges[root].begin || ranges[b].end > ranges[root].end || buffer.dtype() != owner.dtype())
    return Status::error(bufferText(plan, b) + " is an alias of " + bufferText(plan, root) +
                         " but has another type, or bytes outside it");
  if (!buffer.constant().empty())
    return Status::error(bufferText(plan, b) + " is an alias and a constant");
  if (buffer.persistent() && !owner.persistent())
    return Status::error(bufferText(plan, b) + " is persistent, but " + bufferText(plan, root) +
                         ", of which it is an alias, is not");
  return Status();
}

/// Checks that no other buffer overlaps a persistent one.
Status checkPersistent(const plan::Plan &plan, const std::vector<BufferRange> &ranges) {
  std::vector<uint32_t> order;
  for (uint32_t b = 0; b < ranges.size(); ++b)
    if (ranges[b].root == b)
      order.push_back(b);
  std::sort(order.begin(), order.end(),
            [&](uint32_t x, uint32_t y) { return std::pair(ranges[x].begin, x) < std::pair(ranges[y].begin, y); });
  // Among the buffers that begin before this one, the one that ends last decides.
  const uint32_t none = ~0u;
  uint32_t furthest = none, furthestPersistent = none;
  for (uint32_t b : order) {
    bool persistent = plan.buffers(int(b)).persistent();
    uint32_t other = persistent ? furthest : furthestPersistent;
    if (other != none && ranges[other].end > ranges[b].begin)
      return Status::error(bufferText(plan, persistent ? other : b) + " overlaps " +
                           bufferText(plan, persistent ? b : other) + ", which is persistent");
    auto extend = [&](uint32_t &last) {
      if (last == none || ranges[b].end > ranges[last].end)
        last = b;
    };
    extend(furthest);
    if (persistent)
      extend(furthestPersistent);
  }
  return Status();
}

} // namespace

std::string bufferText(const plan::Plan &plan, uint32_t buffer) {
  std::string text = "buffer " + std::to_string(buffer);
  if (buffer < uint32_t(plan.buffers_size()))
    text += " " + quoted(plan.buffers(int(buffer)).name());
  return text;
}

Status checkBuffers(const plan::Plan &plan, std::vector<BufferRange> &ranges) {
  for (uint32_t b = 0; b < uint32_t(plan.buffers_size()); ++b) {
    const plan::Buffer &buffer = plan.buffers(int(b));
    BufferRange range;
    range.begin = buffer.offset();
    range.root = b;
    range.shape = toVector(buffer.shape());
    if (bytesPerElement(buffer.dtype()) == 0)
      return Status::error(bufferText(plan, b) + " has no valid element type");
    if (buffer.shape_size() > kMaxDimensions)
      return Status::error(bufferText(plan, b) + " has " + std::to_string(buffer.shape_size()) +
                           " dimensions, more than " + std::to_string(kMaxDimensions));
    std::optional<uint64_t> bytes = bytesOf(range.shape, buffer.dtype());
    if (!bytes)
      return Status::error(bufferText(plan, b) + " has the shape " + shapeText(range.shape) +
                           ", whose sizes are not positive or overflow");
    if (buffer.offset() % kAlignment != 0)
      return Status::error(bufferText(plan, b) + " is at offset " + std::to_string(buffer.offset()) +
                           ", which is not a multiple of " + std::to_string(kAlignment));
    if (*bytes > plan.arena_bytes() || buffer.offset() > plan.arena_bytes() - *bytes)
      return Status::error(bufferText(plan, b) + " of " + std::to_string(*bytes) + " bytes at offset " +
                           std::to_string(buffer.offset()) + " lies outside the arena of " +
                           std::to_string(plan.arena_bytes()) + " bytes");
    range.end = buffer.offset() + *bytes;
    if (!buffer.constant().empty() && buffer.constant().size() != *bytes)
      return Status::error(bufferText(plan, b) + " needs " + std::to_string(*bytes) +
                           " bytes of constant contents but has " + std::to_string(buffer.constant().size()));
    if (!buffer.constant().empty() && !buffer.persistent())
      return Status::error(bufferText(plan, b) + " is a constant but not persistent");
    ranges.push_back(std::move(range));
  }
  for (uint32_t b = 0; b < ranges.size(); ++b)
    TESSERA_RETURN_IF_ERROR(resolveAlias(plan, b, ranges));
  return checkPersistent(plan, ranges);
}

Status checkPlan(const plan::Plan &plan, const Likeness &like, std::vector<BufferRange> &own) {
  auto run = [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(checkHeader(plan));
    TESSERA_RETURN_IF_ERROR(checkFrames(plan));
    if (!like.ranges)
      TESSERA_RETURN_IF_ERROR(checkBuffers(plan, own));
    const std::vector<BufferRange> &ranges = like.ranges ? *like.ranges : own;
    TESSERA_RETURN_IF_ERROR(checkFramedBuffers(plan, ranges));
    TESSERA_RETURN_IF_ERROR(checkBindings(plan, ranges));
    for (int p = 0; p < plan.programs_size(); ++p)
      for (int s = 0; s < plan.programs(p).steps_size(); ++s) {
        if (like.step(size_t(p), size_t(s)))
          continue;
        const plan::Step &step = plan.programs(p).steps(s);
        TESSERA_RETURN_IF_ERROR(checkStep(plan, ranges, step)
                                    .context("step " + std::to_string(s) + " " + quoted(step.name()) + " of program " +
                                             quoted(plan.programs(p).name())));
      }
    for (const plan::Program &program : plan.programs()) {
      TESSERA_RETURN_IF_ERROR(checkSections(program));
      TESSERA_RETURN_IF_ERROR(checkMessages(plan, ranges, program));
      if (!like.flow)
        TESSERA_RETURN_IF_ERROR(checkLanes(plan, ranges, program));
    }
    return like.flow ? Status() : checkDefinedness(plan, ranges);
  };
  return run().context("rank " + std::to_string(plan.rank()));
}

Status checkPlan(const plan::Plan &plan) {
  std::vector<BufferRange> ranges;
  return checkPlan(plan, Likeness(), ranges);
}

} // namespace tessera::rt
