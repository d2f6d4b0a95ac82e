//===- Nccl.h - NCCL's functions, loaded at first use ------------------------------------------------===//
//
// A machine with one GPU may lack NCCL, and other machines may have another version of it. So the module does not link
// it: the functions are looked for where collectives are first used.
//
//   const Nccl *nccl = loadNccl(m);       // null: `m` says what is missing
//   nccl->allReduce(in, out, count, ncclFloat32, ncclSum, comm, stream);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_NCCL_H
#define TESSERA_RUNTIME_DEVICE_CUDA_NCCL_H

#include "runtime/device/DeviceApi.h"

#include <nccl.h>

namespace tessera::device {

/// The library's functions without their prefix: commAbort is ncclCommAbort.
struct Nccl {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's name takes none
#define TESSERA_NCCL(NAME, FUNCTION) decltype(&::FUNCTION) NAME = nullptr;
#include "runtime/device/cuda/Nccl.def"
};

/// The functions, or null and one sentence in `m`. The library stays loaded.
const Nccl *loadNccl(TesseraMessage *m);

} // namespace tessera::device

#endif
