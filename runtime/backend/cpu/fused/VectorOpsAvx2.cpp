#define TESSERA_VECTOR_NAMESPACE avx2
#define TESSERA_VECTOR_ISA "avx2"
#include "runtime/backend/cpu/fused/VectorOps.inc"
