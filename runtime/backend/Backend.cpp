#include "runtime/backend/Backend.h"
#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/backend/cuda/CudaBackend.h"
#include "runtime/backend/null/NullBackend.h"
#include "runtime/backend/reference/ReferenceBackend.h"

namespace tessera::rt {

Result<std::unique_ptr<Backend>> createBackend(std::string_view name) {
  if (name == "cpu")
    return createCpuBackend();
  if (name == "reference")
    return createReferenceBackend();
  if (name == "null")
    return createNullBackend();
  if (name == "cuda") {
    Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
    if (!module)
      return module.status();
    TESSERA_RETURN_IF_ERROR((*module)->count().status());
    Result<std::shared_ptr<Device>> device = Device::open(*module, 0);
    if (!device)
      return device.status();
    return createCudaBackend(*device);
  }
  return Status::error("there is no backend '" + std::string(name) + "'; choose one of cpu, cuda, reference, null");
}

} // namespace tessera::rt
