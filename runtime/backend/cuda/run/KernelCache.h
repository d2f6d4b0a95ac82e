//===- KernelCache.h - compiled kernels, kept on disk -----------------------------------------------===//
//
// Compiling a plan's kernels takes seconds the first time; the images are kept in $TESSERA_CACHE_DIR, else
// $XDG_CACHE_HOME/tessera, else ~/.cache/tessera, one file per kernel, named by a hash of source, compute
// capability and compiler. A file that is damaged or belongs to another source is compiled anew; a folder that
// cannot be written costs time and nothing else.
//
//   Result<std::vector<std::string>> images = compileKernels(api, 90, sources, /*threads=*/8);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_RUN_KERNELCACHE_H
#define TESSERA_RUNTIME_BACKEND_CUDA_RUN_KERNELCACHE_H

#include "runtime/device/DeviceApi.h"
#include "runtime/support/Status.h"

#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// One image per source, in order. `roundProducts`: as in DeviceApi.h.
Result<std::vector<std::string>> compileKernels(const TesseraDeviceApi &api, int capability,
                                                const std::vector<const std::string *> &sources, int threads,
                                                bool roundProducts = false);

} // namespace tessera::rt::cuda

#endif
