#include "runtime/backend/reference/ReferenceBackend.h"
#include "runtime/backend/HostPlan.h"

namespace tessera::rt {

void registerReferenceKernels(KernelRegistry &registry) {
  registerReferenceExpressions(registry);
  registerReferenceMovement(registry);
  registerReferenceIndexing(registry);
  registerReferenceConv(registry);
  registerReferenceMatMul(registry);
  registerReferenceOrthonormalize(registry);
  registerReferencePool(registry);
  registerReferenceSoftmax(registry);
  registerReferenceAttention(registry);
}

namespace {

class ReferenceBackend final : public Backend {
public:
  ReferenceBackend() { registerReferenceKernels(registry_); }
  std::string_view name() const override { return "reference"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    return HostPlan::load(plan, options, "reference", [this](const KernelCall &call) { return registry_.bind(call); });
  }

private:
  KernelRegistry registry_;
};

} // namespace

std::unique_ptr<Backend> createReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

} // namespace tessera::rt
