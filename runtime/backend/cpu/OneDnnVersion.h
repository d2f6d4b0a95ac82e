//===- OneDnnVersion.h - one way to write what oneDNN 2 and 3 write in two ------------------------------===//
//
// Tessera is compiled against oneDNN 2.6 to 3. Version 3 has no descriptors of operations: what they held goes to the
// primitive descriptor. Here is all that depends on the version, and what is known to be wrong in one.
//
//   auto pd = describePrimitive<dnnl::matmul>(a, b, y);                  // empty where oneDNN has no such kernel
//   auto pd = describeGradient<dnnl::convolution_backward_data>(hint, dnnl::algorithm::convolution_direct, x, w, ...);
//
// Both throw dnnl::error where oneDNN refuses the arguments.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ONEDNNVERSION_H
#define TESSERA_RUNTIME_BACKEND_CPU_ONEDNNVERSION_H

#include "runtime/backend/KernelChecks.h"

#include <dnnl.hpp>
#include <string>

namespace tessera::rt {

const dnnl::engine &dnnlEngine();
/// Attributes under which this code, not oneDNN, provides the scratchpad memory.
dnnl::primitive_attr dnnlAttributes();

#if DNNL_VERSION_MAJOR < 3

using DnnlPooling = dnnl::pooling_v2_forward; // the ones with dilations
using DnnlPoolingGradient = dnnl::pooling_v2_backward;

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc &desc) { return desc.dims(); }
inline dnnl::memory::data_type typeOf(const dnnl::memory::desc &desc) { return desc.data_type(); }
/// Whether this is an instruction set with vectors of 256 bits or less.
inline bool isNarrow(dnnl::cpu_isa isa) {
  return isa == dnnl::cpu_isa::sse41 || isa == dnnl::cpu_isa::avx || isa == dnnl::cpu_isa::avx2 ||
         isa == dnnl::cpu_isa::avx2_vnni;
}
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describePrimitiveWith(const dnnl::primitive_attr &attributes,
                                                         const Arguments &...arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), attributes, dnnlEngine(), true);
}
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describeGradient(const Hint &forward, const Arguments &...arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), dnnlAttributes(), dnnlEngine(),
                                            forward, true);
}

#else

using DnnlPooling = dnnl::pooling_forward;
using DnnlPoolingGradient = dnnl::pooling_backward;

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc &desc) { return desc.get_dims(); }
inline dnnl::memory::data_type typeOf(const dnnl::memory::desc &desc) { return desc.get_data_type(); }
inline bool isNarrow(dnnl::cpu_isa isa) {
  return isa == dnnl::cpu_isa::sse41 || isa == dnnl::cpu_isa::avx || isa == dnnl::cpu_isa::avx2 ||
         isa == dnnl::cpu_isa::avx2_vnni || isa == dnnl::cpu_isa::avx2_vnni_2;
}
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describePrimitiveWith(const dnnl::primitive_attr &attributes,
                                                         const Arguments &...arguments) {
  return typename Primitive::primitive_desc(dnnlEngine(), arguments..., attributes, true);
}
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describeGradient(const Hint &forward, const Arguments &...arguments) {
  return typename Primitive::primitive_desc(dnnlEngine(), arguments..., forward, dnnlAttributes(), true);
}

#endif

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describePrimitive(const Arguments &...arguments) {
  return describePrimitiveWith<Primitive>(dnnlAttributes(), arguments...);
}

struct DnnlVersion {
  int major, minor, patch;
  auto operator<=>(const DnnlVersion &) const = default;
};
/// Of the library that is loaded.
DnnlVersion dnnlVersion();

/// Whether an implementation of `kernel` ("conv_weight_grad") is known to be wrong in a version for such shapes.
bool isFaulty(const DnnlVersion &version, const std::string &kernel, const std::string &implementation,
              const ConvGeometry &geometry);

} // namespace tessera::rt

#endif
