// Every backend keeps what Backend.h and Capabilities.h promise, even one that computes nothing.
#include "runtime/backend/Kernel.h"
#include "test/conformance/backend/Suite.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

using namespace tessera::rt;
using namespace tessera::rt::test;
namespace plan = tessera::plan;
using Catch::Matchers::Contains;

namespace {

std::unique_ptr<LoadedPlan> load(const std::string &backend, const plan::Plan &plan, const LoadOptions &options = {}) {
  Result<std::unique_ptr<Backend>> made = createBackend(backend);
  INFO(backend << ": " << made.status().message());
  REQUIRE(made.ok());
  CHECK((*made)->name() == backend);
  Result<std::unique_ptr<LoadedPlan>> loaded = (*made)->load(plan, options);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return std::move(*loaded);
}

std::vector<std::string> allBackends() {
  std::vector<std::string> all = backendsUnderTest();
  if (std::find(all.begin(), all.end(), "reference") != all.end())
    all.push_back("null");
  return all;
}

std::vector<char> bytes(size_t count, int first) {
  std::vector<char> made(count);
  for (size_t i = 0; i < count; ++i)
    made[i] = char(first + int(i % 100));
  return made;
}

Values downloaded(LoadedPlan &p, uint32_t buffer, size_t count) {
  std::vector<uint64_t> host(count + 1);
  REQUIRE(p.download(buffer, host.data()).ok());
  return decode(p.dtype(buffer), host.data(), count);
}

void uploaded(LoadedPlan &p, uint32_t buffer, const Values &values) {
  std::vector<uint64_t> host(values.size() + 1);
  encode(p.dtype(buffer), values, host.data());
  REQUIRE(p.upload(buffer, host.data()).ok());
}

/// y = -x, and buffers of every kind that a program may hold.
struct Negation {
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {2, 3}), y = p.buffer(plan::F32, {2, 3});
  Negation() {
    p.kernel("neg", {x}, {y});
    bind(x, plan::INPUT);
    bind(y, plan::STATE);
  }
  void bind(uint32_t buffer, plan::Role role) {
    plan::Binding *binding = p.plan().add_bindings();
    binding->set_role(role);
    binding->set_buffer(buffer);
  }
};

} // namespace

TEST_CASE("uploaded tensors come back byte for byte, in every type and shape") {
  for (const std::string &backend : allBackends()) {
    PlanBuilder p;
    std::vector<uint32_t> buffers;
    for (plan::DType type : {plan::F32, plan::F64, plan::F16, plan::BF16, plan::I64, plan::I32, plan::I8, plan::U8})
      for (const Shape &shape : {Shape{}, Shape{1}, Shape{7}, Shape{2, 64, 3, 5}, Shape{32, 16, 1, 1}})
        buffers.push_back(p.buffer(type, shape));
    const uint32_t all = p.buffer(plan::F32, {4, 6}), view = p.alias(all, {24});
    std::unique_ptr<LoadedPlan> loaded = load(backend, p.plan());
    INFO(backend);
    CHECK(loaded->arenaBytes() >= p.plan().arena_bytes());
    std::vector<std::vector<char>> contents;
    for (uint32_t b : buffers) {
      CHECK(loaded->dtype(b) == p.plan().buffers(int(b)).dtype());
      CHECK(reinterpret_cast<uintptr_t>(loaded->address(b)) % 64 == 0);
      const size_t size = size_t(elementCount(p.shapeOf(b))) * bytesPerElement(loaded->dtype(b));
      contents.push_back(bytes(size, int(b)));
      REQUIRE(loaded->upload(b, contents.back().data()).ok());
    }
    for (uint32_t b : buffers) { // none has written over another
      std::vector<char> back(contents[b].size());
      REQUIRE(loaded->download(b, back.data()).ok());
      CHECK(back == contents[b]);
    }
    Values counted(24);
    for (size_t i = 0; i < 24; ++i)
      counted[i] = double(i);
    uploaded(*loaded, all, counted);
    CHECK(downloaded(*loaded, view, 24) == counted);
  }
}

TEST_CASE("constants are there from the start, in the type as held") {
  for (const std::string &backend : allBackends())
    for (bool widen : {false, true}) {
      PlanBuilder p;
      const uint32_t c = p.buffer(plan::F32, {2}), whole = p.buffer(plan::I64, {1});
      const float numbers[2] = {1.5f, -2.0f};
      const int64_t seven = 7;
      p.plan().mutable_buffers(0)->set_constant(std::string(reinterpret_cast<const char *>(numbers), 8));
      p.plan().mutable_buffers(1)->set_constant(std::string(reinterpret_cast<const char *>(&seven), 8));
      LoadOptions options;
      options.widen = widen;
      std::unique_ptr<LoadedPlan> loaded = load(backend, p.plan(), options);
      INFO(backend << (widen ? ", widened" : ""));
      CHECK(loaded->dtype(c) == (widen ? plan::F64 : plan::F32));
      CHECK(loaded->dtype(whole) == plan::I64);
      CHECK(loaded->arenaBytes() >= p.plan().arena_bytes() * (widen ? 2 : 1));
      CHECK(downloaded(*loaded, c, 2) == Values{1.5, -2});
      CHECK(downloaded(*loaded, whole, 1) == Values{7});
    }
}

TEST_CASE("steps run and are described, and a step that is not there is an error") {
  for (const std::string &backend : allBackends()) {
    Negation n;
    std::unique_ptr<LoadedPlan> loaded = load(backend, n.p.plan());
    INFO(backend);
    const Layout before = loaded->layout(n.x);
    const void *address = loaded->address(n.x);
    uploaded(*loaded, n.x, {1, 2, 3, 4, 5, 6});
    CHECK(loaded->launch(0, 0).ok());
    CHECK(loaded->synchronize().ok());
    CHECK(downloaded(*loaded, n.x, 6) == Values{1, 2, 3, 4, 5, 6});
    if (backend != "null")
      CHECK(downloaded(*loaded, n.y, 6) == Values{-1, -2, -3, -4, -5, -6});
    CHECK(loaded->layout(n.x) == before);
    CHECK(loaded->address(n.x) == address);
    CHECK(loaded->describe(0, 0).find(backend + ": neg ") == 0);
    float host[6];
    CHECK_THAT(loaded->launch(0, 1).message(), Contains("there is no step 1 of program 0"));
    CHECK_THAT(loaded->launch(1, 0).message(), Contains("there is no step 0 of program 1"));
    CHECK_THAT(loaded->upload(2, host).message(), Contains("there is no buffer 2"));
    CHECK_THAT(loaded->download(2, host).message(), Contains("there is no buffer 2"));
    CHECK(loaded->describe(0, 1) == "");
  }
}

TEST_CASE("a step sees the index of its call, step by step and in whole programs") {
  for (const std::string &backend : allBackends()) {
    INFO(backend);
    PlanBuilder p;
    const uint32_t x = p.buffer(plan::F32, {6, 2}), y = p.buffer(plan::F32, {2, 2}), sum = p.buffer(plan::F32, {2, 2});
    p.kernel("micro_rows", {x}, {y}, {{"parts", int64_t(3)}});
    p.kernel("add", {sum, y}, {sum});
    plan::Program &program = *p.plan().mutable_programs(0);
    program.add_section_ends(2);
    for (uint32_t index : {0u, 1u, 2u, 2u})
      program.add_calls()->set_index(index);
    p.plan().set_version(2);
    std::unique_ptr<LoadedPlan> loaded = load(backend, p.plan());
    uploaded(*loaded, x, {1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400});
    for (uint32_t index : {1u, 0u, 2u}) {
      REQUIRE(loaded->launch(0, 0, index).ok());
      REQUIRE(loaded->synchronize().ok());
      const double scale = index == 0 ? 1 : index == 1 ? 10 : 100;
      if (backend != "null")
        CHECK(downloaded(*loaded, y, 4) == Values{scale, 2 * scale, 3 * scale, 4 * scale});
    }
    if (ProgramRunner *programs = loaded->capabilities().programs)
      for (int run = 0; run < 3; ++run) { // the third is a recorded one, where programs are recorded
        uploaded(*loaded, sum, Values(4, 0));
        REQUIRE(programs->runProgram(0, {}).ok());
        REQUIRE(loaded->synchronize().ok());
        CHECK(downloaded(*loaded, sum, 4) == Values{211, 422, 633, 844});
      }
  }
}

TEST_CASE("a plan that cannot be loaded is refused in a sentence that names the step") {
  for (const std::string &backend : allBackends()) {
    INFO(backend);
    PlanBuilder unknown;
    unknown.kernel("frobnicate", {unknown.buffer(plan::F32, {2})}, {unknown.buffer(plan::F32, {2})});
    CHECK_THAT(unknown.refusal(backend), Contains("step 'frobnicate0'") && Contains("no kernel"));
    PlanBuilder shapes;
    shapes.kernel("add", {shapes.buffer(plan::F32, {2}), shapes.buffer(plan::F32, {3})},
                  {shapes.buffer(plan::F32, {3})});
    CHECK_THAT(shapes.refusal(backend), Contains("step 'add0'") && Contains("[2]") && Contains("[3]"));
    Negation huge;
    huge.p.plan().set_arena_bytes(uint64_t(1) << 60);
    CHECK_THAT(huge.p.refusal(backend), Contains("arena"));
  }
}

TEST_CASE("a capability gives the same results as the core without it") {
  for (const std::string &backend : allBackends()) {
    Negation n;
    std::unique_ptr<LoadedPlan> loaded = load(backend, n.p.plan());
    INFO(backend);
    const Capabilities can = loaded->capabilities(), again = loaded->capabilities();
    CHECK(can.onHost == again.onHost);
    CHECK(can.programs == again.programs);
    CHECK(can.sharedArena == nullptr); // nobody asked for it
    auto run = [&](bool whole) {
      if (whole)
        REQUIRE(can.programs->runProgram(0, {}).ok());
      else
        REQUIRE(loaded->launch(0, 0).ok());
      if (!whole && can.finite)
        REQUIRE(can.finite->endProgram(0).ok());
      REQUIRE(loaded->synchronize().ok());
    };
    const std::vector<bool> ways = can.programs ? std::vector<bool>{false, true, true, true} : std::vector<bool>{false};
    double next = 1;
    for (bool whole : ways) { // the third run is a recorded one, where programs are recorded
      uploaded(*loaded, n.x, Values(6, next));
      run(whole);
      if (backend != "null")
        CHECK(downloaded(*loaded, n.y, 6) == Values(6, -next));
      ++next;
    }
    if (can.onHost)
      CHECK(std::memcmp(loaded->address(n.x), std::vector<float>(6, float(next - 1)).data(), 24) == 0);
    if (can.programs)
      CHECK(can.programs->notice() == "");
    if (can.inputs) {
      Result<std::unique_ptr<InputPath>> path = can.inputs->inputPath({n.x});
      REQUIRE(path.ok());
      for (int set = 0; *path && set < 4; ++set) {
        Result<void *> host = (*path)->host(0, set % 2);
        REQUIRE(host.ok());
        encode(loaded->dtype(n.x), Values(6, 40 + set), *host);
        REQUIRE((*path)->send(set % 2).ok());
        REQUIRE((*path)->receive().ok());
        run(can.programs != nullptr);
        CHECK(downloaded(*loaded, n.y, 6) == Values(6, -40 - set));
      }
      CHECK_FALSE(can.inputs->inputPath({99}).ok());
    }
    if (can.snapshots)
      if (std::unique_ptr<Snapshot> kept = can.snapshots->snapshot({n.x, n.y})) {
        uploaded(*loaded, n.x, Values(6, 8));
        REQUIRE(kept->take().ok());
        uploaded(*loaded, n.x, Values(6, 9));
        REQUIRE(kept->putBack().ok());
        CHECK(downloaded(*loaded, n.x, 6) == Values(6, 8));
      }
    auto found = std::make_shared<std::atomic<bool>>(false);
    if (can.finite) {
      CHECK_FALSE(can.finite->watch(0, 99, found));
      CHECK_FALSE(can.finite->watch(9, n.y, found));
      if (can.finite->watch(0, n.y, found))
        for (bool whole : ways) {
          uploaded(*loaded, n.x, Values(6, 1));
          run(whole);
          CHECK_FALSE(found->load());
          uploaded(*loaded, n.x, {1, 2, 3, 4, INFINITY, 6});
          run(whole);
          CHECK(found->exchange(false));
        }
    }
    if (can.timers) {
      can.timers->measureWaits(0);
      for (int i = 0; i < 4; ++i)
        run(can.programs != nullptr);
      CHECK(can.timers->waited(0).ok());
    }
  }
}
