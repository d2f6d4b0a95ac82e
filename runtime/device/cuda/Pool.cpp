// Means of windows as a graph of one operation, which cuDNN calls resampling.
#include "runtime/device/cuda/Common.h"
#include "runtime/device/cuda/DnnOp.h"

namespace tessera::device {

int32_t planPool(const DnnTarget &target, const TesseraPool &what, DnnPlan &made, TesseraMessage *m) {
  const int s = what.spatial, first = 3 - s;
  auto spatial = [&](const int64_t(&values)[3]) { return std::vector<int64_t>(values + first, values + 3); };
  auto sizes = [&](const int64_t(&rest)[3]) {
    std::vector<int64_t> all = {what.n, what.channels};
    all.insert(all.end(), rest + first, rest + 3);
    return all;
  };
  const cudnnDataType_t type = dnnType(what.dtype);
  made.operands = {1, 3};
  const Descriptor x = dnnTensor(what.gradient ? 3 : 1, type, sizes(what.in), what.channelsLast),
                   y = dnnTensor(what.gradient ? 1 : 3, type, sizes(what.out), what.channelsLast);
  Descriptor windows(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  windows
      .one(CUDNN_ATTR_RESAMPLE_MODE,
           what.includePadding ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING)
      .one(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT)
      .one(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN)
      .one(CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_ZERO_PAD)
      .one(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, int64_t(s))
      .ints(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, spatial(what.kernel))
      .ints(CUDNN_ATTR_RESAMPLE_STRIDES, spatial(what.stride))
      .ints(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, spatial(what.padLow))
      .ints(CUDNN_ATTR_RESAMPLE_POST_PADDINGS, spatial(what.padHigh));
  windows.finalize();
  made.operations.clear();
  if (what.gradient)
    made.operations.emplace_back(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, x)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, y)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, windows);
  else
    made.operations.emplace_back(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y)
        .one(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, windows);
  if (!made.operations[0].finalize())
    return failDnn(m, made.operations[0].status(), "describing pooling");
  // Tensor cores round F32 to TF32, so they may only be used for 16 bits, which they add as they
  // are.
  DnnLimits limits;
  limits.tensorCores = what.dtype != TESSERA_F32;
  return prepare(target, limits, made, m);
}

namespace {

int32_t createPool(TesseraDevice *d, const TesseraPool *what, TesseraOp **op, size_t *workspace, TesseraMessage *m) {
  return createDnnOp(d, "pooling", *what, planPool, op, workspace, m);
}

} // namespace

void addPool(TesseraDeviceApi &api) { api.createPool = createPool; }

} // namespace tessera::device
