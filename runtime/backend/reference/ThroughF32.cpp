// Kernels of F16 and BF16 that compute in F32, or in F64 if another operand is F64.
#include "runtime/backend/reference/ReferenceBackend.h"

#include "runtime/backend/Half.h"
#include "runtime/backend/Parallel.h"

namespace tessera::rt {
namespace {

bool isHalf(plan::DType type) { return type == plan::F16 || type == plan::BF16; }

/// The scratch memory begins with the copies, one after the other, and ends with the kernel's own.
class ThroughF32 final : public BoundKernel {
public:
  ThroughF32(const KernelCall &call, BindCall bind) : call_(call), wide_(call), bind_(std::move(bind)) {
    plan::DType wide = plan::F32;
    for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
      for (const TensorView &view : *views)
        if (view.dtype == plan::F64)
          wide = plan::F64;
    if (isHalf(call.outputs[0].dtype))
      wide_.narrowed = call.outputs[0].dtype;
    for (std::vector<TensorView> *views : {&wide_.inputs, &wide_.outputs})
      for (size_t i = 0; i < views->size(); ++i)
        if (TensorView &view = (*views)[i]; isHalf(view.dtype)) {
          view.dtype = wide;
          view.edition = nullptr; // the copy is made in each run
          copies_ += views == &wide_.inputs && copyOf(i) < i ? 0 : (view.bytes() + 63) / 64 * 64;
        }
  }

  /// Binds the kernel once without memory. False: there is none.
  Result<bool> prepare() {
    BindResult bound = bind_(wide_);
    if (!bound)
      return bound.status();
    if (!*bound)
      return false;
    own_ = (*bound)->scratchBytes();
    kept_ = (*bound)->keptBytes();
    description_ = (*bound)->describe() + ", in f32";
    return true;
  }

  size_t scratchBytes() const override { return copies_ + own_; }
  size_t keptBytes() const override { return kept_; }
  std::string describe() const override { return description_; }

  Status run(std::byte *scratch) override {
    std::byte *place = scratch;
    auto lay = [&](const std::vector<TensorView> &views, std::vector<TensorView> &wide) {
      for (size_t i = 0; i < views.size(); ++i)
        if (isHalf(views[i].dtype)) {
          if (&views == &call_.inputs && copyOf(i) < i) {
            wide[i].data = wide[copyOf(i)].data;
            continue;
          }
          wide[i].data = place;
          place += (wide[i].bytes() + 63) / 64 * 64;
        }
    };
    lay(call_.inputs, wide_.inputs);
    lay(call_.outputs, wide_.outputs);
    for (size_t i = 0; i < call_.inputs.size(); ++i)
      if (copyOf(i) == i)
        convert(call_.inputs[i], wide_.inputs[i]);
    if (!inner_ || boundTo_ != scratch) {
      BindResult bound = bind_(wide_);
      if (!bound)
        return bound.status();
      inner_ = std::move(*bound);
      boundTo_ = scratch;
    }
    TESSERA_RETURN_IF_ERROR(inner_->run(place));
    for (size_t i = 0; i < call_.outputs.size(); ++i)
      convert(wide_.outputs[i], call_.outputs[i]);
    return Status();
  }

private:
  /// The first of the operands that are the same tensor as this one, as where each is a part of it.
  size_t copyOf(size_t input) const {
    for (size_t i = 0; i < input; ++i)
      if (call_.inputs[i].data == call_.inputs[input].data && call_.inputs[i].dtype == call_.inputs[input].dtype &&
          call_.inputs[i].shape == call_.inputs[input].shape)
        return i;
    return input;
  }

  void convert(const TensorView &from, const TensorView &to) const {
    int64_t n = from.elements();
    auto each = [&](const auto *x, auto *y, auto f) {
      parallelFor(call_.threads, n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          y[i] = f(x[i]);
      });
    };
    auto widen = [](auto x) { return toFloat(x); };
    auto dispatch = [&](auto tag) {
      using T = decltype(tag);
      if (from.dtype == plan::F16)
        each(from.as<Half>(), to.as<T>(), widen);
      else if (from.dtype == plan::BF16)
        each(from.as<Bfloat16>(), to.as<T>(), widen);
      else if (to.dtype == plan::F16)
        each(from.as<T>(), to.as<Half>(), [](T x) { return toHalf(float(x)); });
      else
        each(from.as<T>(), to.as<Bfloat16>(), [](T x) { return toBfloat16(float(x)); });
    };
    if (from.dtype == to.dtype)
      return; // no copy
    if (from.dtype == plan::F64 || to.dtype == plan::F64)
      dispatch(double());
    else
      dispatch(float());
  }

  KernelCall call_, wide_;
  BindCall bind_;
  std::unique_ptr<BoundKernel> inner_;
  std::byte *boundTo_ = nullptr;
  size_t copies_ = 0, own_ = 0, kept_ = 0;
  std::string description_;
};

} // namespace

bool hasHalf(const KernelCall &call) {
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (isHalf(view.dtype))
        return true;
  return false;
}
bool acceptsHalf(const KernelCall &call) { return hasHalf(call) && acceptsPlain(call); }

BindResult bindThroughF32(const KernelCall &call, BindCall bind) {
  auto kernel = std::make_unique<ThroughF32>(call, std::move(bind));
  Result<bool> found = kernel->prepare();
  if (!found)
    return found.status();
  return *found ? BindResult(std::move(kernel)) : std::unique_ptr<BoundKernel>();
}

} // namespace tessera::rt
