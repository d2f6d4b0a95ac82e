//===- NullBackend.cpp - the skeleton of a backend -----------------------------------------------------===//
//
// Copy this folder to begin a backend. The numbers are the steps of docs/adding-a-backend.md, in the order in which
// they are best written. Every step is done here in the least way that keeps the promises of Backend.h. A comment
// "Device:" says what stands in its place where the host does not share the memory.
//
//===----------------------------------------------------------------------------------------------===//
#include "runtime/backend/null/NullBackend.h"
#include "runtime/backend/HostPlan.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

class NullPlan final : public ResolvedPlan {
public:
  static Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options);

  // 2. Memory.
  size_t arenaBytes() const override { return arena_.size(); }
  size_t scratchBytes() const override { return scratch_.size(); }
  // 3. Copies.
  Status upload(uint32_t buffer, const void *host) override;
  Status download(uint32_t buffer, void *host) override;
  // 5. Running.
  Status launch(uint32_t program, uint32_t step, uint32_t index) override;
  Status synchronize() override;
  // 6. Capabilities.
  Capabilities capabilities() override;

private:
  /// The data that one step needs to run. A real backend keeps here what it has chosen and prepared for the call.
  struct Kernel {
    std::string description; // "oneDNN jit:avx512_core": after it, traces and tests tell choices apart
    size_t scratchBytes = 0;
  };

  explicit NullPlan(const plan::Plan &plan) : ResolvedPlan(plan, "null") {}
  Status allocate(const LoadOptions &options);
  Status bind(const LoadOptions &options);
  Kernel choose(const KernelCall &call) const;
  std::string implementation(uint32_t program, uint32_t step) const override;

  HostMemory arena_, scratch_;               // Device: memory of the device
  std::vector<std::vector<Kernel>> kernels_; // by program, step; a collective's is empty
};

// 1. Loading. Everything that can fail for a reason in the plan or the device fails here, in one sentence.
Result<std::unique_ptr<LoadedPlan>> NullPlan::load(const plan::Plan &plan, const LoadOptions &options) {
  // All of the plan is checked before a byte is allocated.
  TESSERA_RETURN_IF_ERROR(checkArena(plan));
  TESSERA_RETURN_IF_ERROR(resolveCalls(plan, options).status());
  std::unique_ptr<NullPlan> loaded(new NullPlan(plan));
  TESSERA_RETURN_IF_ERROR(loaded->allocate(options));
  TESSERA_RETURN_IF_ERROR(loaded->bind(options));
  TESSERA_RETURN_IF_ERROR(loaded->writeConstants()); // by upload()
  return std::unique_ptr<LoadedPlan>(std::move(loaded));
}

// 2. Memory: one arena, zero at first, so that what a wrong plan reads is the same in every run.
Status NullPlan::allocate(const LoadOptions &options) {
  Result<HostMemory> arena = HostMemory::allocate(plan().arena_bytes() * (options.widen ? 2 : 1));
  if (!arena)
    return arena.status().context("arena");
  arena_ = std::move(*arena);
  // A backend that wants other layouts than plain ones chooses them here, one per buffer (Layouts.h).
  const std::vector<Layout> layouts;
  return placeBuffers(options.widen, layouts, arena_.data());
}

// 3. Copies between the host's plain row-major tensors and the buffers as they are held.
//    Device: upload() may return before the copy is done, but `host` is the caller's again; download() waits for all
//    that was enqueued. A layout that is not plain goes through convertLayout() (Tensor.h).
Status NullPlan::upload(uint32_t buffer, const void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  const TensorView &held = buffers()[buffer];
  std::memcpy(held.data, host, held.bytes());
  return Status();
}

Status NullPlan::download(uint32_t buffer, void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  const TensorView &held = buffers()[buffer];
  std::memcpy(host, held.data, held.bytes());
  return Status();
}

// 4. Kernels: for every step the best implementation that takes its operands, and the largest scratch of all.
//    On the host that is a KernelRegistry, and HostPlan does the rest: a backend of the host copies
//    ReferenceBackend.cpp instead of this file. Device: compile and prepare here, so that launch() only enqueues.
Status NullPlan::bind(const LoadOptions &options) {
  size_t scratch = 0;
  for (const plan::Program &program : plan().programs()) {
    auto &kernels = kernels_.emplace_back();
    for (const plan::Step &step : program.steps()) {
      Kernel &kernel = kernels.emplace_back();
      if (!step.has_kernel())
        continue; // a collective is the executor's
      KernelCall call;
      TESSERA_RETURN_IF_ERROR(
          resolveCall(plan(), step, buffers(), options, call).context("step '" + step.name() + "'"));
      kernel = choose(call);
      scratch = std::max(scratch, kernel.scratchBytes);
    }
  }
  Result<HostMemory> memory = HostMemory::allocate(scratch);
  if (!memory)
    return memory.status().context("kernel scratch");
  scratch_ = std::move(*memory);
  return Status();
}

NullPlan::Kernel NullPlan::choose(const KernelCall &) const { return {"does nothing", 0}; }

std::string NullPlan::implementation(uint32_t program, uint32_t step) const {
  return kernels_[program][step].description;
}

// 5. Running. Device: launch() enqueues on one stream and returns; synchronize() waits, and reports what failed.
//    Only the kernel "micro_rows" needs the index.
Status NullPlan::launch(uint32_t program, uint32_t step, uint32_t) { return checkStep(program, step); }

Status NullPlan::synchronize() { return Status(); }

// 6. Capabilities: none are needed. Device: `onHost` is false from the first day; then, in the order of what they
//    gain, `programs`, `inputs`, `finite`, `snapshots`, `timers`. CudaPlan has them all.
Capabilities NullPlan::capabilities() { return {}; }

class NullBackend final : public Backend {
public:
  std::string_view name() const override { return "null"; }
  Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) override {
    return NullPlan::load(plan, options);
  }
};

} // namespace

// 7. Registration: a row in Backend.cpp.
std::unique_ptr<Backend> createNullBackend() { return std::make_unique<NullBackend>(); }

} // namespace tessera::rt
