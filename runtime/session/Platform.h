//===- Platform.h - the device that a rank runs on ---------------------------------------------------===//
//
// Chooses a rank's backend. For a backend on devices it also chooses the device, and how collectives run: by NCCL
// between devices, or through host memory where ranks may share a device.
//
//   Result<Platform> platform = Platform::open({"cuda", /*localRank=*/1, /*localRanks=*/2}, world);
//   Executor::create(plan, *platform->backend, world, load, platform->deviceWorld.get());
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_PLATFORM_H
#define TESSERA_RUNTIME_SESSION_PLATFORM_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"

#include <memory>
#include <string>

namespace tessera::rt {

struct PlatformOptions {
  std::string backend = "cpu";
  int localRank = 0, localRanks = 1; // of the ranks on this machine
  bool shareDevices = false;
};

struct Platform {
  std::unique_ptr<Backend> backend;
  std::shared_ptr<Device> device;     // null: the host
  std::unique_ptr<World> deviceWorld; // null: one rank, or collectives go through the host
  std::string description;            // " on NVIDIA H200"; empty on the host
  std::string libraries;              // "CUDA driver 13.0, cuDNN 9.19.0"; empty on the host

  /// All ranks of `world` call this with options that differ only in localRank. `world` outlives the result.
  static Result<Platform> open(const PlatformOptions &options, World &world);
};

/// The number of the device that a rank uses, or an error that says why there is none.
Result<int> deviceOf(const PlatformOptions &options, int devices);

} // namespace tessera::rt

#endif
