#include "runtime/session/Platform.h"
#include "runtime/comm/nccl/NcclWorld.h"

namespace tessera::rt {

Result<int> deviceOf(const PlatformOptions &options, int devices) {
  if (options.localRanks <= devices)
    return options.localRank;
  if (options.shareDevices)
    return options.localRank % devices;
  return Status::error("this machine has " + std::to_string(devices) + " CUDA device" + (devices == 1 ? "" : "s") +
                       " for " + std::to_string(options.localRanks) +
                       " ranks; compile for fewer ranks, or give --share-devices (slow: collectives "
                       "then go through host memory)");
}

Result<Platform> Platform::open(const PlatformOptions &options, World &world) {
  Platform platform;
  if (!runsOnDevice(options.backend)) {
    Result<std::unique_ptr<Backend>> backend = createBackend(options.backend);
    if (!backend)
      return backend.status();
    platform.backend = std::move(*backend);
    return platform;
  }
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  if (!module)
    return module.status();
  Result<int> devices = (*module)->count();
  if (!devices)
    return devices.status();
  Result<int> ordinal = deviceOf(options, *devices);
  if (!ordinal)
    return ordinal.status();
  Result<std::shared_ptr<Device>> device = Device::open(*module, *ordinal);
  if (!device)
    return device.status();
  platform.description = std::string(" on ") + (*device)->info().name;
  TesseraMessage libraries;
  (*module)->api().libraries(&libraries);
  platform.libraries = libraries.text;
  platform.device = *device;
  platform.backend = findBackend(options.backend)->create(*device);
  // All ranks of all machines must agree whether there is a device world, so the option alone decides it.
  if (!options.shareDevices && world.size() > 1)
    platform.deviceWorld = createNcclWorld(world, *device);
  return platform;
}

} // namespace tessera::rt
