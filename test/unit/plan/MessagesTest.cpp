// The checker on what is sent as one message: each case spoils one thing of a good plan.
#include "runtime/plan/PlanChecker.h"
#include "test/unit/plan/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

enum Buffers : uint32_t { X, A, B, C, A_SUM, B_SUM, C_SUM, END };
enum Steps : int { MAKE_A, MAKE_B, MAKE_C, SUM_A, SUM_B, SUM_C, READ };

/// Three all-reduces of 12, 100 and 4 bytes that are one message.
plan::Plan messagePlan(uint32_t rank, bool inPlace) {
  PlanBuilder b(rank, 2);
  b.buffer("x", {25});
  b.buffer("a", {3});
  b.buffer("b", {25});
  b.buffer("c", {1});
  const std::pair<const char *, int64_t> sums[] = {{"a_sum", 3}, {"b_sum", 25}, {"c_sum", 1}};
  for (uint32_t i = 0; i < 3; ++i)
    inPlace ? b.over(sums[i].first, {sums[i].second}, A + i) : b.buffer(sums[i].first, {sums[i].second});
  b.buffer("end", {25});
  b.bind(plan::INPUT, "x", X, {50}, {rank * 25});
  b.bind(plan::OUTPUT, "end", END, {25}, {0}, rank == 0);
  for (uint32_t i = 0; i < 3; ++i) {
    plan::Kernel *slice = b.kernel("make", "slice", {X}, {A + i});
    PlanBuilder::set(slice, "limits", std::vector<int64_t>{sums[i].second});
    PlanBuilder::set(slice, "starts", std::vector<int64_t>{0});
    PlanBuilder::set(slice, "strides", std::vector<int64_t>{1});
  }
  for (uint32_t i = 0; i < 3; ++i)
    b.collective("sum", plan::ALL_REDUCE, A + i, A_SUM + i, plan::SUM);
  b.plan.mutable_programs(0)->mutable_steps(SUM_A)->mutable_collective()->set_joined(2);
  b.kernel("read", "relu", {B_SUM}, {END});
  return b.plan;
}

plan::Collective &sum(plan::Plan &p, int step) {
  return *p.mutable_programs(0)->mutable_steps(step)->mutable_collective();
}
plan::Buffer &buf(plan::Plan &p, int b) { return *p.mutable_buffers(b); }

struct Case {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

const std::vector<Case> kCases = {
    {"more than there are", [](auto &p) { sum(p, SUM_A).set_joined(9); }, "more than there are behind it"},
    {"a kernel among them", [](auto &p) { sum(p, SUM_A).set_joined(3); }, "no collective, but sent with others"},
    {"joins twice", [](auto &p) { sum(p, SUM_B).set_joined(1); }, "itself sent with an earlier one"},
    {"another reduction", [](auto &p) { sum(p, SUM_B).set_reduction(plan::MAX); },
     "another kind, group, reduction, order or type"},
    {"another order",
     [](auto &p) {
       p.set_version(3);
       sum(p, SUM_B).set_tree(true);
     },
     "another kind, group, reduction, order"},
    {"another type",
     [](auto &p) {
       for (int b : {C, C_SUM})
         buf(p, b).set_dtype(plan::I32);
     },
     "another kind, group, reduction, order or type"},
    {"another kind",
     [](auto &p) {
       sum(p, SUM_A).set_kind(plan::BROADCAST);
       sum(p, SUM_A).set_reduction(plan::NONE);
     },
     "only all-reduces are sent together as one tensor"},
    {"another order", [](auto &p) { p.mutable_programs(0)->mutable_steps()->SwapElements(SUM_B, SUM_C); },
     "does not lie behind"},
};

} // namespace

TEST_CASE("messages side by side pass, in place and elsewhere") {
  for (bool inPlace : {false, true})
    CHECK(checkPlans({messagePlan(0, inPlace), messagePlan(1, inPlace)}).message() == "");
}

TEST_CASE("every spoiled message is refused for its reason") {
  for (const Case &c : kCases) {
    INFO(c.name);
    plan::Plan p = messagePlan(0, /*inPlace=*/false);
    c.spoil(p);
    const std::string message = checkPlan(p).message();
    INFO(message);
    CHECK(message.find(c.message) != std::string::npos);
    plan::Plan same = messagePlan(0, /*inPlace=*/true);
    c.spoil(same);
    CHECK_FALSE(checkPlan(same).ok());
  }
}

TEST_CASE("results at other distances or over operands of the same message are refused") {
  plan::Plan apart = messagePlan(0, false);
  buf(apart, C_SUM).set_offset(buf(apart, END).offset());
  CHECK(checkPlan(apart).message().find("not as far behind") != std::string::npos);
  // a_sum lies in the place of b, which is still to be read, and so on.
  plan::Plan over = messagePlan(0, false);
  for (int b : {A_SUM, B_SUM, C_SUM})
    buf(over, b).set_offset(buf(over, b - int(A_SUM) + int(A)).offset() + 128);
  CHECK(checkPlan(over).message().find("over operands of the same message") != std::string::npos);
}

TEST_CASE("ranks that join differently are refused") {
  std::vector<plan::Plan> plans = {messagePlan(0, false), messagePlan(1, false)};
  sum(plans[1], SUM_A).set_joined(1);
  CHECK(checkPlans(plans).message().find("how many it is sent with (2 and 1)") != std::string::npos);
}

TEST_CASE("every step is told its message") {
  CHECK(messagesOf(messagePlan(0, false).programs(0)) == std::vector<int>{-1, -1, -1, 3, 3, 3, -1});
}

namespace {

enum ListBuffers : uint32_t { LA, LB, LC, LA_OUT, LB_OUT, LC_OUT, LEND };
enum ListSteps : int { LIST_A, LIST_B, LIST_C };

/// Three reduce-scatters of [4], [2, 6] and [2] that are one message; or all-gathers to them.
plan::Plan listPlan(uint32_t rank, plan::CollectiveKind kind) {
  const bool gathers = kind == plan::ALL_GATHER;
  const std::vector<std::vector<int64_t>> whole = {{4}, {2, 6}, {2}}, part = {{2}, {2, 3}, {1}};
  const std::vector<std::vector<int64_t>> &in = gathers ? part : whole, &out = gathers ? whole : part;
  PlanBuilder b(rank, 2);
  for (const auto &shape : in)
    b.buffer("in", shape);
  for (const auto &shape : out)
    b.buffer("out", shape);
  b.buffer("end", out[1]);
  for (uint32_t i = 0; i < 3; ++i) {
    std::vector<int64_t> global = in[i], offset(in[i].size(), 0);
    global[0] *= 2;
    offset[0] = rank * in[i][0];
    b.bind(plan::INPUT, "in" + std::to_string(i), i, global, offset, true, i);
  }
  b.bind(plan::OUTPUT, "end", LEND, out[1], {0, 0}, rank == 0);
  for (uint32_t i = 0; i < 3; ++i)
    b.collective("move", kind, LA + i, LA_OUT + i, gathers ? plan::NONE : plan::SUM)->set_dim(i == 1 ? 1 : 0);
  b.plan.mutable_programs(0)->mutable_steps(LIST_A)->mutable_collective()->set_along(2);
  b.kernel("read", "relu", {LB_OUT}, {LEND});
  return b.plan;
}

const std::vector<Case> kListCases = {
    {"more than there are", [](auto &p) { sum(p, LIST_A).set_along(9); }, "more than there are behind it"},
    {"a kernel among them", [](auto &p) { sum(p, LIST_A).set_along(3); }, "no collective, but sent with others"},
    {"joins twice", [](auto &p) { sum(p, LIST_B).set_along(1); }, "itself sent with an earlier one"},
    {"side by side", [](auto &p) { sum(p, LIST_A).set_joined(2); }, "only all-reduces are sent together as one tensor"},
    {"of another kind",
     [](auto &p) {
       sum(p, LIST_A).set_kind(plan::BROADCAST);
       sum(p, LIST_A).set_reduction(plan::NONE);
       *p.mutable_buffers(LA_OUT)->mutable_shape() = p.buffers(LA).shape();
     },
     "only gathers and scatters are sent together as a list"},
    {"another type",
     [](auto &p) {
       for (int b : {LC, LC_OUT})
         buf(p, b).set_dtype(plan::I32);
     },
     "another kind, group, reduction, order or type"},
    {"on another resource",
     [](auto &p) { p.mutable_programs(0)->mutable_steps(LIST_B)->set_resource(plan::COMMUNICATION); },
     "runs on another resource or waits"},
    {"a result over another one's operand", [](auto &p) { buf(p, LA_OUT).set_offset(buf(p, LC).offset()); },
     "one of them writes them"},
    {"a result over another one's result", [](auto &p) { buf(p, LC_OUT).set_offset(buf(p, LA_OUT).offset()); },
     "one of them writes them"},
};

} // namespace

TEST_CASE("lists of gathers and of scatters pass, wherever they lie") {
  for (plan::CollectiveKind kind : {plan::ALL_GATHER, plan::REDUCE_SCATTER}) {
    std::vector<plan::Plan> plans = {listPlan(0, kind), listPlan(1, kind)};
    CHECK(checkPlans(plans).message() == "");
    CHECK(messagesOf(plans[0].programs(0)) == std::vector<int>{0, 0, 0, -1});
    for (plan::Plan &p : plans) { // operands change places
      const uint64_t at = buf(p, LA).offset();
      buf(p, LA).set_offset(buf(p, LC).offset());
      buf(p, LC).set_offset(at);
    }
    CHECK(checkPlans(plans).message() == "");
    sum(plans[1], LIST_A).set_along(1);
    CHECK(checkPlans(plans).message().find("how many it is sent with (2 and 1)") != std::string::npos);
  }
}

TEST_CASE("every spoiled list is refused for its reason") {
  for (plan::CollectiveKind kind : {plan::ALL_GATHER, plan::REDUCE_SCATTER})
    for (const Case &c : kListCases) {
      INFO(c.name);
      plan::Plan p = listPlan(0, kind);
      c.spoil(p);
      const std::string message = checkPlan(p).message();
      INFO(message);
      CHECK(message.find(c.message) != std::string::npos);
    }
}
