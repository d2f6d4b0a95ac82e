// Input is sent while programs run. A program sees the batch that was received last, in whatever order the
// streams get on.
#include "runtime/backend/cuda/CudaBackend.h"
#include "runtime/executor/Executor.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

using namespace tessera::rt;
using test::PlanBuilder;
namespace plan = tessera::plan;

namespace {

constexpr int kElements = 700;

/// sum = 2 sum + x on a device, over batches 1, 2, 3, ...; 2 sum + x tells in which order x came.
std::vector<float> sums(int batches, bool wait, bool graphs, std::vector<std::string> *trouble) {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {kElements}), sum = p.buffer(plan::F32, {kElements}),
                 twice = p.buffer(plan::F32, {kElements});
  p.kernel("add", {sum, sum}, {twice});
  p.kernel("add", {twice, x}, {sum});
  auto need = [&](const Status &status) {
    if (!status)
      trouble->push_back(status.message());
    return status.ok();
  };
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  REQUIRE(module.ok());
  Result<std::shared_ptr<Device>> device = Device::open(*module, 0);
  REQUIRE(device.ok());
  LoadOptions options;
  options.device.graphs = graphs;
  Result<std::unique_ptr<LoadedPlan>> loaded = createCudaBackend(*device)->load(p.plan(), options);
  REQUIRE(loaded.ok());
  Result<std::unique_ptr<InputPath>> path = (*loaded)->capabilities().inputs->inputPath({x});
  REQUIRE(path.ok());
  REQUIRE(*path);
  std::vector<float> host(kElements, 0);
  need((*loaded)->upload(sum, host.data()));
  for (int b = 1; b <= batches; ++b) {
    // As Feed does it, the next batch is written and sent while the program of this one runs.
    Result<void *> place = (*path)->host(0, b % 2);
    if (!need(place.status()))
      break;
    for (int i = 0; i < kElements; ++i)
      static_cast<float *>(*place)[i] = float(b + i);
    need((*path)->send(b % 2));
    need((*path)->receive());
    need((*loaded)->capabilities().programs->runProgram(0, {}));
    if (wait)
      need((*loaded)->synchronize());
  }
  need((*loaded)->download(sum, host.data()));
  return host;
}

} // namespace

TEST_CASE("a batch that is sent early reaches the program that it is for") {
  for (const char *order : {"compute", "comm", "copy"})
    for (bool wait : {false, true})
      for (bool graphs : {false, true}) {
        setenv("TESSERA_EMULATOR_ORDER", order, 1);
        std::vector<std::string> trouble;
        const std::vector<float> found = sums(9, wait, graphs, &trouble);
        unsetenv("TESSERA_EMULATOR_ORDER");
        INFO(order << (wait ? ", waiting" : "") << (graphs ? ", graphs" : ""));
        CHECK(trouble == std::vector<std::string>());
        int wrong = 0;
        for (int i = 0; i < kElements; ++i) {
          float expected = 0;
          for (int b = 1; b <= 9; ++b)
            expected = 2 * expected + float(b + i);
          wrong += found[size_t(i)] != expected;
        }
        CHECK(wrong == 0);
      }
}
