//===- ResolvedPlan.h - what loaded plans share, wherever their memory is -----------------------------===//
//
// The plan's buffers as views, its steps as calls of kernels, all checked; and those methods of LoadedPlan that follow.
// A backend derives its loaded plan from ResolvedPlan and adds memory, kernels and copies (null/NullBackend.cpp is the
// example):
//
//   TESSERA_RETURN_IF_ERROR(resolveCalls(plan, options).status());             // nothing is allocated yet
//   TESSERA_RETURN_IF_ERROR(placeBuffers(options.widen, layouts, arena));           // the buffers lie in the arena now
//   KernelCall call;                                                           // of a step, to bind a kernel to
//   TESSERA_RETURN_IF_ERROR(resolveCall(plan, step, buffers(), options, call));
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_RESOLVEDPLAN_H
#define TESSERA_RUNTIME_BACKEND_RESOLVEDPLAN_H

#include "runtime/backend/Kernel.h"
#include "runtime/plan/Frames.h"

namespace tessera::rt {

/// A plan's buffers as views into an arena at `base` (null: addresses are null), checked. `layouts`: one per
/// buffer, or empty for all plain. Offsets double when widened.
Status resolveBuffers(const plan::Plan &plan, bool widen, const std::vector<Layout> &layouts, std::byte *base,
                      std::vector<TensorView> &views);
/// The call of a kernel step on these buffers, checked.
Status resolveCall(const plan::Plan &plan, const plan::Step &step, const std::vector<TensorView> &buffers,
                   const LoadOptions &options, KernelCall &call);
/// The calls of a plan before it is loaded, by program and step: shapes and types are set, addresses are not. For the
/// checks before memory is allocated, and the choice of layouts. Collectives give an empty call.
Result<std::vector<std::vector<KernelCall>>> resolveCalls(const plan::Plan &plan, const LoadOptions &options);
/// The call of the same step where calls of its section with this index find its operands.
void moveCall(const plan::Kernel &kernel, const plan::Plan &plan, const Frames &frames, uint32_t index,
              KernelCall &call);
/// A constant's contents in the element type in which it is held.
std::vector<std::byte> constantContents(const plan::Buffer &buffer, const TensorView &held);

/// By buffer: the one that it is a view of, at whatever remove, or itself.
std::vector<uint32_t> wholeBuffers(const plan::Plan &plan);

/// Refuses arenas of impossible size, before their size is used in sums.
Status checkArena(const plan::Plan &plan);

class ResolvedPlan : public LoadedPlan {
public:
  void *address(uint32_t buffer) override;
  void *addressAt(uint32_t buffer, uint32_t index) override;
  Layout layout(uint32_t buffer) const override;
  plan::DType dtype(uint32_t buffer) const override;
  /// "PREFIX: KERNEL IMPLEMENTATION", "PREFIX: collective", "PREFIX: send".
  std::string describe(uint32_t program, uint32_t step) const override;

protected:
  /// `prefix` opens every description. The plan outlives this.
  ResolvedPlan(const plan::Plan &plan, std::string prefix) : plan_(plan), prefix_(std::move(prefix)), frames_(plan) {}
  Status placeBuffers(bool widen, const std::vector<Layout> &layouts, std::byte *arena) {
    widen_ = widen;
    return resolveBuffers(plan_, widen, layouts, arena, buffers_);
  }
  /// For backends that hold some buffers elsewhere.
  std::vector<TensorView> &placedBuffers() { return buffers_; }
  /// Uploads the plan's constants.
  Status writeConstants();

  const plan::Plan &plan() const { return plan_; }
  const std::vector<TensorView> &buffers() const { return buffers_; } // in the first places of their frames
  const Frames &frames() const { return frames_; }
  /// So many bytes further than at this byte of the loaded arena a buffer begins in calls with this index.
  uint64_t shiftOf(uint64_t byte, uint32_t index) const {
    const uint64_t scale = widen_ ? 2 : 1;
    return frames_.empty() ? 0 : frames_.shift(byte / scale, index) * scale;
  }
  /// After so many indices what begins at this byte lies in the same place again.
  uint32_t slotsOf(uint64_t byte) const { return frames_.slots(byte / (widen_ ? 2 : 1)); }
  const plan::Step &step(uint32_t program, uint32_t step) const;
  /// "step 'fc1.matmul'", for messages.
  std::string stepText(uint32_t program, uint32_t step) const;
  Status checkBuffer(uint32_t buffer) const;
  Status checkStep(uint32_t program, uint32_t step) const;
  /// The implementation of a kernel's step: "oneDNN jit:avx512_core". Only called for existing steps that are no
  /// collectives.
  virtual std::string implementation(uint32_t program, uint32_t step) const = 0;

private:
  const plan::Plan &plan_;
  std::string prefix_;
  const Frames frames_;
  std::vector<TensorView> buffers_;
  bool widen_ = false;
};

} // namespace tessera::rt

#endif
