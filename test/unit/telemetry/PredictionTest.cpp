// When a plan's steps are expected to run: on their resources, behind what they wait for, call by call.
#include "runtime/telemetry/Prediction.h"

#include "runtime/support/File.h"
#include "test/unit/plan/LanePlan.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <stdlib.h>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using P = LanePlan;

namespace {

// make 1, sum 1, make 2, sum 2, reuse, update 1, update 2, last sum
const std::vector<int64_t> kTimes = {10, 30, 25, 40, 5, 3, 2, 20};

std::pair<int64_t, int64_t> when(const Prediction &predicted, size_t run) {
  return {predicted.runs.at(run).begin, predicted.runs.at(run).end};
}

/// A folder with a report.
struct Folder {
  std::string path;
  explicit Folder(const std::string &report) {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
    REQUIRE(writeFile(path + "/report.json", report).ok());
  }
  ~Folder() { fs::remove_all(path); }
};

} // namespace

TEST_CASE("collectives in line are all exposed") {
  const plan::Plan plan = P::make(0, 2, /*beside=*/false);
  const Prediction predicted = Prediction::of(plan.programs(0), kTimes);
  REQUIRE(predicted.runs.size() == kTimes.size());
  CHECK(when(predicted, P::SUM_1) == std::pair<int64_t, int64_t>(10, 40));
  CHECK(predicted.end == 135);
  CHECK(predicted.exposed == 30 + 40 + 20);
}

TEST_CASE("steps begin when their resource is free and what they wait for has ended") {
  const plan::Plan plan = P::make(0, 2, /*beside=*/true);
  const Prediction predicted = Prediction::of(plan.programs(0), kTimes);
  CHECK(when(predicted, P::MAKE_1) == std::pair<int64_t, int64_t>(0, 10));
  CHECK(when(predicted, P::SUM_1) == std::pair<int64_t, int64_t>(10, 40));
  CHECK(when(predicted, P::MAKE_2) == std::pair<int64_t, int64_t>(10, 35));
  CHECK(when(predicted, P::SUM_2) == std::pair<int64_t, int64_t>(40, 80)); // behind the first sum
  CHECK(when(predicted, P::REUSE) == std::pair<int64_t, int64_t>(40, 45)); // waits for the first sum
  CHECK(when(predicted, P::UPDATE_1) == std::pair<int64_t, int64_t>(45, 48));
  CHECK(when(predicted, P::UPDATE_2) == std::pair<int64_t, int64_t>(80, 82)); // waits for the second
  CHECK(when(predicted, P::LAST_SUM) == std::pair<int64_t, int64_t>(82, 102));
  CHECK(predicted.end == 102);
  CHECK(predicted.exposed == 102 - (10 + 25 + 5 + 3 + 2));
  CHECK(predicted.kernels == 10 + 25 + 5 + 3 + 2);
  CHECK(predicted.waiting == 0);
}

TEST_CASE("a call begins when the one before it has ended") {
  plan::Plan plan = P::make(0, 2, /*beside=*/true);
  plan::Program &program = *plan.mutable_programs(0);
  program.add_section_ends(P::UPDATE_2); // what is behind runs once
  program.add_section_ends(uint32_t(program.steps_size()));
  for (uint32_t i = 0; i < 3; ++i) {
    program.add_calls()->set_section(0);
    program.mutable_calls(int(i))->set_index(i);
  }
  program.add_calls()->set_section(1);
  program.mutable_steps(P::UPDATE_2)->clear_waits(); // the section before has ended
  const Prediction predicted = Prediction::of(program, kTimes);
  REQUIRE(predicted.runs.size() == 3 * size_t(P::UPDATE_2) + 2);
  const int64_t body = 80; // the second sum ends last
  for (int64_t i = 0; i < 3; ++i) {
    const Prediction::Run &first = predicted.runs[size_t(i) * size_t(P::UPDATE_2)];
    CHECK(first.begin == i * body);
    CHECK(first.at == StepInTime{0, uint32_t(i)});
  }
  CHECK(predicted.end == 3 * body + 2 + 20);
}

TEST_CASE("steps that take nothing are left out") {
  const plan::Plan plan = P::make(0, 2, /*beside=*/false);
  std::vector<int64_t> times = kTimes;
  times[P::REUSE] = 0;
  const Prediction predicted = Prediction::of(plan.programs(0), times);
  CHECK(predicted.runs.size() == kTimes.size() - 1);
  CHECK(predicted.runs.at(P::REUSE).at.step == P::UPDATE_1);
}

TEST_CASE("the report in the plan's folder says what steps take, or nothing is predicted") {
  plan::Plan plan = P::make(0, 2, /*beside=*/true);
  plan.mutable_programs(0)->set_name("train");
  auto endOf = [&](const std::string &report) -> int64_t {
    const Folder folder(report);
    const std::optional<Prediction> predicted = Prediction::read(folder.path, plan, 0);
    return predicted ? predicted->end : -1;
  };
  const std::string times = "[10, 30, 25, 40, 5, 3, 2, 20]";
  CHECK(endOf(R"({"functions": [{"name": "eval", "step_ns": [1]}, {"name": "train", "step_ns": )" + times + "}]}") ==
        102);
  CHECK(!Prediction::read("no-such-folder", plan, 0));
  for (const char *damaged :
       {"", "[1", "[]", "{}", R"({"functions": 3})", R"({"functions": [3, {"name": 4}]})",
        R"({"functions": [{"name": "train"}]})", R"({"functions": [{"name": "train", "step_ns": 7}]})",
        R"({"functions": [{"name": "train", "step_ns": [10, 30, 25, 40, 5, 3, 2]}]})",
        R"({"functions": [{"name": "train", "step_ns": [10, 30, 25, 40, 5, 3, 2, -1]}]})",
        R"({"functions": [{"name": "train", "step_ns": [10, 30, 25, 40, 5, 3, 2, "x"]}]})",
        R"({"functions": [{"name": "train", "step_ns": [10, 30, 25, 40, 5, 3, 2, 9000000000000000000]}]})"}) {
    INFO(damaged);
    CHECK(endOf(damaged) == -1);
  }
}

TEST_CASE("a stage waits for others until its calls begin, and at the end") {
  plan::Plan plan = P::make(0, 2, /*beside=*/true);
  plan.set_stages(2);
  plan::Program &program = *plan.mutable_programs(0);
  program.set_name("train");
  program.add_section_ends(P::UPDATE_2); // what is behind runs once
  program.add_section_ends(uint32_t(program.steps_size()));
  for (uint32_t i = 0; i < 2; ++i) {
    program.add_calls()->set_section(0);
    program.mutable_calls(int(i))->set_index(i);
  }
  program.add_calls()->set_section(1);
  program.mutable_steps(P::UPDATE_2)->clear_waits(); // the section before has ended
  const Prediction predicted = Prediction::of(program, kTimes, Prediction::Calls{{7, 100, 150}, 250});
  // The first section takes 80, and the second call ends behind the begin that was said of the third.
  CHECK(when(predicted, 0) == std::pair<int64_t, int64_t>(7, 17));
  CHECK(when(predicted, P::UPDATE_2) == std::pair<int64_t, int64_t>(100, 110));
  CHECK(predicted.runs.back().end == 180 + 2 + 20);
  CHECK(predicted.end == 250);
  CHECK(predicted.kernels == 2 * (10 + 25 + 5 + 3) + 2);
  CHECK(predicted.exposed == 2 * (80 - (10 + 25 + 5 + 3)) + 20);
  CHECK(predicted.waiting == 250 - predicted.kernels - predicted.exposed);

  // By the report, which has the programs of every stage.
  const std::string times = "[10, 30, 25, 40, 5, 3, 2, 20]";
  auto report = [&](const std::string &calls, const std::string &end = "250") {
    const std::string place =
        R"({"programs": [{"name": "train", "step_ns": )" + times + R"(, "call_ns": )" + calls + "}]}";
    return R"({"pipeline": {"predicted_ns": )" + end + R"(, "places": [)" + place + ", " + place + "]}}";
  };
  plan::Plan other = plan;
  other.set_rank(1);
  const Folder good(report("[7, 100, 150]"));
  for (const plan::Plan &one : {plan, other}) {
    const std::optional<Prediction> read = Prediction::read(good.path, one, 0);
    REQUIRE(read);
    CHECK(read->waiting == predicted.waiting);
  }
  REQUIRE(Prediction::readStages(good.path, {plan, other}, 0).size() == 2);
  for (const std::string &damaged :
       {report("[7, 100]"), report("7"), report("[7, 100, -1]"), report("[7, 100, 150]", "-1"),
        report("[7, 100, 150]", "{}"), std::string(R"({"pipeline": 3})"),
        std::string(R"({"pipeline": {"places": [{}]}})"),
        std::string(R"({"pipeline": {"predicted_ns": 3, "places": [3, 4]}})"), std::string("{}")}) {
    INFO(damaged);
    const Folder folder(damaged);
    CHECK(!Prediction::read(folder.path, plan, 0));
    CHECK(Prediction::readStages(folder.path, {plan, other}, 0).empty());
  }
}
