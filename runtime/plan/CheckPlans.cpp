// checkPlans and PlansChecker: the plans of all ranks fit together.
//
// All ranks run the same list of steps, so collectives are compared position by position: if at
// every position all members of the group agree on what they do, the order per group is the same
// everywhere and nobody waits for a call that does not come. Sections and their calls are the same
// on all ranks, so this holds for what runs in time as for the list.
//
// Plans are checked one after the other. The checker keeps rank 0's plan whole, since the others
// are compared with it. Of the others it keeps the groups, the number of every collective in a
// table of those that occur, and the blocks that no earlier rank holds.
#include "runtime/plan/Blocks.h"
#include "runtime/plan/CheckExchange.h"
#include "runtime/plan/CheckSteps.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/PlanParts.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>

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
        joined(c.joined()), tree(c.tree()), haloLo(c.halo_lo()), haloHi(c.halo_hi()),
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

class Together {
public:
  /// Adds the next rank's plan. Parts that are the same as rank 0's need no comparison.
  Status add(const plan::Plan &plan, const Likeness &like) {
    const size_t rank = count_++;
    if (rank == 0)
      first_ = plan;
    TESSERA_RETURN_IF_ERROR(checkHeader(plan, rank));
    groups_.emplace_back(plan.groups().begin(), plan.groups().end());
    TESSERA_RETURN_IF_ERROR(addPrograms(plan, rank, like));
    return addBindings(plan, rank);
  }

  Status finish() const {
    if (count_ == 0)
      return Status::error("there are no plans");
    uint64_t ranks = 1;
    for (const plan::MeshAxis &axis : first_.mesh())
      ranks *= axis.size(); // cannot overflow: checkPlan bounds it
    if (ranks != count_)
      return Status::error("the mesh has " + std::to_string(ranks) + " ranks, but there are " + std::to_string(count_) +
                           " plans");
    TESSERA_RETURN_IF_ERROR(checkGroups());
    TESSERA_RETURN_IF_ERROR(checkMeetings());
    TESSERA_RETURN_IF_ERROR(exchanges_.finish());
    for (int i = 0; i < first_.bindings_size(); ++i) {
      const std::set<Block> &blocks = blocks_[size_t(i)];
      TESSERA_RETURN_IF_ERROR(
          checkTiling(std::vector<Block>(blocks.begin(), blocks.end()), toVector(first_.bindings(i).global_shape()))
              .context(bindingText(i)));
    }
    return Status();
  }

  const plan::Plan &first() const { return first_; }

private:
  Status checkHeader(const plan::Plan &plan, size_t rank) const {
    if (plan.rank() != rank)
      return Status::error("the plan of " + rankText(rank) + " says that it is for " + rankText(plan.rank()));
    if (plan.plan_id() != first_.plan_id())
      return Status::error("the plans of rank 0 and " + rankText(rank) + " are of different compilations (plan_id '" +
                           first_.plan_id() + "' and '" + plan.plan_id() + "'); compile the model again");
    const bool sameMesh = std::ranges::equal(plan.mesh(), first_.mesh(), [](const auto &a, const auto &b) {
      return a.name() == b.name() && a.size() == b.size();
    });
    if (!sameMesh || plan.weights_file() != first_.weights_file() || plan.global_batch() != first_.global_batch() ||
        plan.model() != first_.model())
      return Status::error("the plans of rank 0 and " + rankText(rank) +
                           " differ in mesh, model, batch or weight file");
    return Status();
  }

  /// Every rank has the same groups as the first member of each, and all members agree about who
  /// they are.
  Status checkGroups() const {
    for (size_t r = 0; r < count_; ++r) {
      if (groups_[r].size() != groups_[0].size())
        return Status::error("rank 0 has " + std::to_string(groups_[0].size()) + " groups, " + rankText(r) + " has " +
                             std::to_string(groups_[r].size()));
      for (size_t g = 0; g < groups_[r].size(); ++g) {
        const plan::Group &group = groups_[r][g];
        const uint32_t leader = group.ranks(0);
        for (uint32_t member : group.ranks())
          if (r == leader || member == leader)
            if (const std::vector<plan::Group> &others = groups_[member];
                others.size() <= g || others[g].name() != group.name() ||
                !std::ranges::equal(others[g].ranks(), group.ranks()))
              return Status::error("group " + std::to_string(g) + " is not the same on " + rankText(r) + " and " +
                                   rankText(member));
      }
    }
    return Status();
  }

  std::string stepText(int program, int step) const {
    return "step " + std::to_string(step) + " of program " + quoted(first_.programs(program).name()) + ": ";
  }

  Status addPrograms(const plan::Plan &plan, size_t rank, const Likeness &like) {
    if (plan.programs_size() != first_.programs_size())
      return Status::error("rank 0 and " + rankText(rank) + " have different numbers of programs");
    std::vector<uint32_t> &mine = meetings_.emplace_back();
    for (int p = 0; p < first_.programs_size(); ++p) {
      const plan::Program &a = first_.programs(p), &b = plan.programs(p);
      if (a.name() != b.name() || a.steps_size() != b.steps_size())
        return Status::error("program " + std::to_string(p) + " is " + quoted(a.name()) + " of " +
                             std::to_string(a.steps_size()) + " steps on rank 0 and " + quoted(b.name()) + " of " +
                             std::to_string(b.steps_size()) + " steps on " + rankText(rank));
      if (!sameOrder(a, b))
        return Status::error("rank 0 and " + rankText(rank) + " differ in sections or their calls in program " +
                             quoted(a.name()));
      for (int s = 0; s < a.steps_size(); ++s) {
        const plan::Step &first = a.steps(s);
        if (b.steps(s).collective().kind() == plan::EXCHANGE)
          TESSERA_RETURN_IF_ERROR(exchanges_.add(plan, b.steps(s).collective(), stepText(p, s)));
        if (like.step(size_t(p), size_t(s))) {
          if (first.has_collective())
            mine.push_back(meetings_[0][mine.size()]);
          continue;
        }
        const plan::Step &step = b.steps(s);
        if (step.name() != first.name() || step.kind_case() != first.kind_case() ||
            step.kernel().name() != first.kernel().name())
          return Status::error(stepText(p, s) + "rank 0 does " + quoted(first.name()) + ", " + rankText(rank) +
                               " does " + quoted(step.name()) + " or does it in another way");
        if (!step.has_collective())
          continue;
        if (step.collective().group() != first.collective().group())
          return Status::error(stepText(p, s) + "rank 0 and " + rankText(rank) + " use different groups");
        mine.push_back(numberOf(Meeting(plan, step.collective())));
      }
    }
    return Status();
  }

  uint32_t numberOf(const Meeting &meeting) {
    auto [it, fresh] = numbers_.try_emplace(meeting, uint32_t(known_.size()));
    if (fresh)
      known_.push_back(&it->first);
    return it->second;
  }

  /// At every position, compares every rank with the first member of its group.
  Status checkMeetings() const {
    size_t k = 0;
    for (int p = 0; p < first_.programs_size(); ++p)
      for (int s = 0; s < first_.programs(p).steps_size(); ++s) {
        const plan::Step &step = first_.programs(p).steps(s);
        if (!step.has_collective())
          continue;
        for (size_t r = 0; r < count_; ++r) {
          const uint32_t leader = groups_[r][step.collective().group()].ranks(0);
          if (meetings_[r][k] != meetings_[leader][k])
            return Status::error(stepText(p, s) + "collective " + quoted(step.name()) + " differs in " +
                                 known_[meetings_[leader][k]]->differenceTo(*known_[meetings_[r][k]]) + " between " +
                                 rankText(leader) + " and " + rankText(r));
        }
        ++k;
      }
    return Status();
  }

  std::string bindingText(int index) const {
    const plan::Binding &binding = first_.bindings(index);
    return "binding " + std::to_string(index) + " (" + roleName(binding.role()) + " " + quoted(binding.name()) + ")";
  }

  Status addBindings(const plan::Plan &plan, size_t rank) {
    if (plan.bindings_size() != first_.bindings_size())
      return Status::error("rank 0 and " + rankText(rank) + " have different numbers of bindings");
    blocks_.resize(size_t(first_.bindings_size()));
    for (int i = 0; i < first_.bindings_size(); ++i) {
      const plan::Binding &a = first_.bindings(i), &b = plan.bindings(i);
      if (a.role() != b.role() || a.name() != b.name() || a.ordinal() != b.ordinal() || a.program() != b.program() ||
          a.fill() != b.fill() || a.has_initial() != b.has_initial() || a.initial().kind() != b.initial().kind() ||
          a.initial().value() != b.initial().value() || a.initial().seed() != b.initial().seed() ||
          !std::ranges::equal(a.global_shape(), b.global_shape()) ||
          first_.buffers(int(a.buffer())).dtype() != plan.buffers(int(b.buffer())).dtype())
        return Status::error(bindingText(i) + " is not the same on rank 0 and " + rankText(rank));
      Block block = blockOf(plan, b);
      if (isEmpty(block.shape))
        continue; // the rank holds only padding
      const bool fresh = blocks_[size_t(i)].insert(block).second;
      if (b.primary() != fresh)
        return Status::error(bindingText(i) + ": " + rankText(rank) +
                             (fresh ? " is the first to hold the box at " : " holds a replica of the box at ") +
                             shapeText(block.offset) + " but is " + (fresh ? "not " : "") + "marked primary");
    }
    return Status();
  }

  size_t count_ = 0;
  plan::Plan first_;
  std::vector<std::vector<plan::Group>> groups_; // by rank
  std::map<Meeting, uint32_t> numbers_;
  std::vector<const Meeting *> known_;          // by number
  std::vector<std::vector<uint32_t>> meetings_; // by rank: the collectives in order
  std::vector<std::set<Block>> blocks_;         // by binding: those that some rank holds
  ExchangeMatcher exchanges_;
};

bool sameOperands(const plan::Step &a, const plan::Step &b) {
  return a.kind_case() == b.kind_case() && a.collective().input() == b.collective().input() &&
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
  Together together;
  std::string bytes; // rank 0's plan as bytes
  PlanParts parts;
  std::vector<BufferRange> ranges;

  /// What the plan shares with rank 0's. A part counts as shared only if everything that its check
  /// reads is equal.
  Likeness likenessOf(const plan::Plan &plan, std::string_view written) const {
    const plan::Plan &first = together.first();
    std::optional<PlanParts> mine = partsOf(written);
    auto asManyMembers = [](const plan::Group &a, const plan::Group &b) { return a.ranks_size() == b.ranks_size(); };
    Likeness like;
    if (ranges.empty() || !mine || plan.arena_bytes() != first.arena_bytes() || mine->buffers != parts.buffers ||
        mine->steps.size() != parts.steps.size() || !std::ranges::equal(plan.groups(), first.groups(), asManyMembers))
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
  if (state_->bytes.empty()) {
    state_->bytes = bytes;
    if (std::optional<PlanParts> parts = partsOf(state_->bytes)) {
      state_->parts = std::move(*parts);
      state_->ranges = std::move(ranges);
    }
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
