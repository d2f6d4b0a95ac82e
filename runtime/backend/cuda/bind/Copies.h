//===- Copies.h - kernels on copies of their operands ---------------------------------------------------===//
//
// Where a kernel cannot take an operand's type or layout, or is slow on it, it works on a copy in scratch memory:
//
//   pad x (channels last) -> y  =>  x -> plain copy  ·  pad copy -> copy of y  ·  copy of y -> y
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_COPIES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_COPIES_H

#include "runtime/backend/Kernel.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"

#include <functional>
#include <string>

namespace tessera::rt::cuda {

using Bind = std::function<std::vector<CudaKernel>(const KernelCall &)>;

/// While a kernel is bound its own scratch memory is counted from 0, and the copies of its operands from here: those
/// with rows further apart, those of another type around them, and those of another layout around all.
constexpr uint64_t kRowCopies = uint64_t(1) << 55, kWideCopies = uint64_t(1) << 56, kLayoutCopies = uint64_t(1) << 57;

/// The strides of a tensor's logical dimensions: plain, with rows further apart, or with channels last.
Shape memoryStrides(const TensorView &tensor);

/// Copies `from` to `to`, which differ in layout or size: of each dimension what both have. It runs in the order of the
/// memory that is written.
StridedCopy copyBetween(const TensorView &from, const TensorView &to);

/// Binds a kernel to copies of operands. `change` turns an operand into its copy, or leaves it alone; results are
/// numbered behind the inputs. In scratch memory the copies lie before the kernel's own scratch. `what` is added to the
/// description of a kernel that has copies.
std::vector<CudaKernel> bindOnCopies(const KernelCall &call, uint64_t base, const std::string &what,
                                     const std::function<bool(TensorView &, size_t)> &change, const Bind &bind);

} // namespace tessera::rt::cuda

#endif
