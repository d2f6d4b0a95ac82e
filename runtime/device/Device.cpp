#include "runtime/device/Device.h"

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace tessera::rt {
namespace {

constexpr const char *kModule = "libtessera_cuda.so";

std::string programFolder() {
  std::string path(4096, '\0');
  ssize_t n = readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0)
    return ".";
  path.resize(size_t(n));
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// Turns dlopen's message into one that says what to do. dlopen names the missing library before
/// the first colon: "libcudnn.so.9: cannot open shared object file: No such file or directory".
Status loadFailure(const std::string &path, const std::string &why) {
  std::string missing = why.substr(0, why.find(':'));
  if (why.find("cannot open shared object file") != std::string::npos && missing != path)
    return Status::error("the CUDA module " + path + " needs the library " + missing +
                         ", which was not found; install it or add its folder to LD_LIBRARY_PATH");
  return Status::error("the CUDA module " + path + " cannot be loaded: " + why);
}

} // namespace

Result<std::shared_ptr<DeviceModule>> DeviceModule::load(const std::string &path) {
  if (access(path.c_str(), R_OK) != 0)
    return Status::error("there is no CUDA module at " + path +
                         "; build Tessera where a CUDA toolkit is installed, or use --device cpu");
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return loadFailure(path, why ? why : "unknown reason");
  }
  auto entry = reinterpret_cast<TesseraDeviceEntry>(dlsym(library, "tesseraDeviceApi"));
  const TesseraDeviceApi *api = entry ? entry() : nullptr;
  // The library is never closed: CUDA libraries do not survive being unloaded.
  if (!api || api->abi != TESSERA_DEVICE_ABI || api->size != sizeof(TesseraDeviceApi))
    return Status::error(path + " is no CUDA module of this version; build program and module from "
                                "the same source");
  auto module = std::make_shared<DeviceModule>();
  module->api_ = api;
  return module;
}

Result<std::shared_ptr<DeviceModule>> DeviceModule::load() {
  static std::mutex mutex; // ranks are threads
  static std::shared_ptr<DeviceModule> loaded;
  std::lock_guard lock(mutex);
  if (loaded)
    return loaded;
  const char *given = std::getenv("TESSERA_CUDA_MODULE");
  std::string path = given && *given ? given : "";
  if (path.empty())
    // The program's own folder, then the place in a build folder, then that in an installation.
    for (const char *place : {"/", "/../lib/", "/" TESSERA_MODULE_FOLDER "/"}) {
      path = programFolder() + place + kModule;
      if (access(path.c_str(), R_OK) == 0)
        break;
    }
  Result<std::shared_ptr<DeviceModule>> module = load(path);
  if (module)
    loaded = *module;
  return module;
}

Result<int> DeviceModule::count() const {
  int32_t devices = 0;
  TESSERA_RETURN_IF_ERROR(Device::check([&](TesseraMessage *m) { return api_->count(&devices, m); }));
  return int(devices);
}

Result<std::shared_ptr<Device>> Device::open(std::shared_ptr<DeviceModule> module, int ordinal) {
  std::shared_ptr<Device> device(new Device);
  TESSERA_RETURN_IF_ERROR(
      check([&](TesseraMessage *m) { return module->api().open(ordinal, &device->device_, &device->info_, m); }));
  device->module_ = std::move(module);
  return device;
}

Device::~Device() {
  if (device_)
    api().close(device_);
}

Status Device::copy(int stream, void *to, const void *from, size_t bytes) {
  return check([&](TesseraMessage *m) { return api().copy(device_, stream, to, from, bytes, m); });
}

Status Device::finish() {
  const Status kernels = finish(TESSERA_COMPUTE_STREAM), collectives = finish(TESSERA_COMM_STREAM);
  return kernels ? collectives : kernels;
}

Status Device::finish(int stream) {
  const auto begin = std::chrono::steady_clock::now();
  const Status status = wait(stream);
  paces_[size_t(stream)].ended(std::chrono::steady_clock::now() - begin);
  return status;
}

Status Device::wait(int stream) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  Clock::time_point asked = begin;
  Status watched;
  while (true) {
    TesseraMessage message;
    message.text[0] = '\0';
    int32_t code = api().query(device_, stream, &message);
    if (code == TESSERA_OK || (code != TESSERA_NOT_READY && !watched))
      return watched;
    if (code != TESSERA_NOT_READY)
      return Status::error(message.text);
    const Pace::Time pause = paces_[size_t(stream)].pause(Clock::now() - begin);
    if (pause > Pace::Time(0))
      std::this_thread::sleep_for(pause);
    else
      std::this_thread::yield();
    if (watch_ && Clock::now() - asked > std::chrono::milliseconds(50)) {
      if (const Status now = watch_(); watched)
        watched = now;
      asked = Clock::now();
    }
  }
}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(kind_, other.kind_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (!data_)
    return;
  if (kind_ == MemoryKind::Pinned)
    device_->api().releasePinned(device_->handle(), data_);
  else
    device_->api().release(device_->handle(), data_);
}

Result<DeviceMemory> DeviceMemory::allocate(std::shared_ptr<Device> device, size_t bytes, MemoryKind kind) {
  DeviceMemory memory;
  memory.kind_ = kind;
  const TesseraDeviceApi &api = device->api();
  const auto allocate = kind == MemoryKind::Pinned   ? api.allocatePinned
                        : kind == MemoryKind::Shared ? api.allocateShared
                                                     : api.allocate;
  TESSERA_RETURN_IF_ERROR(
      Device::check([&](TesseraMessage *m) { return allocate(device->handle(), bytes, &memory.data_, m); }));
  memory.size_ = bytes;
  memory.device_ = std::move(device);
  return memory;
}

} // namespace tessera::rt
