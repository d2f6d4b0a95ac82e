// Ranks on emulated devices: what happens when a rank, a communicator or a registration fails.
#include "runtime/comm/nccl/NcclWorld.h"
#include "runtime/comm/threads/ThreadWorld.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

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
  Floats(const std::shared_ptr<Device> &device, size_t n) : memory(std::move(*DeviceMemory::allocate(device, n * 4))) {}
  float *data() { return reinterpret_cast<float *>(memory.data()); }
  DeviceMemory memory;
};

} // namespace

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

namespace {

/// Four ranks that sum in the groups of the rows and columns of a square, and in those of some alone. How many
/// communicators met by an id of their own.
Result<int64_t> communicatorsOfTheirOwn() {
  auto ids = [](const TesseraDeviceApi &api) { // how many have been made; this one, too
    TesseraCommId id;
    TesseraMessage m;
    api.uniqueId(&id, &m);
    int64_t number = 0;
    std::memcpy(&number, id.bytes, sizeof number);
    return number;
  };
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  const int64_t before = ids((*module)->api());
  Status status = runRanks(4, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    const int me = world.rank();
    std::vector<std::unique_ptr<Communicator>> groups;
    std::vector<std::vector<int>> lists = {
        {me / 2 * 2, me / 2 * 2 + 1}, {me % 2, me % 2 + 2}, {me / 2 * 2, me / 2 * 2 + 1}, {0, 1, 2, 3}};
    // Ranks 0 and 1 have a group like this one, the others have none.
    lists.push_back(me < 2 ? std::vector<int>{0, 1} : std::vector<int>{me});
    for (const std::vector<int> &list : lists) {
      Result<std::unique_ptr<Communicator>> group = gpus->group(list);
      if (!group)
        return group.status();
      Floats x(*device, 1);
      x.data()[0] = float(1 << me);
      TESSERA_RETURN_IF_ERROR((*group)->allReduce(x.data(), x.data(), 1, plan::F32, plan::SUM));
      TESSERA_RETURN_IF_ERROR((*device)->finish());
      float expected = 0;
      for (int rank : list)
        expected += float(1 << rank);
      if (x.data()[0] != expected)
        return Status::error("a wrong sum");
      groups.push_back(std::move(*group));
    }
    return Status();
  });
  if (!status)
    return status;
  return ids((*module)->api()) - before - 1;
}

} // namespace

TEST_CASE("groups are split from one communicator, or each made by itself") {
  Result<int64_t> split = communicatorsOfTheirOwn();
  INFO(split.status().message());
  REQUIRE(split.ok());
  CHECK(*split == 1);
  setenv("TESSERA_NCCL_SPLIT", "0", 1);
  Result<int64_t> apart = communicatorsOfTheirOwn();
  unsetenv("TESSERA_NCCL_SPLIT");
  INFO(apart.status().message());
  REQUIRE(apart.ok());
  CHECK(*apart == 7);
}

TEST_CASE("a rank that never joins a group is given up on") {
  // Two worlds of their own, so that the launcher's group forms but only one member creates a communicator.
  Status status = runRanks(2, [](World &world) -> Status {
    if (world.rank() == 1) {
      Result<std::unique_ptr<Communicator>> channel = world.group({0, 1});
      if (!channel)
        return channel.status();
      Result<std::unique_ptr<Communicator>> everyone = world.group({0, 1});
      if (!everyone)
        return everyone.status();
      char letter[512];
      int64_t agreed[2] = {0, 1};
      TESSERA_RETURN_IF_ERROR((*everyone)->allReduce(agreed, agreed, 2, plan::I64, plan::MIN));
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

namespace {

/// Two ranks that sum, gather and exchange in prepared memory; `fail` is what the emulator is told.
Status prepared(const char *fail, bool agree = true) {
  if (fail)
    setenv("TESSERA_EMULATOR_FAIL", fail, 1);
  Status status = runRanks(2, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Floats arena(*device, 64);
    // The same group twice shares one group of NCCL.
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1}), twin = gpus->group({0, 1});
    if (!group || !twin)
      return Status::error(group.status().message() + twin.status().message());
    for (auto &g : {&group, &twin})
      TESSERA_RETURN_IF_ERROR((**g)->prepare(arena.data(), 64 * 4, 1024));
    const int me = world.rank();
    float *x = arena.data() + (agree ? 0 : 4 * me), *y = arena.data() + 16;
    for (int i = 0; i < 8; ++i)
      x[i] = float(me + i);
    TESSERA_RETURN_IF_ERROR((*group)->allReduce(x, y, 8, plan::F32, plan::SUM));
    // One exchange passes through scratch memory on both sides, and one goes straight into the arena.
    TESSERA_RETURN_IF_ERROR((*twin)->allGather(x, arena.data() + 32, 2, 4, plan::F32));
    TESSERA_RETURN_IF_ERROR((*group)->exchange(x, {{1 - me, {0, {2, 2}, {4, 1}}}}, arena.data() + 48,
                                               {{1 - me, {0, {4}, {1}}}}, plan::F32));
    TESSERA_RETURN_IF_ERROR((*group)->barrier());
    for (int i = 0; i < 8; ++i)
      if (y[i] != float(1 + 2 * i) || arena.data()[32 + i] != float(i / 4 ? 1 + i % 4 : i % 4))
        return Status::error("a wrong result");
    if (arena.data()[50] != float(1 - me + 4))
      return Status::error("a wrong message");
    // Lists: rows of one tensor pass through scratch memory, and the other one is taken from its place.
    TESSERA_RETURN_IF_ERROR((*group)->allGather(
        std::vector<Rows>{{x, arena.data() + 16, 2, 2}, {x + 4, arena.data() + 24, 1, 4}}, plan::F32));
    TESSERA_RETURN_IF_ERROR((*group)->reduceScatter(
        std::vector<Rows>{{x, arena.data() + 40, 2, 1}, {x + 4, arena.data() + 44, 1, 2}}, plan::F32, plan::SUM));
    TESSERA_RETURN_IF_ERROR((*group)->barrier());
    const float gathered[16] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 5, 6, 7, 8};
    for (int i = 0; i < 16; ++i)
      if (arena.data()[16 + i] != gathered[i])
        return Status::error("a wrong gather in a list");
    for (int i = 0; i < 2; ++i) // x[i] of member 1 is one more
      if (arena.data()[40 + i] != float(2 * (2 * i + me) + 1) ||
          arena.data()[44 + i] != float(2 * (4 + 2 * me + i) + 1))
        return Status::error("a wrong scatter in a list");
    return Status();
  });
  unsetenv("TESSERA_EMULATOR_FAIL");
  return status;
}

} // namespace

TEST_CASE("memory is registered by all members or by none, and given back") {
  // The emulator refuses mixtures, and ends the process over what is left registered.
  CHECK(prepared(nullptr).message() == "");
  CHECK(prepared("register:1").message() == "");
  CHECK(prepared("register:0").message() == "");
  // The executor makes sure that offsets are equal.
  CHECK_THAT(prepared(nullptr, false).message(), Contains("do not use registered memory alike"));
}

TEST_CASE("sums as trees are those of the other transports") {
  // Parts that are empty, uneven and even; one tensor and several, whose rows lie together or apart.
  constexpr size_t kMost = 24;
  for (int ranks : {2, 3, 4}) {
    const Status status = runRanks(ranks, [&](World &world) -> Status {
      Result<std::shared_ptr<Device>> device = deviceFor(world);
      if (!device)
        return device.status();
      const size_t n = size_t(ranks), me = size_t(world.rank());
      Floats x(*device, 2 * kMost * n), y(*device, 4 * kMost * n); // of any type; they outlive the group
      std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
      std::vector<int> all(n);
      std::iota(all.begin(), all.end(), 0);
      Result<std::unique_ptr<Communicator>> group = gpus->group(all);
      if (!group)
        return group.status();
      for (plan::DType type : {plan::F32, plan::F64, plan::BF16, plan::F16}) {
        const size_t size = bytesPerElement(type);
        std::vector<std::vector<char>> given(n, std::vector<char>(kMost * n * size));
        std::vector<const void *> from;
        for (size_t member = 0; member < n; ++member) {
          std::vector<double> values;
          for (size_t i = 0; i < kMost * n; ++i)
            values.push_back(1.0 / double(3 + 7 * i + 11 * member) * (i % 3 ? 1 : -900));
          convertElements(values.data(), plan::F64, given[member].data(), type, values.size());
          from.push_back(given[member].data());
        }
        std::vector<char> sums(kMost * n * size);
        void *to = sums.data();
        reduceTo(from.data(), ranks, &to, 1, kMost * n, type, {plan::SUM, true});
        auto *in = reinterpret_cast<char *>(x.data()), *out = reinterpret_cast<char *>(y.data());
        for (size_t count : {size_t(0), size_t(1), n, n + 2, kMost * n})
          for (bool inPlace : {false, true}) {
            std::memcpy(in, given[me].data(), given[me].size());
            TESSERA_RETURN_IF_ERROR((*group)->allReduce(in, inPlace ? in : out, count, type, {plan::SUM, true}));
            TESSERA_RETURN_IF_ERROR((*device)->finish());
            if (std::memcmp(inPlace ? in : out, sums.data(), count * size) != 0)
              return Status::error("an all-reduce of " + std::to_string(count) + " of type " + std::to_string(type));
          }
        const size_t inner = 5; // rows of [2, n, 5] and of [n, 5] behind it
        std::memcpy(in, given[me].data(), given[me].size());
        const Rows list[] = {{in, out, 2, inner}, {in + 2 * n * inner * size, out + 2 * inner * size, 1, inner}};
        TESSERA_RETURN_IF_ERROR((*group)->reduceScatter(list, type, {plan::SUM, true}));
        TESSERA_RETURN_IF_ERROR((*device)->finish());
        for (size_t row = 0; row < 3; ++row)
          if (std::memcmp(out + row * inner * size, sums.data() + (row * n + me) * inner * size, inner * size) != 0)
            return Status::error("a reduce-scatter of type " + std::to_string(type));
      }
      TESSERA_RETURN_IF_ERROR((*group)->allReduce(x.data(), y.data(), 6, plan::I32, {plan::SUM, true}));
      return (*group)->barrier();
    });
    CHECK(status.message() == "");
  }
}

TEST_CASE("an exchange concerns only those who send or receive") {
  Status status = runRanks(3, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    Floats x(*device, 8), y(*device, 8); // outlive the group
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1, 2});
    if (!group)
      return group.status();
    const int me = world.rank();
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 8; ++i) {
        x.data()[i] = float(10 * me + i + round);
        y.data()[i] = 0;
      }
      // The first rank sends two messages to the last one. The rank between them has none.
      std::vector<Transfer> sends, receives;
      if (me == 0)
        sends = {{2, {0, {3}, {1}}}, {2, {4, {2}, {1}}}};
      if (me == 2)
        receives = {{0, {1, {3}, {1}}}, {0, {6, {2}, {1}}}};
      TESSERA_RETURN_IF_ERROR((*group)->exchange(x.data(), sends, y.data(), receives, plan::F32));
      TESSERA_RETURN_IF_ERROR((*group)->barrier());
      if (me == 2 && (y.data()[1] != float(round) || y.data()[7] != float(5 + round)))
        return Status::error("a wrong message");
    }
    return Status();
  });
  CHECK(status.message() == "");
}

TEST_CASE("a message that cannot be sent ends the exchange") {
  setenv("TESSERA_EMULATOR_FAIL", "send:0", 1);
  // The emulator ends the process if the thread leaves its group open.
  const Status status = runRanks(2, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    Floats x(*device, 8), y(*device, 8); // outlive the group
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1});
    if (!group)
      return group.status();
    const int peer = 1 - world.rank();
    TESSERA_RETURN_IF_ERROR(
        (*group)->exchange(x.data(), {{peer, {0, {4}, {1}}}}, y.data(), {{peer, {0, {4}, {1}}}}, plan::F32));
    return (*device)->finish();
  });
  unsetenv("TESSERA_EMULATOR_FAIL");
  CHECK_THAT(status.message(), Contains("rank 0: NCCL: send failed"));
}

TEST_CASE("a rank that loads longer than the others' time limit is waited for") {
  const Status status = runRanks(2, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    if (!device)
      return device.status();
    Floats x(*device, 4);
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 0.2);
    if (world.rank() == 1)
      std::this_thread::sleep_for(std::chrono::seconds(1));
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1});
    if (!group)
      return group.status();
    TESSERA_RETURN_IF_ERROR((*group)->allReduce(x.data(), x.data(), 4, plan::F32, plan::SUM));
    return (*device)->finish();
  });
  CHECK(status.message() == "");
}

TEST_CASE("prepared memory does not grow, and is missed before the first operation") {
  Status grown, missing;
  Status status = runRanks(1, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    Floats x(*device, 1024), y(*device, 1024); // outlive the group
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Result<std::unique_ptr<Communicator>> group = gpus->group({0});
    if (!group)
      return group.status();
    missing = (*group)->prepare(nullptr, 0, size_t(1) << 45);
    TESSERA_RETURN_IF_ERROR((*group)->prepare(x.data(), 4096, 1024));
    grown = (*group)->allGather(x.data(), y.data(), 32, 32, plan::F32);
    return Status();
  });
  CHECK(status.message() == "");
  CHECK_THAT(missing.message(), Contains("a collective's buffer") && Contains("out of memory"));
  CHECK_THAT(grown.message(), Contains("more than was prepared"));
}

TEST_CASE("an error that only the communicator knows ends the wait") {
  setenv("TESSERA_EMULATOR_FAIL", "comm:1", 1);
  Status others[2];
  Status first = runRanks(2, [&](World &world) -> Status {
    Result<std::shared_ptr<Device>> device = deviceFor(world);
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 20);
    Result<std::unique_ptr<Communicator>> group = gpus->group({0, 1});
    if (!group)
      return group.status();
    Floats x(*device, 4);
    Status status = (*group)->allReduce(x.data(), x.data(), 4, plan::F32, plan::SUM);
    if (status)
      status = (*device)->finish();
    return others[world.rank()] = status;
  });
  unsetenv("TESSERA_EMULATOR_FAIL");
  CHECK_THAT(others[1].message(), Contains("network error"));
  // The other hears from NCCL that somebody left, and from the launcher who.
  CHECK_THAT(others[0].message(), Contains("rank 1 aborted") && Contains("network error"));
}
