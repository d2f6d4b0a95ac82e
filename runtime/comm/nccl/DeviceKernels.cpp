#include "runtime/comm/nccl/DeviceKernels.h"

#include <algorithm>

namespace tessera::rt {

constexpr uint32_t kBlock = 256, kMostBlocks = 8192;

DeviceKernels::~DeviceKernels() {
  for (auto &[source, code] : codes_)
    device_->api().unloadCode(device_->handle(), code);
}

Status DeviceKernels::launch(const std::string &source, void *to, const void *from, const std::vector<int64_t> &table,
                             int64_t points) {
  Result<TesseraCode *> code = codeFor(source);
  if (!code)
    return code.status();
  Result<void *> words = tableFor(table);
  if (!words)
    return words.status();
  const void *arguments[] = {&to, &from, &*words};
  const uint32_t grid[3] = {uint32_t(std::min<int64_t>((points + kBlock - 1) / kBlock, kMostBlocks)), 1, 1};
  return Device::check([&](TesseraMessage *m) {
    return device_->api().launch(device_->handle(), TESSERA_COMM_STREAM, *code, grid, kBlock,
                                 const_cast<void **>(arguments), 3, m);
  });
}

Result<TesseraCode *> DeviceKernels::codeFor(const std::string &source) {
  TesseraCode *&code = codes_[source];
  if (code)
    return code;
  const TesseraDeviceApi &api = device_->api();
  void *image = nullptr;
  size_t bytes = 0;
  TESSERA_RETURN_IF_ERROR(Device::check(
      [&](TesseraMessage *m) { return api.compile(source.c_str(), device_->capability(), 0, &image, &bytes, m); }));
  const Status loaded = Device::check(
      [&](TesseraMessage *m) { return api.loadCode(device_->handle(), image, bytes, function_.c_str(), &code, m); });
  api.freeImage(image);
  TESSERA_RETURN_IF_ERROR(loaded);
  return code;
}

Result<void *> DeviceKernels::tableFor(const std::vector<int64_t> &words) {
  const auto [entry, added] = tables_.try_emplace(words);
  if (!added)
    return static_cast<void *>(entry->second.data());
  const size_t bytes = words.size() * sizeof(int64_t);
  Result<DeviceMemory> memory = DeviceMemory::allocate(device_, bytes);
  if (!memory) {
    tables_.erase(entry);
    return memory.status().context("a table of a kernel");
  }
  entry->second = std::move(*memory);
  // The copy reads the key, which stays where it is.
  TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COMM_STREAM, entry->second.data(), entry->first.data(), bytes));
  return static_cast<void *>(entry->second.data());
}

} // namespace tessera::rt
