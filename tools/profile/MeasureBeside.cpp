#include "tools/profile/Measure.h"

#include "dialects/dist/Reshard.h"
#include "runtime/backend/MachineRates.h"
#include "runtime/launch/Launcher.h"
#include "runtime/session/Platform.h"
#include "runtime/support/Threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <numeric>
#include <thread>

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kSize = 256;                 // rows of the products, which take well under a millisecond
constexpr size_t kSmall = 1024, kLeast = 8192; // bytes of the small all-reduce, and of the large one at least
constexpr int64_t kRuns = 3;                   // of products and all-reduces, at least

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A rank's all-reduces on a thread of their own, one after the other until all ranks have asked for their end.
class Reducing {
public:
  Reducing(rt::Communicator &group, size_t count)
      : group_(group), in_(count, 1.0f), out_(count), thread_([this] { run(); }) {}
  ~Reducing() { static_cast<void>(end()); }

  /// How many have ended.
  int64_t count() const { return count_; }
  /// Whether no more follow, since one has failed.
  bool failed() const { return failed_; }
  rt::Status end() {
    asked_ = true;
    if (thread_.joinable())
      thread_.join();
    return status_;
  }

private:
  void run() {
    // Every rank sees how many have asked, so that all of them do equally many all-reduces.
    do {
      in_[0] = asked_ ? 1.0f : 0.0f;
      if (status_ = group_.allReduce(in_.data(), out_.data(), in_.size(), plan::F32, plan::SUM); !status_) {
        failed_ = true;
        return;
      }
      ++count_;
    } while (out_[0] < float(group_.size()));
  }

  rt::Communicator &group_;
  std::vector<float> in_, out_;
  std::atomic<bool> asked_ = false, failed_ = false;
  std::atomic<int64_t> count_ = 0;
  rt::Status status_;
  std::thread thread_; // the last member: it uses the others
};

/// Runs products for some time, and while `more`. Returns the seconds of one.
template <typename More> rt::Result<double> timeProducts(rt::LoadedProduct &product, double seconds, const More &more) {
  int64_t runs = 0;
  const Clock::time_point begin = Clock::now();
  do {
    if (rt::Status status = product.run(); !status)
      return status;
    ++runs;
  } while (since(begin) < seconds || runs < kRuns || more());
  return since(begin) / double(runs);
}

/// One rank's measurements.
struct Rank {
  rt::Communicator &everyone, &group;
  rt::LoadedProduct &product;
  double seconds; // of one measurement

  /// By how many seconds an all-reduce of so many bytes delays products beside it.
  rt::Result<double> delay(size_t bytes) {
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    rt::Result<double> alone = timeProducts(product, seconds, [] { return false; });
    if (!alone)
      return alone;
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    Reducing beside(group, bytes / 4);
    const int64_t before = beside.count();
    const Clock::time_point begin = Clock::now();
    rt::Result<double> slower =
        timeProducts(product, seconds, [&] { return !beside.failed() && beside.count() < before + kRuns; });
    const double whole = since(begin);
    const auto reduced = double(beside.count() - before);
    TESSERA_RETURN_IF_ERROR(beside.end());
    if (!slower)
      return slower;
    return std::max(0.0, whole * (1 - *alone / *slower)) / reduced;
  }
};

} // namespace

llvm::Error measureBeside(const MeasureOptions &options, strategies::ProfileTable &table, const Progress &progress) {
  const int ranks = int(options.mesh.numRanks());
  if (ranks < 2 || rt::runsOnDevice(options.backend) || size_t(options.maxBytes) < kLeast)
    return llvm::Error::success();
  const size_t sizes[] = {kSmall, size_t(options.maxBytes) / 4 * 4};
  double delays[] = {0, 0}; // by size, mean over the ranks
  rt::Status status = options.onRanks([&](rt::World &world) -> rt::Status {
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    auto everyone = world.group(all), group = world.group(all);
    if (!everyone || !group)
      return everyone ? group.status() : everyone.status();
    auto platform = rt::Platform::open({.backend = options.backend}, world);
    if (!platform)
      return platform.status();
    rt::LoadOptions load;
    load.threads = rt::threadsPerRank(options.ranksHere);
    auto product = rt::LoadedProduct::load(*platform->backend, load, plan::F32, kSize);
    if (!product)
      return product.status();
    TESSERA_RETURN_IF_ERROR(product->run());
    Rank rank{**everyone, **group, *product, options.seconds};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      rt::Result<double> mine = rank.delay(sizes[i]);
      if (!mine)
        return mine.status();
      double sum = 0;
      TESSERA_RETURN_IF_ERROR((*everyone)->allReduce(&*mine, &sum, 1, plan::F64, plan::SUM));
      if (world.rank() == 0)
        delays[i] = sum / ranks;
    }
    return rt::Status();
  });
  if (!status)
    return llvm::createStringError(status.message());
  // A rank has this share of the cores; on a part of a core, work takes longer.
  strategies::Topology machine;
  machine.devices = rt::availableCores();
  machine.shared = true;
  const double share = machine.share(options.ranksHere);
  auto sent = [&](size_t bytes) {
    dist::Collective sum;
    sum.kind = dist::CollectiveKind::AllReduce;
    for (int axis = 0; axis < options.mesh.numAxes(); ++axis)
      sum.axes.push_back(axis);
    sum.localIn = sum.localOut = {int64_t(bytes / 4)};
    return dist::bytesSent(options.mesh, sum, 4);
  };
  const double perByte = std::max(0.0, (delays[1] - delays[0]) * share / (sent(sizes[1]) - sent(sizes[0])));
  const double handOver = std::max(0.0, delays[0] * share - perByte * sent(sizes[0]));
  table.setBeside({handOver, perByte});
  char text[112];
  std::snprintf(text, sizeof text, "%12.2f us  handing a collective over beside kernels, and %.3g ns per byte sent",
                handOver * 1e6, perByte * 1e9);
  progress(text);
  return llvm::Error::success();
}

} // namespace tessera
