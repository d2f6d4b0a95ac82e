#define TESSERA_VECTOR_NAMESPACE avx512_bf16
#define TESSERA_VECTOR_ISA "avx512_bf16"
#define TESSERA_VECTOR_LANES 16
#define TESSERA_PRODUCTS_OF_PAIRS
#include "runtime/backend/cpu/product/ProductOps.inc"
