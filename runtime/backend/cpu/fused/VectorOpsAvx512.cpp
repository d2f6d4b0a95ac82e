#define TESSERA_VECTOR_NAMESPACE avx512
#define TESSERA_VECTOR_ISA "avx512"
#include "runtime/backend/cpu/fused/VectorOps.inc"
