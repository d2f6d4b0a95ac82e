// Pipelines through runPlan: each stage binds tensors of its own, and the run looks like that of one rank.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/ConvertCheckpoint.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/data/NpyFile.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Numerics.h"
#include "runtime/session/Session.h"
#include "test/unit/plan/StagePlan.h"
#include "test/unit/session/SlowBackend.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using RtStatus = tessera::rt::Status;

namespace {

struct Fixture {
  const StagePlan made;
  std::string path;
  /// `behind`: ranks of the second stage, if it has a mesh of its own. A batch has 16 samples.
  explicit Fixture(uint32_t behind = 0) : made{2, behind == 0 ? 4 : 4 / int(behind), behind < 4, behind} {
    path = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()));
    // Three batches of 16 samples; small numbers, so that all sums are exact.
    std::vector<float> x(48 * 2), t(48 * 2);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = float(i * 5 % 3) - 1;
      t[i] = float(i * 7 % 3) - 1;
    }
    REQUIRE(writeNpy(path + "/x.npy", plan::F32, {48, 2}, x.data()).ok());
    REQUIRE(writeNpy(path + "/t.npy", plan::F32, {48, 2}, t.data()).ok());
    write("pipeline", made.plans());
    write("single", {made.sequential()});
  }
  ~Fixture() { fs::remove_all(path); }

  void write(const std::string &name, std::vector<plan::Plan> plans) {
    for (plan::Plan &plan : plans)
      plan.set_global_batch(16);
    plan::Plan sequential = made.sequential();
    sequential.set_global_batch(16);
    REQUIRE(writePlanDirectory(path + "/" + name, {plans.begin(), plans.end()}, PlanContents(sequential)).ok());
  }

  RunOptions options() const {
    RunOptions o;
    o.data = "npy:" + path + "/x.npy," + path + "/t.npy";
    o.backend = "reference";
    o.shuffle = true;
    return o;
  }

  RunResult run(const std::string &name, const RunOptions &options, const std::string &log = "") {
    Result<PlanDirectory> plan = readPlanDirectory(path + "/" + name);
    INFO(plan.status().message());
    REQUIRE(plan.ok());
    Console console(nullptr);
    if (!log.empty())
      REQUIRE(console.openLog(log, false).ok());
    RunResult result;
    RtStatus status = runRanks(int(plan->ranks.size()),
                               [&](World &world) { return runPlan(*plan, options, world, console, result); });
    INFO(status.message());
    REQUIRE(status.ok());
    return result;
  }

  std::map<std::string, std::vector<float>> tensorsOf(const std::string &checkpoint) {
    Result<std::string> found = findCheckpoint(checkpoint);
    REQUIRE(found.ok());
    Result<Checkpoint> opened = Checkpoint::open(*found);
    REQUIRE(opened.ok());
    CHECK(damagesOf(*opened).empty());
    std::map<std::string, std::vector<float>> tensors;
    for (const std::string &name : opened->names()) {
      std::vector<float> values(4);
      REQUIRE(opened->read(name, wholeBlock({2, 2}), plan::F32, values.data()).ok());
      tensors[name] = values;
    }
    return tensors;
  }
};

} // namespace

TEST_CASE("a pipeline trains as one rank does, and its checkpoints go on anywhere") {
  Fixture f(GENERATE(0u, 1u, 4u));
  RunOptions o = f.options();
  o.steps = 1;
  o.checkpointDir = f.path + "/two";
  o.saveWeights = f.path + "/weights.safetensors";
  const RunResult stages = f.run("pipeline", o);
  o.checkpointDir = f.path + "/one";
  const RunResult single = f.run("single", o);
  CHECK(stages.steps == 1);
  CHECK(stages.loss == single.loss);
  CHECK(stages.loss != 0);
  const auto tensors = f.tensorsOf(f.path + "/two");
  CHECK(tensors.size() == 2);
  CHECK(tensors == f.tensorsOf(f.path + "/one"));
  CHECK(tensors.at("w0") != tensors.at("w1"));
  for (const auto &[from, to] : {std::pair("two", "single"), std::pair("one", "pipeline")}) {
    RunOptions resumed = f.options();
    resumed.steps = 2;
    resumed.resumeDir = f.path + "/" + from;
    resumed.checkpointDir = f.path + "/" + from + "-on-" + to;
    f.run(to, resumed);
  }
  CHECK(f.tensorsOf(f.path + "/two-on-single") == f.tensorsOf(f.path + "/one-on-pipeline"));
  RunOptions whole = f.options();
  whole.steps = 1;
  whole.integrated = true;
  whole.checkpointDir = f.path + "/whole";
  f.run("pipeline", whole);
  CHECK(f.tensorsOf(f.path + "/whole") == tensors);
}

TEST_CASE("a pipeline is verified against the unpartitioned program") {
  Fixture f(GENERATE(0u, 1u));
  for (bool widen : {false, true}) {
    RunOptions o = f.options();
    o.mode = RunMode::Verify;
    o.steps = 2;
    o.widen = widen;
    CHECK(f.run("pipeline", o).verified);
  }
  // A plan that computes something else is found out.
  std::vector<plan::Plan> wrong = f.made.plans();
  for (plan::Plan &plan : wrong)
    for (plan::Step &step : *plan.mutable_programs(0)->mutable_steps())
      if (step.name() == "w1")
        step.mutable_kernel()->set_name("add");
  f.write("pipeline", wrong);
  RunOptions o = f.options();
  o.mode = RunMode::Verify;
  o.steps = 1;
  CHECK_FALSE(f.run("pipeline", o).verified);
}

TEST_CASE("a pipeline is traced, profiled and logged") {
  Fixture f;
  RunOptions o = f.options();
  o.steps = 3;
  o.profile = true;
  o.numerics = NumericsPolicy::Stop;
  o.traceFile = f.path + "/trace.json";
  f.run("pipeline", o, f.path + "/log.jsonl");
  std::map<std::string, int> sends, receives;
  const nlohmann::json trace = nlohmann::json::parse(*readFile(o.traceFile, 1 << 22));
  for (const auto &event : trace["traceEvents"])
    if (event.value("cat", "") == "send") {
      ++sends[std::to_string(event["pid"].get<int>()) + " to " + std::to_string(event["args"]["peer"].get<int>())];
      CHECK(event["args"].contains("channel"));
      CHECK(event["args"]["bytes_sent"].get<int>() > 0);
    } else if (event.value("cat", "") == "receive") {
      ++receives[std::to_string(event["pid"].get<int>()) + " from " + std::to_string(event["args"]["peer"].get<int>())];
    }
  CHECK(sends == std::map<std::string, int>{{"0 to 2", 4}, {"1 to 3", 4}, {"2 to 0", 5}, {"3 to 1", 5}});
  CHECK(receives == std::map<std::string, int>{{"0 from 2", 5}, {"1 from 3", 5}, {"2 from 0", 4}, {"3 from 1", 4}});
}

/// Says in the plan's folder that every kernel is predicted to take a microsecond, and every call begins when the one
/// before it has ended.
static void predict(const Fixture &f) {
  nlohmann::json places;
  for (const plan::Plan &plan : {f.made.plans().front(), f.made.plans().back()}) {
    const plan::Program &program = plan.programs(0);
    nlohmann::json steps = nlohmann::json::array(), calls = nlohmann::json::array();
    for (const plan::Step &step : program.steps())
      steps.push_back(step.has_kernel() ? 1000 : 0);
    for (size_t call = 0; call < TimeOrder(program).calls().size(); ++call)
      calls.push_back(call * 10'000);
    places.push_back({{"programs", {{{"name", program.name()}, {"step_ns", steps}, {"call_ns", calls}}}}});
  }
  std::ofstream(f.path + "/pipeline/report.json")
      << nlohmann::json{{"pipeline", {{"predicted_ns", 1'000'000}, {"places", places}}}}.dump();
}

TEST_CASE("a slow stage is named with its ranks, and a slow rank of a stage") {
  for (const auto &[slow, said, never] :
       {std::tuple(std::set<uint32_t>{2, 3}, "WARNING: stage 1 (ranks 2 to 3) is slow: ", "rank 2 is slow"),
        std::tuple(std::set<uint32_t>{0, 1}, "WARNING: stage 0 (ranks 0 to 1) is slow: ", "rank 0 is slow"),
        std::tuple(std::set<uint32_t>{3}, "WARNING: rank 3 is slow: ", "stage 0 (ranks 0 to 1) is slow")}) {
    Fixture f;
    predict(f);
    Result<PlanDirectory> plan = readPlanDirectory(f.path + "/pipeline");
    REQUIRE(plan.ok());
    RunOptions o = f.options();
    o.steps = 60;
    std::FILE *out = std::fopen((f.path + "/out").c_str(), "w");
    REQUIRE(out);
    {
      Console console(out);
      RunResult result;
      RtStatus status = runRanks(4, [&](World &world) -> RtStatus {
        Platform platform;
        platform.backend = std::make_unique<SlowBackend>(slow, std::chrono::milliseconds(3));
        RankLog log;
        TESSERA_RETURN_IF_ERROR(log.open(f.path + "/logs", world.rank(), false));
        auto executor = Executor::create(plan->ranks[size_t(world.rank())], *platform.backend, world, LoadOptions());
        if (!executor)
          return executor.status();
        Session session{*plan, o, world, console, result, **executor, platform, log};
        TESSERA_RETURN_IF_ERROR(loadInitialWeights(session, **executor));
        return train(session);
      });
      INFO(status.message());
      CHECK(status.ok());
    }
    std::fclose(out);
    const std::string text = *readFile(f.path + "/out", 1 << 20);
    INFO(text);
    CHECK(text.find(said) != std::string::npos);
    CHECK(text.find(said) == text.rfind(said));
    CHECK(text.find(never) == std::string::npos);
    CHECK(text.find("stage 1 (ranks 2 to 3): ") != std::string::npos);
  }
}

/// y = (x w0) w1 of two stages; the first also gives x w0. w0 is 2 and w1 is 3 everywhere.
static plan::Plan forward(uint32_t rank) {
  PlanBuilder b(rank, 2, "infer");
  b.plan.mutable_mesh(0)->set_name("stage");
  b.plan.clear_groups();
  b.plan.set_stages(2);
  b.plan.set_version(4);
  b.plan.set_global_batch(4);
  const uint32_t in = b.buffer("in", {4, 2}), w = b.buffer("w", {2, 2}, plan::F32, true), out = b.buffer("out", {4, 2});
  b.bind(plan::STATE, rank == 0 ? "w0" : "w1", w, {2, 2}, {0, 0})->set_fill(rank == 0 ? 2 : 3);
  if (rank == 0)
    b.bind(plan::INPUT, "x", in, {4, 2}, {0, 0});
  else {
    plan::Receive *receive = b.step("h.receive")->mutable_receive();
    receive->set_output(in);
    receive->set_peer(0);
  }
  b.kernel("product", "matmul", {in, w}, {out});
  b.bind(plan::OUTPUT, rank == 0 ? "h" : "y", out, {4, 2}, {0, 0}, true, 1 - rank);
  if (rank == 0) {
    plan::Send *send = b.step("h.send")->mutable_send();
    send->set_input(out);
    send->set_peer(1);
  }
  return b.plan;
}

TEST_CASE("a pipeline infers, whichever stage has the output") {
  Fixture f;
  const std::vector<plan::Plan> plans = {forward(0), forward(1)};
  REQUIRE(writePlanDirectory(f.path + "/infer", {plans.begin(), plans.end()}, std::nullopt).ok());
  RunOptions o = f.options();
  o.mode = RunMode::Infer;
  o.data = "npy:" + f.path + "/x.npy";
  o.shuffle = false;
  o.steps = 3;
  o.output = f.path + "/out";
  f.run("infer", o);
  for (const auto &[name, factor] : {std::pair("/output0.npy", 12.0f), std::pair("/output1.npy", 2.0f)}) {
    Result<NpyFile> file = NpyFile::open(f.path + "/out" + name);
    REQUIRE(file.ok());
    INFO(name);
    std::vector<float> values(24);
    REQUIRE(file->shape() == std::vector<int64_t>{12, 2});
    REQUIRE(file->readBox({0, 0}, {12, 2}, values.data()).ok());
    for (size_t i = 0; i < 12; ++i) {
      const float sum = (float((2 * i) * 5 % 3) - 1) + (float((2 * i + 1) * 5 % 3) - 1);
      CHECK(values[2 * i] == factor * sum);
      CHECK(values[2 * i + 1] == factor * sum);
    }
  }
}

TEST_CASE("what is not finite is found where it was made, not where it was received") {
  const std::vector<plan::Plan> plans = StagePlan{1, 4, true}.plans();
  std::vector<std::string> found(2);
  RtStatus status = runRanks(2, [&](World &world) -> RtStatus {
    const auto rank = size_t(world.rank());
    auto backend = createBackend("reference");
    auto executor = Executor::create(plans[rank], **backend, world, {});
    if (!executor)
      return executor.status();
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(nullptr, false));
    std::vector<float> rows(16, 1);
    if (rank == 0) // the product with w0 overflows in micro-batch 3 alone
      rows[4] = rows[5] = rows[12] = rows[13] = 3e38f;
    TESSERA_RETURN_IF_ERROR((*executor)->feed(0, rows.data()));
    Numerics numerics(**executor, "train", 1);
    TESSERA_RETURN_IF_ERROR(numerics.keep());
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    Result<double> loss = (*executor)->fetchScalar(plan::LOSS, "train");
    Result<bool> bad = numerics.bad(*loss);
    CHECK(*bad);
    TESSERA_RETURN_IF_ERROR(numerics.restore());
    TESSERA_RETURN_IF_ERROR((*executor)->feed(0, rows.data()));
    Result<std::string> why = numerics.explain();
    if (!why)
      return why.status();
    found[rank] = *why;
    return {};
  });
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(found[0] == "the operator 'h' (matmul) makes an infinity of finite operands in micro-batch 3 of 4 on rank 0");
  CHECK(found[1] == found[0]);
}
