//===- Backend.h - what a device must be able to do ----------------------------------------------===//
//
// A backend loads one rank's plan onto one device and then launches its kernels one by one; the executor
// drives it and does the collectives between. Backends: "reference" (readable loops, the judge), "cpu"
// (oneDNN and own fused kernels), "null" (executes nothing, checks everything; the skeleton to copy),
// "cuda" (a module loaded on demand).
//
// Kernels. A backend keeps a registry: kernel name -> ordered list of implementations, best first,
// reference last; the first whose `accepts` says yes is bound at load time. What a kernel computes is
// defined by dialects/graph/GraphOps.td.
//
// Layouts. The plan speaks of logical row-major tensors. A backend may keep a buffer in another layout
// of the same byte size (channel-blocked, say) as long as upload, download and `layout` tell the truth;
// the executor's collectives move elements by `layout`.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_BACKEND_H
#define TESSERA_RUNTIME_BACKEND_BACKEND_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::rt {

/// How a tensor's elements lie in memory. The physical shape is: every dimension divided by its blocks,
/// in logical order, then the inner blocks in the order given. Empty: plain row-major.
/// Example: {{1, 16}} on [8, 64, 32, 32] is the physical shape [8, 4, 32, 32, 16] (nChw16c).
struct Layout {
  std::vector<std::pair<int, int>> inner; // (logical dimension, block size); blocks divide evenly
  bool plain() const { return inner.empty(); }
  bool operator==(const Layout &) const = default;
};

struct LoadOptions {
  int threads = 1;      // for kernels of this rank; the host has (ranks on this machine) of these
  bool widen = false;   // hold every F32 buffer as F64 and compute in F64; offsets and sizes double
  bool tf32 = false;    // cuda: matrix products and convolutions may round F32 operands to TF32
  bool keepNan = false; // cuda: no library's function that may turn NaN into a number
  bool graphs = true;   // cuda: record programs as graphs
  bool shared = false;  // cuda: hold the arena in memory that communicators can register
};

/// Input for the next run of a program, on its way to a device while programs run there. Two sets of host memory take
/// turns:
///
///   write the first batch to host(i, 0); send(0)
///   loop:  receive(); run a program, and meanwhile: write the next batch to host(i, 1), send(1); wait for the program
///          receive(); ... with the sets exchanged
class InputPath {
public:
  virtual ~InputPath() = default;
  /// Memory for the plain row-major contents of the i-th buffer, in the type as held. Waits until the last send() of
  /// the set has left it.
  virtual Result<void *> host(size_t i, int set) = 0;
  /// Begins to copy a set to the device. What programs see does not change.
  virtual Status send(int set) = 0;
  /// Programs that are run from now on see what was sent last.
  virtual Status receive() = 0;
};

/// Copies of buffers that a device keeps in its own memory.
class Snapshot {
public:
  virtual ~Snapshot() = default;
  /// Copies what the buffers hold once all that is enqueued is done; does not wait for it.
  virtual Status take() = 0;
  /// The buffers hold again what they did then.
  virtual Status putBack() = 0;
};

/// How a backend that runs whole programs has its collectives done.
struct CollectiveRunner {
  std::function<Status(uint32_t step)> run;
  bool onHost = true; // run() waits for the device and works in host memory; false: it enqueues device work
};

/// One rank's plan on a device. Not thread-safe; one thread drives it.
class LoadedPlan {
public:
  virtual ~LoadedPlan() = default;

  /// Bytes of device memory held: the plan's arena and the backend's own scratch.
  virtual size_t arenaBytes() const = 0;
  virtual size_t scratchBytes() const = 0;

  /// Where a buffer lies on the device (host memory for CPU backends), and how. A layout does not
  /// change between load and destruction.
  virtual void *address(uint32_t buffer) = 0;
  virtual Layout layout(uint32_t buffer) const = 0;
  /// Element type as held: the plan's, or F64 for F32 when widened.
  virtual plan::DType dtype(uint32_t buffer) const = 0;

  /// Copies between plain row-major host memory, in the element type `dtype(buffer)`, and the device.
  virtual Status upload(uint32_t buffer, const void *host) = 0;
  virtual Status download(uint32_t buffer, void *host) = 0;
  /// A way for input that does not wait for running programs; null where upload() is as good. The plan outlives it.
  virtual Result<std::unique_ptr<InputPath>> inputPath(const std::vector<uint32_t> &buffers) {
    return std::unique_ptr<InputPath>();
  }

  /// Room for copies of buffers; null: there is none to spare, or the host may as well copy them. The plan outlives it.
  virtual std::unique_ptr<Snapshot> snapshot(const std::vector<uint32_t> &buffers) { return nullptr; }

  /// Enqueues the kernel of step `step` of program `program`, after which all its results are there. Steps that are
  /// collectives are the executor's. Errors name the step.
  virtual Status launch(uint32_t program, uint32_t step) = 0;
  /// Waits for all that was enqueued.
  virtual Status synchronize() = 0;
  /// "cpu: conv oneDNN jit:avx512_core nChw16c": which implementation runs a step, for traces and tests.
  virtual std::string describe(uint32_t program, uint32_t step) const = 0;

  /// The arena, where it can be registered with communicators (LoadOptions::shared); otherwise null.
  virtual void *sharedArena() { return nullptr; }
  /// Whether address() is memory that the host reads and writes.
  virtual bool onHost() const { return true; }
  /// Whether runProgram() is there: the steps of a program as a whole, with streams and recorded graphs, instead
  /// of launch() one after the other. It enqueues; synchronize() waits.
  virtual bool runsPrograms() const { return false; }
  virtual Status runProgram(uint32_t program, const CollectiveRunner &collectives) {
    return Status::error("this backend runs single steps");
  }
  /// From now on some of a program's runs are measured: how long its kernels waited for collectives on the device.
  virtual void measureWaits(uint32_t program) {}
  /// Of the last run, which is over, in seconds; none: it was not measured.
  virtual Result<std::optional<double>> waited(uint32_t program) { return std::optional<double>(); }
  /// From now on `found` is set when a run of `program` leaves a NaN or an infinity in `buffer`; when the device has been
  /// waited for, it is known. False: nothing does that, and who wants to know must look at the buffer.
  virtual bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) {
    return false;
  }
  /// Belongs behind the last of a program's steps where they were launched one by one.
  virtual Status endProgram(uint32_t program) { return Status(); }
  /// What the user should know about how the plan runs; empty: nothing.
  virtual std::string notice() const { return ""; }
};

class Backend {
public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  /// Binds every kernel, allocates the arena, writes the constants. The plan outlives the result.
  /// Fails with one sentence that names the step if a kernel is unknown or no implementation accepts it.
  virtual Result<std::unique_ptr<LoadedPlan>> load(const plan::Plan &plan, const LoadOptions &options) = 0;
};

/// "reference", "cpu", "null" (and "cuda" where the module is found).
Result<std::unique_ptr<Backend>> createBackend(std::string_view name);

} // namespace tessera::rt

#endif
