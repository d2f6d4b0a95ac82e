#include "strategies/cost/Joining.h"

#include "dialects/graph/flow/Order.h"
#include "strategies/overlap/LeastTime.h"

namespace tessera::strategies {

/// A program of which less than this part can be hidden keeps its order, which needs the least memory.
static constexpr double kWorthwhile = 0.02;
/// Other messages are tried until so many steps have been scheduled, or the program takes hardly more than its least
/// time. Set by hand, so that a compilation takes little longer.
static constexpr int64_t kMoveSteps = 5000;
static constexpr int64_t kTwoMoveSteps = 20000; // where no single change is better
/// In a program of which fewer pairs could be scheduled, none is: they would seldom be worth the time. Set by hand.
static constexpr int64_t kFewestPairs = 100;
static constexpr double kNear = 0.01;

llvm::Expected<JoinOptions> parseJoin(llvm::StringRef text) {
  if (text == "off")
    return JoinOptions{};
  if (text == "auto")
    return JoinOptions{.most = graph::kAnySize};
  llvm::Expected<int64_t> bytes = parseBytes(text);
  if (!bytes || *bytes <= 0) {
    llvm::consumeError(bytes.takeError());
    return llvm::createStringError("--fusion %s: expected auto, off or the size of a message such as 25MiB",
                                   text.str().c_str());
  }
  return JoinOptions{.most = *bytes, .timed = false};
}

llvm::Expected<Overlapping> parseOverlap(llvm::StringRef text) {
  for (auto [name, overlap] :
       {std::pair("off", Overlapping::Off), std::pair("on", Overlapping::On), std::pair("auto", Overlapping::Auto)})
    if (text == name)
      return overlap;
  return llvm::createStringError("--overlap %s: expected auto, on or off", text.str().c_str());
}

namespace {

class Sending {
public:
  Sending(const CostModel &model, const ProgramToSend &program, const JoinOptions &options)
      : model_(model), program_(program), options_(options), times_(program.looped.members.size(), 0),
        senderAt_(program.looped.members.size(), nullptr) {
    for (auto [s, members] : llvm::enumerate(program.looped.members))
      for (int member : members)
        times_[s] += program.costs[size_t(member)];
    for (const graph::Sender &sender : program.senders)
      if (dist::communicates(sender.collective.kind)) {
        senderAt_[size_t(sender.step)] = &sender;
        communicates_ = true;
      }
    if (options.memory > 0)
      room_ = std::max<int64_t>(0, options.memory - program.persistent);
  }

  SentProgram run() {
    const bool shared = model_.topology().shared; // a rank's cores do both
    if (options_.overlap == Overlapping::Off || !communicates_)
      return {messages(shared), std::nullopt};
    const bool mayPay = llvm::any_of(senderAt_, [&](const graph::Sender *sender) {
      return sender && workOf({sender}, graph::messageCost({sender}, model_.messageCost())) < 1;
    });
    if (options_.overlap == Overlapping::Auto && !mayPay)
      return {messages(shared), std::nullopt};
    SentProgram beside = scheduled(messages(/*inLine=*/false));
    const std::vector<std::vector<int>> joined = beside.messages;
    if (beside.beside && options_.most > 0 && options_.timed)
      beside = improved(std::move(beside));
    if (beside.beside && options_.overlap == Overlapping::On)
      return beside;
    SentProgram alone{shared ? messages(true) : joined, std::nullopt};
    if (!beside.beside)
      return alone;
    const graph::MessageFlow line(program_.looped.flow, alone.messages);
    const int64_t before = inLine(line.flow, ruleOf(line));
    return double(beside.beside->predicted) < (1 - kWorthwhile) * double(before) ? beside : alone;
  }

  int64_t least(bool divide) const {
    LeastSteps steps;
    steps.runs = program_.parts;
    steps.slowing = model_.leastSlowing();
    std::vector<Link> links;
    for (auto [ns, sender] : llvm::zip_equal(times_, senderAt_)) {
      LeastStep &time = steps.times.emplace_back(LeastStep{ns});
      if (!sender)
        continue;
      const int64_t bytes = elementBytesOf(*sender);
      const dist::Collective &c = sender->collective;
      time.link = linkOf(*sender, links);
      time.ns = model_.collective(c, bytes);
      time.work = int64_t(double(time.ns) * workOf({sender}, double(time.ns)));
      if (graph::membershipOf(c) == graph::Membership::None) {
        time.least = time.grows = {time.ns, time.work};
        continue;
      }
      auto part = [&](Cost ns) {
        return MessagePart{ns, model_.leastWorkBeside(dist::bytesSent(model_.mesh(), c, bytes), ns)};
      };
      time.least = part(std::min(time.ns, model_.leastCollective(c, bytes)));
      time.grows = part(std::clamp<Cost>(model_.leastGrowth(c, bytes) - 1, 0, time.least.ns)); // messages are rounded
    }
    return leastTime(program_.looped.flow, steps, divide);
  }

private:
  std::vector<std::vector<int>> messages(bool inLine) const {
    if (options_.most == 0)
      return {};
    graph::MessageRule rule;
    rule.most = options_.most;
    rule.cost = model_.messageCost();
    if (options_.timed)
      rule.times = times_;
    rule.inLine = inLine;
    rule.room = room_;
    return graph::chooseMessages(program_.looped.flow, program_.senders, rule);
  }

  static int64_t elementBytesOf(const graph::Sender &sender) {
    return int64_t(sender.element.getIntOrFloatBitWidth() + 7) / 8;
  }

  /// Beside kernels where that takes less than `than`.
  SentProgram scheduled(std::vector<std::vector<int>> messages,
                        int64_t than = std::numeric_limits<int64_t>::max()) const {
    const graph::MessageFlow flow(program_.looped.flow, messages);
    if (flow.circular)
      return {};
    const OverlapRule rule = ruleOf(flow);
    return {std::move(messages), overlap(flow.flow, rule, than)};
  }

  using Messages = std::vector<std::vector<int>>;

  /// The first of the messages that are so many changes away from `messages` with which the program takes less time
  /// than `than`. `steps`: how many may still be scheduled.
  std::optional<SentProgram> changed(const Messages &messages, int changes, int64_t than, int64_t &steps) const {
    const auto size = int64_t(program_.looped.flow.steps.size());
    for (const graph::MessageMove &move :
         graph::messageMoves(program_.looped.flow, program_.senders, messages, size_t(steps / size))) {
      Messages next = graph::moved(messages, move);
      if (changes > 1) {
        if (std::optional<SentProgram> better = changed(next, changes - 1, than, steps))
          return better;
        continue;
      }
      steps -= size;
      if (SentProgram trial = scheduled(std::move(next), than); trial.beside)
        return trial;
    }
    return std::nullopt;
  }

  /// Messages were chosen for a time line on which kernels keep their order. Beside kernels in another order the program
  /// may take less time with others.
  SentProgram improved(SentProgram best) const {
    if (int64_t(program_.looped.flow.steps.size()) > std::max(kMoveSteps, kTwoMoveSteps))
      return best;
    const auto near = int64_t((1 + kNear) * double(least(/*divide=*/false)));
    const bool isSmall = int64_t(program_.looped.flow.steps.size()) <= kTwoMoveSteps / kFewestPairs;
    int64_t oneMove = kMoveSteps, twoMoves = isSmall ? kTwoMoveSteps : 0;
    while (best.beside->predicted > near) {
      std::optional<SentProgram> better = changed(best.messages, 1, best.beside->predicted, oneMove);
      if (!better)
        better = changed(best.messages, 2, best.beside->predicted, twoMoves);
      if (!better)
        break;
      best = std::move(*better);
    }
    return best;
  }

  /// The part of a message's time by which it delays kernels that run beside it.
  double workOf(llvm::ArrayRef<const graph::Sender *> members, double ns) const {
    double bytes = 0;
    for (const graph::Sender *member : members)
      bytes += dist::bytesSent(model_.mesh(), member->collective, elementBytesOf(*member));
    const double packing = model_.messageCost().packing * double(graph::packedBytes(members));
    return ns > 0 ? std::min(1.0, model_.workBeside(bytes, ns) + packing / ns) : 1;
  }

  /// The number of a kind of link, as they first occur.
  int linkOf(const graph::Sender &sender, std::vector<Link> &links) const {
    const Link link = model_.topology().link(model_.mesh(), sender.collective.axes);
    auto same = [&](const Link &other) { return other.latency == link.latency && other.bandwidth == link.bandwidth; };
    const auto known = llvm::find_if(links, same);
    const auto number = int(known - links.begin());
    if (known == links.end())
      links.push_back(link);
    return number;
  }

  OverlapRule ruleOf(const graph::MessageFlow &flow) const {
    OverlapRule rule;
    rule.runs = program_.parts;
    rule.room = room_ == graph::kAnySize ? -1 : room_;
    std::vector<Link> links;
    for (const std::vector<int> &members : flow.members) {
      StepTime &time = rule.times.emplace_back();
      std::vector<const graph::Sender *> senders;
      for (int member : members) {
        time.ns += times_[size_t(member)];
        if (senderAt_[size_t(member)])
          senders.push_back(senderAt_[size_t(member)]);
      }
      if (senders.empty())
        continue;
      const double ns = graph::messageCost(senders, model_.messageCost());
      time.ns = int64_t(ns);
      time.link = linkOf(*senders.front(), links);
      time.work = workOf(senders, ns);
    }
    return rule;
  }

  const CostModel &model_;
  const ProgramToSend &program_;
  const JoinOptions &options_;
  std::vector<int64_t> times_;                  // by step: of kernels
  std::vector<const graph::Sender *> senderAt_; // by step
  bool communicates_ = false;
  int64_t room_ = graph::kAnySize;
};

} // namespace

SentProgram sendProgram(const CostModel &model, const ProgramToSend &program, const JoinOptions &options) {
  return Sending(model, program, options).run();
}

Cost leastTime(const CostModel &model, const ProgramToSend &program) {
  return Sending(model, program, {}).least(/*divide=*/true);
}

bool mayHide(const CostModel &model) {
  constexpr int64_t kElements = int64_t(1) << 24;
  const dist::Mesh &mesh = model.mesh();
  for (int axis = 0; axis < mesh.numAxes(); ++axis) {
    dist::Collective sum;
    sum.kind = dist::CollectiveKind::AllReduce;
    sum.axes = {axis};
    sum.reduction = dist::Reduction::Sum;
    sum.localIn = sum.localOut = {kElements};
    if (mesh.axisSize(axis) > 1 &&
        model.workBeside(dist::bytesSent(mesh, sum, 4), double(model.collective(sum, 4))) < 1)
      return true;
  }
  return false;
}

BesideCost BesideCost::of(const Overlap &overlap) {
  return {overlap.predicted, overlap.exposed, llvm::count(overlap.beside, true)};
}

int64_t peakBytes(const graph::DataFlow &sent, const SentProgram &how) {
  return how.beside ? how.beside->peakBytes : graph::peak(sent, graph::executionOrder(sent)).bytes;
}

std::vector<Cost> shareMessage(const CostModel &model, llvm::ArrayRef<const graph::Sender *> members) {
  const auto all = Cost(graph::messageCost(members, model.messageCost()));
  double bytes = 0, before = 0;
  for (const graph::Sender *member : members)
    bytes += double(numElements(member->collective.localIn));
  std::vector<Cost> shares;
  Cost shared = 0;
  for (const graph::Sender *member : members) {
    before += double(numElements(member->collective.localIn));
    const Cost until = member == members.back() ? all : Cost(double(all) * (before / bytes));
    shares.push_back(until - shared);
    shared = until;
  }
  return shares;
}

} // namespace tessera::strategies
