#define TESSERA_VECTOR_NAMESPACE avx512
#define TESSERA_VECTOR_ISA "avx512"
#define TESSERA_VECTOR_LANES 16
#include "runtime/backend/cpu/product/ProductOps.inc"
