// A pipeline of two stages, each of one or more ranks that share the rows of every micro-batch, and the same program on
// one rank. Both give equal numbers: sums are of small integers.
//
//            stage 0                                      stage 1
//   begin    g0 = w0 - w0                                 g1 = w1 - w1;  sum = w1 - w1
//   F        xi = rows of x;  h = xi w0;  send h          receive h;  ti = rows of t;  d = h w1 - ti;  sum = sum + d
//   B        receive e;  g0 = g0 + xi' e                  g1 = g1 + h' d;  e = d w1';  send e
//   end      w0 = w0 - g0 over the ranks; receive loss    w1 = w1 - g1 over the ranks;  loss = sum of sum;  send loss
//
// xi lies in a frame of stage 0, h and d in one of stage 1.
//
// Where the stages have different numbers of ranks, they send each other the rows that two ranks have in common.
#ifndef TESSERA_TEST_UNIT_PLAN_STAGEPLAN_H
#define TESSERA_TEST_UNIT_PLAN_STAGEPLAN_H

#include "runtime/plan/PlanChecker.h"
#include "test/unit/plan/PlanBuilder.h"

namespace tessera::rt {

struct StagePlan {
  enum Section : uint32_t { BEGIN, F, B, END };
  enum Channel : uint32_t { FORWARD = 3, BACKWARD = 4, LOSS_BACK = 9 };
  static constexpr int64_t kRows = 2; // of a micro-batch on a rank, where both stages have equally many
  using Calls = std::vector<std::pair<uint32_t, uint32_t>>;

  uint32_t width = 1; // ranks of a stage
  int parts = 4;
  bool oneForwardOneBackward = true; // else all F before all B
  uint32_t behind = 0;               // ranks of stage 1, with a mesh of its own; 0: as stage 0, and one mesh

  uint32_t ranks(uint32_t stage) const { return stage == 1 && behind > 0 ? behind : width; }
  /// Of a micro-batch on all ranks, and on one of a stage.
  int64_t allRows() const { return kRows * width * std::max(1u, behind); }
  int64_t rows(uint32_t stage) const { return allRows() / ranks(stage); }

  /// How many micro-batches are under way at once between F and B.
  uint32_t slots(uint32_t stage) const { return oneForwardOneBackward ? 2 - stage : uint32_t(parts); }

  Calls callsOf(uint32_t stage) const {
    Calls calls = {{BEGIN, 0}};
    const int ahead = int(slots(stage));
    for (int i = 0; i < parts + ahead; ++i) {
      if (i >= ahead)
        calls.push_back({B, uint32_t(i - ahead)});
      if (i < parts)
        calls.push_back({F, uint32_t(i)});
    }
    // B before the next F: a micro-batch leaves its place before another one comes.
    calls.push_back({END, 0});
    return calls;
  }

  std::vector<plan::Plan> plans() const {
    std::vector<plan::Plan> plans;
    for (uint32_t rank = 0; rank < ranks(0) + ranks(1); ++rank)
      plans.push_back(rank < width ? first(rank) : second(rank));
    return plans;
  }

  /// The same on one rank: the rows of all ranks, micro-batch by micro-batch.
  plan::Plan sequential() const {
    PlanBuilder b(0, 1);
    const int64_t rows = allRows();
    const uint32_t x = b.buffer("x", {rows * parts, 2}), t = b.buffer("t", {rows * parts, 2});
    const uint32_t w0 = b.buffer("w0", {2, 2}, plan::F32, true), w1 = b.buffer("w1", {2, 2}, plan::F32, true);
    const uint32_t g0 = b.buffer("g0", {2, 2}), g1 = b.buffer("g1", {2, 2}), sum = b.buffer("sum", {rows, 2});
    const uint32_t xi = b.buffer("xi", {rows, 2}), h = b.buffer("h", {rows, 2}), ti = b.buffer("ti", {rows, 2});
    const uint32_t y = b.buffer("y", {rows, 2}), d = b.buffer("d", {rows, 2}), e = b.buffer("e", {rows, 2});
    const uint32_t p0 = b.buffer("p0", {2, 2}), p1 = b.buffer("p1", {2, 2}), loss = b.buffer("loss", {});
    b.bind(plan::INPUT, "x", x, {rows * parts, 2}, {0, 0});
    b.bind(plan::TARGET, "t", t, {rows * parts, 2}, {0, 0});
    b.bind(plan::STATE, "w0", w0, {2, 2}, {0, 0})->set_fill(1);
    b.bind(plan::STATE, "w1", w1, {2, 2}, {0, 0})->set_fill(-1);
    b.bind(plan::LOSS, "loss", loss, {}, {});
    b.kernel("g0.zero", "sub", {w0, w0}, {g0});
    b.kernel("g1.zero", "sub", {w1, w1}, {g1});
    zero(b, t, sum);
    const int begin = b.plan.programs(0).steps_size();
    take(b, "xi", x, xi);
    b.kernel("h", "matmul", {xi, w0}, {h});
    take(b, "ti", t, ti);
    b.kernel("y", "matmul", {h, w1}, {y});
    b.kernel("d", "sub", {y, ti}, {d});
    b.kernel("sum", "add", {sum, d}, {sum});
    product(b, "p1", h, d, p1, true, false);
    b.kernel("g1", "add", {g1, p1}, {g1});
    product(b, "e", d, w1, e, false, true);
    product(b, "p0", xi, e, p0, true, false);
    b.kernel("g0", "add", {g0, p0}, {g0});
    const int body = b.plan.programs(0).steps_size();
    b.kernel("w0", "sub", {w0, g0}, {w0});
    b.kernel("w1", "sub", {w1, g1}, {w1});
    total(b, sum, loss);
    sections(b, {begin, body, b.plan.programs(0).steps_size()});
    call(b, 0, 0);
    for (int i = 0; i < parts; ++i)
      call(b, 1, uint32_t(i));
    call(b, 2, 0);
    b.plan.set_version(2);
    return b.plan;
  }

private:
  PlanBuilder begin(uint32_t rank) const {
    PlanBuilder b(rank, ranks(0) + ranks(1));
    const uint32_t stage = rank < width ? 0 : 1;
    b.plan.clear_mesh();
    for (auto [name, size] : {std::pair("stage", 2u), std::pair("data", ranks(stage))}) {
      if (behind > 0 && std::string(name) == "stage")
        continue;
      plan::MeshAxis *axis = b.plan.add_mesh();
      axis->set_name(name);
      axis->set_size(size);
    }
    b.plan.set_stages(2);
    b.plan.set_version(behind > 0 ? 9 : 4);
    if (behind > 0) {
      b.plan.add_stage_ranks(width);
      b.plan.add_stage_ranks(behind);
    }
    b.plan.mutable_groups(0)->clear_ranks();
    for (uint32_t place = 0; place < ranks(stage); ++place)
      b.plan.mutable_groups(0)->add_ranks(stage * width + place);
    return b;
  }

  plan::Plan first(uint32_t rank) const {
    PlanBuilder b = begin(rank);
    const int64_t kRows = this->rows(0), rows = kRows * parts, all = rows * width;
    const uint32_t x = b.buffer("x", {rows, 2}), w0 = b.buffer("w0", {2, 2}, plan::F32, true);
    const uint32_t g0 = b.buffer("g0", {2, 2}), h = b.buffer("h", {kRows, 2}), e = b.buffer("e", {kRows, 2});
    const uint32_t p0 = b.buffer("p0", {2, 2}), loss = b.buffer("loss", {});
    const uint32_t xi = b.buffer("xi", {kRows, 2});
    frame(b, xi, slots(0));
    b.bind(plan::INPUT, "x", x, {all, 2}, {int64_t(rank) * rows, 0});
    b.bind(plan::STATE, "w0", w0, {2, 2}, {0, 0}, rank == 0)->set_fill(1);
    b.bind(plan::LOSS, "loss", loss, {}, {}, rank == 0);
    std::vector<int> ends;
    b.kernel("g0.zero", "sub", {w0, w0}, {g0});
    end(b, ends);
    take(b, "xi", x, xi);
    b.kernel("h", "matmul", {xi, w0}, {h});
    send(b, "h.send", h, rank, FORWARD);
    end(b, ends);
    receive(b, "e.receive", e, rank, BACKWARD);
    product(b, "p0", xi, e, p0, true, false);
    b.kernel("g0", "add", {g0, p0}, {g0});
    end(b, ends);
    b.collective("g0.sum", plan::ALL_REDUCE, g0, g0, plan::SUM);
    b.kernel("w0", "sub", {w0, g0}, {w0});
    receive(b, "loss.receive", loss, rank, LOSS_BACK);
    end(b, ends);
    sections(b, ends);
    for (auto [section, index] : callsOf(0))
      call(b, section, index);
    return b.plan;
  }

  plan::Plan second(uint32_t rank) const {
    PlanBuilder b = begin(rank);
    const int64_t kRows = this->rows(1), rows = kRows * parts, all = rows * ranks(1);
    const uint32_t place = rank - width;
    const uint32_t t = b.buffer("t", {rows, 2}), w1 = b.buffer("w1", {2, 2}, plan::F32, true);
    const uint32_t g1 = b.buffer("g1", {2, 2}), sum = b.buffer("sum", {kRows, 2}), ti = b.buffer("ti", {kRows, 2});
    const uint32_t y = b.buffer("y", {kRows, 2}), e = b.buffer("e", {kRows, 2}), p1 = b.buffer("p1", {2, 2});
    const uint32_t part = b.buffer("part", {}), loss = b.buffer("loss", {});
    const uint32_t h = b.buffer("h", {kRows, 2}), d = b.buffer("d", {kRows, 2});
    frame(b, h, slots(1));
    b.bind(plan::TARGET, "t", t, {all, 2}, {int64_t(place) * rows, 0});
    b.bind(plan::STATE, "w1", w1, {2, 2}, {0, 0}, place == 0)->set_fill(-1);
    b.bind(plan::LOSS, "loss", loss, {}, {}, false);
    std::vector<int> ends;
    b.kernel("g1.zero", "sub", {w1, w1}, {g1});
    zero(b, t, sum);
    end(b, ends);
    receive(b, "h.receive", h, rank, FORWARD);
    take(b, "ti", t, ti);
    b.kernel("y", "matmul", {h, w1}, {y});
    b.kernel("d", "sub", {y, ti}, {d});
    b.kernel("sum", "add", {sum, d}, {sum});
    end(b, ends);
    product(b, "p1", h, d, p1, true, false);
    b.kernel("g1", "add", {g1, p1}, {g1});
    product(b, "e", d, w1, e, false, true);
    send(b, "e.send", e, rank, BACKWARD);
    end(b, ends);
    b.collective("g1.sum", plan::ALL_REDUCE, g1, g1, plan::SUM);
    b.kernel("w1", "sub", {w1, g1}, {w1});
    total(b, sum, part);
    b.collective("loss.sum", plan::ALL_REDUCE, part, loss, plan::SUM);
    send(b, "loss.send", loss, rank, LOSS_BACK);
    end(b, ends);
    sections(b, ends);
    for (auto [section, index] : callsOf(1))
      call(b, section, index);
    return b.plan;
  }

  static void end(PlanBuilder &b, std::vector<int> &ends) { ends.push_back(b.plan.programs(0).steps_size()); }
  static void sections(PlanBuilder &b, const std::vector<int> &ends) {
    for (int end : ends)
      b.plan.mutable_programs(0)->add_section_ends(uint32_t(end));
  }
  static void call(PlanBuilder &b, uint32_t section, uint32_t index) {
    plan::Call *call = b.plan.mutable_programs(0)->add_calls();
    call->set_section(section);
    call->set_index(index);
  }
  void send(PlanBuilder &b, const std::string &name, uint32_t input, uint32_t rank, uint32_t channel) const {
    plan::Send *send = b.step(name)->mutable_send();
    send->set_input(input);
    send->set_channel(channel);
    connect(b, input, rank, *send);
  }
  void receive(PlanBuilder &b, const std::string &name, uint32_t output, uint32_t rank, uint32_t channel) const {
    plan::Receive *receive = b.step(name)->mutable_receive();
    receive->set_output(output);
    receive->set_channel(channel);
    connect(b, output, rank, *receive);
  }
  /// The other ends of rows of a micro-batch, or of a scalar that all ranks of stage 1 have.
  template <typename Message> void connect(PlanBuilder &b, uint32_t buffer, uint32_t rank, Message &message) const {
    const uint32_t stage = rank < width ? 0 : 1, other = 1 - stage, place = rank - stage * width;
    if (behind == 0) {
      message.set_peer(other * width + place);
      return;
    }
    const bool scalar = b.plan.buffers(int(buffer)).shape_size() == 0;
    for (uint32_t peer = 0; peer < ranks(other); ++peer) {
      const int64_t begin = std::max(place * rows(stage), peer * rows(other)),
                    end = std::min((place + 1) * rows(stage), (peer + 1) * rows(other));
      if (scalar ? (stage == 0 ? place % ranks(1) != peer : peer % ranks(1) != place) : begin >= end)
        continue;
      plan::PeerBox *box = message.add_boxes();
      box->set_peer(other * width + peer);
      if (scalar)
        continue;
      box->add_offset(begin - place * rows(stage)), box->add_offset(0);
      box->add_shape(end - begin), box->add_shape(2);
    }
  }
  /// Everything from buffer `first` on is one place of a frame.
  static void frame(PlanBuilder &b, uint32_t first, uint32_t slots) {
    plan::Frame *frame = b.plan.add_frames();
    frame->set_offset(b.plan.buffers(int(first)).offset());
    frame->set_bytes(b.plan.arena_bytes() - frame->offset());
    frame->set_slots(slots);
    b.plan.set_arena_bytes(b.plan.arena_bytes() + (slots - 1) * frame->bytes());
  }
  void take(PlanBuilder &b, const std::string &name, uint32_t from, uint32_t to) const {
    PlanBuilder::set(b.kernel(name, "micro_rows", {from}, {to}), "parts", int64_t(parts));
  }
  static void product(PlanBuilder &b, const std::string &name, uint32_t left, uint32_t right, uint32_t to,
                      bool turnLeft, bool turnRight) {
    plan::Kernel *kernel = b.kernel(name, "matmul", {left, right}, {to});
    PlanBuilder::set(kernel, "transpose_a", int64_t(turnLeft));
    PlanBuilder::set(kernel, "transpose_b", int64_t(turnRight));
  }
  /// `sum` of zeros: the first rows of t less themselves.
  void zero(PlanBuilder &b, uint32_t t, uint32_t sum) const {
    take(b, "sum.rows", t, sum);
    b.kernel("sum.zero", "sub", {sum, sum}, {sum});
  }
  static void total(PlanBuilder &b, uint32_t sum, uint32_t loss) {
    plan::Kernel *kernel = b.kernel("total", "reduce_sum", {sum}, {loss});
    PlanBuilder::set(kernel, "dims", std::vector<int64_t>{0, 1});
    PlanBuilder::set(kernel, "keepdims", 0);
  }
};

} // namespace tessera::rt

#endif
