// Training, evaluation, inference and verification through runPlan, and through the program itself.
#include "runtime/session/Session.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/data/NpyFile.h"
#include "runtime/launch/Launcher.h"
#include "runtime/support/Version.h"
#include "test/unit/plan/LoopPlan.h"
#include "test/unit/plan/TrainingPlan.h"
#include "test/unit/session/SlowBackend.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using RtStatus = tessera::rt::Status;

namespace {

/// The training plan with programs "eval" (loss, right answers of how many) and "infer" besides.
plan::Plan fullPlan(uint32_t rank, uint32_t ranks) {
  PlanBuilder b(0, 1);
  b.plan = trainingPlan(rank, ranks);
  b.plan.set_model("tiny.onnx");
  int64_t rows = 8 / ranks, start = rank * rows;
  bool first = rank == 0;
  uint32_t count = b.buffer("predictions", {}, plan::F32, true);
  float eight = 8;
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &eight, 4);
  b.plan.mutable_buffers(int(count))->set_constant(bytes);

  b.plan.add_programs()->set_name("eval");
  b.bind(plan::INPUT, "x", X, {8, 3}, {start, 0});
  b.kernel("/fc/MatMul", "matmul", {X, W}, {Y});
  b.kernel("/fc/Relu", "relu", {Y}, {Z});
  plan::Kernel *sum = b.kernel("loss", "reduce_sum", {ZFLAT}, {PART});
  PlanBuilder::set(sum, "dims", std::vector<int64_t>{0});
  PlanBuilder::set(sum, "keepdims", 0);
  b.collective("loss.sum", plan::ALL_REDUCE, PART, TrainingBuffer::LOSS, plan::SUM);
  b.bind(plan::LOSS, "loss", TrainingBuffer::LOSS, {}, {}, first);
  b.bind(plan::CORRECT, "correct", LR, {}, {}, first); // 0.5 of 8
  b.bind(plan::PREDICTIONS, "predictions", count, {}, {}, first);

  b.plan.add_programs()->set_name("infer");
  b.bind(plan::INPUT, "x", X, {8, 3}, {start, 0});
  b.kernel("/fc/MatMul", "matmul", {X, W}, {Y});
  b.bind(plan::OUTPUT, "y", Y, {8, 2}, {start, 0});
  return b.plan;
}

struct Fixture {
  std::string path, planDir;
  Fixture() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
    // Three batches of eight samples.
    std::vector<float> x(24 * 3);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = float(int(i * 7 % 11) - 5) / 16;
    REQUIRE(writeNpy(path + "/x.npy", plan::F32, {24, 3}, x.data()).ok());
  }
  ~Fixture() { fs::remove_all(path); }

  std::string writePlan(uint32_t ranks, const std::function<void(plan::Plan &)> &change = {}) {
    std::string dir = path + "/plan" + std::to_string(ranks);
    REQUIRE(makeDirectory(dir).ok());
    auto writer = SafetensorsWriter::create(dir + "/weights.safetensors", {{"w", plan::F32, {3, 2}}});
    float w[6] = {1, -1, 0.5f, 2, -0.25f, 1};
    REQUIRE(writer->add(w, sizeof w).ok());
    REQUIRE(writer->commit().ok());
    std::vector<plan::Plan> plans;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      plans.push_back(fullPlan(rank, ranks));
      if (change)
        change(plans.back());
    }
    REQUIRE(writePlanDirectory(dir, {plans.begin(), plans.end()}, PlanContents(fullPlan(0, 1))).ok());
    return dir;
  }

  RunOptions options() const {
    RunOptions o;
    o.data = "npy:" + path + "/x.npy";
    o.backend = "reference";
    return o;
  }

  RtStatus run(const std::string &dir, const RunOptions &options, RunResult &result, const std::string &log = "") {
    Result<PlanDirectory> plan = readPlanDirectory(dir);
    if (!plan)
      return plan.status();
    Console console(nullptr);
    if (!log.empty())
      TESSERA_RETURN_IF_ERROR(console.openLog(log, false));
    return runRanks(int(plan->ranks.size()),
                    [&](World &world) { return runPlan(*plan, options, world, console, result); });
  }

  std::vector<nlohmann::json> lines(const std::string &log) const {
    std::istringstream in(*readFile(log, 1 << 20));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(in, line);)
      all.push_back(nlohmann::json::parse(line));
    return all;
  }

  /// Everything in a folder, by name.
  std::map<std::string, std::string> filesOf(const std::string &folder) const {
    std::map<std::string, std::string> files;
    for (const auto &entry : fs::directory_iterator(folder))
      files[entry.path().filename()] = *readFile(entry.path(), 1 << 20);
    return files;
  }

  std::vector<float> tensor(const std::string &file, const std::string &name) const {
    auto tensors = Safetensors::open(file);
    REQUIRE(tensors.ok());
    const Safetensors::Entry *entry = tensors->find(name);
    REQUIRE(entry);
    std::vector<float> values((entry->end - entry->begin) / 4);
    REQUIRE(
        tensors->readBox(*entry, std::vector<int64_t>(entry->shape.size(), 0), entry->shape, plan::F32, values.data())
            .ok());
    return values;
  }
};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

/// Runs a command line; its exit code and what it printed.
std::pair<int, std::string> shell(const std::string &command) {
  std::string text;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> chunk;
  while (size_t n = fread(chunk.data(), 1, chunk.size(), pipe))
    text.append(chunk.data(), n);
  int code = pclose(pipe);
  return {WIFEXITED(code) ? WEXITSTATUS(code) : -1, text};
}

} // namespace

TEST_CASE("training logs every step and is the same on any number of ranks") {
  Fixture f;
  std::vector<double> expected;
  for (uint32_t ranks : {1u, 2u, 4u}) {
    RunOptions o = f.options();
    o.epochs = 2;
    o.saveWeights = f.path + "/after.safetensors";
    RunResult result;
    RtStatus status = f.run(f.writePlan(ranks), o, result, f.path + "/log.jsonl");
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(result.steps == 6);
    auto lines = f.lines(f.path + "/log.jsonl");
    REQUIRE(lines.size() == 6);
    for (size_t i = 0; i < 6; ++i) {
      CHECK(lines[i]["step"] == i + 1);
      CHECK(lines[i]["epoch"] == i / 3);
      CHECK(lines[i]["seconds"] > 0);
      if (ranks == 1)
        expected.push_back(lines[i]["loss"]);
      CHECK(lines[i]["loss"].get<double>() == Approx(expected[i]).epsilon(1e-5));
    }
    CHECK(expected[0] != expected[5]);
    CHECK(f.tensor(o.saveWeights, "w").size() == 6);
  }
}

TEST_CASE("the rank that computes longer is named, though all wait for it") {
  Fixture f;
  Result<PlanDirectory> plan = readPlanDirectory(f.writePlan(4));
  REQUIRE(plan.ok());
  RunOptions o = f.options();
  o.steps = 120;
  std::FILE *out = std::fopen((f.path + "/out").c_str(), "w");
  REQUIRE(out);
  {
    Console console(out);
    REQUIRE(console.openLog(f.path + "/log.jsonl", false).ok());
    RunResult result;
    RtStatus status = runRanks(4, [&](World &world) -> RtStatus {
      Platform platform;
      platform.backend = std::make_unique<SlowBackend>(std::set<uint32_t>{2}, std::chrono::milliseconds(10));
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
  CHECK(contains(text, "WARNING: rank 2 is slow: "));
  CHECK(text.find("is slow") == text.rfind("is slow"));
  CHECK(contains(text, "\nrank 2 was the slowest: "));
  std::vector<double> others, slow;
  for (const nlohmann::json &line : f.lines(f.path + "/log.jsonl")) {
    REQUIRE(line["rank_seconds"].size() == 4);
    others.push_back(line["rank_seconds"][0]);
    slow.push_back(line["rank_seconds"][2]);
    CHECK(line["skew"].get<double>() >= 1);
  }
  std::sort(others.begin(), others.end());
  std::sort(slow.begin(), slow.end());
  CHECK(slow[0] > 0.010);
  CHECK(others[60] < 0.005); // it waited for the rest of the step, which is none of its own
  CHECK(contains(*readFile(f.path + "/logs/rank-2.log", 1 << 20), "WARNING: rank 2 is slow"));
  CHECK(contains(*readFile(f.path + "/logs/rank-1.log", 1 << 20), " ms of its own a step, "));
}

TEST_CASE("a resumed run continues where the checkpoint ends") {
  Fixture f;
  for (uint32_t ranks : {1u, 2u, 4u})
    for (bool integrated : {false, true}) {
      std::string dir = f.writePlan(ranks);
      const std::string whole = f.path + "/whole", parts = f.path + "/parts";
      RunOptions straight = f.options();
      straight.steps = 5;
      straight.shuffle = true;
      straight.seed = 7;
      straight.checkpointDir = whole;
      straight.integrated = integrated;
      RunResult result;
      REQUIRE(f.run(dir, straight, result).ok());
      RunOptions half = straight;
      half.steps = 2;
      half.checkpointDir = parts;
      REQUIRE(f.run(dir, half, result).ok());
      RunOptions rest = f.options(); // the order of the data comes from the checkpoint
      rest.steps = 5;
      rest.integrated = integrated;
      rest.resumeDir = rest.checkpointDir = parts;
      RtStatus status = f.run(dir, rest, result, f.path + "/log.jsonl");
      INFO(status.message());
      REQUIRE(status.ok());
      CHECK(result.steps == 3);
      CHECK(f.lines(f.path + "/log.jsonl")[0]["step"] == 3);
      CHECK(f.filesOf(whole + "/step-00000005") == f.filesOf(parts + "/step-00000005")); // bit for bit
      // A run that has no step left changes nothing.
      REQUIRE(f.run(dir, rest, result).ok());
      CHECK(f.filesOf(whole + "/step-00000005") == f.filesOf(parts + "/step-00000005"));
      // A run that begins at an earlier step must not mix with it.
      rest.resumeDir = parts + "/step-00000002";
      CHECK(contains(f.run(dir, rest, result).message(), "step-00000005: is of another run"));
      fs::remove_all(whole);
      fs::remove_all(parts);
    }
}

TEST_CASE("a folder that is no checkpoint is refused when a run resumes") {
  Fixture f;
  std::string dir = f.writePlan(2);
  RunResult result;
  RunOptions o = f.options();
  o.steps = 2;
  o.resumeDir = dir;
  CHECK(contains(f.run(dir, o, result).message(), "is no checkpoint and holds none"));
  o.resumeDir = f.path + "/nowhere";
  CHECK(contains(f.run(dir, o, result).message(), "is no checkpoint and holds none"));
}

TEST_CASE("checkpoints come as often as asked for, and the last ones are kept") {
  Fixture f;
  std::string dir = f.writePlan(2);
  RunResult result;
  auto stepsAfter = [&](RunOptions o, const std::string &folder) {
    o.checkpointDir = f.path + "/" + folder;
    RtStatus status = f.run(dir, o, result);
    INFO(status.message());
    CHECK(status.ok());
    return listCheckpoints(o.checkpointDir);
  };
  RunOptions o = f.options();
  o.steps = 7;
  CHECK(stepsAfter(o, "epochs") == std::vector<int64_t>{3, 6, 7});
  o.checkpointEvery = 2;
  CHECK(stepsAfter(o, "two") == std::vector<int64_t>{4, 6, 7});
  o.keep = 0;
  CHECK(stepsAfter(o, "all") == std::vector<int64_t>{2, 4, 6, 7});
  o.keep = 1;
  CHECK(stepsAfter(o, "one") == std::vector<int64_t>{7});
  o.checkpointEvery = 0;
  o.keep = 0;
  o.checkpointSeconds = 1e-9; // always due
  CHECK(stepsAfter(o, "always") == std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7});
  o.checkpointSeconds = 3600;
  CHECK(stepsAfter(o, "hourly") == std::vector<int64_t>{7});
  // A half-written checkpoint of a killed run is removed.
  fs::create_directories(f.path + "/hourly/.step-00000009.partial");
  o.resumeDir = f.path + "/hourly";
  o.steps = 8;
  CHECK(stepsAfter(o, "hourly") == std::vector<int64_t>{7, 8});
  CHECK_FALSE(fs::exists(f.path + "/hourly/.step-00000009.partial"));
}

TEST_CASE("a checkpoint that cannot be written is an error, and the one before stays") {
  Fixture f;
  std::string dir = f.writePlan(2);
  RunResult result;
  RunOptions o = f.options();
  o.steps = 2;
  o.checkpointDir = f.path + "/c";
  REQUIRE(f.run(dir, o, result).ok());
  // Another file has the checkpoint's name.
  fs::create_directory(f.path + "/c/step-00000004");
  std::ofstream(f.path + "/c/step-00000004/x") << "x";
  o.resumeDir = o.checkpointDir;
  o.steps = 4;
  CHECK(contains(f.run(dir, o, result).message(), "step-00000004: cannot be given its name"));
  CHECK(listCheckpoints(o.checkpointDir) == std::vector<int64_t>{2, 3}); // 3: the epoch's end
}

TEST_CASE("evaluation averages the loss and counts") {
  Fixture f;
  RunOptions o = f.options();
  o.mode = RunMode::Evaluate;
  RunResult result;
  RtStatus status = f.run(f.writePlan(2), o, result, f.path + "/log.jsonl");
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(result.steps == 3);
  CHECK(result.accuracy == Approx(0.5 / 8));
  auto lines = f.lines(f.path + "/log.jsonl");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0]["accuracy"] == result.accuracy);
  o.mode = RunMode::Train; // with an evaluation after each epoch and none twice
  o.steps = 4;
  o.evalEachEpoch = true;
  REQUIRE(f.run(f.writePlan(2), o, result, f.path + "/log.jsonl").ok());
  lines = f.lines(f.path + "/log.jsonl");
  REQUIRE(lines.size() == 6); // steps 1, 2, 3, evaluation, 4, evaluation
  CHECK(lines[3].contains("eval"));
  CHECK(lines[5].contains("eval"));
}

TEST_CASE("inference writes the outputs of all batches in order") {
  Fixture f;
  for (uint32_t ranks : {1u, 4u}) {
    RunOptions o = f.options();
    o.mode = RunMode::Infer;
    o.output = f.path + "/out";
    RunResult result;
    RtStatus status = f.run(f.writePlan(ranks), o, result);
    INFO(status.message());
    REQUIRE(status.ok());
    auto x = NpyFile::open(f.path + "/x.npy"), y = NpyFile::open(f.path + "/out/output0.npy");
    REQUIRE(y.ok());
    REQUIRE(y->shape() == std::vector<int64_t>{24, 2});
    std::vector<float> xs(72), ys(48);
    REQUIRE(x->shape() == std::vector<int64_t>{24, 3});
    REQUIRE(x->readBox({0, 0}, {24, 3}, xs.data()).ok());
    REQUIRE(y->readBox({0, 0}, {24, 2}, ys.data()).ok());
    const float w[6] = {1, -1, 0.5f, 2, -0.25f, 1};
    for (size_t i = 0; i < 24; ++i)
      for (size_t j = 0; j < 2; ++j)
        CHECK(ys[i * 2 + j] ==
              Approx(xs[i * 3] * w[j] + xs[i * 3 + 1] * w[2 + j] + xs[i * 3 + 2] * w[4 + j]).margin(1e-6));
  }
}

TEST_CASE("verification accepts a good plan and finds a wrong one") {
  Fixture f;
  RunOptions o = f.options();
  o.mode = RunMode::Verify;
  RunResult result;
  for (bool widen : {false, true}) {
    o.widen = widen;
    RtStatus status = f.run(f.writePlan(4), o, result);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(result.verified);
  }
  o.widen = false;
  auto learnsFaster = [](plan::Plan &p) {
    float rate = 0.51f;
    std::memcpy(p.mutable_buffers(LR)->mutable_constant()->data(), &rate, 4);
  };
  o.widen = true; // two percent are found in F64 only
  REQUIRE(f.run(f.writePlan(2, learnsFaster), o, result).ok());
  CHECK_FALSE(result.verified);
  o.widen = false;
  // The gradients of the ranks are not added.
  auto forgets = [](plan::Plan &p) {
    p.mutable_programs(0)->mutable_steps(GRADIENT_SUM)->mutable_collective()->set_reduction(plan::MAX);
  };
  result = {};
  REQUIRE(f.run(f.writePlan(2, forgets), o, result).ok());
  CHECK_FALSE(result.verified);
}

TEST_CASE("a reproducible plan is verified to the bit") {
  Fixture f;
  RunOptions o = f.options();
  o.mode = RunMode::Verify;
  for (const bool reproducible : {false, true})
    for (const float rate : {0.5f, 0.5000002f}) {
      plan::Plan whole = fullPlan(0, 1);
      // It reads the rate, and counts may not differ in any plan.
      auto *bindings = whole.mutable_bindings();
      for (int b = bindings->size() - 1; b >= 0; --b)
        if (bindings->at(b).role() == plan::CORRECT)
          bindings->DeleteSubrange(b, 1);
      if (reproducible) {
        whole.set_version(3);
        whole.set_leaves(4);
      }
      plan::Plan p = whole;
      std::memcpy(p.mutable_buffers(LR)->mutable_constant()->data(), &rate, 4);
      const std::string dir = f.writePlan(1);
      REQUIRE(writePlanDirectory(dir, {PlanContents(p)}, PlanContents(whole)).ok());
      RunResult result;
      RtStatus status = f.run(dir, o, result);
      INFO(status.message() << ", rate " << rate << (reproducible ? ", reproducible" : ""));
      REQUIRE(status.ok());
      CHECK(result.verified == (!reproducible || rate == 0.5f));
    }
}

TEST_CASE("a plan that calls its sections is verified, and one that calls them wrongly is not") {
  Fixture f;
  const std::vector<float> x = {1, 2, 3, -1, 0, 2, 4, 1, -2, 1, 5, 3};
  REQUIRE(writeNpy(f.path + "/x.npy", plan::F32, {6, 2}, x.data()).ok());
  auto infer = [](bool calls) {
    plan::Plan p = LoopPlan::make(0, 1, 3, calls);
    p.set_global_batch(6);
    p.mutable_programs(0)->set_name("infer");
    for (plan::Binding &binding : *p.mutable_bindings())
      if (!binding.program().empty())
        binding.set_program("infer");
    return p;
  };
  RunOptions o = f.options();
  o.mode = RunMode::Verify;
  for (const bool wrong : {false, true}) {
    plan::Plan p = infer(true);
    if (wrong)
      p.mutable_programs(0)->mutable_calls(2)->set_index(0); // the first micro-batch twice, and the second never
    REQUIRE(writePlanDirectory(f.path + "/loop", {PlanContents(p)}, PlanContents(infer(false))).ok());
    RunResult result;
    RtStatus status = f.run(f.path + "/loop", o, result);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(result.verified == !wrong);
  }
}

TEST_CASE("a data error names the rank and stops all") {
  Fixture f;
  RunOptions o = f.options();
  o.data = "npy:" + f.path + "/missing.npy";
  RunResult result;
  std::string message = f.run(f.writePlan(2), o, result).message();
  CHECK(contains(message, "missing.npy"));
  CHECK(contains(message, "rank "));
  o.data = "";
  CHECK(contains(f.run(f.writePlan(2), o, result).message(), "needs data"));
}

#ifdef TESSERA_RUN
TEST_CASE("the program's exit codes and messages") {
  Fixture f;
  std::string dir = f.writePlan(2);
  std::string program = TESSERA_RUN, data = " --backend reference --data npy:" + f.path + "/x.npy ";
  auto [ok, text] = shell(program + " " + dir + data + "--steps 2 --log " + f.path + "/l.jsonl");
  INFO(text);
  CHECK(ok == 0);
  CHECK(contains(text, "step 2/2"));
  CHECK(contains(text, "memory per rank: "));
  CHECK(f.lines(f.path + "/l.jsonl").size() == 2);

  CHECK(shell(program + " --version").second == "tessera-run " TESSERA_VERSION "\n");
  CHECK(contains(shell(program + " --help").second, "--save-weights"));
  auto fails = [&](const std::string &arguments, int code, const std::string &message) {
    auto [found, text] = shell(program + " " + arguments);
    INFO(text);
    CHECK(found == code);
    CHECK(contains(text, message));
  };
  fails(dir + data + "--frobnicate", 2, "--frobnicate");
  fails(dir + data + "--eval --infer", 2, "");
  fails(dir + data + "--infer", 2, "--infer needs --output");
  fails(dir, 2, "--data is required");
  fails(dir + data + "--ranks 3", 1, "is a plan for 2 ranks, not 3");
  fails(f.path + data, 1, "is not a plan directory");
  fails(dir + " --backend quantum --data npy:" + f.path + "/x.npy", 2, "quantum");
  auto [verified, report] = shell(program + " " + dir + data + "--verify");
  INFO(report);
  CHECK(verified == 0);
  CHECK(contains(report, "verified: the plan computes what the unpartitioned program does"));
}

/// Starts a long training with `launcher`, does `stop` (shell; the launcher's process is $pid) when two steps are
/// logged, however slow the machine is, and waits.
std::pair<int, std::string> stopTraining(const Fixture &f, const std::string &launcher, const std::string &dir,
                                         const std::string &stop) {
  std::string log = f.path + "/l.jsonl", out = f.path + "/out";
  fs::remove(log);
  return shell("(" + launcher + " " TESSERA_RUN " " + dir + " --backend reference --data npy:" + f.path +
               "/x.npy --steps 100000000 --log " + log + " --checkpoint-dir " + f.path + "/c > " + out +
               " 2>&1 & pid=$!; while [ \"$(cat " + log +
               " 2>/dev/null | wc -l)\" -lt 2 ] && kill -0 $pid; do sleep 0.05; done; " + stop +
               "; wait $pid; code=$?; cat " + out + "; exit $code)");
}

TEST_CASE("SIGTERM stops all ranks after the step") {
  Fixture f;
  auto [code, text] = stopTraining(f, "", f.writePlan(2), "kill -TERM $pid");
  INFO(text);
  CHECK(code == 143);
  CHECK(contains(text, "stopped after step"));
  CHECK_FALSE(listCheckpoints(f.path + "/c").empty());
}
#endif

#ifdef TESSERA_MPIEXEC
/// The launcher, for as many processes.
std::string mpi(int processes) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_rtc", "^hwloc", 1); // it crashes now and then: test/e2e/cases.py
  return TESSERA_MPIEXEC " --oversubscribe -n " + std::to_string(processes);
}

TEST_CASE("SIGTERM and SIGINT to an MPI job stop its ranks after a step, with a checkpoint") {
  for (const char *signal : {"TERM", "INT"}) {
    Fixture f;
    auto [code, text] = stopTraining(f, mpi(2), f.writePlan(2), std::string("kill -") + signal + " $pid");
    INFO(signal << "\n" << text);
    CHECK(code != 0);
    CHECK(contains(text, "stopped after step"));
    CHECK_FALSE(listCheckpoints(f.path + "/c").empty());
  }
}

TEST_CASE("a rank of an MPI job that is killed outright takes the others down and is named") {
  Fixture f;
  auto start = std::chrono::steady_clock::now();
  auto [code, text] =
      stopTraining(f, mpi(2), f.writePlan(2),
                   // Seconds may pass until the last has ended; a zombie that nobody has waited for yet has.
                   "ranks=$(cat /proc/$pid/task/*/children); for victim in $ranks; do :; done; kill -9 $victim; "
                   "timeout 60 tail --pid=$pid -f /dev/null; waited=0; for rank in $ranks; do "
                   "while grep -q '^State:.[^Z]' /proc/$rank/status 2>/dev/null; do waited=$((waited + 1)); "
                   "if [ $waited -gt 300 ]; then echo LEFT; break; fi; sleep 0.1; done; done");
  INFO(text);
  CHECK(code != 0);
  CHECK(contains(text, "rank 1 with PID"));
  CHECK(contains(text, "signal 9"));
  CHECK_FALSE(contains(text, "LEFT"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("ranks as processes of an MPI job train alike") {
  Fixture f;
  std::string dir = f.writePlan(2);
  std::string arguments = " " TESSERA_RUN " " + dir + " --backend reference --data npy:" + f.path +
                          "/x.npy --steps 4 --save-weights " + f.path;
  auto [threads, text] = shell(arguments + "/t.safetensors");
  CHECK(threads == 0);
  auto [code, mpiText] = shell(mpi(2) + arguments + "/m.safetensors");
  INFO(mpiText);
  REQUIRE(code == 0);
  CHECK(f.tensor(f.path + "/t.safetensors", "w") == f.tensor(f.path + "/m.safetensors", "w"));
  auto [wrong, message] = shell(mpi(3) + arguments + "/m.safetensors");
  INFO(message);
  CHECK(wrong != 0);
  CHECK(contains(message, "is a plan for 2 ranks, but MPI started 3 processes"));
}
#endif
