#include "runtime/backend/cuda/bind/ChannelsLast.h"

namespace tessera::rt::cuda {
namespace {

/// [N, C, H, W] -> [N, H, W, C]
Shape permuted(const Shape &sizes) {
  Shape result = {sizes[0]};
  result.insert(result.end(), sizes.begin() + 2, sizes.end());
  result.push_back(sizes[1]);
  return result;
}

} // namespace

std::optional<PaddedRows> layoutsFor(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls,
                                     const LoadOptions &options) {
  if (options.widen || plan.leaves() > 0)
    return std::nullopt;
  return PaddedRows(plan, calls, channelsLast(plan, calls, options.device.tf32));
}

bool liesChannelsLast(const TensorView &t) {
  if (t.shape.size() < 3)
    return false;
  return t.layout.plain() ? t.shape[1] == 1 || pointsOf(t.shape) == 1 : t.layout == channelsLastLayout(t.shape);
}

Shape channelsLastStrides(const Shape &shape) {
  Shape strides(shape.size(), 1);
  if (shape.size() < 3)
    return rowMajorStrides(shape);
  int64_t step = shape[1];
  for (size_t d = shape.size(); d-- > 2; step *= shape[d])
    strides[d] = step;
  strides[0] = step;
  return strides;
}

std::vector<Layout> channelsLast(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls, bool tf32) {
  LayoutWishes wishes;
  wishes.wanted = [tf32](plan::DType type, bool) {
    return type == plan::F16 || type == plan::BF16 || (tf32 && type == plan::F32);
  };
  wishes.layout = [](const Shape &shape, bool) { return channelsLastLayout(shape); };
  wishes.plain.assign(size_t(plan.buffers_size()), false);
  for (const plan::Binding &binding : plan.bindings()) // the host sends these in plain layout
    if (binding.role() == plan::INPUT || binding.role() == plan::TARGET)
      wishes.plain[binding.buffer()] = true;
  for (;;) {
    std::vector<Layout> layouts = chooseLayouts(plan, calls, wishes);
    bool good = true;
    for (const plan::Program &program : plan.programs())
      for (const plan::Step &step : program.steps()) {
        if (!step.has_collective())
          continue;
        const uint32_t in = step.collective().input(), out = step.collective().output();
        if (layouts[in] == layouts[out])
          continue;
        good = false; // every round makes at least one more buffer plain
        wishes.plain[in] = wishes.plain[out] = true;
      }
    if (good)
      return layouts;
  }
}

std::optional<ExpressionCode> withChannelsLast(const ExpressionCode &code, const KernelCall &call) {
  const size_t rank = code.domain.size();
  if (rank < 3)
    return std::nullopt;
  // A plain operand has the same bytes either way if it has one channel, or only channels after the first dimension.
  auto fits = [&](const TensorView &t, const Shape &view) {
    if (view.size() != rank)
      return false;
    return t.layout.plain() ? view[1] == 1 || pointsOf(view) == 1 : t.shape == view && liesChannelsLast(t);
  };
  ExpressionCode last = code;
  last.domain = permuted(code.domain);
  for (size_t i = 0; i < code.inputs.size(); ++i) {
    if (!fits(call.inputs[i], code.inputs[i].view))
      return std::nullopt;
    last.inputs[i].view = permuted(code.inputs[i].view);
  }
  for (size_t r = 0; r < code.results.size(); ++r) {
    if (!fits(call.outputs[r], code.results[r].view))
      return std::nullopt;
    last.results[r].view = permuted(code.results[r].view);
  }
  for (Instr &instr : last.code) {
    if (instr.op == Op::Iota && instr.dim > 0)
      instr.dim = instr.dim == 1 ? rank - 1 : instr.dim - 1;
    if (instr.op == Op::Random)
      instr.globalStrides = permuted(instr.globalStrides);
  }
  return last;
}

} // namespace tessera::rt::cuda
