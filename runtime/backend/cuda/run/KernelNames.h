//===- KernelNames.h - names by which profilers tell kernels apart -----------------------------------===//
//
// Every generated source calls its kernel k. Before it is compiled, the kernel gets a name that says what it does, on
// which shape, and which of several such kernels it is:
//
//   nameKernel(source, kernelLabel("softmax", {8, 1024}))   =>  {source', "softmax_8x1024_1f3a09c2"}
//
// The last part is a hash of the source, so that a name does not change from run to run.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_KERNELNAMES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_KERNELNAMES_H

#include "runtime/backend/ExpressionCode.h"

#include <string>
#include <string_view>

namespace tessera::rt::cuda {

/// "softmax_8x1024": a name of C, whatever is in `kind`.
std::string kernelLabel(std::string_view kind, const Shape &shape);
/// The label of a call: its operator, and the shape of its largest operand or result.
std::string kernelLabel(const KernelCall &call);

struct NamedKernel {
  std::string source, name;
};
NamedKernel nameKernel(const std::string &source, const std::string &label);

} // namespace tessera::rt::cuda

#endif
