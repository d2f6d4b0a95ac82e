// The device that a rank takes, and the message where there is none.
#include "runtime/session/Platform.h"
#include "runtime/device/Device.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace tessera::rt;
using Catch::Contains;

TEST_CASE("one device per rank, or shared on demand") {
  CHECK(*deviceOf({"cuda", 2, 4, false}, 4) == 2);
  CHECK(*deviceOf({"cuda", 2, 3, false}, 8) == 2);
  CHECK(*deviceOf({"cuda", 5, 6, true}, 2) == 1);
  CHECK_THAT(deviceOf({"cuda", 0, 4, false}, 1).status().message(),
             Contains("1 CUDA device for 4 ranks") && Contains("--share-devices"));
}

TEST_CASE("a missing module and a file that is no module are one clear error") {
  CHECK_THAT(DeviceModule::load("/nowhere/libtessera_cuda.so").status().message(),
             Contains("no CUDA module at /nowhere") && Contains("--device cpu"));
  CHECK_THAT(DeviceModule::load("/proc/self/exe").status().message(), Contains("/proc/self/exe"));
}

TEST_CASE("running out of device memory names the device") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  REQUIRE(module.ok());
  Result<std::shared_ptr<Device>> device = Device::open(*module, 0);
  REQUIRE(device.ok());
  CHECK_THAT(DeviceMemory::allocate(*device, size_t(1) << 45).status().message(), Contains("out of memory"));
  CHECK_FALSE(Device::open(*module, 99).ok());
}

#ifdef TESSERA_CUDA_LIBRARY
TEST_CASE("the CUDA module loads without a device and says what is missing") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load(TESSERA_CUDA_LIBRARY);
  if (!module) // a toolkit to build with, but not its libraries on the path
    CHECK_THAT(module.status().message(), Contains("needs the library"));
  else if (Result<int> count = (*module)->count(); !count)
    CHECK_THAT(count.status().message(), Contains("--device cpu") || Contains("too old"));
  else
    CHECK(*count > 0);
}
#endif
