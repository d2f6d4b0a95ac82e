// checkPlans and PlansChecker: the plans of all ranks fit together.
//
// All ranks of a stage run the same list of steps, so collectives are compared position by position:
// if at every position all members of the group agree on what they do, the order per group is the
// same everywhere and nobody waits for a call that does not come. Sections and their calls are the
// same on all ranks of a stage, so this holds for what runs in time as for the list. Without a
// pipeline, all ranks are one stage. What stages send each other is CheckStages.h's.
//
// Where a rank's resources run beside each other, all ranks of a stage wait for the same steps, and collectives of one
// group have one order (checkLanes). Whatever a step waits for, here or on other ranks, stands before it in the list.
// So of the steps that have not ended the first one of the list never waits for another.
//
// Plans are checked one after the other. The checker keeps the plan of each stage's first rank whole,
// since the others are compared with it. Of the others it keeps the groups, the number of every
// collective in a table of those that occur, and the blocks that no earlier rank holds.
#include "runtime/plan/Blocks.h"
#include "runtime/plan/CheckExchange.h"
#include "runtime/plan/CheckStages.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/PlanParts.h"
#include "runtime/plan/stages/Stages.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <tuple>

namespace tessera::rt {
namespace {

std::string rankText(size_t rank) { return "rank " + std::to_string(rank); }

/// The properties of a collective on which the members of its group must agree.
struct Meeting {
  plan::CollectiveKind kind;
  std::vector<int64_t> shape;
  plan::DType type;
  plan::Reduction reduction;
  uint32_t dim, splitDim, root, joined;
  bool tree;
  int64_t haloLo, haloHi;
  std::vector<uint32_t> sources;
  auto operator<=>(const Meeting &) const = default;

  Meeting(const plan::Plan &plan, const plan::Collective &c)
      : kind(c.kind()), reduction(c.reduction()), dim(c.dim()), splitDim(c.split_dim()), root(c.root()),
        joined(followers(c)), tree(c.tree()), haloLo(c.halo_lo()), haloHi(c.halo_hi()),
        sources(c.sources().begin(), c.sources().end()) {
    const plan::Buffer &input = plan.buffers(int(c.input()));
    if (kind != plan::EXCHANGE) // in which every rank may hold more or less
      shape = toVector(input.shape());
    type = input.dtype();
  }

  std::string differenceTo(const Meeting &other) const {
    if (kind != other.kind)
      return "kind (" + collectiveName(kind) + " and " + collectiveName(other.kind) + ")";
    if (shape != other.shape)
      return "shape (" + shapeText(shape) + " and " + shapeText(other.shape) + ")";
    if (type != other.type)
      return "element type";
    if (reduction != other.reduction)
      return "reduction (" + reductionName(reduction) + " and " + reductionName(other.reduction) + ")";
    if (tree != other.tree)
      return "the order of its sums (one as a tree)";
    if (joined != other.joined)
      return "how many it is sent with (" + std::to_string(joined) + " and " + std::to_string(other.joined) + ")";
    return "dimension, halo, root or sources";
  }
};

/// Whether two programs run their steps in the same order.
bool sameOrder(const plan::Program &a, const plan::Program &b) {
  return std::ranges::equal(a.section_ends(), b.section_ends()) &&
         std::ranges::equal(a.calls(), b.calls(), [](const plan::Call &x, const plan::Call &y) {
           return x.section() == y.section() && x.index() == y.index();
         });
}

/// Whether two steps run on the same resource and wait for the same steps.
bool sameLane(const plan::Step &a, const plan::Step &b) {
  return a.resource() == b.resource() && std::ranges::equal(a.waits(), b.waits());
}

/// Whether two bindings are of the same tensor, as far as ranks may not differ.
bool sameTensor(const plan::Plan &p, const plan::Binding &a, const plan::Plan &q, const plan::Binding &b) {
  return a.role() == b.role() && a.name() == b.name() && a.ordinal() == b.ordinal() && a.program() == b.program() &&
         a.fill() == b.fill() && a.has_initial() == b.has_initial() && a.initial().kind() == b.initial().kind() &&
         a.initial().value() == b.initial().value() && a.initial().seed() == b.initial().seed() &&
         std::ranges::equal(a.global_shape(), b.global_shape()) &&
         p.buffers(int(a.buffer())).dtype() == q.buffers(int(b.buffer())).dtype();
}

/// What every stage has if one has it: a run shows it, and each rank reads its own.
bool onAllStages(plan::Role role) {
  return role == plan::LOSS || role == plan::CORRECT || role == plan::PREDICTIONS || role == plan::LEARNING_RATE ||
         role == plan::GRADIENT_NORM;
}

class Together {
public:
  /// Adds the next rank's plan. Parts that are the same as those of its stage's first rank need no comparison.
  Status add(const plan::Plan &plan, const Likeness &like) {
    const size_t rank = count_++;
    if (rank == 0)
      stages_ = stagesOf(plan);
    if (isFirst(rank))
      firsts_.push_back(plan);
    TESSERA_RETURN_IF_ERROR(checkHeader(plan, rank));
    groups_.emplace_back(plan.groups().begin(), plan.groups().end());
    TESSERA_RETURN_IF_ERROR(addPrograms(plan, rank, like));
    if (stages_.count() > 1)
      messages_.add(plan);
    return addBindings(plan, rank);
  }

  Status finish() const {
    if (count_ == 0)
      return Status::error("there are no plans");
    if (const size_t ranks = stages_.ranks(); ranks != count_)
      return Status::error("the mesh has " + std::to_string(ranks) + " ranks, but there are " + std::to_string(count_) +
                           " plans");
    TESSERA_RETURN_IF_ERROR(checkGroups());
    TESSERA_RETURN_IF_ERROR(checkMeetings());
    TESSERA_RETURN_IF_ERROR(exchanges_.finish());
    TESSERA_RETURN_IF_ERROR(checkTensors());
    return messages_.finish(groups_);
  }

  /// How many plans were added.
  size_t count() const { return count_; }
  const Stages &stages() const { return stages_; }
  /// Whether the rank is the first of its stage.
  bool isFirst(size_t rank) const { return rank < stages_.ranks() && firstOfStage(rank) == rank; }
  /// The plan of a stage's first rank.
  const plan::Plan &first(size_t stage) const { return firsts_[stage]; }

private:
  Status checkHeader(const plan::Plan &plan, size_t rank) const {
    if (plan.rank() != rank)
      return Status::error("the plan of " + rankText(rank) + " says that it is for " + rankText(plan.rank()));
    if (plan.plan_id() != firsts_[0].plan_id())
      return Status::error("the plans of rank 0 and " + rankText(rank) + " are of different compilations (plan_id '" +
                           firsts_[0].plan_id() + "' and '" + plan.plan_id() + "'); compile the model again");
    const plan::Plan &likeThis = hasOwnMeshes(plan) ? firsts_.back() : firsts_[0];
    const bool sameMesh = std::ranges::equal(plan.mesh(), likeThis.mesh(), [](const auto &a, const auto &b) {
      return a.name() == b.name() && a.size() == b.size();
    });
    if (!sameMesh || plan.stages() != firsts_[0].stages() ||
        !std::ranges::equal(plan.stage_ranks(), firsts_[0].stage_ranks()) ||
        plan.weights_file() != firsts_[0].weights_file() || plan.global_batch() != firsts_[0].global_batch() ||
        plan.model() != firsts_[0].model())
      return Status::error("the plans of rank 0 and " + rankText(rank) +
                           " differ in mesh, stages, model, batch or weight file");
    return Status();
  }

  /// Every rank has the same groups as the first member of each, and all members agree about who
  /// they are.
  Status checkGroups() const {
    for (size_t r = 0; r < count_; ++r) {
      if (groups_[r].size() != groups_[0].size()) // all ranks make each group together
        return Status::error("rank 0 has " + std::to_string(groups_[0].size()) + " groups, " + rankText(r) + " has " +
                             std::to_string(groups_[r].size()));
      for (size_t g = 0; g < groups_[r].size(); ++g) {
        const plan::Group &group = groups_[r][g];
        const uint32_t leader = group.ranks(0);
        for (uint32_t member : group.ranks())
          if (r == leader || member == leader)
            if (const std::vector<plan::Group> &others = groups_[member];
                others.size() <= g || others[g].name() != group.name() || others[g].run() != group.run() ||
                !std::ranges::equal(others[g].ranks(), group.ranks()))
              return Status::error("group " + std::to_string(g) + " is not the same on " + rankText(r) + " and " +
                                   rankText(member));
      }
    }
    return Status();
  }

  std::string stepText(int program, int step) const {
    return "step " + std::to_string(step) + " of program " + quoted(firsts_[0].programs(program).name()) + ": ";
  }

  size_t firstOfStage(size_t rank) const { return rank - stages_.placeOf(uint32_t(rank)); }

  Status addPrograms(const plan::Plan &plan, size_t rank, const Likeness &like) {
    if (plan.programs_size() != firsts_[0].programs_size())
      return Status::error("rank 0 and " + rankText(rank) + " have different numbers of programs");
    std::vector<uint32_t> &mine = meetings_.emplace_back();
    for (int p = 0; p < plan.programs_size(); ++p) {
      if (const std::string &name = firsts_[0].programs(p).name(); name != plan.programs(p).name())
        return Status::error("program " + std::to_string(p) + " is " + quoted(name) + " on rank 0 and " +
                             quoted(plan.programs(p).name()) + " on " + rankText(rank));
      TESSERA_RETURN_IF_ERROR(addProgram(plan, p, rank, like, mine));
    }
    return Status();
  }

  Status addProgram(const plan::Plan &plan, int p, size_t rank, const Likeness &like, std::vector<uint32_t> &mine) {
    const size_t firstRank = firstOfStage(rank);
    const std::string leader = rankText(firstRank);
    const plan::Program &a = firsts_.back().programs(p), &b = plan.programs(p);
    if (a.steps_size() != b.steps_size())
      return Status::error("program " + quoted(a.name()) + " has " + std::to_string(a.steps_size()) + " steps on " +
                           leader + " and " + std::to_string(b.steps_size()) + " steps on " + rankText(rank));
    if (!sameOrder(a, b))
      return Status::error(leader + " and " + rankText(rank) + " differ in sections or their calls in program " +
                           quoted(a.name()));
    for (int s = 0; s < a.steps_size(); ++s) {
      const plan::Step &first = a.steps(s), &step = b.steps(s);
      if (step.collective().kind() == plan::EXCHANGE)
        TESSERA_RETURN_IF_ERROR(exchanges_.add(plan, step.collective(), stepText(p, s)));
      if (like.step(size_t(p), size_t(s))) {
        if (first.has_collective())
          mine.push_back(meetings_[firstRank][mine.size()]);
        continue;
      }
      if (step.name() != first.name() || step.kind_case() != first.kind_case() ||
          step.kernel().name() != first.kernel().name())
        return Status::error(stepText(p, s) + leader + " does " + quoted(first.name()) + ", " + rankText(rank) +
                             " does " + quoted(step.name()) + " or does it in another way");
      if (step.send().channel() != first.send().channel() || step.receive().channel() != first.receive().channel())
        return Status::error(stepText(p, s) + leader + " and " + rankText(rank) + " use different channels");
      if (!sameLane(step, first))
        return Status::error(stepText(p, s) + leader + " and " + rankText(rank) +
                             " run it on different resources, or wait for different steps");
      if (!step.has_collective())
        continue;
      if (step.collective().group() != first.collective().group())
        return Status::error(stepText(p, s) + leader + " and " + rankText(rank) + " use different groups");
      mine.push_back(numberOf(Meeting(plan, step.collective())));
    }
    return Status();
  }

  uint32_t numberOf(const Meeting &meeting) {
    auto [it, fresh] = numbers_.try_emplace(meeting, uint32_t(known_.size()));
    if (fresh)
      known_.push_back(&it->first);
    return it->second;
  }

  /// At every position, compares every rank of the stage with the first member of its group.
  Status checkMeetings() const {
    for (size_t stage = 0; stage < firsts_.size(); ++stage) {
      const plan::Plan &first = firsts_[stage];
      size_t k = 0;
      for (int p = 0; p < first.programs_size(); ++p)
        for (int s = 0; s < first.programs(p).steps_size(); ++s) {
          const plan::Step &step = first.programs(p).steps(s);
          if (!step.has_collective())
            continue;
          for (size_t r = stages_.firstOf(uint32_t(stage)); r < groups_.size() && stages_.of(uint32_t(r)) == stage;
               ++r) {
            const uint32_t leader = groups_[r][step.collective().group()].ranks(0);
            if (meetings_[r][k] != meetings_[leader][k])
              return Status::error(stepText(p, s) + "collective " + quoted(step.name()) + " differs in " +
                                   known_[meetings_[leader][k]]->differenceTo(*known_[meetings_[r][k]]) + " between " +
                                   rankText(leader) + " and " + rankText(r));
          }
          ++k;
        }
    }
    return Status();
  }

  /// A tensor that some rank binds.
  struct Tensor {
    size_t rank = 0; // the first that binds it
    int binding = 0; // of that rank
    uint32_t stages = 0;
    std::set<Block> blocks; // those that some rank holds
    /// By stage: where each has a mesh of its own, and cuts the tensor in its own way.
    std::map<uint32_t, std::set<Block>> byStage;
  };

  const plan::Binding &bindingOf(const Tensor &tensor) const {
    return firsts_[stages_.of(uint32_t(tensor.rank))].bindings(tensor.binding);
  }
  std::string tensorText(const Tensor &tensor) const {
    const plan::Binding &binding = bindingOf(tensor);
    return "binding " + std::to_string(tensor.binding) + " (" + roleName(binding.role()) + " " +
           quoted(binding.name()) + ")";
  }

  /// The ranks of a stage have the same bindings in the same order. Stages share what has the same role, program and
  /// name.
  Status addBindings(const plan::Plan &plan, size_t rank) {
    const plan::Plan &first = firsts_.back();
    if (plan.bindings_size() != first.bindings_size())
      return Status::error(rankText(firstOfStage(rank)) + " and " + rankText(rank) +
                           " have different numbers of bindings");
    const bool fresh = rank == firstOfStage(rank);
    if (fresh)
      bound_.clear();
    for (int i = 0; i < plan.bindings_size(); ++i) {
      const plan::Binding &binding = plan.bindings(i);
      if (fresh) {
        auto [it, unknown] =
            numberOfTensor_.try_emplace({binding.role(), binding.program(), binding.name()}, tensors_.size());
        if (unknown)
          tensors_.push_back({rank, i, 0, {}, {}});
        bound_.push_back(it->second);
        ++tensors_[it->second].stages;
      }
      Tensor &tensor = tensors_[bound_[size_t(i)]];
      const plan::Plan &known = firsts_[stages_.of(uint32_t(tensor.rank))];
      if (!sameTensor(first, first.bindings(i), plan, binding) || !sameTensor(known, bindingOf(tensor), plan, binding))
        return Status::error(tensorText(tensor) + " is not the same on " + rankText(tensor.rank) + " and " +
                             rankText(rank));
      Block block = blockOf(plan, binding);
      if (isEmpty(block.shape))
        continue; // the rank holds only padding
      if (hasOwnMeshes(plan))
        tensor.byStage[stages_.of(uint32_t(rank))].insert(block);
      const bool primary = tensor.blocks.insert(block).second;
      if (binding.primary() != primary)
        return Status::error(tensorText(tensor) + ": " + rankText(rank) +
                             (primary ? " is the first to hold the box at " : " holds a replica of the box at ") +
                             shapeText(block.offset) + " but is " + (primary ? "not " : "") + "marked primary");
    }
    return Status();
  }

  Status checkTensors() const {
    std::map<std::pair<int, std::string>, std::set<uint32_t>> ordinals;
    for (const Tensor &tensor : tensors_) {
      const plan::Binding &binding = bindingOf(tensor);
      auto tiles = [&](const std::set<Block> &blocks) {
        return checkTiling(std::vector<Block>(blocks.begin(), blocks.end()), toVector(binding.global_shape()))
            .context(tensorText(tensor));
      };
      if (tensor.byStage.empty())
        TESSERA_RETURN_IF_ERROR(tiles(tensor.blocks));
      for (const auto &[stage, blocks] : tensor.byStage)
        TESSERA_RETURN_IF_ERROR(tiles(blocks).context("stage " + std::to_string(stage)));
      if (onAllStages(binding.role()) && tensor.stages != stages_.count())
        return Status::error(tensorText(tensor) + " is bound by " + std::to_string(tensor.stages) + " of " +
                             std::to_string(stages_.count()) + " stages; all of them must have it");
      if (binding.role() != plan::INPUT && binding.role() != plan::OUTPUT)
        continue;
      if (!ordinals[{binding.role(), binding.program()}].insert(binding.ordinal()).second)
        return Status::error(tensorText(tensor) + ": ordinal " + std::to_string(binding.ordinal()) + " is taken twice");
    }
    for (const auto &[of, taken] : ordinals)
      if (*taken.rbegin() + 1 != taken.size())
        return Status::error("the ordinals of the " + roleName(static_cast<plan::Role>(of.first)) + "s of program " +
                             quoted(of.second) + " are not 0 to " + std::to_string(taken.size() - 1) +
                             " over all stages");
    return Status();
  }

  size_t count_ = 0;
  Stages stages_;
  std::vector<plan::Plan> firsts_;               // by stage: the plan of its first rank
  std::vector<std::vector<plan::Group>> groups_; // by rank
  std::map<Meeting, uint32_t> numbers_;
  std::vector<const Meeting *> known_;          // by number
  std::vector<std::vector<uint32_t>> meetings_; // by rank: the collectives in order
  std::vector<Tensor> tensors_;
  std::map<std::tuple<int, std::string, std::string>, size_t> numberOfTensor_; // by role, program, name
  std::vector<size_t> bound_; // by binding of the stage that is being added: the number of its tensor
  ExchangeMatcher exchanges_;
  StageMessages messages_;
};

bool sameOperands(const plan::Step &a, const plan::Step &b) {
  return a.kind_case() == b.kind_case() && sameLane(a, b) && a.send().input() == b.send().input() &&
         a.receive().output() == b.receive().output() && a.collective().input() == b.collective().input() &&
         a.collective().output() == b.collective().output() &&
         std::ranges::equal(a.kernel().inputs(), b.kernel().inputs()) &&
         std::ranges::equal(a.kernel().outputs(), b.kernel().outputs());
}

/// Whether two bindings fill and read the same buffer in the same way, as far as checkDefinedness
/// looks at it.
bool sameFlow(const plan::Binding &a, const plan::Binding &b) {
  return a.role() == b.role() && a.buffer() == b.buffer() && a.program() == b.program();
}

} // namespace

struct PlansChecker::State {
  /// What was found good of a stage's first plan.
  struct Known {
    std::string bytes;
    PlanParts parts; // views of `bytes`
    std::vector<BufferRange> ranges;
  };
  Together together;
  std::vector<std::unique_ptr<Known>> known; // by stage

  bool isFirst() const { return together.isFirst(together.count()); }

  /// What the plan shares with the first of its stage. A part counts as shared only if everything that its check
  /// reads is equal.
  Likeness likenessOf(const plan::Plan &plan, std::string_view written) const {
    Likeness like;
    if (isFirst() || known.empty())
      return like;
    const plan::Plan &first = together.first(known.size() - 1);
    const auto &[bytes, parts, ranges] = *known.back();
    std::optional<PlanParts> mine = partsOf(written);
    auto asManyMembers = [](const plan::Group &a, const plan::Group &b) { return a.ranks_size() == b.ranks_size(); };
    auto samePlaces = [](const plan::Frame &a, const plan::Frame &b) {
      return a.offset() == b.offset() && a.bytes() == b.bytes() && a.slots() == b.slots();
    };
    if (ranges.empty() || !mine || plan.arena_bytes() != first.arena_bytes() || mine->buffers != parts.buffers ||
        mine->steps.size() != parts.steps.size() || plan.rank() != together.count() ||
        !std::ranges::equal(plan.groups(), first.groups(), asManyMembers) ||
        !std::ranges::equal(plan.frames(), first.frames(), samePlaces))
      return like;
    like.ranges = &ranges;
    like.flow = std::ranges::equal(plan.bindings(), first.bindings(), sameFlow);
    for (size_t p = 0; p < parts.steps.size(); ++p) {
      const std::vector<std::string_view> &a = parts.steps[p], &b = mine->steps[p];
      const plan::Program &theirs = first.programs(int(p)), &ours = plan.programs(int(p));
      like.flow &= a.size() == b.size() && theirs.name() == ours.name() && sameOrder(theirs, ours);
      std::vector<bool> &same = like.steps.emplace_back(std::min(a.size(), b.size()));
      for (size_t s = 0; s < same.size(); ++s) {
        same[s] = a[s] == b[s];
        like.flow &= same[s] || sameOperands(theirs.steps(int(s)), ours.steps(int(s)));
      }
    }
    return like;
  }
};

PlansChecker::PlansChecker() : state_(std::make_unique<State>()) {}
PlansChecker::~PlansChecker() = default;

Status PlansChecker::add(const plan::Plan &plan, std::string_view bytes) {
  std::vector<BufferRange> ranges;
  const Likeness like = state_->likenessOf(plan, bytes);
  TESSERA_RETURN_IF_ERROR(checkPlan(plan, like, ranges));
  if (state_->isFirst()) {
    auto known = std::make_unique<State::Known>();
    known->bytes = bytes;
    if (std::optional<PlanParts> parts = partsOf(known->bytes)) {
      known->parts = std::move(*parts);
      known->ranges = std::move(ranges);
    }
    state_->known.push_back(std::move(known));
  }
  return state_->together.add(plan, like);
}

Status PlansChecker::finish() const { return state_->together.finish(); }

Status checkPlans(const std::vector<plan::Plan> &plans) {
  Together together;
  for (const plan::Plan &plan : plans)
    TESSERA_RETURN_IF_ERROR(together.add(plan, Likeness()));
  return together.finish();
}

} // namespace tessera::rt
