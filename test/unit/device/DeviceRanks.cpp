// Ranks on devices of their own, as many as there are, four at most: every collective of groups that are made in one
// common order, in registered memory, and recorded in a graph. One rank is enough: NCCL with a world of one.
#include "runtime/comm/nccl/NcclWorld.h"
#include "runtime/launch/Launcher.h"
#include "runtime/tensor/ConvertElements.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

constexpr int kIn = 12, kOut = 48; // floats of x and y

Status expect(bool good, const std::string &what) { return good ? Status() : Status::error(what + " is wrong"); }

/// x and y of one rank: on the device, and as the host sees them.
struct Rank {
  std::shared_ptr<Device> device;
  DeviceMemory memory;
  std::vector<float> host = std::vector<float>(kIn + kOut);

  float *x() { return reinterpret_cast<float *>(memory.data()); }
  float *y() { return x() + kIn; }
  float found(int i) const { return host[size_t(kIn + i)]; }

  /// x[i] = 100 rank + i, y = 0.
  Status reset(int me) {
    std::fill(host.begin(), host.end(), 0.0f);
    for (int i = 0; i < kIn; ++i)
      host[size_t(i)] = float(100 * me + i);
    TESSERA_RETURN_IF_ERROR(device->copy(TESSERA_COMM_STREAM, x(), host.data(), host.size() * 4));
    return device->finish();
  }
  Status look() {
    TESSERA_RETURN_IF_ERROR(device->finish());
    TESSERA_RETURN_IF_ERROR(device->copy(TESSERA_COMM_STREAM, host.data(), x(), host.size() * 4));
    return device->finish();
  }
};

/// Reductions of numbers that every type holds, as its sums do.
Status reductions(Rank &r, Communicator &group) {
  const int n = group.size(), at = group.rank();
  for (plan::DType type :
       {plan::F32, plan::F64, plan::F16, plan::BF16, plan::I64, plan::I32, plan::I8, plan::U8, plan::BOOL})
    for (plan::Reduction reduction : {plan::SUM, plan::MAX, plan::MIN}) {
      constexpr size_t count = 6;
      auto number = [&](int member, size_t i) {
        return type == plan::BOOL ? double((size_t(member) + i) % 2) : double(member + 1) * double(i + 1);
      };
      double mine[count], found[count];
      for (size_t i = 0; i < count; ++i)
        mine[i] = number(at, i);
      std::fill(r.host.begin(), r.host.end(), 0.0f);
      convertElements(mine, plan::F64, r.host.data(), type, count);
      TESSERA_RETURN_IF_ERROR(r.device->copy(TESSERA_COMM_STREAM, r.x(), r.host.data(), 4 * kIn));
      TESSERA_RETURN_IF_ERROR(r.device->finish());
      TESSERA_RETURN_IF_ERROR(group.allReduce(r.x(), r.y(), count, type, reduction));
      TESSERA_RETURN_IF_ERROR(r.look());
      convertElements(r.host.data() + kIn, type, found, plan::F64, count);
      for (size_t i = 0; i < count; ++i) {
        double expected = number(0, i);
        for (int m = 1; m < n; ++m)
          expected = reduction == plan::MIN ? std::min(expected, number(m, i))
                     : reduction == plan::MAX || type == plan::BOOL
                         ? std::max(expected, number(m, i)) // of truths, a sum is "or"
                         : expected + number(m, i);
        TESSERA_RETURN_IF_ERROR(expect(found[i] == expected, "all-reduce of type " + std::to_string(type) + " by " +
                                                                 std::to_string(reduction)));
      }
    }
  return Status();
}

/// All operations of one group; `list` are its ranks in the world.
Status operations(Rank &r, Communicator &group, const std::vector<int> &list, int me) {
  TESSERA_RETURN_IF_ERROR(reductions(r, group));
  const int n = group.size(), at = group.rank();
  auto value = [&](int member, int i) { return float(100 * list[size_t(member)] + i); };
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  TESSERA_RETURN_IF_ERROR(group.allReduce(r.x(), r.y(), kIn, plan::F32, plan::SUM));
  TESSERA_RETURN_IF_ERROR(r.look());
  for (int i = 0; i < kIn; ++i) {
    float sum = 0;
    for (int m = 0; m < n; ++m)
      sum += value(m, i);
    TESSERA_RETURN_IF_ERROR(expect(r.found(i) == sum, "all-reduce"));
  }
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  // [3, 4] of every member side by side: [3, n, 4]
  TESSERA_RETURN_IF_ERROR(group.allGather(r.x(), r.y(), 3, 4, plan::F32));
  TESSERA_RETURN_IF_ERROR(r.look());
  for (int o = 0; o < 3; ++o)
    for (int m = 0; m < n; ++m)
      for (int i = 0; i < 4; ++i)
        TESSERA_RETURN_IF_ERROR(expect(r.found((o * n + m) * 4 + i) == value(m, o * 4 + i), "all-gather"));
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  const int inner = kIn / (2 * n); // [2, n, inner]
  TESSERA_RETURN_IF_ERROR(group.reduceScatter(r.x(), r.y(), 2, size_t(inner), plan::F32, plan::MAX));
  TESSERA_RETURN_IF_ERROR(r.look());
  for (int o = 0; o < 2; ++o)
    for (int i = 0; i < inner; ++i)
      TESSERA_RETURN_IF_ERROR(
          expect(r.found(o * inner + i) == value(n - 1, (o * n + at) * inner + i), "reduce-scatter"));
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  // The same in a list with another tensor, which has one row.
  TESSERA_RETURN_IF_ERROR(group.reduceScatter(
      std::vector<Rows>{{r.x(), r.y(), 2, size_t(inner)}, {r.x(), r.y() + 2 * inner, 1, size_t(inner)}}, plan::F32,
      plan::MAX));
  TESSERA_RETURN_IF_ERROR(r.look());
  for (int o = 0; o < 3; ++o)
    for (int i = 0; i < inner; ++i)
      TESSERA_RETURN_IF_ERROR(
          expect(r.found(o * inner + i) == value(n - 1, ((o % 2) * n + at) * inner + i), "reduce-scatter of a list"));
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  TESSERA_RETURN_IF_ERROR(group.broadcast(r.x(), r.y(), kIn, plan::F32, n - 1));
  TESSERA_RETURN_IF_ERROR(r.look());
  TESSERA_RETURN_IF_ERROR(expect(r.found(5) == value(n - 1, 5), "broadcast"));
  TESSERA_RETURN_IF_ERROR(r.reset(me));
  // Columns 1 and 2 of my [3, 4] go to the next member; strided on one side, packed on the other.
  const int next = (at + 1) % n, before = (at + n - 1) % n;
  TESSERA_RETURN_IF_ERROR(
      group.exchange(r.x(), {{next, {1, {3, 2}, {4, 1}}}}, r.y(), {{before, {2, {6}, {1}}}}, plan::F32));
  TESSERA_RETURN_IF_ERROR(group.fill(r.y(), {{20, {2, 1}, {5, 1}}}, plan::F32, -1.5));
  TESSERA_RETURN_IF_ERROR(r.look());
  for (int i = 0; i < 6; ++i)
    TESSERA_RETURN_IF_ERROR(expect(r.found(2 + i) == value(before, i / 2 * 4 + 1 + i % 2), "exchange"));
  return expect(r.found(20) == -1.5f && r.found(25) == -1.5f && r.found(21) == 0, "fill");
}

/// y = the sum of x, recorded once and run twice, on other numbers.
Status recorded(Rank &r, Communicator &group, const std::vector<int> &list, int me) {
  const TesseraDeviceApi &api = r.device->api();
  TesseraDevice *d = r.device->handle();
  TesseraEvent *fork = nullptr, *join = nullptr;
  TesseraGraph *graph = nullptr;
  auto call = [](auto &&f) { return Device::check(f); };
  for (TesseraEvent **event : {&fork, &join})
    TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.createEvent(d, event, m); }));
  TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.captureBegin(d, m); }));
  Status status = call([&](TesseraMessage *m) {
    const int32_t code = api.record(d, TESSERA_COMPUTE_STREAM, fork, m);
    return code == TESSERA_OK ? api.wait(d, TESSERA_COMM_STREAM, fork, m) : code;
  });
  if (status)
    status = group.allReduce(r.x(), r.y(), kIn, plan::F32, plan::SUM);
  if (status)
    status = call([&](TesseraMessage *m) {
      const int32_t code = api.record(d, TESSERA_COMM_STREAM, join, m);
      return code == TESSERA_OK ? api.wait(d, TESSERA_COMPUTE_STREAM, join, m) : code;
    });
  const Status ended = call([&](TesseraMessage *m) { return api.captureEnd(d, status ? &graph : nullptr, m); });
  TESSERA_RETURN_IF_ERROR(status);
  TESSERA_RETURN_IF_ERROR(ended);
  for (int round : {1, 2}) {
    TESSERA_RETURN_IF_ERROR(r.reset(round * me));
    TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.launchGraph(d, graph, m); }));
    TESSERA_RETURN_IF_ERROR(r.look());
    float sum = 0;
    for (int rank : list)
      sum += float(100 * round * rank + 7);
    TESSERA_RETURN_IF_ERROR(expect(r.found(7) == sum, "a recorded all-reduce"));
  }
  api.destroyGraph(d, graph);
  for (TesseraEvent *event : {fork, join})
    api.destroyEvent(d, event);
  return Status();
}

/// With `registered` they use memory that the communicators know.
Status everything(bool registered) {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  if (!module)
    return module.status();
  Result<int> devices = (*module)->count();
  if (!devices)
    return devices.status();
  const int ranks = *devices >= 4 ? 4 : *devices >= 2 ? 2 : 1;
  return runRanks(ranks, [&](World &world) -> Status {
    const int me = world.rank();
    Result<std::shared_ptr<Device>> device = Device::open(*module, me);
    if (!device)
      return device.status();
    std::unique_ptr<World> gpus = createNcclWorld(world, *device, 60);
    Rank r{*device, {}};
    Result<DeviceMemory> memory =
        DeviceMemory::allocate(*device, r.host.size() * 4, registered ? MemoryKind::Shared : MemoryKind::Device);
    if (!memory)
      return memory.status();
    r.memory = std::move(*memory);
    // Rows and columns of a 2 x 2 mesh, everybody, and a group named twice.
    std::vector<std::vector<int>> lists;
    std::vector<int> all;
    for (int i = 0; i < ranks; ++i)
      all.push_back(i);
    if (ranks == 4)
      lists = {{me / 2 * 2, me / 2 * 2 + 1}, {me % 2, me % 2 + 2}};
    lists.insert(lists.end(), {all, lists.empty() ? all : lists[0], {me}});
    std::vector<std::unique_ptr<Communicator>> groups;
    for (const std::vector<int> &list : lists) {
      Result<std::unique_ptr<Communicator>> group = gpus->group(list);
      if (!group)
        return group.status();
      if (registered)
        TESSERA_RETURN_IF_ERROR((*group)->prepare(r.memory.data(), r.memory.size(), 4096));
      groups.push_back(std::move(*group));
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      TESSERA_RETURN_IF_ERROR(operations(r, *groups[g], lists[g], me));
      TESSERA_RETURN_IF_ERROR(recorded(r, *groups[g], lists[g], me));
    }
    return Status();
  });
}

} // namespace

TEST_CASE("collectives in device memory, of groups in every order of creation") {
  CHECK(everything(false).message() == "");
}

TEST_CASE("collectives in registered memory") { CHECK(everything(true).message() == ""); }
