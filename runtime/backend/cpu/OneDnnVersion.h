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
#include <functional>
#include <string>

namespace tessera::rt {

const dnnl::engine &dnnlEngine();
/// Attributes under which this code, not oneDNN, provides the scratchpad memory.
dnnl::primitive_attr dnnlAttributes();

/// What a primitive shall be like.
struct Wanted {
  dnnl::primitive_attr attributes = dnnlAttributes();
  std::function<bool(const std::string &implementation)> accepts; // empty: oneDNN's first choice
};
/// The first of oneDNN's implementations that is accepted; empty where there is none. In version 2 what the primitive
/// was described by must still be there.
template <typename PrimitiveDesc> PrimitiveDesc firstAccepted(PrimitiveDesc pd, const Wanted &wanted) {
  while (pd && wanted.accepts && !wanted.accepts(pd.impl_info_str()))
    if (!pd.next_impl())
      return PrimitiveDesc();
  return pd;
}

#if DNNL_VERSION_MAJOR < 3

inline void appendEltwise(dnnl::post_ops &ops, dnnl::algorithm algorithm, double a, double b) {
  ops.append_eltwise(1.f, algorithm, float(a), float(b));
}
/// x min(max(x / 6 + 1 / 2, 0), 1). Version 2 has these factors, and takes none.
inline void appendHardSwish(dnnl::post_ops &ops) { appendEltwise(ops, dnnl::algorithm::eltwise_hardswish, 0, 0); }
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
typename Primitive::primitive_desc describePrimitiveWith(const Wanted &wanted, const Arguments &...arguments) {
  const typename Primitive::desc desc(arguments...);
  return firstAccepted(typename Primitive::primitive_desc(desc, wanted.attributes, dnnlEngine(), true), wanted);
}
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describeGradientWith(const Wanted &wanted, const Hint &forward,
                                                        const Arguments &...arguments) {
  const typename Primitive::desc desc(arguments...);
  return firstAccepted(typename Primitive::primitive_desc(desc, wanted.attributes, dnnlEngine(), forward, true),
                       wanted);
}

#else

inline void appendEltwise(dnnl::post_ops &ops, dnnl::algorithm algorithm, double a, double b) {
  ops.append_eltwise(algorithm, float(a), float(b));
}
inline void appendHardSwish(dnnl::post_ops &ops) {
  appendEltwise(ops, dnnl::algorithm::eltwise_hardswish, 1. / 6, 0.5);
}
using DnnlPooling = dnnl::pooling_forward;
using DnnlPoolingGradient = dnnl::pooling_backward;

inline dnnl::memory::dims dimsOf(const dnnl::memory::desc &desc) { return desc.get_dims(); }
inline dnnl::memory::data_type typeOf(const dnnl::memory::desc &desc) { return desc.get_data_type(); }
inline bool isNarrow(dnnl::cpu_isa isa) {
  return isa == dnnl::cpu_isa::sse41 || isa == dnnl::cpu_isa::avx || isa == dnnl::cpu_isa::avx2 ||
         isa == dnnl::cpu_isa::avx2_vnni || isa == dnnl::cpu_isa::avx2_vnni_2;
}
template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describePrimitiveWith(const Wanted &wanted, const Arguments &...arguments) {
  return firstAccepted(typename Primitive::primitive_desc(dnnlEngine(), arguments..., wanted.attributes, true), wanted);
}
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describeGradientWith(const Wanted &wanted, const Hint &forward,
                                                        const Arguments &...arguments) {
  return firstAccepted(typename Primitive::primitive_desc(dnnlEngine(), arguments..., forward, wanted.attributes, true),
                       wanted);
}

#endif

template <typename Primitive, typename... Arguments>
typename Primitive::primitive_desc describePrimitive(const Arguments &...arguments) {
  return describePrimitiveWith<Primitive>(Wanted(), arguments...);
}
template <typename Primitive, typename Hint, typename... Arguments>
typename Primitive::primitive_desc describeGradient(const Hint &forward, const Arguments &...arguments) {
  return describeGradientWith<Primitive>(Wanted(), forward, arguments...);
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
