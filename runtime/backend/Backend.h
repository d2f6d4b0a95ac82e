//===- Backend.h - what a device must be able to do ----------------------------------------------===//
//
// A backend loads one rank's plan onto one device and then launches its kernels one by one; the executor
// drives it and does the collectives between. Backends: "reference" (readable loops, the judge), "cpu"
// (oneDNN and own fused kernels), "null" (executes nothing, checks everything; the skeleton to copy),
// "cuda" (a module loaded on demand). docs/adding-a-backend.md takes the way through.
//
// What every backend has is LoadedPlan, ten methods. What only some have is a capability (Capabilities.h).
//
// Kernels. A backend keeps a registry: kernel name -> ordered list of implementations, best first,
// reference last; the first whose `accepts` says yes is bound at load time. What a kernel computes is
// defined by dialects/graph/GraphOps.td.
//
// Layouts. The plan speaks of logical row-major tensors. A backend may keep a buffer in another layout
// as long as upload, download and `layout` tell the truth. The executor's collectives move elements by
// `layout`; what they move has the plan's byte size (channel-blocked, say).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_BACKEND_H
#define TESSERA_RUNTIME_BACKEND_BACKEND_H

#include "runtime/backend/Capabilities.h"
#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::rt {

class Device;

/// How a tensor's elements lie in memory. The physical shape is: every dimension divided by its blocks,
/// in logical order, then the inner blocks in the order given. Empty: plain row-major.
/// Example: {{1, 16}} on [8, 64, 32, 32] is the physical shape [8, 4, 32, 32, 16] (nChw16c).
/// Without blocks, the rows of the last dimension may begin further apart than they are long: {{}, 8} on [2, 3, 7].
struct Layout {
  std::vector<std::pair<int, int>> inner; // (logical dimension, block size); blocks divide evenly
  int64_t pitch = 0;                      // elements from one row to the next; 0: as many as a row has
  bool plain() const { return inner.empty() && pitch == 0; }
  bool operator==(const Layout &) const = default;
};

/// Options for devices. Backends of the host ignore them.
struct DeviceOptions {
  bool tf32 = false;           // matrix products and convolutions may round F32 operands to TF32
  bool tiledAttention = false; // compute attention by generated kernels alone
  bool keepNan = false;        // avoid library functions that may turn NaN into a number
  bool graphs = true;          // record programs as graphs
  bool sharedArena = false;    // hold the arena in memory that communicators can register
};

struct LoadOptions {
  int threads = 1;    // for kernels of this rank
  bool widen = false; // hold every F32 buffer as F64 and compute in F64; offsets and sizes double
  DeviceOptions device = {};
};

/// How a step runs that does not run alone.
struct AsRun {
  uint32_t place = 0;         // the step in whose place it runs
  std::string implementation; // of what runs there
  uint64_t bytes = 0;         // that it reads and writes
};

/// One rank's plan on a device. Not thread-safe; one thread drives it.
class LoadedPlan {
public:
  virtual ~LoadedPlan() = default;

  /// Bytes of device memory in use: the plan's arena, and the backend's own scratch.
  virtual size_t arenaBytes() const = 0;
  virtual size_t scratchBytes() const = 0;

  /// The address of a buffer on the device (in host memory for backends of the CPU), and its layout. A layout does not
  /// change while the plan is loaded.
  virtual void *address(uint32_t buffer) = 0;
  virtual Layout layout(uint32_t buffer) const = 0;
  /// The element type that a buffer has in memory: the plan's, or F64 for F32 when widened.
  virtual plan::DType dtype(uint32_t buffer) const = 0;

  /// Copies between plain row-major host memory, in the element type `dtype(buffer)`, and the device.
  virtual Status upload(uint32_t buffer, const void *host) = 0;
  virtual Status download(uint32_t buffer, void *host) = 0;

  /// The same where calls with this index find the buffer (plan.proto, Frame). Backends that refuse plans with frames
  /// have nothing to add.
  virtual void *addressAt(uint32_t buffer, uint32_t index) { return address(buffer); }
  virtual Status uploadAt(uint32_t buffer, uint32_t index, const void *host) { return upload(buffer, host); }
  virtual Status downloadAt(uint32_t buffer, uint32_t index, void *host) { return download(buffer, host); }

  /// Enqueues the kernel of step `step` of program `program`, in a call of its section with this index. The executor
  /// runs the other steps. Errors name the step.
  virtual Status launch(uint32_t program, uint32_t step, uint32_t index) = 0;
  Status launch(uint32_t program, uint32_t step) { return launch(program, step, 0); }
  /// Waits for everything that was enqueued.
  virtual Status synchronize() = 0;
  /// The implementation that runs a step, for traces and tests: "cpu: conv oneDNN jit:avx512_core nChw16c".
  virtual std::string describe(uint32_t program, uint32_t step) const = 0;
  /// How a step runs that runs with others, or in the place of another; nothing if as described.
  virtual std::optional<AsRun> asRun(uint32_t program, uint32_t step) const { return std::nullopt; }

  /// The optional abilities of this plan.
  virtual Capabilities capabilities() { return {}; }
};

class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Binds every kernel, allocates the arena, writes the constants. The plan outlives the result.
  /// Fails with one sentence that names the step if a kernel is unknown or no implementation accepts it.
  virtual Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) = 0;
};

/// A registered backend.
struct BackendRow {
  std::string_view name;
  bool onDevice; // each rank uses a device (runtime/device); else `device` below is null
  std::unique_ptr<Backend> (*create)(const std::shared_ptr<Device> &device);
};
/// The backend of this name, or null.
const BackendRow *findBackend(std::string_view name);
bool runsOnDevice(std::string_view name);
/// Of all backends: "cpu, cuda, null, reference".
std::string backendNames();

/// The backend of this name, on the first device if it runs on one. Fails if there is none of the name, or no device.
Result<std::unique_ptr<Backend>> createBackend(std::string_view name);

} // namespace tessera::rt

#endif
