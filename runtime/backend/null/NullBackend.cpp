#include "runtime/backend/null/NullBackend.h"
#include "runtime/backend/HostPlan.h"

namespace tessera::rt {
namespace {

class NullBackend final : public Backend {
public:
  std::string_view name() const override { return "null"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    return HostPlan::load(plan, options, "null", nullptr);
  }
};

} // namespace

std::unique_ptr<Backend> createNullBackend() { return std::make_unique<NullBackend>(); }

} // namespace tessera::rt
