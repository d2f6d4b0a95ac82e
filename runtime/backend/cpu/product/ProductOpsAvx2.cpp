#define TESSERA_VECTOR_NAMESPACE avx2
#define TESSERA_VECTOR_ISA "avx2"
#define TESSERA_VECTOR_LANES 8
#include "runtime/backend/cpu/product/ProductOps.inc"
