#include "runtime/backend/cuda/run/CudaSnapshot.h"

namespace tessera::rt::cuda {

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

size_t CudaSnapshot::bytesFor(const std::vector<Part> &parts) {
  size_t bytes = 0;
  for (const Part &part : parts)
    bytes += aligned(part.bytes);
  return bytes;
}

std::unique_ptr<Snapshot> CudaSnapshot::create(std::shared_ptr<Device> device, std::vector<Part> parts) {
  Result<DeviceMemory> memory = DeviceMemory::allocate(device, bytesFor(parts));
  if (!memory)
    return nullptr;
  std::unique_ptr<CudaSnapshot> made(new CudaSnapshot(std::move(device), std::move(parts)));
  made->kept_ = std::move(*memory);
  return made;
}

CudaSnapshot::~CudaSnapshot() {
  static_cast<void>(device_->finish(TESSERA_COMPUTE_STREAM)); // copies may still use the memory that is freed
}

Status CudaSnapshot::copy(bool take) {
  char *kept = kept_.data();
  for (const Part &part : parts_) {
    TESSERA_RETURN_IF_ERROR(
        device_->copy(TESSERA_COMPUTE_STREAM, take ? kept : part.memory, take ? part.memory : kept, part.bytes));
    kept += aligned(part.bytes);
  }
  return Status();
}

} // namespace tessera::rt::cuda
