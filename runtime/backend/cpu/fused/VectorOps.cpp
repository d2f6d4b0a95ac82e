#include "runtime/backend/cpu/fused/VectorOps.h"

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
  static const VectorOps &best = []() -> const VectorOps & {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return avx512::kTable;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return avx2::kTable;
    return baseline::kTable;
  }();
  return best;
#else
  return baseline::table;
#endif
}

} // namespace tessera::rt
