// conv, conv_input_grad, conv_weight_grad. Activations are taken as they lie where oneDNN has a fast
// implementation for that, else reordered to what it prefers; weights are always given as it prefers.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cpu/LoopFunction.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/support/Winograd.h"

#include <algorithm>
#include <array>
#include <span>

namespace tessera::rt {
namespace {

using dnnl::memory;

struct ConvCall {
  ConvGeometry g;
  Wanted wanted;
  memory::desc x, w, y; // as they lie
  memory::dims strides, dilations, padLo, padHi;
  bool winograd = false;    // tried first
  bool keptWeights = false; // which no step writes: they are prepared once
  dnnl::algorithm algorithm = dnnl::algorithm::convolution_direct;
  /// Winograd's algorithm takes weights transformed where they need not be written.
  dnnl::prop_kind kind() const {
    return algorithm == dnnl::algorithm::convolution_winograd && keptWeights ? dnnl::prop_kind::forward_inference
                                                                             : dnnl::prop_kind::forward_training;
  }
};

/// Whether an element's terms are added in an order that depends on their number alone. The code for single points cuts
/// the channels that it sums over in chunks, by the number of the others and by the size of the image. Products of
/// matrices (gemm) do so by threads and by the size of small images. A gradient of weights sums over pixels.
bool keepsOrder(const std::string &implementation) {
  return implementation.find("1x1") == std::string::npos && implementation.find("gemm") == std::string::npos;
}

/// The same of a gradient of weights. On processors without AVX-512 products of matrices cut the pixels that they sum
/// over in chunks, by the number of channels.
bool keepsOrderOfPixels(const std::string &implementation) {
  return !isNarrow(dnnl::get_effective_cpu_isa()) || implementation.find("gemm") == std::string::npos;
}

/// oneDNN wants paddings that give exactly the output's extent. In gradients pad_hi may be any of `stride` values. 0 is
/// taken where it is one of them, since oneDNN supports it best.
int64_t exactPadHi(const ConvGeometry &g, size_t d) {
  int64_t low = (g.out[d] - 1) * g.stride[d] + g.dilation[d] * (g.kernel[d] - 1) + 1 - g.in[d] - g.padLo[d];
  return low > 0 ? low : std::min<int64_t>(0, low + g.stride[d] - 1);
}

/// What Winograd's algorithm may take of scratch memory. Gradients of 512 x 512 channels would take 126 MB, more than
/// their operands. Its results differ from those of the direct algorithm by 1e-6 to 3e-6 of their norm.
constexpr size_t kMostWinogradBytes = 48 << 20;

bool isForWinograd(const KernelCall &call, const ConvCall &c) {
  const ConvGeometry &g = c.g;
  const auto spatial = [&](const std::array<int64_t, 3> &sizes) { return std::span(sizes).last(g.spatial); };
  const auto isSingle = [](const TensorView &view) { return view.dtype == plan::F32; };
  return !call.exact && g.leaves == 1 && std::ranges::all_of(call.inputs, isSingle) &&
         std::ranges::all_of(call.outputs, isSingle) &&
         suitsWinograd({.images = g.n,
                        .inputs = g.c,
                        .outputs = g.f,
                        .groups = g.groups,
                        .window = spatial(g.kernel),
                        .strides = spatial(g.stride),
                        .dilations = spatial(g.dilation),
                        .result = spatial(g.out)},
                       c.keptWeights);
}

ConvCall describe(const KernelCall &call) {
  ConvCall c;
  c.g = *convGeometry(call);
  c.keptWeights = call.name() == "conv" && call.inputs[1].edition;
  c.winograd = isForWinograd(call, c);
  bool inputGrad = call.name() == "conv_input_grad", weightGrad = call.name() == "conv_weight_grad";
  c.wanted.accepts = [name = std::string(call.name()), g = c.g, exact = call.exact,
                      weightGrad](const std::string &implementation) {
    return !isFaulty(dnnlVersion(), name, implementation, g) &&
           (!exact || (weightGrad ? keepsOrderOfPixels(implementation) : keepsOrder(implementation)));
  };
  const TensorView &x = inputGrad ? call.outputs[0] : call.inputs[0];
  const TensorView &w = weightGrad ? call.outputs[0] : call.inputs[1];
  const TensorView &y = inputGrad ? call.inputs[0] : weightGrad ? call.inputs[1] : call.outputs[0];
  c.x = describeView(x, 0, call.exact);
  c.w = describeView(w, c.g.groups > 1 ? c.g.groups : 0, call.exact);
  c.y = describeView(y, 0, call.exact);
  for (size_t d = 3 - c.g.spatial; d < 3; ++d) {
    c.strides.push_back(c.g.stride[d]);
    c.dilations.push_back(c.g.dilation[d] - 1);
    c.padLo.push_back(c.g.padLo[d]);
    c.padHi.push_back(exactPadHi(c.g, d));
  }
  return c;
}

/// Whether a product of matrices computes the convolution without copying windows: one point, one group.
bool isProduct(const ConvGeometry &g) {
  return g.groups == 1 && std::ranges::all_of(g.kernel, [](int64_t points) { return points == 1; });
}

/// Whether reordering for another implementation takes less time. oneDNN's convolution by products of matrices (gemm),
/// which it has for channels that do not fill blocks, copies every window: reordering takes 0.2 to 1 times as long.
/// Small blocks are read by the code for narrow vectors, which takes 1 to 2 times as long where there is much to
/// compute.
bool comesLast(const std::string &implementation, const ConvGeometry &g) {
  const bool narrow = implementation.find("avx2") != std::string::npos && !isNarrow(dnnl::get_effective_cpu_isa());
  return !isProduct(g) && (implementation.find("gemm") != std::string::npos || (narrow && g.groups == 1));
}

/// What `make` (x, y descriptors -> primitive descriptor) describes for Winograd's algorithm; empty where it does not
/// take the layouts given or needs much memory.
template <typename PD, typename Make> PD chooseWinograd(const ConvCall &c, const Make &make) {
  try {
    PD pd = make(c.x, c.y);
    return pd && pd.scratchpad_desc().get_size() <= kMostWinogradBytes ? pd : PD();
  } catch (const dnnl::error &) {
    return PD(); // oneDNN has no implementation
  }
}

/// Tries Winograd's algorithm, then `make` with the layouts given, then with free ones. c has the algorithm chosen.
template <typename PD, typename Make> PD choose(ConvCall &c, const Make &make) {
  if (c.winograd) {
    c.algorithm = dnnl::algorithm::convolution_winograd;
    if (PD pd = chooseWinograd<PD>(c, make))
      return pd;
    c.algorithm = dnnl::algorithm::convolution_direct;
  }
  PD last;
  for (int free = 0; free < 2; ++free) {
    memory::desc x = free ? anyLayout(c.x) : c.x, y = free ? anyLayout(c.y) : c.y;
    try {
      PD pd = make(x, y);
      const std::string implementation = pd ? pd.impl_info_str() : "";
      if (!pd || !isFast(implementation))
        continue;
      if (!comesLast(implementation, c.g))
        return pd;
      if (!last)
        last = pd;
    } catch (const dnnl::error &) {
      continue; // oneDNN has no implementation for these layouts
    }
  }
  return last;
}

dnnl::convolution_forward::primitive_desc forward(const ConvCall &c, const memory::desc &x, const memory::desc &y) {
  return describePrimitiveWith<dnnl::convolution_forward>(c.wanted, c.kind(), c.algorithm, x, anyLayout(c.w), y,
                                                          c.strides, c.dilations, c.padLo, c.padHi);
}

/// The forward convolution that a gradient asks for as a hint: of one type, in any layout.
dnnl::convolution_forward::primitive_desc hintFor(const KernelCall &call, const ConvCall &c) {
  auto like = [&](const memory::desc &desc) {
    return memory::desc(dimsOf(desc), dnnlType(call.inputs[0].dtype), memory::format_tag::any);
  };
  ConvCall one = c;
  one.wanted = Wanted();
  one.w = like(c.w);
  return forward(one, like(c.x), like(c.y));
}

template <typename Gradient> typename Gradient::primitive_desc gradient(const KernelCall &call, ConvCall &c) {
  return choose<typename Gradient::primitive_desc>(c, [&](const memory::desc &x, const memory::desc &y) {
    return describeGradientWith<Gradient>(c.wanted, hintFor(call, c), c.algorithm, x, anyLayout(c.w), y, c.strides,
                                          c.dilations, c.padLo, c.padHi);
  });
}

BindResult bindConv(const KernelCall &call) {
  ConvCall c = describe(call);
  // oneDNN shares the batch of a weight gradient out over threads, and adds their sums.
  if (call.name() == "conv_weight_grad" && (call.exact || c.g.leaves > 1))
    return BindResult(bindLeafWeightGrad(call));
  useThreads(call.threads);
  auto kernel = std::make_unique<DnnlKernel>(call.threads);
  if (call.name() == "conv") {
    auto pd = choose<dnnl::convolution_forward::primitive_desc>(
        c, [&](const memory::desc &x, const memory::desc &y) { return forward(c, x, y); });
    if (!pd)
      return BindResult(std::unique_ptr<BoundKernel>());
    kernel->operand(DNNL_ARG_SRC, call.inputs[0], c.x, pd.src_desc());
    kernel->operand(DNNL_ARG_WEIGHTS, call.inputs[1], c.w, pd.weights_desc());
    kernel->operand(DNNL_ARG_DST, call.outputs[0], c.y, pd.dst_desc(), true);
    kernel->stage(dnnl::convolution_forward(pd), pd.scratchpad_desc(),
                  {{DNNL_ARG_SRC, DNNL_ARG_SRC}, {DNNL_ARG_WEIGHTS, DNNL_ARG_WEIGHTS}, {DNNL_ARG_DST, DNNL_ARG_DST}});
    kernel->finish(pd.impl_info_str());
  } else if (call.name() == "conv_input_grad") {
    auto pd = gradient<dnnl::convolution_backward_data>(call, c);
    if (!pd)
      return BindResult(std::unique_ptr<BoundKernel>());
    kernel->operand(DNNL_ARG_DIFF_DST, call.inputs[0], c.y, pd.diff_dst_desc());
    kernel->operand(DNNL_ARG_WEIGHTS, call.inputs[1], c.w, pd.weights_desc());
    kernel->operand(DNNL_ARG_DIFF_SRC, call.outputs[0], c.x, pd.diff_src_desc(), true);
    kernel->stage(dnnl::convolution_backward_data(pd), pd.scratchpad_desc(),
                  {{DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_DST},
                   {DNNL_ARG_WEIGHTS, DNNL_ARG_WEIGHTS},
                   {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_SRC}});
    kernel->finish(pd.impl_info_str());
  } else {
    auto pd = describeWeightGrad(call);
    if (!pd)
      return BindResult(std::unique_ptr<BoundKernel>());
    kernel->operand(DNNL_ARG_SRC, call.inputs[0], c.x, pd.src_desc());
    kernel->operand(DNNL_ARG_DIFF_DST, call.inputs[1], c.y, pd.diff_dst_desc());
    kernel->operand(DNNL_ARG_DIFF_WEIGHTS, call.outputs[0], c.w, pd.diff_weights_desc(), true);
    kernel->stage(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(),
                  {{DNNL_ARG_SRC, DNNL_ARG_SRC},
                   {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_DST},
                   {DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS}});
    kernel->finish(pd.impl_info_str());
  }
  return BindResult(std::move(kernel));
}

/// The functions as oneDNN's; `added` is the descriptor of what is added before them.
dnnl::post_ops postOpsOf(const LoopFunction &function, const memory::desc &added) {
  dnnl::post_ops ops;
  if (function.added)
    ops.append_binary(dnnl::algorithm::binary_add, added);
  for (const LoopFunction::Function &f : function.functions)
    switch (f.kind) {
    case LoopFunction::Kind::Relu:
      appendEltwise(ops, dnnl::algorithm::eltwise_relu, 0, 0);
      break;
    case LoopFunction::Kind::Clip:
      appendEltwise(ops, dnnl::algorithm::eltwise_clip, f.a, f.b);
      break;
    case LoopFunction::Kind::Linear:
      appendEltwise(ops, dnnl::algorithm::eltwise_linear, f.a, f.b);
      break;
    case LoopFunction::Kind::Sigmoid:
      appendEltwise(ops, dnnl::algorithm::eltwise_logistic, 0, 0);
      break;
    case LoopFunction::Kind::Swish:
      appendEltwise(ops, dnnl::algorithm::eltwise_swish, 1, 0);
      break;
    case LoopFunction::Kind::HardSwish:
      appendHardSwish(ops);
      break;
    }
  return ops;
}

bool acceptsConv(const KernelCall &call) {
  if (!acceptsDnnl(call))
    return false;
  ConvCall c = describe(call);
  return !c.x.is_zero() && !c.w.is_zero() && !c.y.is_zero();
}

} // namespace

dnnl::convolution_backward_weights::primitive_desc describeWeightGrad(const KernelCall &call) {
  ConvCall c = describe(call);
  return gradient<dnnl::convolution_backward_weights>(call, c);
}

BindResult bindConvWithLoop(const KernelCall &conv, const KernelCall &loop, size_t input) {
  Result<ExpressionCode> code = lowerExpression(loop);
  const std::optional<LoopFunction> function = code ? loopFunctionOf(*code, input) : std::nullopt;
  const TensorView &y = conv.outputs[0], &result = loop.outputs[0];
  if (!function || y.layout != result.layout || y.dtype != plan::F32 || conv.inputs[0].dtype != plan::F32 ||
      conv.inputs[1].dtype != plan::F32 || y.shape != result.shape || !acceptsConv(conv))
    return BindResult(std::unique_ptr<BoundKernel>());
  const TensorView *added = function->added ? &loop.inputs[*function->added] : nullptr;
  if (added && added->layout != y.layout)
    return BindResult(std::unique_ptr<BoundKernel>());
  ConvCall c = describe(conv);
  useThreads(conv.threads);
  const auto alone = choose<dnnl::convolution_forward::primitive_desc>(
      c, [&](const memory::desc &x, const memory::desc &y) { return forward(c, x, y); });
  // Behind a product of matrices oneDNN applies the functions point by point on one thread, 3 to 10 times slower.
  if (!alone || std::string(alone.impl_info_str()).find("gemm") != std::string::npos)
    return BindResult(std::unique_ptr<BoundKernel>());
  const memory::desc sum = added ? describeView(*added) : memory::desc();
  c.wanted.attributes.set_post_ops(postOpsOf(*function, sum));
  const memory::desc bias({conv.outputs[0].shape[1]}, memory::data_type::f32, memory::format_tag::x);
  dnnl::convolution_forward::primitive_desc pd;
  try {
    pd = function->perChannel
             ? describePrimitiveWith<dnnl::convolution_forward>(c.wanted, c.kind(), c.algorithm, alone.src_desc(),
                                                                anyLayout(c.w), bias, alone.dst_desc(), c.strides,
                                                                c.dilations, c.padLo, c.padHi)
             : forward(c, alone.src_desc(), alone.dst_desc());
  } catch (const dnnl::error &) {
    return BindResult(std::unique_ptr<BoundKernel>());
  }
  if (!pd || pd.impl_info_str() != std::string(alone.impl_info_str()))
    return BindResult(std::unique_ptr<BoundKernel>());
  auto kernel = std::make_unique<DnnlKernel>(conv.threads);
  std::vector<std::pair<int, int>> arguments;
  auto operand = [&](int argument, const TensorView &view, const memory::desc &lies, const memory::desc &wanted,
                     bool output = false) {
    kernel->operand(argument, view, lies, wanted, output);
    arguments.emplace_back(argument, argument);
  };
  operand(DNNL_ARG_SRC, conv.inputs[0], c.x, pd.src_desc());
  operand(DNNL_ARG_WEIGHTS, conv.inputs[1], c.w, pd.weights_desc());
  operand(DNNL_ARG_DST, result, c.y, pd.dst_desc(), true);
  if (function->perChannel)
    operand(DNNL_ARG_BIAS, loop.inputs[*function->perChannel], bias, bias);
  if (added)
    operand(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, *added, sum, sum);
  kernel->stage(dnnl::convolution_forward(pd), pd.scratchpad_desc(), arguments);
  kernel->finish(std::string(pd.impl_info_str()) + " with the loop behind it");
  return BindResult(std::move(kernel));
}

void registerOneDnnConv(KernelRegistry &registry) {
  for (const char *name : {"conv", "conv_input_grad", "conv_weight_grad"})
    registry.add(name, {"oneDNN", acceptsConv, bindConv});
}

} // namespace tessera::rt
