#include "dialects/graph/flow/Messages.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/MessageMemory.h"
#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/bit.h"

#include <map>
#include <numeric>
#include <unordered_map>

using namespace mlir;

namespace tessera::graph {

namespace {

/// The most members of a message. Enough for the gradients of any network, few enough to try all runs of members.
constexpr size_t kMostMembers = 512;
/// The most different ends of the last message that are kept for each number of messages.
constexpr size_t kMostPoints = 32;
/// The earliest end of a step is found to this part.
constexpr double kPrecision = 1e-4;

int64_t elementBytes(const Sender &sender) { return (sender.element.getIntOrFloatBitWidth() + 7) / 8; }

int64_t numElements(const dist::Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<int64_t>());
}

/// Of the whole tensor, which a rank has before a scatter and after a gather.
int64_t bytesOf(const Sender &sender) {
  return std::max(numElements(sender.collective.localIn), numElements(sender.collective.localOut)) *
         elementBytes(sender);
}

/// The time of a joined message of so many bytes that is otherwise like `one`.
double costOf(const Sender &one, int64_t bytes, const MessageCost &cost) {
  dist::Collective message = one.collective;
  const int64_t in = numElements(message.localIn), out = numElements(message.localOut),
                whole = bytes / elementBytes(one);
  message.localIn = {in < out ? whole / (out / in) : whole};
  message.localOut = {out < in ? whole / (in / out) : whole};
  const bool list = membershipOf(message.kind) == Membership::List;
  return cost.collective(message, elementBytes(one)) + (list ? cost.packing * double(bytes) : 0);
}

/// Whether two collectives could be one, but for what depends on what.
bool alike(const Sender &a, const Sender &b) {
  return a.element == b.element && a.collective.kind == b.collective.kind && a.collective.axes == b.collective.axes &&
         a.collective.reduction == b.collective.reduction;
}

/// The senders that may be members. Of those that lie side by side, operands and results have memory of their own,
/// which can be placed freely. What another sender makes is no operand of theirs, since it could not lie beside its
/// neighbours of both messages.
std::vector<const Sender *> membersOf(const DataFlow &flow, llvm::ArrayRef<Sender> senders) {
  llvm::SmallDenseSet<int> sending;
  for (const Sender &sender : senders)
    sending.insert(sender.step);
  llvm::DenseMap<int, int> readers; // by root: senders that read it
  for (const Sender &sender : senders)
    for (int value : flow.steps[sender.step].reads)
      ++readers[flow.root(value)];
  std::vector<const Sender *> members;
  for (const Sender &sender : senders) {
    const DataFlow::Step &step = flow.steps[sender.step];
    const Membership membership = membershipOf(sender.collective);
    if (membership == Membership::None || step.reads.size() != 1 || step.makes.size() != 1)
      continue;
    if (membership == Membership::List) {
      if (numElements(sender.collective.localIn) > 0 && numElements(sender.collective.localOut) > 0)
        members.push_back(&sender);
      continue;
    }
    const int root = flow.root(step.reads.front());
    const DataFlow::Value &operand = flow.values[root], &result = flow.values[step.makes.front()];
    if (operand.maker >= 0 && !operand.kept && !result.kept && operand.bytes == result.bytes && readers[root] == 1 &&
        !sending.contains(operand.maker))
      members.push_back(&sender);
  }
  return members;
}

/// A collective that may be a member, on the time line of kernels that run one after the other.
struct Member {
  const Sender *sender;
  int64_t bytes;
  double ready;      // when the kernels before it are done; of a list, those that it needs
  double behind = 0; // what kernels that depend on it take
  int depth = 0;     // the most members of its kind that must be sent one after the other behind it
  double alone = 0;  // the time of a message of its own
};

/// The collectives of one kind in the order of execution.
class Kind {
public:
  Kind(const MessageFlow &flow, llvm::ArrayRef<const Sender *> senders, llvm::ArrayRef<int64_t> times)
      : flow_(flow), times_(times) {
    arrange(senders);
  }

  /// Members of equal depth, none of which depends on another one. Whatever is joined in each of them, nothing waits
  /// for itself, since what a member depends on has a larger depth.
  std::vector<std::vector<Member>> layers() const {
    std::vector<std::vector<Member>> layers;
    for (const Member &member : members_) {
      layers.resize(std::max(layers.size(), size_t(member.depth) + 1));
      layers[size_t(member.depth)].push_back(member);
    }
    return layers;
  }
  /// What all kernels take.
  double total() const { return total_; }

private:
  void arrange(llvm::ArrayRef<const Sender *> senders) {
    llvm::DenseMap<int, const Sender *> at; // by merged step
    std::vector<int> mergedOf;
    for (auto [m, steps] : llvm::enumerate(flow_.members))
      for (int step : steps) {
        mergedOf.resize(std::max(mergedOf.size(), size_t(step) + 1), -1);
        mergedOf[step] = int(m);
      }
    for (const Sender *sender : senders)
      at[mergedOf[sender->step]] = sender;
    std::vector<int> memberOf(flow_.flow.steps.size(), -1), places;
    // A gather stands where it is first needed, since it takes memory. It may be sent as soon as it can, and is ready
    // when those before it are.
    std::vector<double> made(flow_.flow.values.size(), 0);
    double readyBefore = 0;
    const std::vector<int> order = executionOrder(flow_.flow);
    for (int m : order) {
      double needed = 0;
      for (int value : flow_.flow.steps[m].reads)
        needed = std::max(needed, made[value]);
      if (const Sender *sender = at.lookup(m)) {
        memberOf[m] = int(members_.size());
        places.push_back(m);
        const bool list = membershipOf(sender->collective.kind) == Membership::List;
        readyBefore = list ? std::max(readyBefore, needed) : total_;
        members_.push_back({sender, bytesOf(*sender), readyBefore});
      }
      const double time = timeOf(m);
      total_ += time;
      for (int value : flow_.flow.steps[m].makes)
        made[value] = time > 0 ? total_ : needed;
    }
    findBehind(order, memberOf, places);
  }

  /// What depends on each member: the depth, and what kernels take. `memberOf` and `places` go from merged steps in
  /// dependence order to members and back.
  void findBehind(llvm::ArrayRef<int> order, llvm::ArrayRef<int> memberOf, llvm::ArrayRef<int> places) {
    const std::vector<llvm::SmallVector<int, 2>> readers = flow_.flow.readers();
    const int end = int(flow_.flow.steps.size());
    std::vector<int> depths(flow_.flow.steps.size(), 0);
    for (int m : llvm::reverse(order)) {
      for (int value : flow_.flow.steps[m].makes)
        for (int reader : readers[value])
          if (reader != end)
            depths[m] = std::max(depths[m], depths[reader] + (memberOf[reader] >= 0));
      if (memberOf[m] >= 0)
        members_[memberOf[m]].depth = depths[m];
    }
    if (times_.empty())
      return;
    // A walk per member would take long in large programs. A word has a bit for each of 64 members. Kernels with the same
    // word are added up first: most of them are behind what the one before is behind. Sums of whole nanoseconds are
    // exact.
    std::vector<uint64_t> behind(flow_.flow.steps.size());
    std::unordered_map<uint64_t, double> times;
    for (size_t first = 0; first < members_.size(); first += 64) {
      std::fill(behind.begin(), behind.end(), 0);
      times.clear();
      double *time = nullptr;
      uint64_t word = 0;
      bool begun = false;
      for (int m : order) {
        begun |= m == places[first];
        if (!begun)
          continue;
        if (behind[m]) {
          if (!time || word != behind[m])
            time = &times[word = behind[m]];
          *time += timeOf(m);
        }
        uint64_t handed = behind[m];
        if (const int member = memberOf[m]; member >= int(first) && member < int(first) + 64)
          handed |= uint64_t(1) << (member - int(first));
        for (int value : handed ? llvm::ArrayRef<int>(flow_.flow.steps[m].makes) : llvm::ArrayRef<int>())
          for (int reader : readers[value])
            if (reader != end)
              behind[reader] |= handed;
      }
      for (auto [members, sum] : times)
        for (uint64_t left = members; left; left &= left - 1)
          members_[first + size_t(llvm::countr_zero(left))].behind += sum;
    }
  }

  double timeOf(int merged) const {
    double time = 0;
    if (!times_.empty())
      for (int step : flow_.members[merged])
        time += double(times_[step]);
    return time;
  }

  const MessageFlow &flow_;
  llvm::ArrayRef<int64_t> times_;
  std::vector<Member> members_;
  double total_ = 0;
};

/// Chooses runs of members of one layer.
class Runs {
public:
  Runs(std::vector<Member> members, double total, const MessageRule &rule)
      : members_(std::move(members)), total_(total), rule_(rule) {}

  /// The runs of two or more.
  std::vector<std::vector<int>> messages() {
    std::vector<std::vector<int>> found;
    size_t first = 0;
    for (int end : rule_.times.empty() ? filled() : timed()) {
      if (size_t(end) > first + 1) {
        std::vector<int> &message = found.emplace_back();
        for (size_t m = first; m < size_t(end); ++m)
          message.push_back(members_[m].sender->step);
      }
      first = size_t(end);
    }
    return found;
  }

private:
  /// Runs as long as `most` allows.
  std::vector<int> filled() const {
    std::vector<int> ends;
    int64_t bytes = 0;
    for (size_t j = 0; j < members_.size(); ++j) {
      if (bytes > 0 && bytes + members_[j].bytes > rule_.most) {
        ends.push_back(int(j));
        bytes = 0;
      }
      bytes += members_[j].bytes;
    }
    ends.push_back(int(members_.size()));
    return ends;
  }

  /// A run that may be a message, by its first member, for one last member.
  struct Run {
    size_t first;
    double cost, behind;
  };

  void findRuns() {
    std::vector<double> alone = {0}; // of all members before
    for (Member &member : members_) {
      member.alone = messageCost(member.sender, rule_.cost);
      alone.push_back(alone.back() + member.alone);
    }
    runs_.resize(members_.size());
    for (size_t j = 0; j < members_.size(); ++j) {
      int64_t bytes = 0;
      double behind = 0;
      const size_t first = j < kMostMembers ? 0 : j + 1 - kMostMembers;
      for (size_t i = j + 1; i-- > first;) {
        bytes += members_[i].bytes;
        behind = std::max(behind, members_[i].behind);
        if (i < j && bytes > rule_.most)
          break;
        const double cost = i == j ? members_[j].alone : sizedCost(bytes);
        if (cost <= alone[j + 1] - alone[i])
          runs_[j].push_back({i, cost, behind});
      }
    }
  }

  /// The time of a message of so many bytes.
  double sizedCost(int64_t bytes) {
    auto [it, fresh] = costs_.try_emplace(uint64_t(bytes), 0);
    if (fresh)
      it->second = costOf(*members_.front().sender, bytes, rule_.cost);
    return it->second;
  }

  /// When the last message can end at the earliest, if the step ends at `limit`; negative: it cannot.
  double lastEnd(double limit) const {
    std::vector<double> end(members_.size() + 1, -1);
    end[0] = 0;
    for (size_t j = 0; j < members_.size(); ++j)
      for (const Run &run : runs_[j]) {
        if (end[run.first] < 0)
          continue;
        const double at = std::max(end[run.first], members_[j].ready) + run.cost;
        if (at + run.behind <= limit && (end[j + 1] < 0 || at < end[j + 1]))
          end[j + 1] = at;
      }
    return end.back();
  }

  std::vector<int> timed() {
    findRuns();
    double late = total_, end = 0; // without a join
    for (const Member &member : members_) {
      end = std::max(end, member.ready) + member.alone;
      late = std::max(late, end + member.behind);
    }
    double early = total_;
    if (lastEnd(early) >= 0)
      late = early;
    while (late - early > kPrecision * late) {
      const double middle = early + (late - early) / 2;
      (lastEnd(middle) >= 0 ? late : early) = middle;
    }
    return fewest(late);
  }

  /// The ends of the runs of a choice with the fewest messages under which the step ends by `limit`.
  std::vector<int> fewest(double limit) const {
    struct Point {
      int messages;
      double end;
      size_t before; // the run's first member
      size_t point;  // of `before`
    };
    // Per number of members the points of which none is both more messages and later.
    std::vector<std::vector<Point>> points(members_.size() + 1);
    points[0] = {{0, 0, 0, 0}};
    std::vector<Point> earliest(members_.size() + 1); // by number of messages; with 0 of them: there is none
    for (size_t j = 0; j < members_.size(); ++j) {
      size_t fewest = members_.size(), most = 0; // messages of the points here
      for (const Run &run : runs_[j])
        for (auto [p, point] : llvm::enumerate(points[run.first])) {
          const double at = std::max(point.end, members_[j].ready) + run.cost;
          const size_t messages = size_t(point.messages) + 1;
          Point &best = earliest[messages];
          if (at + run.behind > limit || (best.messages > 0 && at >= best.end))
            continue;
          best = {int(messages), at, run.first, p};
          fewest = std::min(fewest, messages);
          most = std::max(most, messages);
        }
      std::vector<Point> &kept = points[j + 1];
      for (size_t messages = fewest; messages <= most; ++messages) {
        const Point point = std::exchange(earliest[messages], {});
        if (point.messages > 0 && (kept.empty() || point.end < kept.back().end)) {
          if (kept.size() == kMostPoints)
            kept.pop_back(); // the earliest end is kept in any case
          kept.push_back(point);
        }
      }
    }
    std::vector<int> ends;
    size_t j = members_.size(), p = 0;
    while (j > 0) {
      ends.push_back(int(j));
      const Point &point = points[j][p];
      j = point.before;
      p = point.point;
    }
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  std::vector<Member> members_;
  const double total_; // what all kernels take
  const MessageRule &rule_;
  std::vector<std::vector<Run>> runs_;     // by last member
  llvm::DenseMap<uint64_t, double> costs_; // by bytes; signed numbers hash badly: many bytes have low bits of 0
};

/// When steps end whose kernels run in order, whose messages run beside them in order, and in which each waits for what
/// it reads. It is asked for many choices of messages of one program.
class TimeLine {
public:
  TimeLine(const DataFlow &flow, llvm::ArrayRef<Sender> senders, const MessageRule &rule)
      : flow_(flow), rule_(rule), at_(flow.steps.size(), nullptr), alone_(flow.steps.size(), 0) {
    for (DataFlow::Value &value : flow_.values)
      value.shape.clear(); // which nobody looks at, and copies of which take long
    for (const Sender &sender : senders)
      if (dist::communicates(sender.collective.kind)) {
        at_[sender.step] = &sender;
        alone_[sender.step] = messageCost(&sender, rule.cost);
      }
  }

  double end(llvm::ArrayRef<std::vector<int>> messages) const {
    const MessageFlow sent(flow_, messages);
    std::vector<double> made(flow_.values.size(), 0);
    double kernels = 0, link = 0;
    std::vector<const Sender *> members;
    for (int step : executionOrder(sent.flow)) {
      double ready = 0, kernel = 0;
      for (int value : sent.flow.steps[step].reads)
        ready = std::max(ready, made[value]);
      members.clear();
      for (int member : sent.members[step]) {
        kernel += double(rule_.times[member]);
        if (at_[member])
          members.push_back(at_[member]);
      }
      double &resource = members.empty() ? kernels : link;
      resource = std::max(resource, ready) + (members.empty()       ? kernel
                                              : members.size() == 1 ? alone_[members.front()->step]
                                                                    : messageCost(members, rule_.cost));
      for (int value : sent.flow.steps[step].makes)
        made[value] = resource;
    }
    return std::max(kernels, link);
  }

private:
  DataFlow flow_;
  const MessageRule &rule_;
  std::vector<const Sender *> at_; // by step
  std::vector<double> alone_;      // by step: what a message of it alone takes
};

/// Takes messages as long as the step ends no later by them: all, or else of both halves what can be taken.
class Taking {
public:
  Taking(const DataFlow &flow, llvm::ArrayRef<Sender> senders, const MessageRule &rule)
      : line_(flow, senders, rule), end_(line_.end({})) {}

  void take(llvm::ArrayRef<std::vector<int>> messages) {
    if (messages.empty())
      return;
    std::vector<std::vector<int>> trial = taken;
    trial.insert(trial.end(), messages.begin(), messages.end());
    if (const double end = line_.end(trial); end <= end_) {
      end_ = end;
      taken = std::move(trial);
    } else if (messages.size() > 1) {
      take(messages.take_front(messages.size() / 2));
      take(messages.drop_front(messages.size() / 2));
    }
  }

  std::vector<std::vector<int>> taken;

private:
  const TimeLine line_;
  double end_;
};

/// Whether messages may make the step later.
bool isTimed(const MessageRule &rule) { return !rule.times.empty() && !rule.inLine; }

std::vector<std::vector<int>> chooseOnce(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                         const MessageRule &rule) {
  std::vector<llvm::SmallVector<const Sender *>> kinds;
  for (const Sender *member : membersOf(flow, senders)) {
    auto it = llvm::find_if(kinds, [&](const auto &kind) {
      return alike(*kind.front(), *member) &&
             flow.steps[kind.front()->step].section == flow.steps[member->step].section;
    });
    (it == kinds.end() ? kinds.emplace_back() : *it).push_back(member);
  }
  // The messages of one kind are steps when the next kind is chosen, so that no circle comes about.
  std::vector<std::vector<int>> messages;
  std::optional<MessageFlow> merged; // of so many messages
  size_t numMerged = 0;
  for (const auto &kind : kinds) {
    if (kind.size() == 1)
      continue;
    if (!merged || numMerged < messages.size())
      merged.emplace(flow, messages);
    numMerged = messages.size();
    const Kind members(*merged, kind, rule.times);
    for (std::vector<Member> &layer : members.layers())
      if (layer.size() > 1)
        for (std::vector<int> &message : Runs(std::move(layer), members.total(), rule).messages())
          messages.push_back(std::move(message));
  }
  if (!isTimed(rule))
    return messages;
  Taking taking(flow, senders, rule);
  taking.take(messages);
  return std::move(taking.taken);
}

/// The messages, and the other senders as lists of one.
std::vector<std::vector<int>> withOthers(std::vector<std::vector<int>> messages, llvm::ArrayRef<Sender> senders) {
  llvm::DenseSet<int> joined;
  for (const std::vector<int> &message : messages)
    joined.insert(message.begin(), message.end());
  for (const Sender &sender : senders)
    if (!joined.contains(sender.step))
      messages.push_back({sender.step});
  return messages;
}

/// Without lists of one.
std::vector<std::vector<int>> joinedOf(std::vector<std::vector<int>> messages) {
  llvm::erase_if(messages, [](const std::vector<int> &message) { return message.size() < 2; });
  return messages;
}

int64_t wholeBytes(llvm::ArrayRef<const Sender *> members) {
  int64_t bytes = 0;
  for (const Sender *member : members)
    bytes += bytesOf(*member);
  return bytes;
}

} // namespace

Membership membershipOf(dist::CollectiveKind kind) {
  switch (kind) {
  case dist::CollectiveKind::AllReduce:
    return Membership::SideBySide;
  case dist::CollectiveKind::AllGather:
  case dist::CollectiveKind::ReduceScatter:
    return Membership::List;
  default:
    return Membership::None;
  }
}

double messageCost(llvm::ArrayRef<const Sender *> members, const MessageCost &cost) {
  if (members.size() == 1)
    return cost.collective(members.front()->collective, elementBytes(*members.front()));
  return costOf(*members.front(), wholeBytes(members), cost);
}

int64_t packedBytes(llvm::ArrayRef<const Sender *> members) {
  const bool list = membershipOf(members.front()->collective.kind) == Membership::List;
  return list && members.size() > 1 ? wholeBytes(members) : 0;
}

int64_t largestMessage(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages) {
  int64_t largest = 0;
  for (const std::vector<int> &message : messages) {
    int64_t bytes = 0;
    for (int step : message)
      bytes += std::max(flow.values[flow.steps[step].reads.front()].bytes,
                        flow.values[flow.steps[step].makes.front()].bytes);
    largest = std::max(largest, bytes);
  }
  return largest;
}

std::vector<std::vector<int>> chooseMessages(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                             const MessageRule &rule) {
  if (rule.most <= 0)
    return {};
  std::vector<std::vector<int>> messages = chooseOnce(flow, senders, rule);
  if (messages.empty() || rule.room == kAnySize)
    return messages;
  const std::vector<std::vector<int>> sent = withOthers(messages, senders);
  if (peakOf(flow, sent) <= rule.room)
    return messages;
  // Collectives that are sent alone may need more, too. Messages that need no more than they do cost no memory.
  const int64_t room = std::max(rule.room, peakOf(flow, withOthers({}, senders)));
  messages = joinedOf(splitToFit(flow, sent, room));
  if (!isTimed(rule))
    return messages;
  // Smaller messages may make the step later where larger ones did not.
  Taking taking(flow, senders, rule);
  taking.take(messages);
  return joinedOf(splitToFit(flow, withOthers(std::move(taking.taken), senders), room));
}

std::vector<Sender> sendersOf(const FunctionFlow &program, llvm::ArrayRef<int> stepOf, const dist::Mesh &mesh) {
  std::vector<Sender> senders;
  for (auto [op, step] : llvm::zip_equal(program.operators, stepOf))
    if (auto collective = dyn_cast<dist::CollectiveOp>(op); collective && step >= 0)
      senders.push_back(
          {step, collective.getCollective(mesh), cast<RankedTensorType>(collective.getX().getType()).getElementType()});
  return senders;
}

std::vector<std::vector<Operation *>> operatorsOf(const FunctionFlow &program, const LoopedFlow &looped,
                                                  llvm::ArrayRef<std::vector<int>> messages) {
  std::vector<std::vector<Operation *>> joined;
  for (const std::vector<int> &message : messages) {
    std::vector<Operation *> &members = joined.emplace_back();
    for (int step : message)
      members.push_back(program.operators[looped.members[step].front()]);
  }
  return joined;
}

std::vector<std::vector<Operation *>> joinedCollectives(func::FuncOp func, const dist::Mesh &mesh,
                                                        const MessageRule &rule) {
  const FunctionFlow program(func);
  const LoopedFlow looped(program.flow, formLoops(program.flow));
  return operatorsOf(program, looped, chooseMessages(looped.flow, sendersOf(program, looped.stepOf, mesh), rule));
}

std::vector<std::vector<int>> markedMessages(const FunctionFlow &program) {
  std::map<int64_t, std::vector<int>> marked;
  for (auto [step, op] : llvm::enumerate(program.operators))
    if (auto number = op->getAttrOfType<IntegerAttr>(kMessageAttr))
      marked[number.getInt()].push_back(int(step));
  std::vector<std::vector<int>> messages;
  for (auto &[number, members] : marked)
    messages.push_back(std::move(members));
  return messages;
}

MessageFlow::MessageFlow(const DataFlow &program, llvm::ArrayRef<std::vector<int>> messages) {
  std::vector<int> messageOf(program.steps.size(), -1); // by step
  for (auto [m, message] : llvm::enumerate(messages))
    for (int step : message)
      messageOf[step] = int(m);
  DataFlow merged;
  merged.values = program.values;
  merged.results = program.results;
  merged.updates = program.updates;
  merged.steps.reserve(program.steps.size());
  // A message's result takes the place of an operand that nothing else reads, as in the arena.
  std::vector<int> reads(program.values.size(), 0);
  for (const DataFlow::Step &step : program.steps)
    for (int value : step.reads)
      ++reads[value];
  for (int value : program.results)
    ++reads[value];
  for (const std::vector<int> &message : messages)
    for (int step : message)
      if (const DataFlow::Step &member = program.steps[step]; member.reads.size() == 1 && member.makes.size() == 1) {
        const int from = member.reads.front(), to = member.makes.front();
        if (reads[from] == 1 && !merged.values[from].kept && merged.values[from].viewOf < 0 &&
            merged.values[from].bytes == merged.values[to].bytes && merged.values[to].viewOf < 0 &&
            !merged.values[to].kept)
          merged.values[to].viewOf = from;
      }
  std::vector<int> first; // by merged step
  for (int s = 0; s < int(program.steps.size()); ++s) {
    const DataFlow::Step &step = program.steps[s];
    if (messageOf[s] < 0) {
      merged.addStep(step.part, step.reads, step.makes, step.section);
    } else {
      const std::vector<int> &message = messages[size_t(messageOf[s])];
      if (message.front() != s)
        continue;
      llvm::SetVector<int> all;
      llvm::SmallVector<int> makes;
      for (int member : message) {
        all.insert(program.steps[member].reads.begin(), program.steps[member].reads.end());
        makes.append(program.steps[member].makes.begin(), program.steps[member].makes.end());
      }
      const bool one = message.size() == 1;
      merged.addStep(one ? step.part : LoopPart::None, one ? llvm::ArrayRef<int>(step.reads) : all.getArrayRef(), makes,
                     step.section);
    }
    first.push_back(s);
  }
  const std::vector<int> order = dependenceOrder(merged);
  assert(order.size() == merged.steps.size() && "messages that wait for each other");
  flow = reordered(std::move(merged), order);
  members.reserve(order.size());
  for (int step : order) {
    const int s = first[step];
    members.push_back(messageOf[s] < 0 ? std::vector<int>{s} : messages[size_t(messageOf[s])]);
  }
}

} // namespace tessera::graph
