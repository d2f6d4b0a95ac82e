// checkPlans: the plans of all ranks fit together.
//
// All ranks run the same list of steps, so collectives are compared position by position: if at
// every position all members of the group agree on what they do, the order per group is the same
// everywhere and nobody waits for a call that does not come.
#include "runtime/plan/Blocks.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <google/protobuf/util/message_differencer.h>
#include <map>

namespace tessera::rt {
namespace {

using google::protobuf::util::MessageDifferencer;
using Plans = std::vector<plan::Plan>;

std::string rankText(size_t rank) { return "rank " + std::to_string(rank); }

template <typename Repeated> bool sameMessages(const Repeated &a, const Repeated &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto &x, const auto &y) { return MessageDifferencer::Equals(x, y); });
}

Status checkHeaders(const Plans &plans) {
  uint64_t ranks = 1;
  for (const plan::MeshAxis &axis : plans[0].mesh())
    ranks *= axis.size(); // checkPlan bounds it
  if (ranks != plans.size())
    return Status::error("the mesh has " + std::to_string(ranks) + " ranks, but there are " +
                         std::to_string(plans.size()) + " plans");
  for (size_t r = 0; r < plans.size(); ++r) {
    const plan::Plan &a = plans[0], &b = plans[r];
    if (b.rank() != r)
      return Status::error("the plan of " + rankText(r) + " says that it is for " +
                           rankText(b.rank()));
    if (a.plan_id() != b.plan_id())
      return Status::error("the plans of rank 0 and " + rankText(r) +
                           " are of different compilations (plan_id '" + a.plan_id() + "' and '" +
                           b.plan_id() + "'); compile the model again");
    if (!sameMessages(a.mesh(), b.mesh()) || a.weights_file() != b.weights_file() ||
        a.global_batch() != b.global_batch() || a.model() != b.model())
      return Status::error("the plans of rank 0 and " + rankText(r) +
                           " differ in mesh, model, batch or weight file");
  }
  return Status();
}

Status checkGroups(const Plans &plans) {
  for (size_t r = 0; r < plans.size(); ++r) {
    if (plans[r].groups_size() != plans[0].groups_size())
      return Status::error("rank 0 has " + std::to_string(plans[0].groups_size()) + " groups, " +
                           rankText(r) + " has " + std::to_string(plans[r].groups_size()));
    for (int g = 0; g < plans[r].groups_size(); ++g)
      for (uint32_t member : plans[r].groups(g).ranks())
        if (plans[member].groups_size() <= g ||
            !MessageDifferencer::Equals(plans[member].groups(g), plans[r].groups(g)))
          return Status::error("group " + std::to_string(g) + " is not the same on " + rankText(r) +
                               " and " + rankText(member));
  }
  return Status();
}

/// Position `s` of program `p`: rank `r` against the first member of its group, or rank 0.
Status checkStepPair(const Plans &plans, size_t r, int p, int s) {
  const plan::Step &mine = plans[r].programs(p).steps(s);
  const plan::Step &first = plans[0].programs(p).steps(s);
  std::string where =
      "step " + std::to_string(s) + " of program " + quoted(plans[0].programs(p).name()) + ": ";
  if (mine.name() != first.name() || mine.kind_case() != first.kind_case() ||
      mine.kernel().name() != first.kernel().name())
    return Status::error(where + "rank 0 does " + quoted(first.name()) + ", " + rankText(r) +
                         " does " + quoted(mine.name()) + " or does it in another way");
  if (!mine.has_collective())
    return Status();
  const plan::Collective &c = mine.collective();
  if (c.group() != first.collective().group())
    return Status::error(where + "rank 0 and " + rankText(r) + " use different groups");
  uint32_t leader = plans[r].groups(static_cast<int>(c.group())).ranks(0);
  const plan::Collective &other = plans[leader].programs(p).steps(s).collective();
  auto shapeOf = [](const plan::Plan &plan, uint32_t buffer) {
    return toVector(plan.buffers(static_cast<int>(buffer)).shape());
  };
  auto mismatch = [&](const std::string &what) {
    return Status::error(where + "collective " + quoted(mine.name()) + " differs in " + what +
                         " between " + rankText(leader) + " and " + rankText(r));
  };
  if (c.kind() != other.kind())
    return mismatch("kind (" + collectiveName(other.kind()) + " and " + collectiveName(c.kind()) +
                    ")");
  if (shapeOf(plans[r], c.input()) != shapeOf(plans[leader], other.input()))
    return mismatch("shape (" + shapeText(shapeOf(plans[leader], other.input())) + " and " +
                    shapeText(shapeOf(plans[r], c.input())) + ")");
  if (plans[r].buffers(static_cast<int>(c.input())).dtype() !=
      plans[leader].buffers(static_cast<int>(other.input())).dtype())
    return mismatch("element type");
  if (c.reduction() != other.reduction())
    return mismatch("reduction (" + reductionName(other.reduction()) + " and " +
                    reductionName(c.reduction()) + ")");
  if (c.dim() != other.dim() || c.split_dim() != other.split_dim() ||
      c.halo_lo() != other.halo_lo() || c.halo_hi() != other.halo_hi() ||
      c.root() != other.root() || !std::ranges::equal(c.sources(), other.sources()))
    return mismatch("dimension, halo, root or sources");
  return Status();
}

Status checkPrograms(const Plans &plans) {
  for (size_t r = 1; r < plans.size(); ++r) {
    if (plans[r].programs_size() != plans[0].programs_size())
      return Status::error("rank 0 and " + rankText(r) + " have different numbers of programs");
    for (int p = 0; p < plans[0].programs_size(); ++p) {
      const plan::Program &a = plans[0].programs(p), &b = plans[r].programs(p);
      if (a.name() != b.name() || a.steps_size() != b.steps_size())
        return Status::error("program " + std::to_string(p) + " is " + quoted(a.name()) + " of " +
                             std::to_string(a.steps_size()) + " steps on rank 0 and " +
                             quoted(b.name()) + " of " + std::to_string(b.steps_size()) +
                             " steps on " + rankText(r));
    }
  }
  for (int p = 0; p < plans[0].programs_size(); ++p)
    for (int s = 0; s < plans[0].programs(p).steps_size(); ++s)
      for (size_t r = 0; r < plans.size(); ++r)
        TESSERA_RETURN_IF_ERROR(checkStepPair(plans, r, p, s));
  return Status();
}

Status checkBlocks(const Plans &plans, int index) {
  std::map<Block, size_t> holders; // block -> lowest rank that holds it
  std::vector<Block> blocks;
  for (size_t r = 0; r < plans.size(); ++r) {
    const plan::Binding &b = plans[r].bindings(index);
    Block block = blockOf(plans[r], b);
    if (isEmpty(block.shape))
      continue; // nothing but padding
    bool fresh = holders.emplace(block, r).second;
    if (b.primary() != fresh)
      return Status::error(
          rankText(r) +
          (fresh ? " is the first to hold the box at " : " holds a replica of the box at ") +
          shapeText(block.offset) + " but is " + (fresh ? "not " : "") + "marked primary");
    if (fresh)
      blocks.push_back(std::move(block));
  }
  return checkTiling(blocks, toVector(plans[0].bindings(index).global_shape()));
}

Status checkAllBindings(const Plans &plans) {
  for (size_t r = 1; r < plans.size(); ++r)
    if (plans[r].bindings_size() != plans[0].bindings_size())
      return Status::error("rank 0 and " + rankText(r) + " have different numbers of bindings");
  for (int i = 0; i < plans[0].bindings_size(); ++i) {
    const plan::Binding &a = plans[0].bindings(i);
    std::string what =
        "binding " + std::to_string(i) + " (" + roleName(a.role()) + " " + quoted(a.name()) + ")";
    for (size_t r = 1; r < plans.size(); ++r) {
      const plan::Binding &b = plans[r].bindings(i);
      if (a.role() != b.role() || a.name() != b.name() || a.ordinal() != b.ordinal() ||
          a.program() != b.program() || a.fill() != b.fill() ||
          a.has_initial() != b.has_initial() || a.initial().kind() != b.initial().kind() ||
          a.initial().value() != b.initial().value() || a.initial().seed() != b.initial().seed() ||
          !std::ranges::equal(a.global_shape(), b.global_shape()) ||
          plans[0].buffers(static_cast<int>(a.buffer())).dtype() !=
              plans[r].buffers(static_cast<int>(b.buffer())).dtype())
        return Status::error(what + " is not the same on rank 0 and " + rankText(r));
    }
    TESSERA_RETURN_IF_ERROR(checkBlocks(plans, i).context(what));
  }
  return Status();
}

} // namespace

Status checkPlans(const std::vector<plan::Plan> &plans) {
  if (plans.empty())
    return Status::error("there are no plans");
  TESSERA_RETURN_IF_ERROR(checkHeaders(plans));
  TESSERA_RETURN_IF_ERROR(checkGroups(plans));
  TESSERA_RETURN_IF_ERROR(checkPrograms(plans));
  return checkAllBindings(plans);
}

} // namespace tessera::rt
