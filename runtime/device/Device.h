//===- Device.h - an accelerator, through its module ------------------------------------------------===//
//
// Loads the module that holds all CUDA code and wraps its table (DeviceApi.h) in the runtime's types. Nothing
// here needs a CUDA library; without a module, driver or device every call says so in one sentence.
//
//   Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
//   Result<std::shared_ptr<Device>> gpu = Device::open(*module, 0);
//   TESSERA_RETURN_IF_ERROR((*gpu)->copy(TESSERA_COMPUTE_STREAM, to, from, bytes));
//   TESSERA_RETURN_IF_ERROR((*gpu)->finish());
//
// The module is looked for at $TESSERA_CUDA_MODULE, then from the program's folder on: in it, in ../lib, and in
// ../lib/tessera, where an installation has it. Its name is libtessera_cuda.so.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_DEVICE_H
#define TESSERA_RUNTIME_DEVICE_DEVICE_H

#include "runtime/device/DeviceApi.h"
#include "runtime/device/Pace.h"
#include "runtime/support/Status.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace tessera::rt {

class DeviceModule {
public:
  /// Loads the module once per process.
  static Result<std::shared_ptr<DeviceModule>> load();
  /// Loads the module from one file, for tests.
  static Result<std::shared_ptr<DeviceModule>> load(const std::string &path);
  const TesseraDeviceApi &api() const { return *api_; }
  Result<int> count() const;

private:
  const TesseraDeviceApi *api_ = nullptr;
};

/// One device as one rank uses it. Driven by one thread.
class Device {
public:
  static Result<std::shared_ptr<Device>> open(std::shared_ptr<DeviceModule> module, int ordinal);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const TesseraDeviceInfo &info() const { return info_; }
  int capability() const { return info_.major * 10 + info_.minor; }
  const TesseraDeviceApi &api() const { return module_->api(); }
  TesseraDevice *handle() const { return device_; }

  Status copy(int stream, void *to, const void *from, size_t bytes);

  /// Waits for kernels and collectives. While it waits it calls `watch` now and then. An error of `watch` is the result,
  /// but only when the streams have come to rest: `watch` has given up what they wait for, and memory that they use is
  /// freed next.
  Status finish();
  /// Waits in the same way for one stream.
  Status finish(int stream);
  /// `watch` is called until the streams are at rest, also after it has given an error. Where they do not come to rest,
  /// it must end the process: whatever frees memory of the device would wait for them.
  void watch(std::function<Status()> watch) { watch_ = std::move(watch); }

  /// The table's code and message as a Status. `call` takes the message.
  template <typename F> static Status check(F &&call) {
    TesseraMessage message;
    message.text[0] = '\0';
    return call(&message) == TESSERA_OK ? Status() : Status::error(message.text);
  }

private:
  Device() = default;
  Status wait(int stream);
  std::shared_ptr<DeviceModule> module_;
  TesseraDevice *device_ = nullptr;
  TesseraDeviceInfo info_ = {};
  std::function<Status()> watch_;
  std::array<Pace, TESSERA_STREAMS> paces_;
};

/// Device: memory of the device. Shared: memory of the device that communicators register. Pinned: memory of the host
/// that asynchronous copies use.
enum class MemoryKind { Device, Shared, Pinned };

/// Memory that is freed with the object.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { *this = std::move(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  ~DeviceMemory();
  static Result<DeviceMemory> allocate(std::shared_ptr<Device> device, size_t bytes,
                                       MemoryKind kind = MemoryKind::Device);
  char *data() const { return static_cast<char *>(data_); }
  size_t size() const { return size_; }

private:
  std::shared_ptr<Device> device_;
  void *data_ = nullptr;
  size_t size_ = 0;
  MemoryKind kind_ = MemoryKind::Device;
};

} // namespace tessera::rt

#endif
