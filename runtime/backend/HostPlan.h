//===- HostPlan.h - a loaded plan in host memory ----------------------------------------------===//
//
// The part that all backends on the CPU share: the arena, the buffers' addresses, the constants, the bound kernels. A
// backend passes a KernelRegistry. It may also pass a choice of layouts, and a way to bind kernels whose
// implementations do not accept the operands' layouts.
//
//   return HostPlan::load(plan, options, registry);           // the whole of the reference backend
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_HOSTPLAN_H
#define TESSERA_RUNTIME_BACKEND_HOSTPLAN_H

#include "runtime/backend/ResolvedPlan.h"

#include <functional>

namespace tessera::rt {

class BufferUses;

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

class HostPlan final : public ResolvedPlan, private FiniteWatch {
public:
  using Binder = std::function<BindResult(const KernelCall &)>;

  /// Binds a step together with the next one, a loop that alone reads its result, as the loop's input number `input`.
  /// Null: they run one by one.
  using PairBinder = std::function<BindResult(const KernelCall &first, const KernelCall &loop, size_t input)>;

  /// `layouts` has one layout per buffer, or is empty if all are plain. `prefix` opens every description ("cpu").
  /// `bindPair`: empty where all steps run by themselves.
  static Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options,
                                                  std::string prefix, const Binder &bind,
                                                  const std::vector<Layout> &layouts = {},
                                                  const PairBinder &bindPair = {});

  size_t arenaBytes() const override { return arena_.size(); }
  size_t scratchBytes() const override { return scratch_.size() + kept_; }
  Status upload(uint32_t buffer, const void *host) override { return uploadAt(buffer, 0, host); }
  Status download(uint32_t buffer, void *host) override { return downloadAt(buffer, 0, host); }
  Status uploadAt(uint32_t buffer, uint32_t index, const void *host) override;
  Status downloadAt(uint32_t buffer, uint32_t index, void *host) override;
  Status launch(uint32_t program, uint32_t step, uint32_t index) override;
  std::optional<AsRun> asRun(uint32_t program, uint32_t step) const override;
  Status synchronize() override { return Status(); }
  Capabilities capabilities() override { return {.finite = this}; }

private:
  HostPlan(const plan::Plan &plan, std::string prefix);
  Status bind(const LoadOptions &options, const Binder &bind, const PairBinder &bindPair);
  Status bindPairs(uint32_t program, const LoadOptions &options, const PairBinder &bindPair, const BufferUses &uses);
  void markConstants(const BufferUses &uses);
  uint64_t variantsOf(const plan::Kernel &kernel, uint64_t indices) const;
  std::string implementation(uint32_t program, uint32_t step) const override;
  bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) override;

  HostMemory arena_, scratch_;
  size_t kept_ = 0;      // by the kernels themselves
  uint64_t edition_ = 0; // how often a buffer was written from outside that no step writes
  uint32_t index_ = 0;   // of the running call; kernels may read it
  /// A step's kernel, bound to every combination of places in which it runs: to kernel index mod size. Empty: none.
  using Variants = std::vector<std::unique_ptr<BoundKernel>>;
  std::vector<std::vector<Variants>> kernels_; // by program, step
  std::vector<std::vector<uint64_t>> pairs_;   // by program, step that runs with the next one: the bytes of both, or 0
};

} // namespace tessera::rt

#endif
