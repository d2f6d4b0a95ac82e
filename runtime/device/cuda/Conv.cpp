// Convolutions and their gradients by cuDNN's cudnnConvolution* functions. cuDNN 9 keeps them beside its graph
// API; they take symmetric padding only. What they do not take falls to the backend's own kernels.
//
// Only deterministic algorithms are used: the same plan gives the same bits.
#include "runtime/device/cuda/Common.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // cuDNN 9 marks these functions so

#include <cudnn.h>

#include <array>
#include <memory>

namespace tessera::device {

void destroyDnn(TesseraDevice *d) {
  if (d->dnn)
    cudnnDestroy(d->dnn);
}

namespace {

constexpr size_t kWorkspaceLimit = size_t(1) << 30;

int32_t failDnn(TesseraMessage *m, cudnnStatus_t status, const char *what) {
  const bool unsupported = status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000;
  return fail(m, std::string("cuDNN: ") + what + " failed: " + cudnnGetErrorString(status),
              unsupported ? TESSERA_UNSUPPORTED : TESSERA_FAILED);
}

#define TESSERA_DNN(call, what)                                                                    \
  do {                                                                                             \
    if (cudnnStatus_t status_ = (call); status_ != CUDNN_STATUS_SUCCESS)                           \
      return failDnn(m, status_, what);                                                            \
  } while (false)

struct ConvOp final : TesseraOp {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  int kind = 0;
  bool isDouble = false;
  cudnnConvolutionFwdAlgo_t forward = {};
  cudnnConvolutionBwdDataAlgo_t data = {};
  cudnnConvolutionBwdFilterAlgo_t filter = {};
  size_t workspace = 0;

  ~ConvOp() override {
    if (conv)
      cudnnDestroyConvolutionDescriptor(conv);
    if (w)
      cudnnDestroyFilterDescriptor(w);
    for (cudnnTensorDescriptor_t t : {x, y})
      if (t)
        cudnnDestroyTensorDescriptor(t);
  }

  int32_t run(TesseraDevice *d, const void *a, const void *b, void *out, void *scratch,
              TesseraMessage *m) override {
    const float one = 1, zero = 0;
    const double one64 = 1, zero64 = 0;
    const void *alpha = isDouble ? static_cast<const void *>(&one64) : &one;
    const void *beta = isDouble ? static_cast<const void *>(&zero64) : &zero;
    if (kind == 0)
      TESSERA_DNN(cudnnConvolutionForward(d->dnn, alpha, x, a, w, b, conv, forward, scratch,
                                          workspace, beta, y, out),
                  "a convolution");
    else if (kind == 1)
      TESSERA_DNN(cudnnConvolutionBackwardData(d->dnn, alpha, w, b, y, a, conv, data, scratch,
                                               workspace, beta, x, out),
                  "a convolution's input gradient");
    else
      TESSERA_DNN(cudnnConvolutionBackwardFilter(d->dnn, alpha, x, a, y, b, conv, filter, scratch,
                                                 workspace, beta, w, out),
                  "a convolution's weight gradient");
    return TESSERA_OK;
  }
};

/// The first deterministic algorithm of a list, best first, that needs no more than the limit.
template <typename Perf, typename Algo>
int32_t choose(const std::array<Perf, 16> &list, int count, Algo &algorithm, TesseraMessage *m) {
  for (int i = 0; i < count; ++i) {
    const Perf &p = list[static_cast<size_t>(i)];
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC ||
        p.memory > kWorkspaceLimit)
      continue;
    algorithm = p.algo;
    return TESSERA_OK;
  }
  return fail(m, "cuDNN has no deterministic kernel for this convolution", TESSERA_UNSUPPORTED);
}

int32_t describe(const TesseraConv &c, ConvOp &op, TesseraMessage *m) {
  const cudnnDataType_t type = op.isDouble ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const int s = c.spatial, first = 3 - s;
  std::array<int, 5> xs, ys, ws, xStrides, yStrides;
  std::array<int, 3> pad, stride, dilation;
  xs[0] = ys[0] = static_cast<int>(c.n);
  xs[1] = static_cast<int>(c.channels);
  ys[1] = ws[0] = static_cast<int>(c.filters);
  ws[1] = static_cast<int>(c.channels / c.groups);
  for (int i = 0; i < s; ++i) {
    auto at = static_cast<size_t>(i);
    xs[at + 2] = static_cast<int>(c.in[first + i]);
    ys[at + 2] = static_cast<int>(c.out[first + i]);
    ws[at + 2] = static_cast<int>(c.kernel[first + i]);
    pad[at] = static_cast<int>(c.pad[first + i]);
    stride[at] = static_cast<int>(c.stride[first + i]);
    dilation[at] = static_cast<int>(c.dilation[first + i]);
  }
  auto strides = [&](const std::array<int, 5> &sizes, std::array<int, 5> &out) {
    int step = 1;
    for (int i = s + 2; i-- > 0;) {
      out[static_cast<size_t>(i)] = step;
      step *= sizes[static_cast<size_t>(i)];
    }
  };
  strides(xs, xStrides);
  strides(ys, yStrides);
  TESSERA_DNN(cudnnCreateTensorDescriptor(&op.x), "describing a tensor");
  TESSERA_DNN(cudnnCreateTensorDescriptor(&op.y), "describing a tensor");
  TESSERA_DNN(cudnnCreateFilterDescriptor(&op.w), "describing a filter");
  TESSERA_DNN(cudnnCreateConvolutionDescriptor(&op.conv), "describing a convolution");
  TESSERA_DNN(cudnnSetTensorNdDescriptor(op.x, type, s + 2, xs.data(), xStrides.data()),
              "describing a tensor");
  TESSERA_DNN(cudnnSetTensorNdDescriptor(op.y, type, s + 2, ys.data(), yStrides.data()),
              "describing a tensor");
  TESSERA_DNN(cudnnSetFilterNdDescriptor(op.w, type, CUDNN_TENSOR_NCHW, s + 2, ws.data()),
              "describing a filter");
  TESSERA_DNN(cudnnSetConvolutionNdDescriptor(op.conv, s, pad.data(), stride.data(),
                                              dilation.data(), CUDNN_CROSS_CORRELATION, type),
              "describing a convolution");
  TESSERA_DNN(cudnnSetConvolutionGroupCount(op.conv, static_cast<int>(c.groups)),
              "describing a convolution");
  // The default mathematics may round f32 operands to TF32.
  TESSERA_DNN(cudnnSetConvolutionMathType(op.conv, c.tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
              "describing a convolution");
  return TESSERA_OK;
}

int32_t chooseAlgorithm(TesseraDevice *d, ConvOp &op, TesseraMessage *m) {
  int count = 0;
  if (op.kind == 0) {
    std::array<cudnnConvolutionFwdAlgoPerf_t, 16> list;
    TESSERA_DNN(cudnnGetConvolutionForwardAlgorithm_v7(d->dnn, op.x, op.w, op.conv, op.y, 16,
                                                       &count, list.data()),
                "choosing an algorithm");
    if (int32_t code = choose(list, count, op.forward, m))
      return code;
    TESSERA_DNN(cudnnGetConvolutionForwardWorkspaceSize(d->dnn, op.x, op.w, op.conv, op.y,
                                                        op.forward, &op.workspace),
                "sizing a workspace");
  } else if (op.kind == 1) {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, 16> list;
    TESSERA_DNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(d->dnn, op.w, op.y, op.conv, op.x, 16,
                                                            &count, list.data()),
                "choosing an algorithm");
    if (int32_t code = choose(list, count, op.data, m))
      return code;
    TESSERA_DNN(cudnnGetConvolutionBackwardDataWorkspaceSize(d->dnn, op.w, op.y, op.conv, op.x,
                                                             op.data, &op.workspace),
                "sizing a workspace");
  } else {
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 16> list;
    TESSERA_DNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(d->dnn, op.x, op.y, op.conv, op.w, 16,
                                                              &count, list.data()),
                "choosing an algorithm");
    if (int32_t code = choose(list, count, op.filter, m))
      return code;
    TESSERA_DNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(d->dnn, op.x, op.y, op.conv, op.w,
                                                               op.filter, &op.workspace),
                "sizing a workspace");
  }
  return TESSERA_OK;
}

int32_t createConv(TesseraDevice *d, const TesseraConv *what, TesseraOp **op, size_t *workspace,
                   TesseraMessage *m) {
  // cuDNN counts in 32 bits.
  int64_t xs = what->n * what->channels, ys = what->n * what->filters;
  for (int i = 0; i < 3; ++i) {
    xs *= what->in[i];
    ys *= what->out[i];
  }
  if ((what->dtype != TESSERA_F32 && what->dtype != TESSERA_F64) || xs < 1 || ys < 1 ||
      what->channels < 1 || xs > INT32_MAX || ys > INT32_MAX)
    return fail(m, "cuDNN is used for non-empty convolutions in f32 and f64", TESSERA_UNSUPPORTED);
  TESSERA_CUDA(cudaSetDevice(d->ordinal), m, "selecting the device");
  if (!d->dnn) {
    TESSERA_DNN(cudnnCreate(&d->dnn), "starting the library");
    TESSERA_DNN(cudnnSetStream(d->dnn, d->streams[TESSERA_COMPUTE_STREAM]), "choosing a stream");
  }
  auto made = std::make_unique<ConvOp>();
  made->kind = what->kind;
  made->isDouble = what->dtype == TESSERA_F64;
  if (int32_t code = describe(*what, *made, m))
    return code;
  if (int32_t code = chooseAlgorithm(d, *made, m))
    return code;
  *workspace = made->workspace;
  *op = made.release();
  return TESSERA_OK;
}

} // namespace

void addConv(TesseraDeviceApi &api) { api.createConv = createConv; }

} // namespace tessera::device
