#include "tools/profile/Measure.h"

#include "runtime/launch/Launcher.h"
#include "runtime/session/Platform.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// Runs one call. The larger of its two buffers has so many float32 elements.
using Call = std::function<rt::Status(rt::Communicator &, size_t)>;

/// Where a rank's collectives run: between threads in host memory, or between devices.
struct Place {
  rt::Platform platform;
  rt::World *world = nullptr;
  std::vector<float> host[2];
  rt::DeviceMemory device[2];
  float *in = nullptr, *out = nullptr;

  rt::Status open(const std::string &backend, rt::World &threads, size_t elements) {
    world = &threads;
    if (rt::runsOnDevice(backend)) {
      auto opened = rt::Platform::open({backend, threads.rank(), threads.size(), /*shareDevices=*/false}, threads);
      if (!opened)
        return opened.status();
      platform = std::move(*opened);
      if (platform.deviceWorld)
        world = platform.deviceWorld.get();
    }
    float **ends[2] = {&in, &out};
    for (int i = 0; i < 2; ++i) {
      host[i].assign(elements, 1.0f);
      *ends[i] = host[i].data();
      if (!platform.device)
        continue;
      auto memory = rt::DeviceMemory::allocate(platform.device, elements * 4);
      if (!memory)
        return memory.status();
      device[i] = std::move(*memory);
      *ends[i] = reinterpret_cast<float *>(device[i].data());
      TESSERA_RETURN_IF_ERROR(platform.device->copy(TESSERA_COMM_STREAM, *ends[i], host[i].data(), elements * 4));
    }
    return finish();
  }
  /// On the host the rank writes what it sends, as a kernel before the collective does. Otherwise the others find it
  /// where they last left it, in caches of their own.
  void write(size_t elements) {
    if (!platform.device)
      std::fill_n(in, std::min(elements, host[0].size()), 1.0f);
  }
  rt::Status finish() { return platform.device ? platform.device->finish() : rt::Status(); }
  /// The number of calls that are enqueued before they are waited for. A device needs several to be
  /// busy.
  int row() const { return platform.device ? 8 : 1; }
};

/// Measures all groups at once. The result is the median over rounds of the slowest rank's time.
/// Valid on rank 0.
rt::Status measureOne(Place &place, rt::Communicator &everyone, rt::Communicator &group, size_t count, double seconds,
                      const Call &call, double &result) {
  std::vector<double> times;
  for (double spent = 0; spent < seconds || times.size() < 3;) {
    place.write(count);
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    Clock::time_point start = Clock::now();
    for (int i = 0; i < place.row(); ++i)
      TESSERA_RETURN_IF_ERROR(call(group, count));
    TESSERA_RETURN_IF_ERROR(place.finish());
    double mine = std::chrono::duration<double>(Clock::now() - start).count(), slowest = 0;
    // This reduction also makes all ranks agree on the number of rounds.
    TESSERA_RETURN_IF_ERROR(everyone.allReduce(&mine, &slowest, 1, plan::F64, plan::MAX));
    times.push_back(slowest / place.row());
    spent += slowest;
  }
  std::sort(times.begin(), times.end());
  result = times[times.size() / 2];
  return rt::Status();
}

} // namespace

rt::Status MeasureOptions::onRanks(const std::function<rt::Status(rt::World &)> &body) const {
  return world ? body(*world) : rt::runRanks(int(mesh.numRanks()), body);
}

llvm::Error measureCollectives(const MeasureOptions &options, strategies::ProfileTable &table,
                               const Progress &progress) {
  int ranks = int(options.mesh.numRanks());
  std::set<int> sizes;
  for (unsigned set = 1; set < 1u << options.mesh.numAxes(); ++set) {
    llvm::SmallVector<int> axes;
    for (int axis = 0; axis < options.mesh.numAxes(); ++axis)
      if (set >> axis & 1)
        axes.push_back(axis);
    if (int size = int(options.mesh.size(axes)); size > 1)
      sizes.insert(size);
  }
  rt::Status status = options.onRanks([&](rt::World &world) -> rt::Status {
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    auto everyone = world.group(all);
    if (!everyone)
      return everyone.status();
    size_t most = size_t(std::max<int64_t>(options.maxBytes, 4096)) / 4;
    Place place;
    TESSERA_RETURN_IF_ERROR(place.open(options.backend, world, most));
    float *in = place.in, *out = place.out;
    for (int size : sizes) {
      std::vector<int> members(static_cast<size_t>(size));
      std::iota(members.begin(), members.end(), world.rank() / size * size);
      auto group = place.world->group(members);
      if (!group)
        return group.status();
      const size_t n = size_t(size);
      const std::pair<const char *, Call> calls[] = {
          {"all-reduce",
           [&](rt::Communicator &g, size_t count) { return g.allReduce(in, out, count, plan::F32, plan::SUM); }},
          {"all-gather",
           [&](rt::Communicator &g, size_t count) { return g.allGather(in, out, 1, count / n, plan::F32); }},
          {"reduce-scatter",
           [&](rt::Communicator &g, size_t count) {
             return g.reduceScatter(in, out, 1, count / n, plan::F32, plan::SUM);
           }},
          {"all-to-all", [&](rt::Communicator &g, size_t count) {
             std::vector<rt::Transfer> parts;
             for (size_t peer = 0; peer < n; ++peer)
               parts.push_back({int(peer), {int64_t(peer * (count / n)), {int64_t(count / n)}, {1}}});
             return g.exchange(in, parts, out, parts, plan::F32);
           }}};
      for (const auto &[kind, call] : calls)
        for (size_t bytes = 1024; int64_t(bytes) <= options.maxBytes; bytes *= 8) {
          double seconds = 0;
          TESSERA_RETURN_IF_ERROR(
              measureOne(place, **everyone, **group, std::max(bytes / 4, n), options.seconds, call, seconds));
          if (world.rank() != 0)
            continue;
          table.addCollective(kind, size, double(bytes), seconds);
          char text[96];
          std::snprintf(text, sizeof text, "%12.2f us  %s %d, %zu bytes", seconds * 1e6, kind, size, bytes);
          progress(text);
        }
    }
    return rt::Status();
  });
  return status.ok() ? llvm::Error::success() : llvm::createStringError("%s", status.message().c_str());
}

} // namespace tessera
