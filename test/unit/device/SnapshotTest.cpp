// Copies of parameters within a device's memory: what is put back is what was taken, in order with programs, and where
// memory is short there are none.
#include "runtime/backend/cuda/CudaBackend.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace tessera::rt;
using test::PlanBuilder;
namespace plan = tessera::plan;

namespace {

constexpr int64_t kElements = 50'001;

/// y = y + y, and z beside it.
struct Doubling {
  PlanBuilder p;
  uint32_t y = p.buffer(plan::F32, {kElements}), z = p.buffer(plan::BF16, {3});
  std::shared_ptr<Device> opened;
  std::unique_ptr<LoadedPlan> loaded;

  /// The plan on a device with `mebibytes` of memory; 0: with plenty.
  explicit Doubling(int mebibytes) {
    p.kernel("add", {y, y}, {y});
    if (mebibytes)
      setenv("TESSERA_EMULATOR_FAIL", ("memory:" + std::to_string(mebibytes)).c_str(), 1);
    Result<std::shared_ptr<Device>> device = Device::open(*DeviceModule::load(), 0);
    REQUIRE(device.ok());
    opened = *device;
    Result<std::unique_ptr<LoadedPlan>> made = createCudaBackend(*device)->load(p.plan(), {});
    INFO(made.status().message());
    REQUIRE(made.ok());
    loaded = std::move(*made);
  }
  ~Doubling() { unsetenv("TESSERA_EMULATOR_FAIL"); }
  void write(float first) {
    std::vector<float> values(kElements);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = first + float(i % 7);
    REQUIRE(loaded->upload(y, values.data()).ok());
    const uint16_t three[3] = {1, 2, uint16_t(first)};
    REQUIRE(loaded->upload(z, three).ok());
  }
  void run() { REQUIRE(loaded->capabilities().programs->runProgram(0, {}).ok()); }
  /// Whether y is `first`, doubled so many times.
  bool holds(float first, float times, uint16_t last) {
    std::vector<float> values(kElements);
    uint16_t three[3];
    REQUIRE(loaded->download(y, values.data()).ok());
    REQUIRE(loaded->download(z, three).ok());
    bool good = three[0] == 1 && three[1] == 2 && three[2] == last;
    for (size_t i = 0; i < values.size(); ++i)
      good &= values[i] == times * (first + float(i % 7));
    return good;
  }
};

} // namespace

TEST_CASE("a copy that is put back is what was taken") {
  Doubling d(0);
  const size_t before = d.loaded->scratchBytes();
  std::unique_ptr<Snapshot> kept = d.loaded->capabilities().snapshots->snapshot({d.y, d.z});
  REQUIRE(kept);
  CHECK(d.loaded->scratchBytes() - before >= kElements * 4 + 6);
  d.write(1);
  d.run(); // copies wait for it, and programs for copies
  REQUIRE(kept->take().ok());
  d.run();
  d.write(5);
  d.run();
  CHECK(d.holds(5, 2, 5));
  for (int i = 0; i < 2; ++i) {
    REQUIRE(kept->putBack().ok());
    CHECK(d.holds(1, 2, 1));
    REQUIRE(kept->putBack().ok());
    d.run();
    CHECK(d.holds(1, 4, 1));
  }
  d.write(9);
  REQUIRE(kept->take().ok());
  d.write(3);
  REQUIRE(kept->putBack().ok());
  CHECK(d.holds(9, 1, 9));
}

TEST_CASE("copies do not take memory that is needed for other things") {
  // The arena takes 0.2 MiB, and so would the copies.
  CHECK(Doubling(1).loaded->capabilities().snapshots->snapshot({0, 1}) != nullptr);
  Doubling d(1);
  std::vector<std::unique_ptr<Snapshot>> kept;
  while (std::unique_ptr<Snapshot> more = d.loaded->capabilities().snapshots->snapshot({d.y}))
    kept.push_back(std::move(more));
  CHECK(kept.size() == 3); // and a fifth of the memory is left
  // What others have taken since the device was opened is not free.
  Doubling shared(1);
  const Result<DeviceMemory> taken = DeviceMemory::allocate(shared.opened, 500'000);
  REQUIRE(taken.ok());
  CHECK(shared.loaded->capabilities().snapshots->snapshot({shared.y}) == nullptr);
}
