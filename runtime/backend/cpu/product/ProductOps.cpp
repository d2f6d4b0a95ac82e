#include "runtime/backend/cpu/product/ProductOps.h"

#include "runtime/backend/cpu/InstructionSet.h"

#include <array>

namespace tessera::rt {

#ifdef TESSERA_X86_VECTORS
namespace avx2 {
extern const ProductOps kProductOps;
}
namespace avx512 {
extern const ProductOps kProductOps;
}
namespace avx512_bf16 {
extern const ProductOps kProductOps;
}
#endif

const ProductOps *const *allProductOps() {
  static const std::array<const ProductOps *, 3> all = [] {
    std::array<const ProductOps *, 3> result{};
#ifdef TESSERA_X86_VECTORS
    size_t count = 0;
    if (instructionSet() >= InstructionSet::Avx512)
      result[count++] = &avx512::kProductOps;
    if (instructionSet() >= InstructionSet::Avx2)
      result[count++] = &avx2::kProductOps;
#endif
    return result;
  }();
  return all.data();
}

const ProductOps *productOps() { return allProductOps()[0]; }

const ProductOps *pairOps() {
#ifdef TESSERA_X86_VECTORS
  return multipliesPairs() ? &avx512_bf16::kProductOps : nullptr;
#else
  return nullptr;
#endif
}

} // namespace tessera::rt
