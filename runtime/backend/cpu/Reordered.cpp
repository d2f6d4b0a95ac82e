#include "runtime/backend/cpu/Reordered.h"

namespace tessera::rt {
namespace {

size_t roundUp(size_t n) { return (n + 63) / 64 * 64; }

/// Copies operands to plain layout, runs the kernel, and copies results back.
class ReorderedKernel final : public BoundKernel {
public:
  /// One operand that is copied. `offset` is its place in the scratch.
  struct Copy {
    TensorView buffer;
    size_t offset;
    bool output;
  };

  ReorderedKernel(std::vector<Copy> copies, size_t copyBytes, int threads, std::function<BindResult(std::byte *)> bind)
      : copies_(std::move(copies)), copyBytes_(copyBytes), threads_(threads), bind_(std::move(bind)) {}

  Status prepare() {
    // The kernel is bound once without memory, to learn its description and its scratch size.
    BindResult bound = bind_(reinterpret_cast<std::byte *>(64));
    if (!bound)
      return bound.status();
    innerScratch_ = (*bound)->scratchBytes();
    kept_ = (*bound)->keptBytes();
    description_ = (*bound)->describe();
    return Status();
  }

  size_t scratchBytes() const override { return copyBytes_ + innerScratch_; }
  size_t keptBytes() const override { return kept_; }
  std::string describe() const override {
    return description_ + " with " + std::to_string(copies_.size()) + " reorders";
  }

  Status run(std::byte *scratch) override {
    if (!inner_ || boundTo_ != scratch) {
      BindResult bound = bind_(scratch);
      if (!bound)
        return bound.status();
      inner_ = std::move(*bound);
      boundTo_ = scratch;
    }
    for (const Copy &c : copies_)
      if (!c.output)
        convertLayout(scratch + c.offset, Layout(), c.buffer.data, c.buffer.layout, c.buffer.shape,
                      bytesPerElement(c.buffer.dtype), threads_);
    TESSERA_RETURN_IF_ERROR(inner_->run(scratch + copyBytes_));
    for (const Copy &c : copies_)
      if (c.output)
        convertLayout(c.buffer.data, c.buffer.layout, scratch + c.offset, Layout(), c.buffer.shape,
                      bytesPerElement(c.buffer.dtype), threads_);
    return Status();
  }

private:
  std::vector<Copy> copies_;
  size_t copyBytes_, innerScratch_ = 0, kept_ = 0;
  int threads_;
  std::function<BindResult(std::byte *)> bind_;
  std::unique_ptr<BoundKernel> inner_;
  std::byte *boundTo_ = nullptr;
  std::string description_;
};

} // namespace

BindResult bindReordered(const KernelCall &call, const BindCall &bind) {
  std::vector<ReorderedKernel::Copy> copies;
  size_t bytes = 0;
  auto place = [&](const TensorView &t, bool output) {
    if (t.layout.plain())
      return;
    copies.push_back({t, bytes, output});
    bytes += roundUp(t.bytes());
  };
  for (const TensorView &t : call.inputs)
    place(t, false);
  for (const TensorView &t : call.outputs)
    place(t, true);
  auto bindPlain = [bind, call, copies](std::byte *scratch) {
    KernelCall plain = call;
    size_t next = 0;
    for (auto *list : {&plain.inputs, &plain.outputs})
      for (TensorView &t : *list)
        if (!t.layout.plain()) {
          t.data = scratch + copies[next++].offset;
          t.layout = Layout();
          t.edition = nullptr; // the copy is made in each run
        }
    return bind(plain);
  };
  auto kernel = std::make_unique<ReorderedKernel>(copies, bytes, call.threads, bindPlain);
  TESSERA_RETURN_IF_ERROR(kernel->prepare());
  return BindResult(std::move(kernel));
}

} // namespace tessera::rt
