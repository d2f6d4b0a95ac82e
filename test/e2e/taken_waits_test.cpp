// Every wait of compiled plans is taken out, one at a time: the checker refuses what is left, or it computes the same
// to the bit.
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/session/Session.h"
#include "runtime/support/File.h"
#include "test/e2e/CompiledPlan.h"

#include <cstdio>
#include <optional>

using namespace tessera;
using namespace tessera::rt;

namespace {

constexpr const char *kTrained = "train"; // the program that is run
constexpr uint64_t kMostWeights = uint64_t(1) << 30;

using Waits = google::protobuf::RepeatedField<uint32_t>;

Waits &waitsOf(plan::Plan &rank, int program, int step) {
  return *rank.mutable_programs(program)->mutable_steps(step)->mutable_waits();
}

/// What two steps of training leave: the last loss, and the file of all parameters and states.
struct Trained {
  double loss = 0;
  std::string weights;
  bool operator==(const Trained &) const = default;
};

Trained train(const Folder &folder, const PlanDirectory &plan) {
  RunOptions options;
  options.data = "synthetic";
  options.steps = 2;
  options.seed = 3;
  options.saveWeights = folder.path + "/weights.safetensors";
  RunResult result;
  Console console(nullptr);
  const Status status =
      runRanks(int(plan.ranks.size()), [&](World &world) { return runPlan(plan, options, world, console, result); });
  INFO(status.message());
  REQUIRE(status.ok());
  Result<std::string> weights = readFile(options.saveWeights, kMostWeights);
  REQUIRE(weights.ok());
  REQUIRE(!weights->empty());
  return {result.loss, std::move(*weights)};
}

/// What was taken out, and what became of it.
struct Taken {
  int waits = 0;
  int refused = 0;
  int notNeeded = 0;      // accepted: the steps have their order without it
  int ofMessages = 0;     // of the first step of a message of several collectives
  int sections = 1;       // the most of a program
  uint32_t numStages = 1; // of the plan
};

/// Takes the wait out of one rank's plan. That has to prove itself alone, since all ranks of a stage wait alike. If it
/// does, the same wait is taken out on all ranks of the stage, and they train.
void takeOut(const Folder &folder, PlanDirectory &plan, const Trained &expected, size_t rank, int program, int step,
             int wait, Taken &taken) {
  const Stages stages = stagesOf(plan.ranks[rank]);
  const Waits all = waitsOf(plan.ranks[rank], program, step);
  Waits left = all;
  left.erase(left.begin() + wait);
  waitsOf(plan.ranks[rank], program, step) = left;
  INFO("rank " << rank << ", step " << step << " of program " << plan.ranks[rank].programs(program).name()
               << " without its wait for step " << all[wait]);
  ++taken.waits;
  const bool accepted = checkPlan(plan.ranks[rank]).ok();
  std::vector<size_t> alike;
  for (size_t other = 0; other < plan.ranks.size(); ++other)
    if (stages.of(uint32_t(other)) == stages.of(uint32_t(rank)))
      alike.push_back(other);
  for (size_t other : alike) // taken out everywhere, or put back
    waitsOf(plan.ranks[other], program, step) = accepted ? left : all;
  if (!accepted) {
    ++taken.refused;
    return;
  }
  ++taken.notNeeded;
  const Status together = checkPlans(plan.ranks);
  INFO(together.message());
  CHECK(together.ok());
  REQUIRE(plan.ranks[rank].programs(program).name() == kTrained);
  CHECK((train(folder, plan) == expected));
  for (size_t other : alike)
    waitsOf(plan.ranks[other], program, step) = all;
}

Taken takeOutEach(const Folder &folder, PlanDirectory &plan) {
  Taken taken;
  taken.numStages = stagesOf(plan.ranks[0]).count();
  const Trained expected = train(folder, plan);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    for (int p = 0; p < plan.ranks[rank].programs_size(); ++p) {
      const plan::Program &program = plan.ranks[rank].programs(p);
      taken.sections = std::max(taken.sections, int(TimeOrder(program).sections().size()));
      for (int s = 0; s < program.steps_size(); ++s) {
        const plan::Step &step = program.steps(s);
        if (step.has_collective() && followers(step.collective()) > 0)
          taken.ofMessages += step.waits_size();
        for (int w = 0; w < step.waits_size(); ++w)
          takeOut(folder, plan, expected, rank, p, s, w, taken);
      }
    }
  return taken;
}

void say(const std::string &name, const Taken &taken) {
  std::printf("%s: %d waits are taken out, %d of them of messages of several collectives; %d plans are refused, %d "
              "compute the same\n",
              name.c_str(), taken.waits, taken.ofMessages, taken.refused, taken.notNeeded);
}

const std::string kTraining = " --train --seed 1 --overlap on ", kMomentum = " --optimizer sgd:lr=0.01,momentum=0.9 ";

/// The step before this one on its resource: whoever waits for this one waits for that one, too.
std::optional<uint32_t> stepBefore(const plan::Program &program, uint32_t step) {
  for (uint32_t before = step; before-- > 0;)
    if (program.steps(int(before)).resource() == program.steps(int(step)).resource())
      return before;
  return std::nullopt;
}

struct Case {
  std::string model, options, optimizer = kMomentum;
  bool sections = false, stages = false; // the plan has several
  bool messages = true;                  // and messages of several collectives that wait
};

const std::vector<Case> kCases = {
    {"mlp_train.onnx", "--dim batch=8 --mesh data=2,model=2 --mode auto", kMomentum, false, false, false},
    {"lenet_train.onnx", "--dim batch=8 --mesh data=4 --mode data"},
    {"lenet_train.onnx", "--dim batch=9 --mesh data=3 --mode data --clip-norm 0.01"},
    {"lenet_train.onnx", "--dim batch=8 --mesh data=2 --mode data --fusion off", kMomentum, false, false, false},
    {"lenet_train.onnx", "--dim batch=8 --mesh data=2 --mode data --recompute full"},
    {"lenet_train.onnx", "--dim batch=8 --mesh data=2 --mode data --accumulate 2", kMomentum, true},
    {"lenet_train.onnx", "--dim batch=32 --mesh stage=2,data=2 --mode data --accumulate 4", kMomentum, true, true},
    {"resnet18_cifar_train.onnx", "--dim batch=4 --mesh data=2,space=2 --mode auto"},
    {"resnet18_cifar_train.onnx", "--dim batch=32 --mesh data=2 --mode auto", " --optimizer adamw:lr=0.001 "},
    {"families/squeezenet.onnx", "--mesh data=2 --mode data"},
};

} // namespace

TEST_CASE("no wait of a compiled plan can be taken out unnoticed") {
  for (const Case &c : kCases) {
    const std::string name = c.model + " " + c.options;
    INFO(name);
    Folder folder;
    PlanDirectory plan = compilePlan(folder, c.model + kTraining + c.optimizer + c.options);
    const Taken taken = takeOutEach(folder, plan);
    say(name, taken);
    CHECK(taken.refused + taken.notNeeded == taken.waits);
    CHECK(taken.waits > 0);
    CHECK(taken.notNeeded == 0); // LaneOrder.h: whichever wait is taken out is missed
    CHECK((taken.ofMessages > 0) == c.messages);
    CHECK((taken.sections > 1) == c.sections);
    CHECK((taken.numStages > 1) == c.stages);
  }
}

TEST_CASE("waits that are not needed can be taken out, and the plan computes the same") {
  Folder folder;
  PlanDirectory plan =
      compilePlan(folder, "lenet_train.onnx" + kTraining + kMomentum + "--dim batch=8 --mesh data=2 --mode data");
  int added = 0;
  for (plan::Plan &rank : plan.ranks) {
    plan::Program &program = *rank.mutable_programs(findProgram(rank, kTrained));
    for (plan::Step &step : *program.mutable_steps())
      if (std::optional<uint32_t> before = step.waits_size() ? stepBefore(program, step.waits(0)) : std::nullopt) {
        const Waits waits = step.waits();
        step.mutable_waits()->Clear();
        step.add_waits(*before);
        step.mutable_waits()->MergeFrom(waits);
        ++added;
      }
  }
  REQUIRE(checkPlans(plan.ranks).ok());
  const Taken taken = takeOutEach(folder, plan);
  say("with waits that are not needed", taken);
  CHECK(added > 0);
  CHECK(taken.notNeeded == added);
  CHECK(taken.refused == taken.waits - added);
}
