//===- CudaInput.h - input that is copied while programs run ------------------------------------------===//
//
// See InputPath (Capabilities.h). The host writes one of two sets of pinned memory; the copy stream brings it to device
// memory of its own beside the arena; the compute stream copies it from there, in microseconds, before a program
// starts. Two events order the streams, outside of recorded graphs, whose addresses stay what they are:
//
//   copy:     wait taken · pinned -> incoming · record arrived
//   compute:  wait arrived · incoming -> arena · record taken · the program
//
// With a second arena buffer instead of the copy on the device, every program would have to be recorded twice.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDAINPUT_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_CUDAINPUT_H

#include "runtime/backend/Backend.h"
#include "runtime/device/Device.h"

#include <vector>

namespace tessera::rt::cuda {

class CudaInput final : public InputPath {
public:
  struct Target {
    void *memory; // in the arena
    size_t bytes;
  };
  static Result<std::unique_ptr<InputPath>> create(std::shared_ptr<Device> device, const std::vector<Target> &targets);
  ~CudaInput() override;

  Result<void *> host(size_t i, int set) override;
  Status send(int set) override;
  Status receive() override;

private:
  explicit CudaInput(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status mark(int stream, TesseraEvent *event);
  Status await(int stream, TesseraEvent *event);

  std::shared_ptr<Device> device_;
  std::vector<Target> targets_;
  std::vector<size_t> places_; // of each target, in the three pieces of memory
  DeviceMemory pinned_[2], incoming_;
  TesseraEvent *arrived_ = nullptr, *taken_ = nullptr;
  bool received_ = false;
  bool leaving_[2] = {false, false}; // the copy out of a set may still run
};

} // namespace tessera::rt::cuda

#endif
