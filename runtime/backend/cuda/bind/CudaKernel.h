//===- CudaKernel.h - one kernel of a plan as device work, as plain data ----------------------------===//
//
// Binding a call is a pure function from its shapes, types and addresses to a list of actions, so that all of
// it is tested without a device: sources can be compiled for any architecture, and the emulator of the tests
// runs them on the CPU.
//
//   relu(f32[1024])  =>  { Launch{source of the kernel, grid {4, 1, 1}, block 256, {x, y}} }
//   matmul           =>  { LibraryMatMul{...} }, and as second choice a Launch of an own kernel
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_CUDAKERNEL_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_CUDAKERNEL_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cuda/text/PointLoop.h"
#include "runtime/backend/cuda/text/SumEnd.h"
#include "runtime/backend/cuda/text/Templates.h"
#include "runtime/device/DeviceApi.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tessera::rt::cuda {

/// A device address, or a place in the kernel's scratch, which is only known when the plan is loaded. An address in a
/// frame is that of calls with index 0.
struct Place {
  bool scratch = false;
  uint64_t value = 0;    // address or offset
  uint64_t perIndex = 0; // bytes that are added once per index of the call (LoadedPlan::launch)
  uint32_t period = 0;   // the index counts modulo this; 0: as it is
};
/// Addresses from here on stand for scratch memory; no real memory has them.
constexpr uint64_t kScratchBase = uint64_t(1) << 60;
inline Place at(const void *address) {
  const auto value = reinterpret_cast<uint64_t>(address);
  return value >= kScratchBase ? Place{true, value - kScratchBase} : Place{false, value};
}

/// Launches the only kernel of a translation unit. It is called k until it is compiled (run/KernelNames.h). Every
/// argument is a pointer.
struct Launch {
  std::string source;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t block = 256;
  std::vector<Place> arguments;
  std::vector<uint64_t> table = {}; // lies in device memory, and its address is the last argument; empty: there is none
  std::vector<uint32_t> addresses = {}; // the words of the table that are addresses
  uint32_t counters =
      0;               // of 32 bits, 0 before and after each run; their address is the last argument where there is no
                       // table; 0: there are none
  int bits = 32;       // of the numbers that it multiplies; 16: on tensor cores
  uint64_t copied = 0; // bytes of a copy in scratch memory
  // Where it is a loop over points, which can stand in a table with others (LoopTable.h):
  std::shared_ptr<const PointLoop> loop = nullptr;
  int64_t points = 0; // of the loop, or results of the sums
  // Where it ends sums, and loops over their results can follow:
  std::shared_ptr<const SumEnd> end = nullptr;
};
struct CopyBytes {
  Place to, from;
  uint64_t bytes;
};
struct FillBytes { // with zeros
  Place to;
  uint64_t bytes;
};
struct LibraryMatMul {
  TesseraMatMul what;
  Place a, b, y;
  Place bias = {}, aux = {}; // where what.epilogue has them
};
/// A multiplication and an addition count as two.
inline double operationsOf(const TesseraMatMul &w) {
  return 2.0 * double(w.m) * double(w.n) * double(w.k) * double(w.batch);
}
struct LibraryConv {
  TesseraConv what;
  Place a, b, y;
};
struct LibraryAttention {
  TesseraAttention what;
  std::array<Place, TESSERA_ATTENTION_TENSORS> tensors = {}; // those that it does not have are never read or written
};
using Action = std::variant<Launch, CopyBytes, FillBytes, LibraryMatMul, LibraryConv, LibraryAttention>;
inline bool isLibraryCall(const Action &action) {
  return std::holds_alternative<LibraryMatMul>(action) || std::holds_alternative<LibraryConv>(action) ||
         std::holds_alternative<LibraryAttention>(action);
}

struct CudaKernel {
  std::string description;
  std::vector<Action> actions;
  uint64_t scratch = 0; // bytes; workspaces of library calls come on top

  /// Reserves scratch, aligned to 256 bytes.
  Place reserve(uint64_t bytes) {
    Place place{true, scratch};
    scratch += (bytes + 255) / 256 * 256;
    return place;
  }
};

struct BindOptions {
  bool tf32 = false;           // matrix products and convolutions of f32 may round their operands to TF32
  bool keepNan = false;        // LoadOptions
  bool tiledAttention = false; // attention never by the library
};

/// The implementations of a call, best first. A library may refuse any of them when it is prepared. Empty if there is
/// none. `call` has passed checkKernel.
Result<std::vector<CudaKernel>> bindCuda(const KernelCall &call, const BindOptions &options);

/// Whether a library multiplies operands of type `in` into a result of type `out`: of 16 bits also into F32.
inline bool libraryTypes(plan::DType in, plan::DType out) {
  return isFloat(in) && (in == out || (bytesPerElement(in) == 2 && out == plan::F32));
}

// The parts, one per file.
/// Results behind those of the call are computed and not stored: loops in the same kernel read them (SumEnd.h).
CudaKernel bindExpression(const ExpressionCode &code, const KernelCall &call);
CudaKernel bindMovement(const KernelCall &call); // reshape, transpose, slice, pad, concat
/// Its operands may lie plain or with channels last, each for itself.
CudaKernel bindMicroRows(const KernelCall &call);
CudaKernel bindIndexing(const KernelCall &call); // gather, scatter_add, argmax, topk
CudaKernel bindOrthonormalize(const KernelCall &call);
CudaKernel bindSoftmax(const KernelCall &call);
CudaKernel bindPool(const KernelCall &call);
std::vector<CudaKernel> bindAttention(const KernelCall &call, const BindOptions &options);
/// The alignment of all matrices' addresses, up to the largest that the library for products can use.
int32_t alignmentOf(const std::vector<Place> &places);
/// `stored` is the tensor that is written in place of the call's output, of another type or at another place.
std::vector<CudaKernel> bindMatMul(const KernelCall &call, const BindOptions &options,
                                   const TensorView *stored = nullptr);
/// The only product of a kernel, which may have copies around it; null where it has none or several.
LibraryMatMul *onlyProduct(CudaKernel &kernel);
/// The same actions, with products whose sizes would keep them from tensor cores' fast kernels in parts.
std::vector<Action> inAlignedParts(const std::vector<Action> &actions);
std::vector<CudaKernel> bindConv(const KernelCall &call, const BindOptions &options);
/// What Leaves.cu needs to know of a call whose result is the sum of so many leaves.
void addLeaves(Constants &constants, const KernelCall &call, int64_t leaves);

} // namespace tessera::rt::cuda

#endif
