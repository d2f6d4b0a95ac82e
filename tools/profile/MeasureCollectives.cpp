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

/// Runs one call from the first buffer to the second. The larger of the two has so many float32 elements.
using Call = std::function<rt::Status(rt::Communicator &, float *, float *, size_t)>;

/// The elements of a row of a matrix whose columns are cut: dimensions that are not the outermost are pieces of memory.
constexpr size_t kRow = 256;
/// Height and width of the images of which halos are measured, with a row from either neighbour.
constexpr int64_t kImage = 32;

/// Where a rank's collectives run: between threads in host memory, or between devices.
class Place {
public:
  rt::Status open(const MeasureOptions &options, rt::World &threads, size_t elements) {
    world_ = &threads;
    if (rt::runsOnDevice(options.backend)) {
      auto opened =
          rt::Platform::open({options.backend, threads.rank(), threads.size(), /*shareDevices=*/false}, threads);
      if (!opened)
        return opened.status();
      platform_ = std::move(*opened);
      if (platform_.deviceWorld)
        world_ = platform_.deviceWorld.get();
    }
    const int64_t copies = copiesPastCaches(int64_t(2 * elements * sizeof(float)), std::max(1, options.ranksHere));
    host_.assign(size_t(platform_.device ? 1 : copies) * 2 * elements, 1.0f);
    for (int i = 0; platform_.device && i < 2; ++i) {
      auto memory = rt::DeviceMemory::allocate(platform_.device, elements * 4);
      if (!memory)
        return memory.status();
      device_[i] = std::move(*memory);
      TESSERA_RETURN_IF_ERROR(
          platform_.device->copy(TESSERA_COMM_STREAM, device_[i].data(), host_.data(), elements * 4));
    }
    return finish();
  }
  rt::World &world() { return *world_; }
  /// Buffers of the next call. On the host the rank writes what it sends, as a kernel before the collective does.
  /// Otherwise the others find it where they last left it, in caches of their own. Where the result lies, no cache holds
  /// anything, as in a step, where much else went through them since: on the same buffers large collectives took a third
  /// of their time and less.
  std::pair<float *, float *> next(size_t elements) {
    if (platform_.device)
      return {reinterpret_cast<float *>(device_[0].data()), reinterpret_cast<float *>(device_[1].data())};
    if (at_ + 2 * elements > std::min(host_.size(), size_t(kMostCopies) * 2 * elements))
      at_ = 0;
    float *in = host_.data() + at_;
    at_ += 2 * elements;
    std::fill_n(in, elements, 1.0f);
    return {in, in + elements};
  }
  rt::Status finish() { return platform_.device ? platform_.device->finish() : rt::Status(); }
  /// The number of calls that are enqueued before they are waited for. A device needs several to be
  /// busy.
  int row() const { return platform_.device ? 8 : 1; }

private:
  rt::Platform platform_;
  rt::World *world_ = nullptr;
  size_t at_ = 0; // in host_: where the next call's buffers begin
  std::vector<float> host_;
  rt::DeviceMemory device_[2];
};

/// Measures all groups at once. The result is the median over rounds of the slowest rank's time.
/// Valid on rank 0.
rt::Status measureOne(Place &place, rt::Communicator &everyone, rt::Communicator &group, size_t count, double seconds,
                      const Call &call, double &result) {
  std::vector<double> times;
  for (double spent = 0; spent < seconds || times.size() < 3;) {
    const auto [in, out] = place.next(count);
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    Clock::time_point start = Clock::now();
    for (int i = 0; i < place.row(); ++i)
      TESSERA_RETURN_IF_ERROR(call(group, in, out, count));
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

/// Of `count` elements as a matrix: this rank sends each peer columns, and gets rows of theirs.
rt::Status allToAll(rt::Communicator &group, const float *in, float *out, size_t count) {
  const auto n = int64_t(group.size()), width = std::max(n, int64_t(std::min(kRow, count))) / n * n,
             rows = int64_t(count) / width;
  std::vector<rt::Transfer> sends, receives;
  for (int64_t peer = 0; peer < n; ++peer) {
    sends.push_back({int(peer), {peer * (width / n), {rows, width / n}, {width, 1}}});
    receives.push_back({int(peer), {peer * (rows * width / n), {rows * width / n}, {1}}});
  }
  return group.exchange(in, sends, out, receives, plan::F32);
}

/// Of images, of which `count` elements hold as many as possible with a row from the rank before and behind.
rt::Status halo(rt::Communicator &group, const float *in, float *out, size_t count) {
  const int64_t width = std::min<int64_t>(kImage, int64_t(count) / (kImage + 2)), size = kImage * width,
                wide = size + 2 * width, images = int64_t(count) / wide;
  const int me = group.rank(), n = group.size();
  auto box = [&](int64_t offset, int64_t rows, int64_t image) {
    return rt::Box{offset, {images, rows * width}, {image, 1}};
  };
  std::vector<rt::Transfer> sends = {{me, box(0, kImage, size)}}, receives = {{me, box(width, kImage, wide)}};
  if (me + 1 < n) {
    sends.push_back({me + 1, box(size - width, 1, size)});
    receives.push_back({me + 1, box(width + size, 1, wide)});
  }
  if (me > 0) {
    sends.push_back({me - 1, box(0, 1, size)});
    receives.push_back({me - 1, box(0, 1, wide)});
  }
  return group.exchange(in, sends, out, receives, plan::F32);
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
    TESSERA_RETURN_IF_ERROR(place.open(options, world, most));
    for (int size : sizes) {
      std::vector<int> members(static_cast<size_t>(size));
      std::iota(members.begin(), members.end(), world.rank() / size * size);
      auto group = place.world().group(members);
      if (!group)
        return group.status();
      const size_t n = size_t(size);
      const std::pair<const char *, Call> calls[] = {
          // In place, as plans place it.
          {"all-reduce", [](rt::Communicator &g, float *in, float *,
                            size_t count) { return g.allReduce(in, in, count, plan::F32, plan::SUM); }},
          {"all-gather", [n](rt::Communicator &g, const float *in, float *out,
                             size_t count) { return g.allGather(in, out, 1, count / n, plan::F32); }},
          {"reduce-scatter",
           [n](rt::Communicator &g, const float *in, float *out, size_t count) {
             return g.reduceScatter(in, out, 1, count / n, plan::F32, plan::SUM);
           }},
          {"all-to-all", allToAll},
          {"halo", halo}};
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
