// How a program's collectives are sent: messages are two where that takes less time, and none takes more for it.
#include "Programs.h"
#include "strategies/cost/Joining.h"

#include <random>

using namespace tessera;
using namespace tessera::strategies;

namespace {

/// A program of kernels and all-reduces of one result each.
struct MadeUp {
  mlir::MLIRContext context;
  graph::DataFlow flow;
  std::vector<Cost> costs;
  std::vector<graph::Sender> senders;
  int x = flow.addValue({8}, 32, /*kept=*/true);

  int kernel(const std::vector<int> &reads, Cost ns) {
    const int made = flow.addValue({8}, 32);
    flow.addStep(graph::LoopPart::None, reads, {made});
    costs.push_back(ns);
    return made;
  }
  int sum(int value, int64_t elements) {
    graph::Sender sender{int(flow.steps.size()), {}, mlir::Float32Type::get(&context)};
    sender.collective.kind = dist::CollectiveKind::AllReduce;
    sender.collective.reduction = dist::Reduction::Sum;
    sender.collective.axes = {0};
    sender.collective.localIn = sender.collective.localOut = {elements};
    senders.push_back(sender);
    return kernel({value}, 0);
  }
};

/// The same with the messages that are chosen for kernels in the order of little memory.
Cost asChosen(const CostModel &model, const MadeUp &program, const graph::LoopedFlow &looped) {
  graph::MessageRule rule{.most = graph::kAnySize, .cost = model.messageCost(), .times = program.costs};
  const graph::MessageFlow sent(looped.flow, graph::chooseMessages(looped.flow, program.senders, rule));
  OverlapRule times;
  for (const std::vector<int> &members : sent.members) {
    StepTime &time = times.times.emplace_back();
    std::vector<const graph::Sender *> message;
    for (int member : members) {
      time.ns += program.costs[size_t(member)];
      for (const graph::Sender &sender : program.senders)
        if (sender.step == member)
          message.push_back(&sender);
    }
    if (!message.empty())
      time = {int64_t(graph::messageCost(message, rule.cost)), 0};
  }
  return overlap(sent.flow, times)->predicted;
}

} // namespace

TEST_CASE("messages are two where the program takes less time so") {
  std::mt19937 random(5);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  const Topology topology = llvm::cantFail(Topology::parse(
      R"({"devices": 8, "flops": {"f32": 1e12}, "memory_bandwidth": 1e12, "memory": 1000000000, "beside": {"slowdown": 0},
          "links": [{"devices": 8, "latency": 3e-7, "bandwidth": 1e11}]})",
      "made up"));
  const CostModel model(llvm::cantFail(Mesh::parse("a=8")), topology);
  int better = 0;
  for (int trial = 0; trial < 200; ++trial) {
    MadeUp p;
    int g = p.x;
    std::vector<int> sums;
    for (int layer = 0; layer < 6; ++layer) {
      g = p.kernel({g}, 1000 + below(9000));
      sums.push_back(p.sum(p.kernel({g}, 1000 + below(9000)), 1 + below(1 << 18)));
    }
    for (int sum : sums)
      p.kernel({sum}, 500 + below(5000));
    const graph::LoopedFlow looped(p.flow, graph::formLoops(p.flow));
    const ProgramToSend whole{looped, p.costs, p.senders};
    JoinOptions options{.most = graph::kAnySize};
    options.overlap = Overlapping::On;
    const SentProgram sent = sendProgram(model, whole, options);
    REQUIRE(sent.beside);
    INFO("trial " << trial);
    const Cost chosen = asChosen(model, p, looped);
    CHECK(sent.beside->predicted <= chosen);
    CHECK(sent.beside->predicted >= leastTime(model, whole));
    better += sent.beside->predicted < chosen;
    options.timed = false; // who asks for a size of messages gets it
    CHECK(sendProgram(model, whole, options).messages.size() == 1);
  }
  CHECK(better > 8);
}
