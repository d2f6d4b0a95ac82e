#include "strategies/cost/Joining.h"

namespace tessera::strategies {

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

std::vector<std::vector<int>> chooseMessages(const CostModel &model, const graph::LoopedFlow &looped,
                                             llvm::ArrayRef<Cost> costs, llvm::ArrayRef<graph::Sender> senders,
                                             const JoinOptions &options, int64_t persistent) {
  if (options.most == 0)
    return {};
  std::vector<int64_t> times(looped.members.size(), 0);
  for (auto [s, members] : llvm::enumerate(looped.members))
    for (int member : members)
      times[s] += costs[member];
  graph::MessageRule rule;
  rule.most = options.most;
  rule.cost = model.collectiveCost();
  if (options.timed)
    rule.times = times;
  rule.inLine = model.topology().shared; // a rank's cores do both
  if (options.memory > 0)
    rule.room = std::max<int64_t>(0, options.memory - persistent);
  return graph::chooseMessages(looped.flow, senders, rule);
}

std::vector<Cost> shareMessage(const CostModel &model, llvm::ArrayRef<const graph::Sender *> members) {
  const auto all = Cost(graph::messageCost(members, model.collectiveCost()));
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
