//===- InstructionSet.h - which of our own loops this process runs -------------------------------------------===//
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
/// VL. oneDNN's limit is ours too (ONEDNN_MAX_CPU_ISA), so that one variable makes the backend that of an older
/// processor. It is read once.
InstructionSet instructionSet();
/// Whether there is also an instruction that multiplies pairs of BF16 (AVX512-BF16).
bool multipliesPairs();
/// Whether there are instructions that multiply tiles of BF16 (AMX) and oneDNN may use them.
bool multipliesTiles();

} // namespace tessera::rt

#endif
