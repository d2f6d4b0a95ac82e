#include "dialects/graph/flow/Messages.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace tessera::graph {

namespace {

int64_t elementBytes(const Sender &sender) { return (sender.element.getIntOrFloatBitWidth() + 7) / 8; }

int64_t wholeBytes(llvm::ArrayRef<const Sender *> members) {
  int64_t bytes = 0;
  for (const Sender *member : members)
    bytes += wholeBytes(*member);
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

int64_t wholeBytes(const Sender &sender) {
  const dist::Collective &collective = sender.collective;
  return std::max(ShapedType::getNumElements(collective.localIn), ShapedType::getNumElements(collective.localOut)) *
         elementBytes(sender);
}

double messageCost(const Sender &one, int64_t bytes, const MessageCost &cost) {
  dist::Collective message = one.collective;
  const int64_t in = ShapedType::getNumElements(message.localIn), out = ShapedType::getNumElements(message.localOut),
                whole = bytes / elementBytes(one);
  message.localIn = {in < out ? whole / (out / in) : whole};
  message.localOut = {out < in ? whole / (in / out) : whole};
  const bool list = membershipOf(message.kind) == Membership::List;
  return cost.collective(message, elementBytes(one)) + (list ? cost.packing * double(bytes) : 0);
}

double messageCost(llvm::ArrayRef<const Sender *> members, const MessageCost &cost) {
  if (members.size() == 1)
    return cost.collective(members.front()->collective, elementBytes(*members.front()));
  return messageCost(*members.front(), wholeBytes(members), cost);
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
      merged.addStep(step.part, step.reads, step.makes, step.section, step.half);
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
  circular = order.size() < merged.steps.size();
  if (circular)
    return;
  flow = reordered(std::move(merged), order);
  members.reserve(order.size());
  for (int step : order) {
    const int s = first[step];
    members.push_back(messageOf[s] < 0 ? std::vector<int>{s} : messages[size_t(messageOf[s])]);
  }
}

} // namespace tessera::graph
