//===- Softmax.h - softmax and its kin on vectors --------------------------------------------------------===//
//
// Lines along the last dimension in F32, by the vector operations of the fused-kernel engine; three passes
// over a line that lies in the cache.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_SOFTMAX_H
#define TESSERA_RUNTIME_BACKEND_CPU_SOFTMAX_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {
void registerVectorSoftmax(KernelRegistry &registry);
}

#endif
