// The reference backend, on some ranks with matrix products that take some time more.
#ifndef TESSERA_TEST_UNIT_SESSION_SLOWBACKEND_H
#define TESSERA_TEST_UNIT_SESSION_SLOWBACKEND_H

#include "runtime/backend/HostPlan.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <chrono>
#include <memory>
#include <set>
#include <thread>

namespace tessera::rt {

class SlowBackend final : public Backend {
public:
  SlowBackend(std::set<uint32_t> ranks, std::chrono::milliseconds more) : ranks_(std::move(ranks)), more_(more) {
    registerReferenceKernels(registry_);
  }
  std::string_view name() const override { return "slow"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    return HostPlan::load(plan, options, "slow", [&](const KernelCall &call) -> BindResult {
      BindResult bound = registry_.bind(call);
      if (!bound || !ranks_.contains(plan.rank()) || call.name() != "matmul")
        return bound;
      std::shared_ptr<BoundKernel> kernel = std::move(*bound);
      return bindFunction(
          "slow",
          [kernel, more = more_](std::byte *scratch) {
            std::this_thread::sleep_for(more);
            (void)kernel->run(scratch).ok();
          },
          kernel->scratchBytes());
    });
  }

private:
  const std::set<uint32_t> ranks_;
  const std::chrono::milliseconds more_;
  KernelRegistry registry_;
};

} // namespace tessera::rt

#endif
