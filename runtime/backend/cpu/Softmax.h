//===- Softmax.h - softmax and its kin on vectors --------------------------------------------------------===//
//
// Lines along the last dimension in F32, by the vector operations of the fused-kernel engine; three passes
// over a line that lies in the cache.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_SOFTMAX_H
#define TESSERA_RUNTIME_BACKEND_CPU_SOFTMAX_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

void registerVectorSoftmax(KernelRegistry &registry);
/// The same along other dimensions, where many lines lie side by side.
void registerColumnSoftmax(KernelRegistry &registry);

// One line of n > 0 numbers.
float lineMaximum(const float *x, int64_t n);
/// y = e^x / sum e^x; y may be x. Returns the maximum and the sum of e^(x - maximum).
struct LineTotals {
  float maximum;
  double sum;
};
LineTotals softmaxLine(const float *x, float *y, int64_t n);
/// y = e^(x - a); y may be x.
void exponentialLine(const float *x, float a, float *y, int64_t n);
/// dx = y * (dy - sum(dy * y)); dx may be dy; `t` is a line of scratch.
void softmaxGradLine(const float *dy, const float *y, float *dx, float *t, int64_t n);
/// dx = y * (dy - a), where sum(dy * y) is known to be a; dx may be dy.
void softmaxGradLine(const float *dy, const float *y, float a, float *dx, int64_t n);
/// sum a * b.
double dotLine(const float *a, const float *b, int64_t n);

} // namespace tessera::rt

#endif
