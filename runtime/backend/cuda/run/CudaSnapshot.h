//===- CudaSnapshot.h - copies of buffers within a device's memory --------------------------------------===//
//
// See Snapshot (Capabilities.h). Copies are enqueued on the compute stream, between programs, and run at the speed of
// memory:
//
//   std::unique_ptr<Snapshot> kept = CudaSnapshot::create(device, {{parameter, bytes}});   // null: no memory
//   kept->take();
//   ... programs ...
//   kept->putBack();
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDASNAPSHOT_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDASNAPSHOT_H

#include "runtime/backend/Backend.h"
#include "runtime/device/Device.h"

#include <vector>

namespace tessera::rt::cuda {

class CudaSnapshot final : public Snapshot {
public:
  struct Part {
    char *memory;
    size_t bytes;
  };
  static size_t bytesFor(const std::vector<Part> &parts);
  static std::unique_ptr<Snapshot> create(std::shared_ptr<Device> device, std::vector<Part> parts);
  ~CudaSnapshot() override;

  Status take() override { return copy(true); }
  Status putBack() override { return copy(false); }

private:
  CudaSnapshot(std::shared_ptr<Device> device, std::vector<Part> parts)
      : device_(std::move(device)), parts_(std::move(parts)) {}
  Status copy(bool take);

  std::shared_ptr<Device> device_;
  std::vector<Part> parts_;
  DeviceMemory kept_; // one part after the other, each at a multiple of 256 bytes
};

} // namespace tessera::rt::cuda

#endif
