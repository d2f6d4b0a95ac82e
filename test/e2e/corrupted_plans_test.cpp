// --verify in single precision tells a wrong plan from rounding: every collective of a plan that trains is
// made wrong in turn, on all ranks alike, and the verdict must be "not verified"; unchanged plans pass.
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/session/Session.h"
#include "test/e2e/CompiledPlan.h"

#include <algorithm>

using namespace tessera;
using namespace tessera::rt;

namespace {

constexpr const char *kTraining = "lenet_train.onnx --dim batch=32 --train --loss cross_entropy --optimizer "
                                  "sgd:lr=0.001,momentum=0.9 --init kaiming";

PlanDirectory compile(const Folder &folder, const std::string &options) {
  return compilePlan(folder, std::string(kTraining) + " " + options);
}

RunResult verifyPlan(const PlanDirectory &plan) {
  RunOptions options;
  options.mode = RunMode::Verify;
  options.data = "synthetic";
  options.steps = 1;
  RunResult result;
  Console console(nullptr);
  auto status =
      runRanks(int(plan.ranks.size()), [&](World &world) { return runPlan(plan, options, world, console, result); });
  INFO(status.message());
  REQUIRE(status.ok());
  return result;
}

/// Makes a collective wrong: a sum becomes a minimum; what only moves blocks takes them in reverse order.
void corrupt(plan::Plan &rank, plan::Collective &collective) {
  if (collective.reduction() != plan::NONE) {
    collective.set_reduction(collective.reduction() == plan::SUM ? plan::MIN : plan::SUM);
    return;
  }
  plan::Group reversed = rank.groups(int(collective.group()));
  std::reverse(reversed.mutable_ranks()->begin(), reversed.mutable_ranks()->end());
  collective.set_group(uint32_t(rank.groups_size()));
  *rank.add_groups() = reversed;
}

void everyWrongCollectiveIsFound(PlanDirectory plan) {
  CHECK(verifyPlan(plan).verified);
  int wrong = 0;
  for (int program = 0; program < plan.ranks[0].programs_size(); ++program) {
    const std::vector<int> messages = messagesOf(plan.ranks[0].programs(program));
    for (int step = 0; step < plan.ranks[0].programs(program).steps_size(); ++step) {
      if (messages[size_t(step)] != step) // a kernel, or a member of a message that was looked at
        continue;
      const plan::Step original = plan.ranks[0].programs(program).steps(step);
      std::vector<plan::Plan> ranks = plan.ranks;
      for (plan::Plan &rank : plan.ranks)
        for (size_t member = 0; member < messages.size(); ++member)
          if (messages[member] == step)
            corrupt(rank, *rank.mutable_programs(program)->mutable_steps(int(member))->mutable_collective());
      wrong += int(std::count(messages.begin(), messages.end(), step));
      INFO(plan.ranks[0].programs(program).name()
           << ", " << original.name() << ": " << plan::CollectiveKind_Name(original.collective().kind()));
      CHECK_FALSE(verifyPlan(plan).verified);
      plan.ranks = std::move(ranks);
    }
  }
  CHECK(wrong > 5);
}

} // namespace

TEST_CASE("verification finds every wrong collective of a data-parallel LeNet") {
  Folder folder;
  everyWrongCollectiveIsFound(compile(folder, "--mesh data=2 --mode data"));
}

TEST_CASE("verification finds every wrong collective of a step in micro-batches") {
  Folder folder;
  everyWrongCollectiveIsFound(compile(folder, "--mesh data=2 --mode data --accumulate 2"));
}

TEST_CASE("verification finds every wrong collective where products read 16 bits") {
  for (const char *precision : {"bf16", "f16"}) {
    INFO(precision);
    Folder folder;
    everyWrongCollectiveIsFound(compile(folder, "--mesh data=2 --mode data --precision " + std::string(precision)));
  }
}

TEST_CASE("verification finds every wrong collective of a LeNet cut along channels or height") {
  for (const char *pattern : {"f=model", "h=model"}) {
    INFO(pattern);
    Folder folder;
    compile(folder, "--mesh 1 --mode data");
    shell(TESSERA_PYTHON " " TESSERA_TEST_DIR "/make_strategies.py " + folder.path + "/plan/report.json model=2 " +
          pattern + " -o " + folder.path + "/strategy.json");
    everyWrongCollectiveIsFound(
        compile(folder, "--mesh model=2 --mode semi-auto --strategy " + folder.path + "/strategy.json"));
  }
}
