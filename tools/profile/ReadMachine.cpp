// Describes the machine's devices: by nvidia-smi, and by measured times of a copy and a launch.
#include "tools/profile/Measure.h"

#include "runtime/backend/cuda/run/KernelCache.h"
#include "runtime/device/Device.h"
#include "strategies/cost/MachineTopology.h"

#include <chrono>
#include <cstdio>
#include <sys/wait.h>

namespace tessera {

namespace {

using Clock = std::chrono::steady_clock;

/// The output of a command.
llvm::Expected<std::string> outputOf(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe)
    return llvm::createStringError("'%s' cannot be run", command.c_str());
  std::string text;
  char buffer[4096];
  for (size_t n; text.size() < (2u << 20) && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    return llvm::createStringError("nvidia-smi was not found: the NVIDIA driver brings it");
  if (status != 0)
    return llvm::createStringError("'%s' failed: %s", command.c_str(),
                                   llvm::StringRef(text).take_until([](char c) { return c == '\n'; }).str().c_str());
  return text;
}

llvm::Error asError(const rt::Status &status) { return llvm::createStringError("%s", status.message().c_str()); }

} // namespace

llvm::Expected<strategies::Topology> readMachine(const std::string &like) {
  auto list = outputOf("nvidia-smi --query-gpu=name,memory.total,pcie.link.gen.max,pcie.link.width.max "
                       "--format=csv,noheader,nounits");
  if (!list)
    return list.takeError();
  auto devices = strategies::parseDevices(*list);
  if (!devices)
    return devices.takeError();
  auto matrix = outputOf("nvidia-smi topo -m");
  if (!matrix)
    return matrix.takeError();
  auto pairs = strategies::parseConnections(*matrix);
  if (!pairs)
    return pairs.takeError();
  return strategies::machineTopology(*devices, *pairs, like);
}

llvm::Expected<DeviceRates> measureDevice(double seconds, const Progress &progress) {
  DeviceRates rates;
  rt::Status status = [&]() -> rt::Status {
    auto module = rt::DeviceModule::load();
    if (!module)
      return module.status();
    auto count = (*module)->count(); // the error says why there is none
    if (!count)
      return count.status();
    auto opened = rt::Device::open(*module, 0);
    if (!opened)
      return opened.status();
    rt::Device &device = **opened;
    // The time of one action, when many are enqueued together.
    auto time = [&](const std::function<rt::Status()> &enqueue, double &result) -> rt::Status {
      TESSERA_RETURN_IF_ERROR(enqueue());
      TESSERA_RETURN_IF_ERROR(device.finish());
      int64_t runs = 0;
      const Clock::time_point start = Clock::now();
      do {
        for (int i = 0; i < 32; ++i)
          TESSERA_RETURN_IF_ERROR(enqueue());
        TESSERA_RETURN_IF_ERROR(device.finish());
        runs += 32;
        result = std::chrono::duration<double>(Clock::now() - start).count() / double(runs);
      } while (result * double(runs) < seconds);
      return rt::Status();
    };
    // Larger than every cache.
    const size_t bytes = std::min<size_t>(size_t(256) << 20, device.info().freeBytes / 16);
    auto memory = rt::DeviceMemory::allocate(*opened, 2 * bytes);
    if (!memory)
      return memory.status();
    auto pinned = rt::DeviceMemory::allocate(*opened, bytes, rt::MemoryKind::Pinned);
    if (!pinned)
      return pinned.status();
    double copy = 0, upload = 0;
    char *const from = memory->data(), *const to = from + bytes;
    TESSERA_RETURN_IF_ERROR(time([&] { return device.copy(TESSERA_COMPUTE_STREAM, to, from, bytes); }, copy));
    TESSERA_RETURN_IF_ERROR(
        time([&] { return device.copy(TESSERA_COMPUTE_STREAM, to, pinned->data(), bytes); }, upload));
    rates.memoryBandwidth = 2 * double(bytes) / copy;
    const std::string source = "extern \"C\" __global__ void k(int *x) { if (threadIdx.x > 32) *x = 1; }";
    auto images = rt::cuda::compileKernels(device.api(), device.capability(), {&source}, 1);
    if (!images)
      return images.status();
    TesseraCode *code = nullptr;
    TESSERA_RETURN_IF_ERROR(rt::Device::check([&](TesseraMessage *m) {
      return device.api().loadCode(device.handle(), images->front().data(), images->front().size(), "k", &code, m);
    }));
    const uint32_t grid[3] = {1, 1, 1};
    void *argument = from, *arguments[] = {&argument};
    rt::Status launched = time(
        [&] {
          return rt::Device::check([&](TesseraMessage *m) {
            return device.api().launch(device.handle(), TESSERA_COMPUTE_STREAM, code, grid, 32, arguments, 1, m);
          });
        },
        rates.launch);
    device.api().unloadCode(device.handle(), code);
    char text[512];
    std::snprintf(text, sizeof text,
                  "%s: copies %.1f GB/s (read and written), from pinned host memory %.1f GB/s, a "
                  "launch %.2f us",
                  device.info().name, rates.memoryBandwidth * 1e-9, double(bytes) / upload * 1e-9, rates.launch * 1e6);
    progress(text);
    return launched;
  }();
  if (!status.ok())
    return asError(status);
  return rates;
}

} // namespace tessera
