//===- HostPlan.h - a loaded plan in host memory ----------------------------------------------===//
//
// What every backend on the CPU shares: the arena, the buffers' addresses, the constants, the bound
// kernels. A backend gives a KernelRegistry, and may give a choice of layouts and a way to bind a
// kernel whose operands' layouts its implementations do not take.
//
//   return HostPlan::load(plan, options, registry);           // the whole of the reference backend
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_HOSTPLAN_H
#define TESSERA_RUNTIME_BACKEND_HOSTPLAN_H

#include "runtime/backend/Kernel.h"

#include <functional>

namespace tessera::rt {

/// Anonymous memory, zero at first, aligned to a page (a huge page where it is large).
class HostMemory {
public:
  HostMemory() = default;
  HostMemory(HostMemory &&other) noexcept { *this = std::move(other); }
  HostMemory &operator=(HostMemory &&other) noexcept;
  HostMemory(const HostMemory &) = delete;
  HostMemory &operator=(const HostMemory &) = delete;
  ~HostMemory();
  static Result<HostMemory> allocate(size_t bytes);
  std::byte *data() const { return data_; }
  size_t size() const { return size_; }

private:
  std::byte *data_ = nullptr;
  size_t size_ = 0;
};

/// A plan's buffers as views into an arena at `base` (null: addresses are null), checked. `layouts`: one per
/// buffer, or empty for all plain. Offsets double when widened. For backends whose memory is elsewhere too.
Status resolveBuffers(const plan::Plan &plan, bool widen, const std::vector<Layout> &layouts, std::byte *base,
                      std::vector<TensorView> &views);
/// The call of a kernel step on these buffers, checked.
Status resolveCall(const plan::Plan &plan, const plan::Step &step, const std::vector<TensorView> &buffers,
                   const LoadOptions &options, KernelCall &call);
/// A constant's contents in the element type in which it is held.
std::vector<std::byte> constantContents(const plan::Buffer &buffer, const TensorView &held);

class HostPlan final : public LoadedPlan {
public:
  using Binder = std::function<BindResult(const KernelCall &)>;

  /// `layouts`: one per buffer, or empty for all plain. `bind` null: nothing is bound or executed.
  /// `prefix` opens every description ("cpu").
  static Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options,
                                                  std::string prefix, const Binder &bind,
                                                  std::vector<Layout> layouts = {});
  /// The calls of a plan before it is loaded: shapes and types are set, addresses are null. For the
  /// choice of layouts. Collectives give an empty call. The buffers are checked.
  static Result<std::vector<std::vector<KernelCall>>> calls(const plan::Plan &plan, const LoadOptions &options);

  size_t arenaBytes() const override { return arena_.size(); }
  size_t scratchBytes() const override { return scratch_.size(); }
  void *address(uint32_t buffer) override;
  Layout layout(uint32_t buffer) const override;
  plan::DType dtype(uint32_t buffer) const override;
  Status upload(uint32_t buffer, const void *host) override;
  Status download(uint32_t buffer, void *host) override;
  Status launch(uint32_t program, uint32_t step) override;
  Status synchronize() override { return Status(); }
  std::string describe(uint32_t program, uint32_t step) const override;
  bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) override;

private:
  const plan::Plan *plan_ = nullptr;
  std::string prefix_;
  HostMemory arena_, scratch_;
  std::vector<TensorView> buffers_;
  std::vector<std::vector<std::unique_ptr<BoundKernel>>> kernels_; // null: a collective, or unbound
};

} // namespace tessera::rt

#endif
