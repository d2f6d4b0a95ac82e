//===- PairMatMul.h - matmul of BF16 by pairs of terms ------------------------------------------------------===//
//
// Sums over the rows of both operands, as a gradient of weights is: aT b. oneDNN copies a's transpose; here rows are
// interleaved in pairs while they are copied (OrderedProduct.h), which takes less time.
//
//   registerPairMatMul(registry);                                    // before oneDNN's
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PAIRMATMUL_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PAIRMATMUL_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// On processors that multiply pairs of BF16.
void registerPairMatMul(KernelRegistry &registry);

} // namespace tessera::rt

#endif
