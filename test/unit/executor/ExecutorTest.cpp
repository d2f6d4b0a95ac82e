// Whole plans on the reference backend: losses, weights and outputs equal a computation by hand, on any
// number of ranks; failures stop all ranks and name the culprit.
#include "runtime/executor/GlobalTensors.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanChecker.h"
#include "runtime/tensor/ConvertElements.h"
#include "test/unit/plan/TrainingPlan.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>

using namespace tessera::rt;
namespace plan = tessera::plan;
namespace fs = std::filesystem;
using RtStatus = tessera::rt::Status;

namespace {

struct Scratch {
  std::string path;
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "tessera-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Scratch() { fs::remove_all(path); }
};

std::vector<float> batch(int step) {
  std::vector<float> x(8 * 3);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float((int(i) * 7 + step * 3) % 11 - 5) / 4;
  return x;
}

const std::vector<float> kWeights = {1, -1, 0.5f, 2, -0.25f, 1};

/// The training plan's steps by hand.
struct ByHand {
  std::vector<double> w{kWeights.begin(), kWeights.end()};
  std::vector<double> out;
  double loss = 0;
  void step(const std::vector<float> &x) {
    out.assign(16, 0);
    loss = 0;
    std::vector<double> grad(6, 0);
    for (size_t i = 0; i < 8; ++i)
      for (size_t j = 0; j < 2; ++j) {
        double y = 0;
        for (size_t k = 0; k < 3; ++k)
          y += x[i * 3 + k] * w[k * 2 + j];
        loss += out[i * 2 + j] = std::max(y, 0.0);
      }
    // The plan's "gradient" is x^T z; it need not be that of the loss.
    for (size_t k = 0; k < 3; ++k)
      for (size_t j = 0; j < 2; ++j) {
        double g = 0;
        for (size_t i = 0; i < 8; ++i)
          g += x[i * 3 + k] * out[i * 2 + j];
        w[k * 2 + j] -= 0.5 * g;
      }
  }
};

/// Plans with the loss that `ByHand` computes.
void writeWeights(const std::string &path, plan::DType type = plan::F32, std::vector<int64_t> shape = {3, 2},
                  const std::string &name = "w") {
  auto writer = SafetensorsWriter::create(path, {{name, type, shape}});
  REQUIRE(writer.ok());
  std::vector<float> w(size_t(*elementsOf(shape)), 0);
  for (size_t i = 0; i < std::min(w.size(), kWeights.size()); ++i)
    w[i] = kWeights[i];
  REQUIRE(writer->add(w.data(), w.size() * 4).ok());
  REQUIRE(writer->commit().ok());
}

RtStatus trainOn(uint32_t ranks, bool widen, const std::string &weights, int steps, std::vector<double> &losses,
                 std::vector<float> &out, std::vector<double> &moment, const std::string &save) {
  std::vector<plan::Plan> plans = trainingPlans(ranks);
  return runRanks(int(ranks), [&](World &world) -> RtStatus {
    const plan::Plan &plan = plans[size_t(world.rank())];
    auto backend = createBackend("reference");
    if (!backend)
      return backend.status();
    auto file = Safetensors::open(weights);
    if (!file)
      return file.status();
    auto executor = Executor::create(plan, **backend, world, {1, widen});
    if (!executor)
      return executor.status();
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(&*file, false));
    for (int s = 0; s < steps; ++s) {
      std::vector<float> x = batch(s);
      size_t rows = 8 / ranks;
      TESSERA_RETURN_IF_ERROR((*executor)->feed((*executor)->bindings(plan::INPUT, "train").at(0),
                                                x.data() + size_t(world.rank()) * rows * 3));
      TESSERA_RETURN_IF_ERROR((*executor)->feedStep("train", s));
      TESSERA_RETURN_IF_ERROR((*executor)->run(0));
      Result<double> loss = (*executor)->fetchScalar(plan::LOSS, "train");
      if (!loss)
        return loss.status();
      if (world.rank() == 0)
        losses.push_back(*loss);
    }
    std::vector<char> global;
    TESSERA_RETURN_IF_ERROR(
        gatherGlobal(**executor, BoundTensors(plans), (*executor)->bindings(plan::OUTPUT, "train").at(0), global));
    if (world.rank() == 0 && !widen) {
      out.resize(global.size() / 4);
      std::memcpy(out.data(), global.data(), global.size());
    }
    int state = (*executor)->bindings(plan::STATE, "").at(0);
    TESSERA_RETURN_IF_ERROR(gatherGlobal(**executor, BoundTensors(plans), state, global));
    if (world.rank() == 0) {
      moment.resize(6);
      convertElements(global.data(), (*executor)->heldType(state), moment.data(), plan::F64, 6);
    }
    return saveWeights(**executor, plans, save);
  });
}

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("training equals the computation by hand on any number of ranks") {
  Scratch scratch;
  writeWeights(scratch.path + "/w.safetensors");
  for (bool widen : {false, true})
    for (uint32_t ranks : {1u, 2u, 4u, 8u}) {
      std::vector<double> losses;
      std::vector<float> out;
      std::vector<double> moment;
      std::string saved = scratch.path + "/after.safetensors";
      RtStatus status = trainOn(ranks, widen, scratch.path + "/w.safetensors", 3, losses, out, moment, saved);
      INFO(status.message());
      REQUIRE(status.ok());
      ByHand hand;
      double tolerance = widen ? 1e-13 : 1e-5;
      REQUIRE(losses.size() == 3);
      for (int s = 0; s < 3; ++s) {
        hand.step(batch(s));
        CHECK(losses[size_t(s)] == Approx(hand.loss).epsilon(tolerance));
      }
      for (size_t i = 0; i < out.size(); ++i)
        CHECK(out[i] == Approx(hand.out[i]).epsilon(tolerance));
      auto file = Safetensors::open(saved);
      REQUIRE(file.ok());
      CHECK(file->metadata().at("format") == "pt");
      CHECK(file->entries().size() == 1); // the optimizer's state is none of the model's
      const Safetensors::Entry *w = file->find("w");
      REQUIRE(w);
      CHECK(w->type == (widen ? plan::F64 : plan::F32));
      double values[6];
      REQUIRE(file->readBox(*w, {0, 0}, {3, 2}, plan::F64, values).ok());
      for (size_t i = 0; i < 6; ++i)
        CHECK(values[i] == Approx(hand.w[i]).epsilon(tolerance));
      CHECK(moment == std::vector<double>(6, 0.25)); // the state's fill
    }
}

TEST_CASE("a sharded parameter is loaded by boxes and saved whole") {
  Scratch scratch;
  std::string path = scratch.path + "/w.safetensors";
  writeWeights(path, plan::F32, {4, 6});
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < 4; ++rank) { // 2 x 2 boxes
    PlanBuilder b(rank, 4);
    b.bind(plan::PARAMETER, "w", b.buffer("w", {2, 3}, plan::F32, true), {4, 6}, {rank / 2 * 2, rank % 2 * 3});
    uint32_t twice = b.buffer("twice", {2, 3});
    b.kernel("add", "add", {0, 0}, {twice});
    b.bind(plan::OUTPUT, "twice", twice, {4, 6}, {rank / 2 * 2, rank % 2 * 3});
    plans.push_back(b.plan);
    REQUIRE(checkPlan(b.plan).ok());
  }
  REQUIRE(checkPlans(plans).ok());
  std::vector<float> twice(24);
  RtStatus status = runRanks(4, [&](World &world) -> RtStatus {
    auto backend = createBackend("reference");
    auto file = Safetensors::open(path);
    auto executor = Executor::create(plans[size_t(world.rank())], **backend, world, {});
    if (!executor)
      return executor.status();
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(&*file, false));
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    std::vector<char> global;
    TESSERA_RETURN_IF_ERROR(gatherGlobal(**executor, BoundTensors(plans), 1, global));
    if (world.rank() == 0)
      std::memcpy(twice.data(), global.data(), 96);
    return saveWeights(**executor, plans, scratch.path + "/again.safetensors");
  });
  INFO(status.message());
  REQUIRE(status.ok());
  for (size_t i = 0; i < 24; ++i)
    CHECK(twice[i] == (i < 6 ? 2 * kWeights[i] : 0.0f));
  auto before = Safetensors::open(path), after = Safetensors::open(scratch.path + "/again.safetensors");
  REQUIRE(after.ok());
  std::vector<char> w[2] = {std::vector<char>(96), std::vector<char>(96)};
  for (auto [file, bytes] : {std::pair(&*before, &w[0]), std::pair(&*after, &w[1])}) {
    const Safetensors::Entry &entry = *file->find("w");
    REQUIRE(bytesOf(entry.shape, entry.type) == 96u);
    REQUIRE(
        file->readBox(entry, std::vector<int64_t>(entry.shape.size(), 0), entry.shape, entry.type, bytes->data()).ok());
  }
  CHECK(w[0] == w[1]);
}

namespace {

/// The reference backend's memory, with [2, 4] tensors in blocks of two columns on odd ranks.
struct OddLayout : LoadedPlan {
  std::unique_ptr<LoadedPlan> inner;
  uint32_t rank;
  explicit OddLayout(std::unique_ptr<LoadedPlan> inner, uint32_t rank) : inner(std::move(inner)), rank(rank) {}
  size_t arenaBytes() const override { return inner->arenaBytes(); }
  size_t scratchBytes() const override { return inner->scratchBytes(); }
  void *address(uint32_t b) override { return inner->address(b); }
  Layout layout(uint32_t) const override { return rank % 2 ? Layout{{{0, 2}, {1, 2}}} : Layout(); }
  plan::DType dtype(uint32_t b) const override { return inner->dtype(b); }
  void reorder(const float *from, float *to) const {
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 4; ++j)
        to[rank % 2 ? (j / 2) * 4 + i * 2 + j % 2 : i * 4 + j] = from[i * 4 + j];
  }
  RtStatus upload(uint32_t b, const void *host) override {
    reorder(static_cast<const float *>(host), static_cast<float *>(address(b)));
    return {};
  }
  RtStatus download(uint32_t b, void *host) override {
    const float *from = static_cast<const float *>(address(b));
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 4; ++j)
        static_cast<float *>(host)[i * 4 + j] = from[rank % 2 ? (j / 2) * 4 + i * 2 + j % 2 : i * 4 + j];
    return {};
  }
  RtStatus launch(uint32_t p, uint32_t s, uint32_t i) override { return inner->launch(p, s, i); }
  RtStatus synchronize() override { return inner->synchronize(); }
  std::string describe(uint32_t p, uint32_t s) const override { return inner->describe(p, s); }
};

struct OddBackend : Backend {
  std::unique_ptr<Backend> inner = std::move(*createBackend("reference"));
  std::string_view name() const override { return "odd"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    auto loaded = inner->load(plan, options);
    if (!loaded)
      return loaded.status();
    return std::unique_ptr<LoadedPlan>(std::make_unique<OddLayout>(std::move(*loaded), plan.rank()));
  }
};

} // namespace

TEST_CASE("ranks that keep a tensor in different layouts meet in plain copies") {
  std::vector<float> sums(8, 0);
  RtStatus status = runRanks(2, [&](World &world) -> RtStatus {
    auto rank = uint32_t(world.rank());
    PlanBuilder b(rank, 2);
    b.bind(plan::INPUT, "x", b.buffer("x", {2, 4}), {4, 4}, {2 * rank, 0});
    b.bind(plan::OUTPUT, "y", b.buffer("y", {2, 4}), {2, 4}, {0, 0}, rank == 0);
    b.collective("sum", plan::ALL_REDUCE, 0, 1, plan::SUM);
    OddBackend backend;
    auto executor = Executor::create(b.plan, backend, world, {});
    if (!executor)
      return executor.status();
    if ((*executor)->stagedCollectives(0) != 1)
      return RtStatus::error("not staged");
    std::vector<float> x(8);
    for (size_t i = 0; i < 8; ++i)
      x[i] = float(i * (rank ? 10 : 1));
    TESSERA_RETURN_IF_ERROR((*executor)->feed(0, x.data()));
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    std::vector<char> y;
    TESSERA_RETURN_IF_ERROR((*executor)->fetch(1, y));
    if (rank == 1)
      std::memcpy(sums.data(), y.data(), 32);
    return {};
  });
  INFO(status.message());
  REQUIRE(status.ok());
  for (size_t i = 0; i < 8; ++i)
    CHECK(sums[i] == float(i * 11));
}

TEST_CASE("missing and wrong weights are named") {
  Scratch scratch;
  std::string path = scratch.path + "/w.safetensors";
  std::vector<double> losses;
  std::vector<float> out;
  std::vector<double> moment;
  auto message = [&] { return trainOn(2, false, path, 1, losses, out, moment, scratch.path + "/after").message(); };
  CHECK(contains(message(), "w.safetensors: cannot be opened"));
  writeWeights(path, plan::F32, {3, 2}, "v");
  CHECK(contains(message(), "w.safetensors: parameter 'w' is missing"));
  writeWeights(path, plan::F32, {2, 3});
  CHECK(contains(message(), "tensor 'w' has the shape [2, 3]; the plan wants [3, 2]"));
  writeWeights(path, plan::I32);
  CHECK(contains(message(), "has the type i32; the plan wants f32"));
}

TEST_CASE("the first failure of a rank stops all and is reported") {
  for (int culprit : {0, 2}) {
    RtStatus status = runRanks(4, [&](World &world) -> RtStatus {
      auto group = world.group({0, 1, 2, 3});
      if (!group)
        return group.status();
      for (int i = 0;; ++i) {
        if (world.rank() == culprit && i == 5)
          return RtStatus::error("the disk is full");
        float value = 1;
        TESSERA_RETURN_IF_ERROR((*group)->allReduce(&value, &value, 1, plan::F32, plan::SUM));
      }
    });
    CHECK(status.message() == "rank " + std::to_string(culprit) + ": the disk is full");
  }
}

TEST_CASE("an exception in a rank is a failure of that rank") {
  RtStatus status = runRanks(2, [](World &world) -> RtStatus {
    auto group = world.group({0, 1});
    if (world.rank() == 1)
      throw std::runtime_error("out of luck");
    return (*group)->barrier();
  });
  CHECK(contains(status.message(), "rank 1: internal failure: out of luck"));
}

TEST_CASE("an unknown kernel names the step and the rank") {
  std::vector<plan::Plan> plans = trainingPlans(2);
  plans[1].mutable_programs(0)->mutable_steps(RELU)->mutable_kernel()->set_name("frobnicate");
  RtStatus status = runRanks(2, [&](World &world) -> RtStatus {
    auto backend = createBackend("reference");
    return Executor::create(plans[size_t(world.rank())], **backend, world, {}).status();
  });
  CHECK(contains(status.message(), "rank 1"));
  CHECK(contains(status.message(), "/fc/Relu"));
  CHECK(contains(status.message(), "frobnicate"));
}

TEST_CASE("an interrupt is seen by all ranks in the same step") {
  std::mutex mutex;
  std::vector<int> stopped(3, -1);
  std::set<int> signals;
  RtStatus status = runRanks(3, [&](World &world) -> RtStatus {
    auto group = world.group({0, 1, 2});
    for (int step = 0;; ++step) {
      if (world.rank() == 1 && step == 4)
        requestInterrupt(SIGTERM);
      Result<int> stop = anyInterrupted(**group);
      if (!stop)
        return stop.status();
      if (*stop != 0) {
        std::lock_guard lock(mutex);
        signals.insert(*stop);
        stopped[size_t(world.rank())] = step;
        return {};
      }
    }
  });
  clearInterrupt();
  CHECK(status.ok());
  CHECK(signals == std::set<int>{SIGTERM});
  CHECK(stopped[0] >= 4);
  CHECK(stopped[1] == stopped[0]);
  CHECK(stopped[2] == stopped[0]);
}
