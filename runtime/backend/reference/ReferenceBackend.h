//===- ReferenceBackend.h - the judge ---------------------------------------------------------===//
//
// Every kernel as a plain loop nest that can be read beside its definition in
// dialects/graph/GraphOps.td. F32 sums are accumulated in F64. With LoadOptions::widen the whole
// plan is computed in F64: what other backends are compared with.
//
// The kernels are also the last resort of other backends on the CPU: registerReferenceKernels
// appends them to a registry.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_REFERENCE_REFERENCEBACKEND_H
#define TESSERA_RUNTIME_BACKEND_REFERENCE_REFERENCEBACKEND_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/Kernel.h"

namespace tessera::rt {

std::unique_ptr<Backend> createReferenceBackend();

/// Appends the reference implementation of every kernel.
void registerReferenceKernels(KernelRegistry &registry);

// One per file.
/// Binds on F32 copies of the F16 and BF16 operands, which keep their layouts: widened before each run, narrowed after
/// it. A null pointer where `bind` gives one. `bind` is called more than once, as long as the kernel lives.
BindResult bindThroughF32(const KernelCall &call, BindCall bind);
bool hasHalf(const KernelCall &call);     // an operand has 16 bits
bool acceptsHalf(const KernelCall &call); // and all are plain

/// Registers a kernel that is written for F32 and F64, for 16-bit operands as well.
template <BindResult (*bind)(const KernelCall &)>
void addFloatKernel(KernelRegistry &registry, const std::string &name) {
  registry.add(name, {"reference", acceptsHalf, [](const KernelCall &call) { return bindThroughF32(call, bind); }});
  registry.add(name, {"reference", acceptsPlain, bind});
}

/// Calls f with the type that a kernel's loops are made for: f(double()) for F64, f(float()) for F32.
template <typename F> void asFloat(plan::DType type, F f) {
  if (type == plan::F64)
    f(double());
  else
    f(float());
}

void registerReferenceExpressions(KernelRegistry &registry);
/// Computes y[i] = op(a[i], b[i]) of F32 as another engine does; false: it leaves the operator open.
using FloatFunctions = bool (*)(Op op, const float *a, const float *b, float *y, int64_t n);
/// The loops of registerReferenceExpressions with the functions of an engine that declines some calls, so that a result
/// has the same bits whether it does or not. Every operand is plain.
BindResult bindReferenceExpression(const KernelCall &call, FloatFunctions functions);
void registerReferenceMovement(KernelRegistry &registry);
void registerReferenceIndexing(KernelRegistry &registry);
void registerReferenceConv(KernelRegistry &registry);
void registerReferenceMatMul(KernelRegistry &registry);
void registerReferenceOrthonormalize(KernelRegistry &registry);
void registerReferencePool(KernelRegistry &registry);
void registerReferenceSoftmax(KernelRegistry &registry);
void registerReferenceAttention(KernelRegistry &registry);

} // namespace tessera::rt

#endif
