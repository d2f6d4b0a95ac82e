//===- Source.h - pieces of CUDA C++ that every generated kernel uses -------------------------------===//
//
// A kernel is one translation unit: the prelude, then `extern "C" __global__ void k(...)`. Shapes are written
// into the text as constants, so that the compiler turns divisions by them into multiplications. No header is
// included: NVRTC needs no search path, and the tests can compile the text for the CPU.
//
//   indexCode({6, 4}, "i", "unsigned") == "const unsigned x1 = i % 4u; const unsigned x0 = i / 4u;\n"
//   addressCode({4, 0}) == "x0 * 4u"
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_TEXT_SOURCE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_TEXT_SOURCE_H

#include "runtime/backend/ExpressionCode.h"

#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// The elementwise operators (Elementwise.def), conversions, Philox.
const std::string &prelude();

const char *memoryType(plan::DType type); // "float", "u16", ...
const char *valueType(ValueClass c);      // "float", "double", "i64"
/// The type in which a reduction of such values is accumulated, as in the reference backend.
inline const char *sumType(ValueClass c) { return c == ValueClass::I64 ? "i64" : "double"; }
/// The same where it need not be wider than the values: the largest and the smallest of them are values themselves.
inline const char *reducedType(plan::Reduction reduction, ValueClass c) {
  return reduction == plan::SUM ? sumType(c) : valueType(c);
}

/// "i64" arithmetic is 64 bits wide; indices are 32 bits wide where all of them fit.
struct IndexType {
  bool wide = false;
  std::string name() const { return wide ? "u64" : "u32"; }
  std::string literal(int64_t v) const { return std::to_string(v) + (wide ? "ull" : "u"); }
  bool operator==(const IndexType &) const = default;
};
/// For loops of `points` points over arrays of at most `points` or the given number of elements.
IndexType indexTypeFor(int64_t points, const std::vector<int64_t> &elements = {});

/// Splits linear index `from` into `x0`, `x1`, ... (with the prefix given).
std::string indexCode(const Shape &sizes, const std::string &from, IndexType type, const std::string &prefix = "x");
/// The sum of the indices times `strides`.
std::string addressCode(const Shape &strides, IndexType type, const std::string &prefix = "x");

std::string loadCode(plan::DType type, const std::string &element);
std::string storeCode(plan::DType type, const std::string &value);

/// A loop nest with arrays under it: sizes, and strides per array.
struct Nest {
  Shape sizes;
  std::vector<Shape> strides;
};
/// Leaves out dimensions of size 1 and joins neighbours that every array steps through as one.
///   {2, 3, 4} with strides {12, 4, 1} and {0, 4, 1}  =>  {2, 12} with {12, 1} and {0, 1}
Nest collapse(const Nest &nest);

/// How many blocks of 256 threads a loop over `points` points takes: enough to fill a device, each thread then
/// takes several points.
uint32_t blocksFor(int64_t points);

} // namespace tessera::rt::cuda

#endif
