#include "runtime/backend/cpu/attention/PairTiles.h"
#include "runtime/backend/cpu/InstructionSet.h"

namespace tessera::rt {

#ifdef TESSERA_X86_VECTORS
namespace amx {
extern const PairTiles kPairTiles;
}
#endif

const PairTiles *pairTiles() {
#ifdef TESSERA_X86_VECTORS
  return multipliesTiles() && multipliesPairs() ? &amx::kPairTiles : nullptr;
#else
  return nullptr;
#endif
}

} // namespace tessera::rt
