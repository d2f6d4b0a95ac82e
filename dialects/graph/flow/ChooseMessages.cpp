// Which collectives share a message. Messages.h says how they are chosen.
#include "dialects/graph/flow/MessageMemory.h"
#include "dialects/graph/flow/MessageRuns.h"
#include "dialects/graph/flow/Order.h"

#include <set>

namespace tessera::graph {

namespace {

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

/// Members that may be joined with each other, but for what depends on what: of one kind and section.
std::vector<llvm::SmallVector<const Sender *>> kindsOf(const DataFlow &flow, llvm::ArrayRef<Sender> senders) {
  std::vector<llvm::SmallVector<const Sender *>> kinds;
  for (const Sender *member : membersOf(flow, senders)) {
    auto it = llvm::find_if(kinds, [&](const auto &kind) {
      return alike(*kind.front(), *member) &&
             flow.steps[kind.front()->step].section == flow.steps[member->step].section;
    });
    (it == kinds.end() ? kinds.emplace_back() : *it).push_back(member);
  }
  return kinds;
}

std::vector<std::vector<int>> chooseOnce(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                         const MessageRule &rule) {
  // The messages of one kind are steps when the next kind is chosen, so that no circle comes about.
  std::vector<std::vector<int>> messages;
  std::optional<MessageFlow> merged; // of so many messages
  size_t numMerged = 0;
  for (const auto &kind : kindsOf(flow, senders)) {
    if (kind.size() == 1)
      continue;
    if (!merged || numMerged < messages.size())
      merged.emplace(flow, messages);
    numMerged = messages.size();
    const MemberTimes members(*merged, kind, rule.times);
    for (std::vector<Member> &layer : members.layers())
      if (layer.size() > 1)
        for (std::vector<int> &message : runsOf(std::move(layer), members.total(), rule))
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

} // namespace

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

std::vector<MessageMove> messageMoves(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                      llvm::ArrayRef<std::vector<int>> messages, size_t most) {
  using Message = std::vector<int>;
  llvm::DenseMap<int, const Message *> messageOf; // by step
  for (const Message &message : messages)
    for (int step : message)
      messageOf[step] = &message;
  auto part = [](const Message &message, size_t from, size_t to) {
    return Message(message.begin() + int64_t(from), message.begin() + int64_t(to));
  };
  auto joined = [](Message first, const Message &second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  std::vector<MessageMove> cuts, shifts, joins, hands;
  for (const auto &kind : kindsOf(flow, senders)) {
    std::vector<Message> sent; // in the order of execution
    for (const Sender *member : kind)
      if (auto found = messageOf.find(member->step); found == messageOf.end())
        sent.push_back({member->step});
      else if (found->second->front() == member->step)
        sent.push_back(*found->second);
    for (const Message &message : sent) {
      const size_t size = message.size();
      for (size_t first : std::set<size_t>{size / 2, size - 1, size / 4, 3 * size / 4})
        if (first > 0)
          cuts.push_back({{message}, {part(message, 0, first), part(message, first, size)}});
    }
    for (size_t m = sent.size(); m-- > 1;) { // the last first: behind them is little that could hide them
      const Message &before = sent[m - 1], &after = sent[m];
      if (before.size() > 1)
        shifts.push_back({{before, after}, {part(before, 0, before.size() - 1), joined({before.back()}, after)}});
      if (after.size() > 1)
        shifts.push_back({{before, after}, {joined(before, {after.front()}), part(after, 1, after.size())}});
      joins.push_back({{before, after}, {joined(before, after)}});
    }
    auto isFull = [&] { return cuts.size() + shifts.size() + joins.size() + hands.size() >= most; };
    auto hand = [&](const Message &from, int member, const Message &to) {
      MessageMove move{{from, to}, {{}, {}}};
      for (const Sender *other : kind) { // members stay in the order of execution
        if (other->step != member && llvm::is_contained(from, other->step))
          move.to[0].push_back(other->step);
        if (other->step == member || llvm::is_contained(to, other->step))
          move.to[1].push_back(other->step);
      }
      hands.push_back(std::move(move));
    };
    for (size_t f = 0; f < sent.size() && !isFull(); ++f)
      for (size_t t = 0; t < sent.size() && !isFull(); ++t)
        if (f != t && (sent[f].size() > 1 || sent[t].size() > 1 || f < t)) // two of one member: once
          for (int member : sent[f])
            hand(sent[f], member, sent[t]);
  }
  llvm::stable_sort(
      cuts, [](const MessageMove &a, const MessageMove &b) { return a.from.front().size() > b.from.front().size(); });
  std::vector<MessageMove> all = std::move(cuts);
  all.insert(all.end(), shifts.begin(), shifts.end());
  all.insert(all.end(), joins.begin(), joins.end());
  all.insert(all.end(), hands.begin(), hands.end());
  all.resize(std::min(all.size(), most));
  return all;
}

std::vector<std::vector<int>> moved(std::vector<std::vector<int>> messages, const MessageMove &move) {
  llvm::erase_if(messages, [&](const std::vector<int> &message) { return llvm::is_contained(move.from, message); });
  for (const std::vector<int> &message : move.to)
    if (message.size() > 1)
      messages.push_back(message);
  return messages;
}

} // namespace tessera::graph
