// The registered backends, a row each.
#include "runtime/backend/Backend.h"
#include "runtime/backend/cpu/CpuBackend.h"
#include "runtime/backend/cuda/CudaBackend.h"
#include "runtime/backend/null/NullBackend.h"
#include "runtime/backend/reference/ReferenceBackend.h"

namespace tessera::rt {
namespace {

using Made = std::unique_ptr<Backend>;
using Given = const std::shared_ptr<Device> &;

const BackendRow kBackends[] = {
    {"cpu", false, [](Given) -> Made { return createCpuBackend(); }},
    {"cuda", true, [](Given device) -> Made { return createCudaBackend(device); }},
    {"null", false, [](Given) -> Made { return createNullBackend(); }},
    {"reference", false, [](Given) -> Made { return createReferenceBackend(); }},
};

} // namespace

const BackendRow *findBackend(std::string_view name) {
  for (const BackendRow &row : kBackends)
    if (row.name == name)
      return &row;
  return nullptr;
}

bool runsOnDevice(std::string_view name) {
  const BackendRow *row = findBackend(name);
  return row && row->onDevice;
}

std::string backendNames() {
  std::string names;
  for (const BackendRow &known : kBackends)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

Result<std::unique_ptr<Backend>> createBackend(std::string_view name) {
  const BackendRow *row = findBackend(name);
  if (!row)
    return Status::error("there is no backend '" + std::string(name) + "'; choose one of " + backendNames());
  if (!row->onDevice)
    return row->create(nullptr);
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  if (!module)
    return module.status();
  TESSERA_RETURN_IF_ERROR((*module)->count().status());
  Result<std::shared_ptr<Device>> device = Device::open(*module, 0);
  if (!device)
    return device.status();
  return row->create(*device);
}

} // namespace tessera::rt
