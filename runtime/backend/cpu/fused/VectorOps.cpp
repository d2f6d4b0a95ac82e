#include "runtime/backend/cpu/fused/VectorOps.h"

#include "runtime/backend/cpu/InstructionSet.h"

namespace tessera::rt {

namespace baseline {
extern const VectorOps kTable;
}
#ifdef TESSERA_X86_VECTORS
namespace avx2 {
extern const VectorOps kTable;
}
namespace avx512 {
extern const VectorOps kTable;
}
#endif

const VectorOps &vectorOps() {
#ifdef TESSERA_X86_VECTORS
  switch (instructionSet()) {
  case InstructionSet::Avx512:
    return avx512::kTable;
  case InstructionSet::Avx2:
    return avx2::kTable;
  case InstructionSet::Baseline:
    break;
  }
#endif
  return baseline::kTable;
}

} // namespace tessera::rt
