#include "runtime/backend/cpu/InstructionSet.h"

#include <algorithm>
#include <dnnl.hpp>

namespace tessera::rt {
namespace {

InstructionSet ofProcessor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::Baseline;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
             ? InstructionSet::Avx512
             : InstructionSet::Avx2;
#else
  return InstructionSet::Baseline;
#endif
}

/// Instruction sets of oneDNN are bits: each has those of the sets that it includes.
bool mayUse(dnnl::cpu_isa set) {
  const unsigned bits = unsigned(set);
  return (unsigned(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

InstructionSet limit() {
  return mayUse(dnnl::cpu_isa::avx512_core) ? InstructionSet::Avx512
         : mayUse(dnnl::cpu_isa::avx2)      ? InstructionSet::Avx2
                                            : InstructionSet::Baseline;
}

} // namespace

InstructionSet instructionSet() {
  static const InstructionSet set = std::min(ofProcessor(), limit());
  return set;
}

bool multipliesPairs() {
#if defined(__x86_64__)
  return instructionSet() == InstructionSet::Avx512 && __builtin_cpu_supports("avx512bf16") &&
         mayUse(dnnl::cpu_isa::avx512_core_bf16);
#else
  return false;
#endif
}

bool multipliesTiles() { return mayUse(dnnl::cpu_isa::avx512_core_amx); }

} // namespace tessera::rt
