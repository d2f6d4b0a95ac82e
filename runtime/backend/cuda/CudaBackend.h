//===- CudaBackend.h - the plan on a CUDA device ----------------------------------------------------===//
//
// Matrix products by cuBLASLt, convolutions by cuDNN, everything else by kernels generated from the plan and compiled
// by NVRTC. The arena is one allocation; a program is recorded as a CUDA graph at its second run and replayed from then
// on (join/StreamSchedule.h).
//
//   Result<std::shared_ptr<Device>> device = Device::open(*DeviceModule::load(), 0);
//   std::unique_ptr<Backend> backend = createCudaBackend(*device);
//
// No CUDA library is linked: all device work goes through the module's table (runtime/device).
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_CUDABACKEND_H
#define TESSERA_RUNTIME_BACKEND_CUDA_CUDABACKEND_H

#include "runtime/backend/Backend.h"
#include "runtime/device/Device.h"

namespace tessera::rt {

std::unique_ptr<Backend> createCudaBackend(std::shared_ptr<Device> device);

} // namespace tessera::rt

#endif
