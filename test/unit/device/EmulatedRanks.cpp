// Ranks on emulated devices: NCCL's communicators over the launcher's, and what happens when a rank fails.
#include "runtime/comm/ThreadWorld.h"
#include "runtime/comm/nccl/NcclWorld.h"
#include "runtime/executor/Launcher.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace tessera::rt;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

Result<std::shared_ptr<Device>> deviceFor(const World &world) {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  if (!module)
    return module.status();
  return Device::open(*module, world.rank());
}

/// Device memory as floats: in the emulator the host may look.
struct Floats {
  Floats(const std::shared_ptr<Device> &device, size_t n)
      : memory(std::move(*DeviceMemory::allocate(device, n * 4))) {}
  float *data() { return reinterpret_cast<float *>(memory.data()); }
  DeviceMemory memory;
};

} // namespace

TEST_CASE("groups in every order of creation, and collectives in device memory") {
  // Rows and columns of a 2 x 2 mesh, everybody, and a group named twice.
  Status status = runRanks(4, [](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    const int me = world.rank(), row = me / 2, column = me % 2;
    std::vector<std::vector<int>> lists = {
        {2 * row, 2 * row + 1}, {column, column + 2}, {0, 1, 2, 3}, {2 * row, 2 * row + 1}, {me}};
    std::vector<std::unique_ptr<Communicator>> groups;
    for (const std::vector<int> &list : lists) {
      Result<std::unique_ptr<Communicator>> group = gpus->group(list);
      if (!group)
        return group.status();
      groups.push_back(std::move(*group));
    }
    auto expect = [](bool good, const std::string &what) {
      return good ? Status() : Status::error(what + " is wrong");
    };
    Floats x(*device, 12), y(*device, 48);
    auto reset = [&] {
      for (int i = 0; i < 12; ++i)
        x.data()[i] = static_cast<float>(100 * me + i);
      std::memset(y.data(), 0, 48 * 4);
    };
    for (size_t g = 0; g < groups.size(); ++g) {
      Communicator &group = *groups[g];
      const int n = group.size(), at = group.rank();
      const std::vector<int> &list = lists[g];
      reset();
      TESSERA_RETURN_IF_ERROR(group.allReduce(x.data(), y.data(), 12, plan::F32, plan::SUM));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      for (int i = 0; i < 12; ++i) {
        float sum = 0;
        for (int r : list)
          sum += static_cast<float>(100 * r + i);
        TESSERA_RETURN_IF_ERROR(expect(y.data()[i] == sum, "all-reduce"));
      }
      reset();
      // [3, 4] of every member side by side: [3, n, 4]
      TESSERA_RETURN_IF_ERROR(group.allGather(x.data(), y.data(), 3, 4, plan::F32));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      for (int o = 0; o < 3; ++o)
        for (int r = 0; r < n; ++r)
          for (int i = 0; i < 4; ++i)
            TESSERA_RETURN_IF_ERROR(
                expect(y.data()[(o * n + r) * 4 + i] ==
                           static_cast<float>(100 * list[static_cast<size_t>(r)] + o * 4 + i),
                       "all-gather"));
      reset();
      const int inner = 12 / (2 * n); // [2, n, inner]
      TESSERA_RETURN_IF_ERROR(group.reduceScatter(x.data(), y.data(), 2, static_cast<size_t>(inner),
                                                  plan::F32, plan::MAX));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      for (int o = 0; o < 2; ++o)
        for (int i = 0; i < inner; ++i)
          TESSERA_RETURN_IF_ERROR(
              expect(y.data()[o * inner + i] ==
                         static_cast<float>(100 * list.back() + (o * n + at) * inner + i),
                     "reduce-scatter"));
      reset();
      TESSERA_RETURN_IF_ERROR(group.broadcast(x.data(), y.data(), 12, plan::F32, n - 1));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      TESSERA_RETURN_IF_ERROR(
          expect(y.data()[5] == static_cast<float>(100 * list.back() + 5), "broadcast"));
      reset();
      // Column j of my [3, 4] goes to row j % n .. of the next member; strided on one side, packed on the other.
      const int next = (at + 1) % n, before = (at + n - 1) % n;
      TESSERA_RETURN_IF_ERROR(group.exchange(x.data(), {{next, {1, {3, 2}, {4, 1}}}}, y.data(),
                                             {{before, {2, {6}, {1}}}}, plan::F32));
      TESSERA_RETURN_IF_ERROR(group.fill(y.data(), {{20, {2, 1}, {5, 1}}}, plan::F32, -1.5));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      for (int i = 0; i < 6; ++i)
        TESSERA_RETURN_IF_ERROR(expect(
            y.data()[2 + i] ==
                static_cast<float>(100 * list[static_cast<size_t>(before)] + i / 2 * 4 + 1 + i % 2),
            "exchange"));
      TESSERA_RETURN_IF_ERROR(
          expect(y.data()[20] == -1.5f && y.data()[25] == -1.5f && y.data()[21] == 0, "fill"));
    }
    return Status();
  });
  INFO(status.message());
  CHECK(status.ok());
}

TEST_CASE("a rank that fails is named by those that wait for it") {
  Status others[3];
  Status first = runRanks(3, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1, 2});
    if (!group)
      return group.status();
    if (world.rank() == 1)
      return Status::error("disk full");
    Floats x(*device, 4);
    Status status = (*group)->allReduce(x.data(), x.data(), 4, plan::F32, plan::SUM);
    if (status)
      status = (*device)->finish(); // here it would wait forever
    others[world.rank()] = status;
    return status;
  });
  CHECK_THAT(first.message(), Contains("rank 1: disk full"));
  CHECK_THAT(others[0].message(), Contains("rank 1 aborted: disk full"));
  CHECK_THAT(others[2].message(), Contains("rank 1 aborted: disk full"));
}

TEST_CASE("a rank that never joins a group is given up on") {
  // Two worlds of their own, so that the launcher's group forms but only one member creates a communicator.
  Status status = runRanks(2, [](World &world) -> Status {
    if (world.rank() == 1) {
      Result<std::unique_ptr<Communicator>> channel = world.group({0, 1});
      if (!channel)
        return channel.status();
      char letter[512];
      // Takes part in the letter with the id, and then stays away.
      TESSERA_RETURN_IF_ERROR((*channel)->broadcast(letter, letter, 384, plan::U8, 0));
      return (*channel)->barrier();
    }
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    return createNcclWorld(world, *device, 0.2)->group({0, 1}).status();
  });
  CHECK_THAT(status.message(), Contains("connecting 2 ranks took longer than"));
}
