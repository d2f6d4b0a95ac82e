#include "runtime/backend/Backend.h"
#include "runtime/backend/cpu/CpuBackend.h"
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
  return Status::error("there is no backend '" + std::string(name) +
                       "'; choose one of cpu, reference, null");
}

} // namespace tessera::rt
