#define TESSERA_VECTOR_NAMESPACE baseline
#define TESSERA_VECTOR_ISA "baseline"
#include "runtime/backend/cpu/fused/VectorOps.inc"
