// Convolutions and their gradients as graphs of one operation. Padding may differ between the two sides, groups follow
// from the sizes, and every tensor says by its strides whether its channels come first or last.
#include "runtime/device/cuda/Common.h"
#include "runtime/device/cuda/DnnOp.h"

namespace tessera::device {

int32_t planConv(const DnnTarget &target, const TesseraConv &what, DnnPlan &made, TesseraMessage *m) {
  const int s = what.spatial, first = 3 - s;
  auto spatial = [&](const int64_t(&values)[3]) { return std::vector<int64_t>(values + first, values + 3); };
  auto sizes = [&](int64_t outer, int64_t inner, const int64_t(&rest)[3]) {
    std::vector<int64_t> all = {outer, inner};
    all.insert(all.end(), rest + first, rest + 3);
    return all;
  };
  const std::vector<int64_t> x = sizes(what.n, what.channels, what.in), y = sizes(what.n, what.filters, what.out),
                             w = sizes(what.filters, what.channels / what.groups, what.kernel);
  // The sizes of the operation's tensors a, b and the result.
  const std::vector<int64_t> &a = what.kind == 1 ? y : x, &b = what.kind == 2 ? y : w,
                             &result = what.kind == 0   ? y
                                       : what.kind == 1 ? x
                                                        : w;
  const cudnnDataType_t in = dnnType(what.dtype), out = dnnType(what.resultType);
  const cudnnDataType_t compute = what.dtype == TESSERA_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  // cuDNN's convolution of 16 bits stores 16 bits. A result in F32 takes a second operation, which reads the sums in
  // F32.
  const bool wide = in != out;
  const Descriptor ta = dnnTensor(1, in, a, what.channelsLast), tb = dnnTensor(2, in, b, what.channelsLast),
                   tr = dnnTensor(3, out, result, what.channelsLast),
                   sums = wide ? dnnTensor(4, compute, result, what.channelsLast, /*isVirtual=*/true) : Descriptor();
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  conv.one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute)
      .one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .one(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t(s))
      .ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, spatial(what.dilation))
      .ints(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial(what.stride))
      .ints(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial(what.padLow))
      .ints(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial(what.padHigh));
  conv.finalize();
  // cuDNN's names for the descriptor and its attributes: a, b, the result, the convolution, alpha and beta.
  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t a, b, result, conv, alpha, beta;
  };
  static constexpr Names kNames[3] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const Names &names = kNames[what.kind];
  // cuDNN blends in the type of the sums. What a second operation stores cannot be blended.
  if (wide && what.accumulate)
    return fail(m, "a convolution that adds to F32 numbers what it makes of 16 bits", TESSERA_UNSUPPORTED);
  const float factors[2] = {1, what.accumulate ? 1.0F : 0.0F};
  const double factors64[2] = {factors[0], factors[1]};
  made.operations.clear();
  Descriptor &operation = made.operations.emplace_back(names.operation);
  operation.one(names.a, ta).one(names.b, tb).one(names.result, wide ? sums : tr).one(names.conv, conv);
  for (int i : {0, 1}) {
    const cudnnBackendAttributeName_t name = i ? names.beta : names.alpha;
    if (compute == CUDNN_DATA_DOUBLE)
      operation.set(name, CUDNN_TYPE_DOUBLE, 1, factors64 + i);
    else
      operation.set(name, CUDNN_TYPE_FLOAT, 1, factors + i);
  }
  if (!operation.finalize())
    return failDnn(m, operation.status(), "describing a convolution");
  if (wide) {
    Descriptor identity(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    identity.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_IDENTITY)
        .one(CUDNN_ATTR_POINTWISE_MATH_PREC, compute)
        .finalize();
    Descriptor &store = made.operations.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    store.one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, identity)
        .one(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sums)
        .one(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tr);
    if (!store.finalize())
      return failDnn(m, store.status(), "describing what a convolution stores");
  }
  DnnLimits limits;
  limits.tensorCores = what.dtype == TESSERA_F16 || what.dtype == TESSERA_BF16 || what.tf32;
  return prepare(target, limits, made, m);
}

namespace {

int32_t createConv(TesseraDevice *d, const TesseraConv *what, TesseraOp **op, size_t *workspace, TesseraMessage *m) {
  return createDnnOp(d, "a convolution", *what, planConv, op, workspace, m);
}

} // namespace

void addConv(TesseraDeviceApi &api) { api.createConv = createConv; }

} // namespace tessera::device
