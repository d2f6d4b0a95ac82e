// Plans of pipelines: good ones, and good ones of which one thing is spoiled.
#include "runtime/plan/stages/Stages.h"
#include "runtime/plan/Frames.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "test/unit/plan/StagePlan.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;

namespace {

using Plans = std::vector<plan::Plan>;

RtStatus check(const Plans &plans) {
  PlansChecker checker;
  for (const plan::Plan &plan : plans)
    if (RtStatus status = checker.add(plan, serialize(plan)); !status.ok())
      return status;
  return checker.finish();
}

plan::Step &step(plan::Plan &p, const std::string &name) {
  for (plan::Step &step : *p.mutable_programs(0)->mutable_steps())
    if (step.name() == name)
      return step;
  throw std::runtime_error("no step " + name);
}

plan::Buffer &buffer(plan::Plan &p, const std::string &name) {
  for (plan::Buffer &buffer : *p.mutable_buffers())
    if (buffer.name() == name)
      return buffer;
  throw std::runtime_error("no buffer " + name);
}

plan::Binding &binding(plan::Plan &p, const std::string &name) {
  for (plan::Binding &binding : *p.mutable_bindings())
    if (binding.name() == name)
      return binding;
  throw std::runtime_error("no binding " + name);
}

uint32_t indexOf(const plan::Plan &p, const std::string &name) {
  for (int b = 0; b < p.buffers_size(); ++b)
    if (p.buffers(b).name() == name)
      return uint32_t(b);
  throw std::runtime_error("no buffer " + name);
}

/// A kernel in place of the step: what it sent or received is so no longer.
void replace(plan::Plan &p, const std::string &name, const std::string &from, const std::string &to) {
  plan::Kernel kernel;
  kernel.set_name("abs");
  kernel.add_inputs(indexOf(p, from));
  kernel.add_outputs(indexOf(p, to));
  *step(p, name).mutable_kernel() = kernel;
}

void setCalls(plan::Plan &p, const StagePlan::Calls &calls) {
  p.mutable_programs(0)->clear_calls();
  for (auto [section, index] : calls) {
    plan::Call *call = p.mutable_programs(0)->add_calls();
    call->set_section(section);
    call->set_index(index);
  }
}

struct Case {
  const char *name;
  std::function<void(Plans &)> spoil;
  const char *message;
};

constexpr auto BEGIN = StagePlan::BEGIN, F = StagePlan::F, B = StagePlan::B, END = StagePlan::END;

/// Of a pipeline of two stages of one rank, four micro-batches, 1f1b: frames of 2 places and of 1.
const std::vector<Case> kCases = {
    {"an old version", [](Plans &p) { p[0].set_version(3); }, "rank 0: has format version 3, but uses what version 4"},
    {"stages that the mesh has not", [](Plans &p) { p[0].set_stages(4); },
     "rank 0: has 4 stages, which are not the size of its first mesh axis"},
    {"stages on one rank only", [](Plans &p) { p[1].mutable_mesh(0)->set_name("pipe"); }, "differ in mesh, stages"},
    {"a group of two stages", [](Plans &p) { p[0].mutable_groups(0)->add_ranks(1); }, "contains ranks of two stages"},
    {"a send that is left out", [](Plans &p) { replace(p[0], "h.send", "h", "e"); },
     "rank 1: step 3 'h.receive' of program 'train', micro-batch 1 of 4, receives from rank 0 on channel 3: 4 times in "
     "a run, where that rank sends 0 times"},
    {"a receive that is left out",
     [](Plans &p) {
       replace(p[0], "loss.receive", "w0", "loss"), step(p[0], "loss.receive").mutable_kernel()->set_name("reduce_sum");
     },
     "rank 1: step 16 'loss.send' of program 'train' sends to rank 0 on channel 9: 1 times in a run, where that "
     "rank receives 0 times"},
    {"another channel", [](Plans &p) { step(p[1], "e.send").mutable_send()->set_channel(5); },
     "rank 0: step 4 'e.receive' of program 'train', micro-batch 1 of 4, receives from rank 1 on channel 4: 4 times in "
     "a run, where that rank sends 0 times"},
    {"a channel that no transport has", [](Plans &p) { step(p[1], "e.send").mutable_send()->set_channel(32768); },
     "step 11 'e.send' of program 'train': sends to rank 0 on channel 32768; there are 32768"},
    {"a peer beyond the mesh", [](Plans &p) { step(p[0], "h.send").mutable_send()->set_peer(2); },
     "sends to rank 2, which the mesh of 2 ranks does not have"},
    {"a peer of the same stage", [](Plans &p) { step(p[0], "e.receive").mutable_receive()->set_peer(0); },
     "receives from rank 0, which is in the same stage"},
    {"no such buffer", [](Plans &p) { step(p[0], "h.send").mutable_send()->set_input(99); },
     "reads buffer 99, which does not exist"},
    {"another shape", [](Plans &p) { buffer(p[1], "h").set_shape(0, 4), buffer(p[1], "h").set_shape(1, 1); },
     "rank 1: step 3 'h.receive' of program 'train', micro-batch 1 of 4, receives f32 [4, 1] from rank 0 on channel 3, "
     "where 'h.send' sends f32 [2, 2]"},
    {"another type", [](Plans &p) { buffer(p[1], "h").set_dtype(plan::I32); }, "receives i32 [2, 2] from rank 0"},
    {"a place too few", [](Plans &p) { p[0].mutable_frames(0)->set_slots(1); },
     "rank 0: step 5 'p0' of program 'train', micro-batch 1 of 4: reads buffer 7 'xi', but its place holds what "
     "micro-batch 2 wrote: its frame of 1 places has too few for these calls"},
    {"micro-batches in another order",
     [](Plans &p) {
       setCalls(p[1], {{BEGIN, 0}, {F, 1}, {B, 1}, {F, 0}, {B, 0}, {F, 2}, {B, 2}, {F, 3}, {B, 3}, {END, 0}});
     },
     "receives what belongs to index 1 from rank 0 on channel 3, where 'h.send' sends what belongs to index 0"},
    {"a micro-batch left out",
     [](Plans &p) {
       setCalls(p[1], {{BEGIN, 0}, {F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}, {END, 0}});
     },
     "receives from rank 1 on channel 4: 4 times in a run, where that rank sends 3 times"},
    {"stages that wait for each other",
     [](Plans &p) {
       setCalls(p[0], {{BEGIN, 0}, {F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}, {F, 3}, {B, 3}, {END, 0}});
       setCalls(p[1], {{BEGIN, 0}, {F, 0}, {F, 1}, {B, 0}, {F, 2}, {B, 1}, {F, 3}, {B, 2}, {B, 3}, {END, 0}});
       p[1].mutable_frames(0)->set_slots(2);
       p[1].set_arena_bytes(p[1].arena_bytes() + p[1].frames(0).bytes());
     },
     "the ranks wait for each other for ever: rank 0: step 4 'e.receive' of program 'train', micro-batch 1 of 4, "
     "receives from rank 1 on channel 4; rank 1: step 3 'h.receive' of program 'train', micro-batch 2 of 4, receives "
     "from rank 0 on channel 3"},
    {"a frame without places", [](Plans &p) { p[0].mutable_frames(0)->set_slots(0); }, "has no place"},
    {"a frame that is not aligned", [](Plans &p) { p[0].mutable_frames(0)->set_bytes(40); }, "is not aligned to 64"},
    {"a frame beyond the arena", [](Plans &p) { p[0].mutable_frames(0)->set_slots(3); }, "lies outside the arena"},
    {"a frame of too many bytes",
     [](Plans &p) { p[0].mutable_frames(0)->set_bytes(uint64_t(1) << 62), p[0].mutable_frames(0)->set_slots(4); },
     "lies outside the arena"},
    {"two frames in one place", [](Plans &p) { *p[0].add_frames() = p[0].frames(0); }, "overlaps the frame of 2 x 64"},
    {"a buffer in another place", [](Plans &p) { buffer(p[0], "xi").set_offset(p[0].frames(0).offset() + 64); },
     "buffer 7 'xi' does not lie in the first place of the frame"},
    {"a buffer across the border", [](Plans &p) { buffer(p[0], "xi").set_shape(0, 16); },
     "buffer 7 'xi' does not lie in the first place of the frame"},
    {"a buffer over a frame", [](Plans &p) { buffer(p[0], "p0").set_shape(0, 20); },
     "buffer 5 'p0' does not lie in the first place of the frame"},
    {"a parameter in a frame", [](Plans &p) { buffer(p[0], "xi").set_persistent(true); }, "is persistent, but lies in"},
    {"a bound buffer in a frame", [](Plans &p) { binding(p[0], "x").set_buffer(7); },
     "buffer 7 'xi' is bound to 'x', but lies in the frame"},
    {"a stage without the loss", [](Plans &p) { p[1].mutable_bindings()->RemoveLast(); },
     "(loss 'loss') is bound by 1 of 2 stages; all of them must have it"},
    {"a replica that says it is the first", [](Plans &p) { binding(p[1], "loss").set_primary(true); },
     "(loss 'loss'): rank 1 holds a replica"},
    {"a tensor that stages fill differently", [](Plans &p) { binding(p[1], "w1").set_name("w0"); },
     "(state 'w0') is not the same on rank 0 and rank 1"},
    {"a program of another name",
     [](Plans &p) {
       p[1].mutable_programs(0)->set_name("eval");
       for (plan::Binding &binding : *p[1].mutable_bindings())
         if (!binding.program().empty())
           binding.set_program("eval");
     },
     "program 0 is 'train' on rank 0 and 'eval' on rank 1"},
    {"inputs that lack one", [](Plans &p) { binding(p[0], "x").set_ordinal(1); },
     "the ordinals of the inputs of program 'train' are not 0 to 0 over all stages"},
};

} // namespace

TEST_CASE("pipelines are accepted") {
  for (uint32_t width : {1u, 2u, 4u})
    for (int parts : {1, 2, 4, 7})
      for (bool oneByOne : {true, false}) {
        if (parts < 2 && oneByOne)
          continue;
        INFO(width << " ranks a stage, " << parts << " micro-batches, " << (oneByOne ? "1f1b" : "gpipe"));
        const Plans plans = StagePlan{width, parts, oneByOne}.plans();
        CHECK(neededVersion(plans[0]) == 4);
        CHECK(check(plans).message() == "");
        CHECK(checkPlans(plans).message() == "");
        CHECK(checkPlan(StagePlan{width, parts, oneByOne}.sequential()).message() == "");
      }
}

TEST_CASE("a pipeline that is spoiled is refused") {
  for (const Case &c : kCases) {
    INFO(c.name);
    Plans plans = StagePlan{1, 4, true}.plans();
    c.spoil(plans);
    const std::string message = check(plans).message();
    INFO(message);
    CHECK(message.find(c.message) != std::string::npos);
  }
}

TEST_CASE("ranks of a stage that send across are run one by one") {
  // Each sends to the other place of the next stage, which is as good.
  Plans plans = StagePlan{2, 4, true}.plans();
  auto cross = [](Plans &plans) {
    for (uint32_t rank = 0; rank < 4; ++rank)
      for (plan::Step &step : *plans[rank].mutable_programs(0)->mutable_steps()) {
        const uint32_t peer = (rank < 2 ? 2 : 0) + (1 - rank % 2);
        if (step.has_send())
          step.mutable_send()->set_peer(peer);
        if (step.has_receive())
          step.mutable_receive()->set_peer(peer);
      }
  };
  cross(plans);
  CHECK(check(plans).message() == "");
  step(plans[1], "e.receive").mutable_receive()->set_peer(3);
  CHECK(check(plans).message().find("rank 1: step 4 'e.receive' of program 'train', micro-batch 1 of 4, receives from "
                                    "rank 3 on channel 4: 4 times in a run, where that rank sends 0 times") !=
        std::string::npos);
  // A collective that one rank reaches only after what another one sends behind it.
  plans = StagePlan{2, 4, true}.plans();
  cross(plans);
  for (uint32_t rank : {0u, 1u})
    setCalls(plans[rank], {{BEGIN, 0}, {F, 0}, {B, 0}, {F, 1}, {B, 1}, {F, 2}, {B, 2}, {F, 3}, {B, 3}, {END, 0}});
  CHECK(check(plans).message() == "");
  for (uint32_t rank : {2u, 3u}) {
    setCalls(plans[rank], {{BEGIN, 0}, {F, 0}, {F, 1}, {B, 0}, {B, 1}, {F, 2}, {F, 3}, {B, 2}, {B, 3}, {END, 0}});
    plans[rank].mutable_frames(0)->set_slots(2);
    plans[rank].set_arena_bytes(plans[rank].arena_bytes() + plans[rank].frames(0).bytes());
  }
  CHECK(check(plans).message().find("the ranks wait for each other for ever: rank 0: step 4 'e.receive'") !=
        std::string::npos);
}

TEST_CASE("ranks of one stage have the same steps, calls and channels") {
  Plans plans = StagePlan{2, 4, true}.plans();
  step(plans[3], "e.send").mutable_send()->set_channel(5);
  CHECK(check(plans).message().find("rank 2 and rank 3 use different channels") != std::string::npos);
  plans = StagePlan{2, 4, true}.plans();
  plans[3].mutable_programs(0)->mutable_calls()->RemoveLast();
  CHECK(check(plans).message() != "");
  plans = StagePlan{2, 4, true}.plans();
  step(plans[3], "y").set_name("z");
  CHECK(check(plans).message().find("rank 2 does 'y', rank 3 does 'z'") != std::string::npos);
}

TEST_CASE("a buffer of a frame lies in the place of its call") {
  plan::Plan p;
  plan::Frame *frame = p.add_frames();
  frame->set_offset(128), frame->set_bytes(256), frame->set_slots(3);
  const Frames frames(p);
  CHECK(frames.shift(192, 0) == 0);
  CHECK(frames.shift(192, 4) == 256);
  CHECK(frames.shift(64, 4) == 0);
  CHECK(frames.slots(192) == 3);
  CHECK(frames.slots(128 + 3 * 256) == 1);
}

/// The ranks of both stages of pipelines in which stages have different numbers of them.
constexpr std::pair<uint32_t, uint32_t> kUneven[] = {{1, 2}, {2, 1}, {4, 1}, {2, 3}, {4, 2}, {3, 3}};

TEST_CASE("stages may have different numbers of ranks") {
  for (auto [width, behind] : kUneven)
    for (bool oneByOne : {true, false}) {
      INFO(width << " and " << behind << " ranks" << (oneByOne ? ", 1f1b" : ", gpipe"));
      const StagePlan made{width, 4, oneByOne, behind};
      const Plans plans = made.plans();
      CHECK(plans.size() == width + behind);
      CHECK(neededVersion(plans[0]) == 9);
      CHECK(check(plans).message() == "");
      CHECK(checkPlans(plans).message() == "");
      CHECK(checkPlan(made.sequential()).message() == "");
    }
  const Stages stages({4, 1, 2});
  CHECK((stages.count() == 3 && stages.ranks() == 7 && stages.ranksOf(0) == 4 && stages.firstOf(2) == 5));
  CHECK((stages.of(0) == 0 && stages.of(3) == 0 && stages.of(4) == 1 && stages.of(5) == 2 && stages.of(6) == 2));
  CHECK((stages.placeOf(3) == 3 && stages.placeOf(4) == 0 && stages.placeOf(6) == 1));
}

/// Of stages of two ranks and of one, four micro-batches.
const std::vector<Case> kUnevenCases = {
    {"an old version", [](Plans &p) { p[0].set_version(8); }, "rank 0: has format version 8, but uses what version 9"},
    {"numbers for other stages", [](Plans &p) { p[0].add_stage_ranks(1); },
     "rank 0: has 2 stages, but numbers of ranks for 3"},
    {"a stage without ranks", [](Plans &p) { p[0].set_stage_ranks(1, 0); }, "a stage of 0 ranks"},
    {"too many ranks", [](Plans &p) { p[0].set_stage_ranks(1, ~0u); }, "makes the number of ranks invalid"},
    {"a mesh of another size", [](Plans &p) { p[2].mutable_mesh(0)->set_size(2); },
     "rank 2: stage 1 has 1 ranks, but a mesh of 2"},
    {"a rank behind all stages", [](Plans &p) { p[2].set_rank(3); }, "the rank lies outside the stages of 3 ranks"},
    {"a mesh that one rank has alone", [](Plans &p) { p[1].mutable_mesh(0)->set_name("model"); },
     "rank 0 and rank 1 differ in mesh, stages"},
    {"other numbers on one rank", [](Plans &p) { p[1].set_stage_ranks(1, 2); },
     "rank 0 and rank 1 differ in mesh, stages"},
    {"a rank too few", [](Plans &p) { p.pop_back(); }, "the mesh has 3 ranks, but there are 2 plans"},
    {"a group of two stages", [](Plans &p) { p[2].mutable_groups(0)->add_ranks(1); }, "contains ranks of two stages"},
    {"a group that one stage lacks", [](Plans &p) { *p[2].add_groups() = p[2].groups(0); },
     "rank 0 has 1 groups, rank 2 has 2"},
    {"a peer instead of boxes", [](Plans &p) { step(p[0], "h.send").mutable_send()->set_peer(2); },
     "names a peer, but stages with meshes of their own send boxes"},
    {"a box outside", [](Plans &p) { step(p[1], "h.send").mutable_send()->mutable_boxes(0)->set_offset(0, 1); },
     "sends to rank 2 a box at [1, 0] of shape [2, 2], which is not inside buffer 3 'h' of shape [2, 2]"},
    {"a box to the same stage", [](Plans &p) { step(p[0], "h.send").mutable_send()->mutable_boxes(0)->set_peer(1); },
     "sends to rank 1, which is in the same stage"},
    {"two boxes to a rank",
     [](Plans &p) {
       plan::Send &send = *step(p[0], "h.send").mutable_send();
       *send.add_boxes() = send.boxes(0);
     },
     "sends to rank 2 twice"},
    {"a box that does not come", [](Plans &p) { step(p[1], "h.send").mutable_send()->clear_boxes(); },
     "rank 2: step 3 'h.receive' of program 'train', micro-batch 1 of 4, receives from rank 1 on channel 3: 4 times in "
     "a run, where that rank sends 0 times"},
    {"a box that nobody wants",
     [](Plans &p) {
       plan::Receive &receive = *step(p[2], "h.receive").mutable_receive();
       receive.mutable_boxes()->RemoveLast();
       receive.mutable_boxes(0)->set_shape(0, 4);
       step(p[0], "h.send").mutable_send()->mutable_boxes(0)->set_shape(0, 2);
     },
     "receives f32 [4, 2] from rank 0 on channel 3, where 'h.send' sends f32 [2, 2]"},
    {"what is not received", [](Plans &p) { step(p[2], "h.receive").mutable_receive()->mutable_boxes()->RemoveLast(); },
     "what is received does not cover buffer"},
    {"nothing is received", [](Plans &p) { step(p[2], "h.receive").mutable_receive()->clear_boxes(); },
     "what is received does not cover buffer"},
};

TEST_CASE("a pipeline of different stages that is spoiled is refused") {
  for (const Case &c : kUnevenCases) {
    INFO(c.name);
    Plans plans = StagePlan{2, 4, true, 1}.plans();
    c.spoil(plans);
    const std::string message = check(plans).message();
    INFO(message);
    CHECK(message.find(c.message) != std::string::npos);
  }
  Plans even = StagePlan{1, 4, true}.plans();
  step(even[0], "h.send").mutable_send()->add_boxes();
  CHECK(check(even).message().find("has boxes, but stages have one mesh") != std::string::npos);
}

TEST_CASE("many micro-batches are checked in time that grows with them") {
  const Plans plans = StagePlan{8, 20000, true}.plans();
  const auto begin = std::chrono::steady_clock::now();
  CHECK(check(plans).message() == "");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
}
