// Plans whose sections are called once per micro-batch, on emulated devices: whole programs with the collectives of the
// repeated section on the device or through the host, recorded or not, and step by step.
#include "runtime/backend/cuda/CudaBackend.h"
#include "runtime/comm/nccl/NcclWorld.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "test/unit/plan/LoopPlan.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;
namespace plan = tessera::plan;
using P = LoopPlan;

namespace {

constexpr uint32_t kRanks = 2;
constexpr int kParts = 3, kRuns = 4; // the third run replays what the second has recorded

enum class Way { HostCollectives, DeviceCollectives, NoGraphs, StepByStep };

/// out and m after every run, of all ranks.
std::vector<float> run(Way way, bool device, bool calls, std::string *notice = nullptr) {
  std::vector<float> results[kRanks];
  Status status = runRanks(int(kRanks), [&](World &world) -> Status {
    const auto rank = uint32_t(world.rank());
    const plan::Plan plan = P::make(rank, kRanks, kParts, calls);
    std::unique_ptr<Backend> backend;
    std::unique_ptr<World> devices;
    if (device) {
      Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
      if (!module)
        return module.status();
      Result<std::shared_ptr<Device>> opened = Device::open(*module, world.rank());
      if (!opened)
        return opened.status();
      backend = createCudaBackend(*opened);
      if (way != Way::HostCollectives)
        devices = createNcclWorld(world, *opened, 20);
    } else {
      backend = std::move(*createBackend("reference"));
    }
    LoadOptions options;
    options.device.graphs = way != Way::NoGraphs;
    Result<std::unique_ptr<Executor>> executor = Executor::create(plan, *backend, world, options, devices.get());
    if (!executor)
      return executor.status();
    TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(nullptr, false));
    if (way == Way::StepByStep)
      (*executor)->measure();
    (*executor)->measureWaits(0);
    for (int step = 0; step < kRuns; ++step) {
      std::vector<float> x(size_t(P::kRows * kParts * 2));
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = float((int(i) * 5 + int(rank) * 3 + step) % 7 - 3);
      TESSERA_RETURN_IF_ERROR((*executor)->feed(0, x.data()));
      TESSERA_RETURN_IF_ERROR((*executor)->run(0));
      for (int binding : {3, 2}) {
        std::vector<char> host;
        TESSERA_RETURN_IF_ERROR((*executor)->fetch(binding, host));
        const auto *values = reinterpret_cast<const float *>(host.data());
        results[rank].insert(results[rank].end(), values, values + 4);
      }
    }
    if (ProgramRunner *programs = (*executor)->capabilities().programs; programs && notice)
      *notice += programs->notice();
    return Status();
  });
  INFO(status.message());
  REQUIRE(status.ok());
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  return results[0];
}

} // namespace

TEST_CASE("a loop on devices equals the plan that is written out, on the host") {
  const std::vector<float> expected = run(Way::HostCollectives, false, false);
  for (Way way : {Way::HostCollectives, Way::DeviceCollectives, Way::NoGraphs, Way::StepByStep})
    for (bool calls : {false, true}) {
      INFO("way " << int(way) << (calls ? ", called" : ", written out"));
      std::string notice;
      CHECK(run(way, true, calls, &notice) == expected);
      CHECK(notice == "");
    }
}
