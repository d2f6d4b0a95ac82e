#include "runtime/backend/cpu/product/PairRows.h"

#include "runtime/backend/cpu/InstructionSet.h"

namespace tessera::rt {

#ifdef TESSERA_X86_VECTORS
namespace avx512_bf16 {
extern const PairRows kPairRows;
}
#endif

const PairRows *pairRows() {
#ifdef TESSERA_X86_VECTORS
  return multipliesPairs() ? &avx512_bf16::kPairRows : nullptr;
#else
  return nullptr;
#endif
}

} // namespace tessera::rt
