//===- Common.h - what the parts of the CUDA module share -----------------------------------------===//
//
// Every entry of the table returns a code and a sentence; the macros below turn a library's error into one:
//
//   TESSERA_CUDA(cudaMemcpyAsync(...), m, "a copy of " + std::to_string(bytes) + " bytes");
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DEVICE_CUDA_COMMON_H
#define TESSERA_RUNTIME_DEVICE_CUDA_COMMON_H

#include "runtime/device/DeviceApi.h"

#include <cuda_runtime_api.h>

#include <set>
#include <string>

struct cublasLtContext;
namespace tessera::device {
struct DnnState;
}

struct TesseraDevice {
  int ordinal = 0;
  cudaStream_t streams[TESSERA_STREAMS] = {};
  cublasLtContext *blas = nullptr; // created at first use
  tessera::device::DnnState *dnn = nullptr;
  std::set<void *> shared; // memory that NCCL allocated
};

namespace tessera::device {

int32_t fail(TesseraMessage *m, const std::string &text, int32_t code = TESSERA_FAILED);
int32_t failCuda(TesseraMessage *m, cudaError_t error, const std::string &what);

// The parts of the table, one per file.
void addDevices(TesseraDeviceApi &api);
void addCode(TesseraDeviceApi &api);
void addMatMul(TesseraDeviceApi &api);
void addConv(TesseraDeviceApi &api);
void addAttention(TesseraDeviceApi &api);
void addCollectives(TesseraDeviceApi &api);

/// The libraries' names and versions: "cuDNN 9.19.0".
std::string codeLibrary();
std::string blasLibrary();
std::string dnnLibrary();
std::string ncclLibrary(); // "NCCL not loaded" where nobody has asked for collectives

/// Memory that NCCL allocates, entered into d->shared; null where NCCL allocates none.
void *allocateForNccl(TesseraDevice *d, size_t bytes);
void releaseForNccl(void *memory);

/// Says that cuBLASLt offers no algorithm for a product, with its status. TESSERA_UNSUPPORTED where it has none, which
/// it also tells by CUBLAS_STATUS_INVALID_VALUE, for combinations of types, epilogue and layout that it does not know.
int32_t failChoice(TesseraMessage *m, int status);

// Releases a library's handle with the device.
void destroyBlas(TesseraDevice *d);
void destroyDnn(TesseraDevice *d);

} // namespace tessera::device

/// A prepared library call.
struct TesseraOp {
  virtual ~TesseraOp() = default;
  virtual int32_t run(TesseraDevice *d, const TesseraOperands &operands, TesseraMessage *m) = 0;
};

#define TESSERA_CUDA(call, message, what)                                                                              \
  do {                                                                                                                 \
    if (cudaError_t error_ = (call); error_ != cudaSuccess)                                                            \
      return ::tessera::device::failCuda(message, error_, what);                                                       \
  } while (false)

#endif
