//===- InstructionSet.h - which of our own loops this processor runs -----------------------------------------===//
//
// Loops that are compiled several times, once per instruction set, are chosen by it at run time.
//
//   if (instructionSet() >= InstructionSet::Avx2) ...      // vectors of 8 numbers, fused multiply-add
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_INSTRUCTIONSET_H
#define TESSERA_RUNTIME_BACKEND_CPU_INSTRUCTIONSET_H

namespace tessera::rt {

/// Each has what those before it have.
enum class InstructionSet { Baseline, Avx2, Avx512 };

/// That of the processor, as far as we compile for it: Avx2 comes with fused multiply-add, Avx512 with F, BW, DQ and
/// VL.
inline InstructionSet instructionSet() {
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

} // namespace tessera::rt

#endif
