//===- Panel.h - sums of products over blocks of 16 channels ----------------------------------===//
//
// Contractions repack one operand so that 16 neighbouring results lie side by side; then the
// innermost loop is  acc[0..16) += scalar * panel[0..16), which a compiler vectorises without
// reordering any sum.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_REFERENCE_PANEL_H
#define TESSERA_RUNTIME_BACKEND_REFERENCE_PANEL_H

#include "runtime/backend/Half.h"
#include "runtime/backend/Kernel.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tessera::rt {

constexpr int64_t kPanel = 16;
inline int64_t panels(int64_t channels) { return (channels + kPanel - 1) / kPanel; }

/// Floating-point sums are kept in F64, integer ones in 64 bits that wrap.
template <typename T> using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <typename A> struct Panel {
  A v[kPanel] = {};
  void fma(A scalar, const A *panel) {
    for (int64_t j = 0; j < kPanel; ++j)
      v[j] += scalar * panel[j];
  }
};

/// A sum as memory of a 16-bit type holds it (KernelCall::narrowed); of any other type as it is.
template <typename T> T roundedTo(plan::DType narrowed, T sum) {
  if (narrowed == plan::BF16)
    return T(toFloat(toBfloat16(float(sum))));
  return narrowed == plan::F16 ? T(toFloat(toHalf(float(sum)))) : sum;
}

} // namespace tessera::rt

#endif
