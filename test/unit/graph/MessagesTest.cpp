// Which collectives share a message: of plain data.
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/MessageMemory.h"

#include "dialects/graph/flow/Order.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>

using namespace mlir;
using namespace tessera;
using graph::DataFlow;
using graph::LoopPart;
using graph::MessageRule;
using graph::Sender;
using Messages = std::vector<std::vector<int>>;

namespace {

/// A program of kernels with one result each, and all-reduces. Bytes are 4 * n.
struct Program {
  MLIRContext context;
  DataFlow flow;
  std::vector<Sender> senders;
  std::vector<int64_t> times;
  int x = flow.addValue({8}, 32, /*kept=*/true);

  int kernel(std::vector<int> reads, int64_t time, int64_t n = 8, bool kept = false) {
    const int made = flow.addValue({n}, 4 * n, kept);
    flow.addStep(LoopPart::None, reads, {made});
    times.push_back(time);
    return made;
  }
  int allReduce(int value, int axis = 0, bool kept = false, int elementBits = 32) {
    dist::Collective c;
    c.kind = dist::CollectiveKind::AllReduce;
    c.axes = {axis};
    c.reduction = dist::Reduction::Sum;
    c.localIn = c.localOut = flow.values[value].shape;
    const int made = flow.addValue(c.localOut, flow.values[value].bytes, kept);
    const int step = flow.addStep(LoopPart::None, {value}, {made});
    times.push_back(0);
    Builder builder(&context);
    senders.push_back({step, c, elementBits == 32 ? Type(builder.getF32Type()) : Type(builder.getI32Type())});
    return made;
  }
  /// Of a gather the whole tensor is twice the value, of a scatter the value itself.
  int list(dist::CollectiveKind kind, int value, bool kept = false) {
    dist::Collective c;
    c.kind = kind;
    c.axes = {0};
    c.dim = 0;
    const bool gathers = kind == dist::CollectiveKind::AllGather;
    if (!gathers)
      c.reduction = dist::Reduction::Sum;
    c.localIn = flow.values[value].shape;
    c.localOut = {gathers ? c.localIn[0] * 2 : c.localIn[0] / 2};
    const int made = flow.addValue(c.localOut, 4 * c.localOut[0], kept);
    const int step = flow.addStep(LoopPart::None, {value}, {made});
    times.push_back(0);
    senders.push_back({step, c, Builder(&context).getF32Type()});
    return made;
  }
  /// A start-up of 100 and one per byte.
  MessageRule timed() const {
    MessageRule rule;
    rule.most = graph::kAnySize;
    rule.cost.collective = [](const dist::Collective &c, int64_t bytes) { return 100 + double(c.localIn[0] * bytes); };
    rule.times = times;
    return rule;
  }
  Messages filled(int64_t most) const { return chooseMessages(flow, senders, {.most = most, .cost = {}, .times = {}}); }
};

/// The end of the step if messages run beside kernels, and what messages take: from the definition.
std::pair<double, double> ends(const Program &p, const Messages &messages, const MessageRule &rule) {
  graph::MessageFlow sent(p.flow, messages);
  std::vector<double> made(sent.flow.values.size(), 0);
  double kernels = 0, link = 0, total = 0;
  for (int s : graph::executionOrder(sent.flow)) {
    std::vector<const Sender *> members;
    for (int member : sent.members[s])
      for (const Sender &sender : p.senders)
        if (sender.step == member)
          members.push_back(&sender);
    double ready = 0, end = 0;
    for (int value : sent.flow.steps[s].reads)
      ready = std::max(ready, made[value]);
    if (members.empty()) {
      double time = 0;
      for (int member : sent.members[s])
        time += double(p.times[member]);
      end = kernels = std::max(kernels, ready) + time;
    } else {
      const double cost = graph::messageCost(members, rule.cost);
      end = link = std::max(link, ready) + cost;
      total += cost;
    }
    for (int value : sent.flow.steps[s].makes)
      made[value] = end;
  }
  return {std::max(kernels, link), total};
}

} // namespace

TEST_CASE("messages are filled up to a size, of one kind each") {
  Program p;
  std::vector<int> gradients;
  for (int i = 0; i < 6; ++i)
    p.flow.results.push_back(p.allReduce(p.kernel({p.x}, 1), /*axis=*/i == 2));
  // 32 bytes each; the third is of another group.
  CHECK(p.filled(1024) == Messages{{1, 3, 7, 9, 11}});
  CHECK(p.filled(64) == Messages{{1, 3}, {7, 9}});
  CHECK(p.filled(63).empty());
  CHECK(p.filled(0).empty());
}

TEST_CASE("what depends on a member, is kept, is given or is read by two is in no message with it") {
  Program p;
  const int a = p.allReduce(p.kernel({p.x}, 1)); // 1
  p.allReduce(p.kernel({a}, 1));                 // 3: needs the first
  p.allReduce(p.x);                              // 4: a parameter
  p.allReduce(p.kernel({p.x}, 1), 0, true);      // 6: the new value of one
  const int both = p.kernel({p.x}, 1);           // 7
  p.allReduce(both);                             // 8
  p.allReduce(both, 1);                          // 9: lies where the other's operand lies
  p.allReduce(a);                                // 10: what another one makes
  p.allReduce(p.kernel({p.x}, 1), 0, false, 33); // 12: integers
  CHECK(p.filled(graph::kAnySize).empty());
  p.allReduce(p.kernel({p.x}, 1)); // 14
  CHECK(p.filled(graph::kAnySize) == Messages{{3, 14}});
}

TEST_CASE("members wait for each other only as long as the step ends no later") {
  // Kernels of 1000 between gradients whose messages take 132: all but the last are hidden, so the last one is sent
  // alone, and the others as one.
  Program p;
  for (int i = 0; i < 5; ++i)
    p.flow.results.push_back(p.allReduce(p.kernel({p.x}, 1000)));
  CHECK(chooseMessages(p.flow, p.senders, p.timed()) == Messages{{1, 3, 5, 7}});
  // Without kernels between them nothing is gained by waiting for none.
  Program q;
  for (int i = 0; i < 5; ++i)
    q.flow.results.push_back(q.allReduce(q.kernel({q.x}, 0)));
  CHECK(chooseMessages(q.flow, q.senders, q.timed()) == Messages{{1, 3, 5, 7, 9}});
  // If kernels that need the first one follow, it does not wait.
  Program r;
  const int sum = r.allReduce(r.kernel({r.x}, 10));
  const int next = r.kernel({sum}, 5000);
  r.flow.results = {next, r.allReduce(r.kernel({r.x}, 2000))};
  CHECK(chooseMessages(r.flow, r.senders, r.timed()).empty());
}

TEST_CASE("a message that holds up another one is left out, unless ranks stand still anyway") {
  // The gradients could wait for each other until the step's end. But then the sum behind them would wait for both.
  Program p;
  p.flow.results.push_back(p.allReduce(p.kernel({p.x}, 0, 500)));
  p.flow.results.push_back(p.allReduce(p.kernel({p.x}, 2000, 500)));
  const int sum = p.allReduce(p.kernel({p.x}, 10, 1), /*axis=*/1);
  p.flow.results.push_back(p.kernel({sum}, 9000, 1));
  MessageRule rule = p.timed();
  CHECK(chooseMessages(p.flow, p.senders, rule).empty());
  rule.inLine = true;
  CHECK(chooseMessages(p.flow, p.senders, rule) == Messages{{1, 3}});
}

TEST_CASE("joining makes no random step later, messages no longer, and no circle") {
  std::mt19937 random(7);
  int joined = 0;
  for (int round = 0; round < 300; ++round) {
    Program p;
    std::vector<int> values = {p.x};
    for (int i = 0; i < 40; ++i) {
      std::vector<int> reads = {values[random() % values.size()]};
      if (random() % 2)
        reads.push_back(values[random() % values.size()]);
      const int made = p.kernel(reads, int64_t(random() % 400), 1 + int64_t(random() % 60));
      values.push_back(random() % 2 ? made : p.allReduce(made, int(random() % 2)));
    }
    p.flow.results = {values.back()};
    const MessageRule rule = p.timed();
    const Messages messages = chooseMessages(p.flow, p.senders, rule);
    graph::MessageFlow sent(p.flow, messages);
    CHECK(graph::executionOrder(sent.flow).size() == sent.flow.steps.size());
    const auto [before, alone] = ends(p, {}, rule);
    const auto [after, together] = ends(p, messages, rule);
    CHECK(together <= alone);
    for (const std::vector<int> &message : messages)
      joined += int(message.size());
    CHECK(after <= before);
  }
  CHECK(joined > 300);
}

TEST_CASE("where memory is short, messages are smaller") {
  // Every update frees its gradient, so that without joining one gradient lives at a time.
  Program p;
  std::vector<int> gradients;
  for (int i = 0; i < 8; ++i)
    gradients.push_back(p.allReduce(p.kernel({p.x}, 0, 100)));
  for (int gradient : gradients)
    p.flow.results.push_back(p.kernel({gradient}, 0, 100, /*kept=*/true));
  MessageRule rule = p.timed();
  CHECK(chooseMessages(p.flow, p.senders, rule) == Messages{{1, 3, 5, 7, 9, 11, 13, 15}});
  rule.room = 3 * 2 * 400;
  const Messages fewer = chooseMessages(p.flow, p.senders, rule);
  CHECK(fewer.size() > 1);
  graph::MessageFlow sent(p.flow, fewer);
  CHECK(graph::peak(sent.flow, graph::executionOrder(sent.flow)).bytes <= rule.room);
  rule.room = 0;
  CHECK(chooseMessages(p.flow, p.senders, rule).empty());
}

TEST_CASE("only messages at the time when memory is short are smaller") {
  // Eight small gradients, whose updates free them, then activations that fill the memory while eight more come.
  Program p;
  auto layers = [&] {
    std::vector<int> gradients;
    for (int i = 0; i < 8; ++i)
      gradients.push_back(p.allReduce(p.kernel({p.x}, 0, 100)));
    for (int gradient : gradients)
      p.flow.results.push_back(p.kernel({gradient}, 0, 100, /*kept=*/true));
    return p.flow.results.back();
  };
  layers();
  const int activations = p.kernel({p.x}, 0, 1500);
  p.flow.results.push_back(p.kernel({activations}, 0, 1, /*kept=*/true));
  const int later = int(p.flow.steps.size());
  const int last = layers();
  p.flow.results.push_back(p.kernel({activations, last}, 0, 1, /*kept=*/true));
  const Messages full = {{1, 3, 5, 7, 9, 11, 13, 15}, {27, 29, 31, 33, 35, 37, 39, 41}};
  CHECK(graph::splitToFit(p.flow, full, 6000 + 3200) == full);
  const Messages fewer = graph::splitToFit(p.flow, full, 6000 + 2400);
  REQUIRE(fewer.size() > 2);
  CHECK(fewer.front() == full.front());
  CHECK(fewer[1].front() > later);
  CHECK(graph::peakOf(p.flow, fewer) <= 6000 + 2400);
  // Where there is room for none, there is still room for those before.
  CHECK(graph::splitToFit(p.flow, full, 6000 + 400).size() == 1 + 8);
  CHECK(graph::splitToFit(p.flow, full, 6000).size() == 8 + 8);
}

TEST_CASE("gathers and scatters are lists, whatever lies where") {
  using dist::CollectiveKind;
  Program p;
  const int given = p.flow.addValue({8}, 32, /*kept=*/true);
  p.list(CollectiveKind::AllGather, given);                             // 0: of a parameter
  p.list(CollectiveKind::AllGather, p.kernel({p.x}, 1), /*kept=*/true); // 2: the new value of one
  const int both = p.kernel({p.x}, 1);                                  // 3
  p.list(CollectiveKind::ReduceScatter, both);                          // 4
  const int part = p.list(CollectiveKind::ReduceScatter, both);         // 5: of the same value
  p.list(CollectiveKind::ReduceScatter, p.kernel({part}, 1, /*n=*/4));  // 7: waits for it
  p.list(CollectiveKind::AllGather, p.list(CollectiveKind::ReduceScatter, p.kernel({p.x}, 1))); // 9, 10
  p.allReduce(p.kernel({p.x}, 1));                                                              // 12
  CHECK(p.filled(graph::kAnySize) == Messages{{0, 2, 10}, {4, 7, 9}});
  // Of gathers the result counts, of scatters the operand.
  CHECK(p.filled(64) == Messages{{4, 7}});
  const graph::MessageFlow sent(p.flow, p.filled(graph::kAnySize));
  CHECK(sent.flow.steps.size() == p.flow.steps.size() - 4);
  CHECK(graph::largestMessage(p.flow, p.filled(graph::kAnySize)) == 64 + 64 + 32);
}

TEST_CASE("a list is joined where its start-ups are more than its packing") {
  using dist::CollectiveKind;
  Program p;
  for (int i = 0; i < 4; ++i)
    p.flow.results.push_back(p.list(CollectiveKind::ReduceScatter, p.kernel({p.x}, 1)));
  MessageRule rule = p.timed();
  rule.inLine = true;
  // Three start-ups of 100 are saved, and 128 bytes are packed. Kernels of 1 before the last are waited for.
  rule.cost.packing = 300.0 / 128 - 0.05;
  CHECK(chooseMessages(p.flow, p.senders, rule) == Messages{{1, 3, 5, 7}});
  std::vector<const Sender *> all;
  for (const Sender &sender : p.senders)
    all.push_back(&sender);
  CHECK(graph::packedBytes(all) == 128);
  CHECK(graph::messageCost(all, rule.cost) == Approx(100 + 128 + 128 * rule.cost.packing));
  // One that is sent alone is not packed.
  CHECK(graph::packedBytes(all.front()) == 0);
  CHECK(graph::messageCost(all.front(), rule.cost) == 132);
  rule.cost.packing = 100.0 / 32 + 0.01; // not even two of them pay
  CHECK(chooseMessages(p.flow, p.senders, rule).empty());
}

TEST_CASE("gathers of what is there are sent before the kernels that come before them") {
  using dist::CollectiveKind;
  Program p;
  int layer = p.x;
  for (int i = 0; i < 4; ++i) {
    const int weight = p.flow.addValue({8}, 32, /*kept=*/true);
    layer = p.kernel({layer, p.list(CollectiveKind::AllGather, weight)}, 1000);
  }
  p.flow.results.push_back(layer);
  MessageRule rule = p.timed(); // 132 each
  // Nothing hides the first one. The others are one message of 196 under the first kernel.
  CHECK(chooseMessages(p.flow, p.senders, rule) == Messages{{2, 4, 6}});
  rule.inLine = true;
  CHECK(chooseMessages(p.flow, p.senders, rule) == Messages{{2, 4, 6}});
}

TEST_CASE("a message is cut, hands on members, or is joined with the next one of its kind") {
  Program p;
  std::vector<int> steps;
  for (int i = 0; i < 4; ++i) {
    const int sum = p.allReduce(p.kernel({p.x}, 10));
    steps.push_back(p.flow.values[size_t(sum)].maker);
    p.flow.results.push_back(sum);
  }
  const int other = p.allReduce(p.kernel({p.x}, 10), /*axis=*/1); // of another group
  p.flow.results.push_back(other);
  const int a = steps[0], b = steps[1], c = steps[2], d = steps[3];
  const Messages sent = {{a, b, c}};
  std::vector<Messages> after;
  for (const graph::MessageMove &move : graph::messageMoves(p.flow, p.senders, sent)) {
    Messages messages = graph::moved(sent, move);
    std::sort(messages.begin(), messages.end());
    CHECK(!graph::MessageFlow(p.flow, messages).circular);
    after.push_back(std::move(messages));
  }
  // The first message is cut, hands over its last member, takes the fourth, and hands over any member.
  CHECK(after == std::vector<Messages>{{{b, c}},
                                       {{a, b}},
                                       {{a, b}, {c, d}},
                                       {{a, b, c, d}},
                                       {{a, d}, {b, c}},
                                       {{a, c}, {b, d}},
                                       {{a, b}, {c, d}},
                                       {{a, b, c, d}}});
  // Three pairs of neighbours are joined, and of those that are alone any two.
  CHECK(graph::messageMoves(p.flow, p.senders, {}).size() == 3 + 6);
  CHECK(graph::messageMoves(p.flow, p.senders, {}, 5).size() == 5);
}

TEST_CASE("messages that wait for each other are no program") {
  Program p;
  const int first = p.allReduce(p.kernel({p.x}, 10)), second = p.allReduce(p.kernel({first}, 10));
  p.flow.results = {second};
  const std::vector<int> steps = {p.flow.values[size_t(first)].maker, p.flow.values[size_t(second)].maker};
  CHECK(graph::MessageFlow(p.flow, {steps}).circular);
  CHECK(!graph::MessageFlow(p.flow, {}).circular);
}
