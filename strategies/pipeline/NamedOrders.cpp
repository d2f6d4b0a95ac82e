#include "strategies/pipeline/NamedOrders.h"

#include <algorithm>

namespace tessera::strategies {

namespace {

/// Device d begins with ahead(d) forward passes, then alternates. It puts off the Weight actions of late(d)
/// micro-batches.
template <typename Ahead, typename Late>
PipelineOrder alternating(const Pipeline &pipeline, const Ahead &ahead, const Late &late) {
  PipelineOrder order(size_t(pipeline.devices));
  const int m = pipeline.microBatches;
  for (int d = 0; d < pipeline.devices; ++d) {
    auto &tasks = order[size_t(d)];
    int forward = 0, weight = 0;
    while (forward < std::min(m, ahead(d)))
      tasks.push_back({Action::Forward, d, forward++});
    for (int input = 0; input < m; ++input) {
      tasks.push_back({Action::Input, d, input});
      if (input + 1 - weight > late(d))
        tasks.push_back({Action::Weight, d, weight++});
      if (forward < m)
        tasks.push_back({Action::Forward, d, forward++});
    }
    while (weight < m)
      tasks.push_back({Action::Weight, d, weight++});
  }
  return order;
}

} // namespace

PipelineOrder gpipe(const Pipeline &pipeline) {
  return alternating(
      pipeline, [&](int) { return pipeline.microBatches; }, [](int) { return 0; });
}

PipelineOrder oneForwardOneBackward(const Pipeline &pipeline) {
  return alternating(
      pipeline, [&](int d) { return pipeline.devices - d; }, [](int) { return 0; });
}

PipelineOrder zeroBubble1(const Pipeline &pipeline) {
  return alternating(
      pipeline, [&](int d) { return pipeline.devices - d; }, [](int d) { return d; });
}

PipelineOrder zeroBubble2(const Pipeline &pipeline) {
  return alternating(
      pipeline, [&](int d) { return 2 * (pipeline.devices - d) - 1; }, [](int d) { return 2 * d; });
}

PipelineOrder interleaved(const Pipeline &pipeline) {
  // As Megatron-LM has it: groups of p micro-batches go through a device's chunks in turn.
  const int p = pipeline.devices, v = int(pipeline.stages.size()) / p, all = pipeline.microBatches * v;
  PipelineOrder order;
  order.resize(size_t(p));
  for (int d = 0; d < p; ++d) {
    auto task = [&](Action action, int k) {
      const int chunk = k % (p * v) / p, microBatch = k / (p * v) * p + k % p;
      return PipelineTask{action, (action == Action::Forward ? chunk : v - 1 - chunk) * p + d, microBatch};
    };
    auto &tasks = order[size_t(d)];
    const int ahead = std::min(all, pipeline.microBatches == p ? all : (p - d - 1) * 2 + (v - 1) * p);
    for (int k = 0; k < ahead; ++k)
      tasks.push_back(task(Action::Forward, k));
    for (int k = 0; k < all; ++k) {
      if (ahead + k < all)
        tasks.push_back(task(Action::Forward, ahead + k));
      tasks.push_back(task(Action::Input, k));
      tasks.push_back(task(Action::Weight, k));
    }
  }
  return order;
}

PipelineOrder zeroBubbleV(const Pipeline &pipeline) {
  const int p = pipeline.devices, m = pipeline.microBatches;
  PipelineOrder order;
  order.resize(size_t(p));
  for (int d = 0; d < p; ++d) {
    auto &tasks = order[size_t(d)];
    const int there = d, back = 2 * p - 1 - d;
    int begun[3][2] = {}; // by action; there, back
    auto add = [&](Action action, int stage) { tasks.push_back({action, stage, begun[int(action)][stage == back]++}); };
    auto forwards = [&](int stage) { return begun[int(Action::Forward)][stage == back]; };
    auto left = [&](int stage) {
      return begun[int(Action::Input)][stage == back] - begun[int(Action::Weight)][stage == back];
    };
    auto both = [&](int stage) {
      add(Action::Input, stage);
      add(Action::Weight, stage);
    };
    // Until the first micro-batch is back, then until its gradient is.
    for (int i = 0; i < 2 * (p - d) - 1; ++i)
      add(Action::Forward, there);
    for (int i = 0; i < d; ++i) {
      add(Action::Forward, back);
      add(Action::Forward, there);
    }
    for (int i = 0; i < p - d; ++i) {
      add(Action::Forward, back);
      both(back);
    }
    while (forwards(back) < forwards(there) || forwards(there) < m) {
      if (forwards(there) < m)
        add(Action::Forward, there);
      both(there);
      add(Action::Forward, back);
      both(back);
    }
    // Weight actions are put off until others no longer wait for Input.
    for (int i = 0; i < d; ++i) {
      add(Action::Input, there);
      add(Action::Input, back);
    }
    for (int i = 0; i < p - d; ++i)
      both(there);
    while (left(back) > 0)
      add(Action::Weight, back);
    while (left(there) > 0)
      add(Action::Weight, there);
  }
  return order;
}

std::vector<NamedOrder> namedOrders(const Pipeline &pipeline) {
  const int stages = int(pipeline.stages.size()), p = pipeline.devices, m = pipeline.microBatches;
  bool inTurn = stages % p == 0, returns = stages == 2 * p;
  for (int s = 0; s < stages; ++s) {
    inTurn &= pipeline.stages[size_t(s)].device == s % p;
    returns &= pipeline.stages[size_t(s)].device == (s < p ? s : stages - 1 - s);
  }
  std::vector<NamedOrder> orders;
  if (inTurn && stages == p)
    orders = {{"gpipe", true, gpipe(pipeline)},
              {"1f1b", true, oneForwardOneBackward(pipeline)},
              {"zb-h1", false, zeroBubble1(pipeline)},
              {"zb-h2", false, zeroBubble2(pipeline)}};
  if (inTurn && stages > p && m % p == 0)
    orders.push_back({"interleaved", true, interleaved(pipeline)});
  if (returns && m >= 2 * p)
    orders.push_back({"zb-v", false, zeroBubbleV(pipeline)});
  return orders;
}

} // namespace tessera::strategies
