// Boxes in a device's memory: every element where copyBox of the host puts it, by one piece of work.
#include "runtime/comm/nccl/DeviceBoxes.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

using namespace tessera::rt;

namespace {

std::shared_ptr<Device> openDevice() {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  REQUIRE(module.ok());
  Result<std::shared_ptr<Device>> device = Device::open(*module, 0);
  REQUIRE(device.ok());
  return *device;
}

/// A box of a row-major tensor with dimensions of `sizes`, of which it has `count`.
Box boxOf(const std::vector<int64_t> &sizes, const std::vector<int64_t> &count, int64_t offset) {
  Box box{offset, count, std::vector<int64_t>(sizes.size(), 1)};
  for (size_t d = sizes.size(); d-- > 1;)
    box.stride[d - 1] = box.stride[d] * sizes[d];
  return box;
}

/// Copies on the device and on the host, with memory of `bytes` bytes on both sides, and compares all of it.
void check(const std::shared_ptr<Device> &device, DeviceBoxes &boxes, const Box &from, const Box &to, size_t size,
           size_t bytes) {
  INFO("from " << describeBox(from) << " to " << describeBox(to) << ", elements of " << size);
  Result<DeviceMemory> a = DeviceMemory::allocate(device, bytes), b = DeviceMemory::allocate(device, bytes);
  REQUIRE((a.ok() && b.ok()));
  std::vector<char> source(bytes), expected(bytes, 7), found(bytes);
  for (size_t i = 0; i < bytes; ++i)
    source[i] = char(i * 31 + i / 256);
  copyBox(source.data(), from, expected.data(), to, size);
  REQUIRE(device->copy(TESSERA_COMM_STREAM, a->data(), source.data(), bytes).ok());
  std::memset(found.data(), 7, bytes);
  REQUIRE(device->copy(TESSERA_COMM_STREAM, b->data(), found.data(), bytes).ok());
  const Status copied = boxes.copy(a->data(), from, b->data(), to, size);
  INFO(copied.message());
  REQUIRE(copied.ok());
  REQUIRE(device->copy(TESSERA_COMM_STREAM, found.data(), b->data(), bytes).ok());
  REQUIRE(device->finish().ok());
  CHECK(found == expected);
}

} // namespace

TEST_CASE("a device copies boxes as the host does") {
  const std::shared_ptr<Device> device = openDevice();
  DeviceBoxes boxes(device);
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const size_t rank = random() % 9; // more dimensions than the kernel has loops
    std::vector<int64_t> sizes, count;
    for (size_t d = 0; d < rank; ++d) {
      sizes.push_back(1 + int64_t(random() % (rank < 5 ? 6 : 3)));
      count.push_back(int64_t(random() % (unsigned(sizes[d]) + 1)));
    }
    const Box box = boxOf(sizes, count, int64_t(random() % 7)), packed{int64_t(random() % 3), {boxElements(box)}, {1}};
    const size_t size = size_t(1) << (random() % 4);
    check(device, boxes, box, packed, size, size_t(8) * 8 * 6561);
    check(device, boxes, packed, box, size, size_t(8) * 8 * 6561);
  }
  // Rows that are wide, an exchange of dimensions, and an element that is repeated.
  check(device, boxes, boxOf({5, 64}, {5, 48}, 16), {0, {5 * 48}, {1}}, 4, 4096);
  check(device, boxes, {0, {3, 4, 5}, {20, 5, 1}}, {0, {3, 4, 5}, {5, 15, 1}}, 2, 4096);
  check(device, boxes, {3, {6, 7}, {0, 0}}, boxOf({6, 9}, {6, 7}, 1), 4, 4096);
}

TEST_CASE("a copy of a box is one piece of work") {
  const std::shared_ptr<Device> device = openDevice();
  DeviceBoxes boxes(device);
  Result<DeviceMemory> memory = DeviceMemory::allocate(device, 1 << 20);
  REQUIRE(memory.ok());
  char *from = memory->data(), *to = from + (1 << 19);
  // An edge of each row of images, and a corner of each plane.
  for (const Box &box : {boxOf({8, 16, 12, 12}, {8, 16, 12, 1}, 3), boxOf({8, 16, 12, 12}, {8, 16, 5, 7}, 0)}) {
    const Box packed{0, {boxElements(box)}, {1}};
    REQUIRE(boxes.copy(from, box, to, packed, 4).ok()); // writes the table of the loops, too
    REQUIRE(device->finish().ok());
    setenv("TESSERA_EMULATOR_FAIL", "work:1", 1);
    const Status copied = boxes.copy(from, box, to, packed, 4);
    unsetenv("TESSERA_EMULATOR_FAIL");
    INFO(copied.message());
    CHECK(copied.ok());
    REQUIRE(device->finish().ok());
  }
}
