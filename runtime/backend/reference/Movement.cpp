// reshape, transpose, slice, pad, concat, micro_rows: strided copies of elements of 1, 2, 4 or 8 bytes.
#include "runtime/backend/reference/ReferenceBackend.h"

#include "runtime/backend/Half.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tessera::rt {
namespace {

std::byte *at(const TensorView &t, int64_t element) {
  return t.as<std::byte>() + element * int64_t(bytesPerElement(t.dtype));
}

/// A reshape that keeps the shape accepts any layout that both operands share.
bool acceptsReshape(const KernelCall &call) {
  return acceptsPlain(call) ||
         (call.inputs[0].shape == call.outputs[0].shape && call.inputs[0].layout == call.outputs[0].layout);
}

BindResult bindReshape(const KernelCall &call) {
  TensorView x = call.inputs[0], y = call.outputs[0];
  return bindFunction("reference", [=](std::byte *) { std::memmove(y.data, x.data, x.bytes()); });
}

BindResult bindTranspose(const KernelCall &call) {
  int threads = call.threads;
  TensorView x = call.inputs[0], y = call.outputs[0];
  Shape own = rowMajorStrides(x.shape), strides;
  for (int64_t d : call.intsAttribute("perm"))
    strides.push_back(own[size_t(d)]);
  return bindFunction("reference", [=](std::byte *) {
    copyStrided(y.data, rowMajorStrides(y.shape), x.data, strides, y.shape, bytesPerElement(y.dtype), threads);
  });
}

/// The copy that a slice is in layouts of which it cuts no block; nothing where it steps over elements.
std::optional<StridedCopy> sliceInBlocks(const KernelCall &call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Shape steps = call.intsAttribute("strides");
  for (size_t d = 0; d < steps.size(); ++d)
    if (steps[d] != 1 && y.shape[d] > 1)
      return std::nullopt;
  return copyOfBox({y.layout, y.shape, Shape(y.shape.size(), 0)}, {x.layout, x.shape, call.intsAttribute("starts")},
                   y.shape);
}

bool acceptsSlice(const KernelCall &call) { return acceptsPlain(call) || sliceInBlocks(call); }

BindResult bindSlice(const KernelCall &call) {
  int threads = call.threads;
  TensorView x = call.inputs[0], y = call.outputs[0];
  if (std::optional<StridedCopy> copy = sliceInBlocks(call))
    return bindFunction("reference",
                        [=](std::byte *) { copy->run(y.data, x.data, bytesPerElement(y.dtype), threads); });
  Shape strides = rowMajorStrides(x.shape), starts = call.intsAttribute("starts");
  Shape steps = call.intsAttribute("strides");
  int64_t first = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    first += starts[d] * strides[d];
    if (y.shape[d] > 1) // where the extent is 1 the stride is not used and may be huge
      strides[d] *= steps[d];
  }
  return bindFunction("reference", [=](std::byte *) {
    copyStrided(y.data, rowMajorStrides(y.shape), at(x, first), strides, y.shape, bytesPerElement(y.dtype), threads);
  });
}

void fill(const TensorView &y, double value) {
  auto run = [&](auto v) {
    auto *p = y.as<decltype(v)>();
    std::fill_n(p, y.elements(), v);
  };
  if (y.dtype == plan::F16)
    run(toHalf(float(value)));
  else if (y.dtype == plan::BF16)
    run(toBfloat16(float(value)));
  else
    dispatchNumber(y.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_floating_point_v<T>)
        run(static_cast<T>(value));
      else
        run(static_cast<T>(value >= -0x1p63 && value < 0x1p63 ? int64_t(value) : 0));
    });
}

BindResult bindPad(const KernelCall &call) {
  int threads = call.threads;
  TensorView x = call.inputs[0], y = call.outputs[0];
  Shape strides = rowMajorStrides(y.shape), lo = call.intsAttribute("lo");
  Shape inner = call.intsAttribute("inner");
  double value = call.floatAttribute("value");
  int64_t first = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    first += lo[d] * strides[d];
    if (x.shape[d] > 1)
      strides[d] *= inner[d] + 1;
  }
  return bindFunction("reference", [=](std::byte *) {
    fill(y, value);
    copyStrided(at(y, first), strides, x.data, rowMajorStrides(x.shape), x.shape, bytesPerElement(y.dtype), threads);
  });
}

/// The copies that a concatenation is; nothing where one of them cuts a block of a layout.
std::optional<std::vector<StridedCopy>> concatenated(const KernelCall &call) {
  const TensorView &y = call.outputs[0];
  const auto dim = size_t(call.intAttribute("dim"));
  const Shape none(y.shape.size(), 0);
  Shape begin = none;
  std::vector<StridedCopy> copies;
  for (const TensorView &x : call.inputs) {
    std::optional<StridedCopy> copy = copyOfBox({y.layout, y.shape, begin}, {x.layout, x.shape, none}, x.shape);
    if (!copy)
      return std::nullopt;
    copies.push_back(std::move(*copy));
    begin[dim] += x.shape[dim];
  }
  return copies;
}

bool acceptsConcat(const KernelCall &call) { return acceptsPlain(call) || concatenated(call); }

BindResult bindConcat(const KernelCall &call) {
  int threads = call.threads;
  return bindFunction("reference",
                      [=, xs = call.inputs, y = call.outputs[0], copies = *concatenated(call)](std::byte *) {
                        for (size_t i = 0; i < xs.size(); ++i)
                          copies[i].run(y.data, xs[i].data, bytesPerElement(y.dtype), threads);
                      });
}

/// Whole rows lie together in every layout that has no blocks of dimension 0.
bool acceptsMicroRows(const KernelCall &call) {
  const Layout &layout = call.inputs[0].layout;
  return layout == call.outputs[0].layout &&
         std::none_of(layout.inner.begin(), layout.inner.end(), [](const auto &block) { return block.first == 0; });
}

class MicroRows final : public BoundKernel {
public:
  explicit MicroRows(const KernelCall &call)
      : x_(call.inputs[0]), y_(call.outputs[0]), parts_(call.intAttribute(kParts)), index_(call.index),
        threads_(call.threads) {}

  Status run(std::byte *) override {
    const int64_t index = index_ ? *index_ : 0, rows = y_.shape[0];
    if (index >= parts_)
      return Status::error("there is no micro-batch " + std::to_string(index + 1) + " of " + std::to_string(parts_));
    const int64_t row = rows ? y_.elements() / rows : 0; // elements
    copyStrided(y_.data, {row, 1}, at(x_, index * row), {parts_ * row, 1}, {rows, row}, bytesPerElement(y_.dtype),
                threads_);
    return Status();
  }
  std::string describe() const override { return "reference"; }

private:
  const TensorView x_, y_;
  const int64_t parts_;
  const uint32_t *const index_;
  const int threads_;
};

BindResult bindMicroRows(const KernelCall &call) { return BindResult(std::make_unique<MicroRows>(call)); }

} // namespace

void registerReferenceMovement(KernelRegistry &registry) {
  registry.add("reshape", {"reference", acceptsReshape, bindReshape});
  registry.add("transpose", {"reference", acceptsPlain, bindTranspose});
  registry.add("slice", {"reference", acceptsSlice, bindSlice});
  registry.add("pad", {"reference", acceptsPlain, bindPad});
  registry.add("concat", {"reference", acceptsConcat, bindConcat});
  registry.add(kMicroRows, {"reference", acceptsMicroRows, bindMicroRows});
}

} // namespace tessera::rt
