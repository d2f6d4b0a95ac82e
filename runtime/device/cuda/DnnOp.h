//===- DnnOp.h - prepared calls of cuDNN ---------------------------------------------------------------===//
//
// A network repeats its shapes. So a device keeps every plan that it has made, found by the bytes of its description,
// and equal calls share it.
//
//   createDnnOp(d, "a convolution", *what, planConv, op, workspace, m);  // plans only the first of its kind
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_DNNOP_H
#define TESSERA_RUNTIME_DEVICE_CUDA_DNNOP_H

#include "runtime/device/cuda/DnnGraph.h"

#include <functional>

namespace tessera::device {

/// `name` stands in messages.
int32_t createDnnOp(TesseraDevice *d, const char *name, const std::string &description,
                    const std::function<int32_t(const DnnTarget &, DnnPlan &)> &make, TesseraOp **op, size_t *workspace,
                    TesseraMessage *m);

template <typename T>
int32_t createDnnOp(TesseraDevice *d, const char *name, const T &what,
                    int32_t (*plan)(const DnnTarget &, const T &, DnnPlan &, TesseraMessage *), TesseraOp **op,
                    size_t *workspace, TesseraMessage *m) {
  return createDnnOp(
      d, name, std::string(reinterpret_cast<const char *>(&what), sizeof what),
      [&](const DnnTarget &target, DnnPlan &made) { return plan(target, what, made, m); }, op, workspace, m);
}

} // namespace tessera::device

#endif
