//===- Capabilities.h - what a backend may have beyond the core ----------------------------------------===//
//
// A loaded plan (Backend.h) uploads, downloads and launches single steps. What some backends can do besides stands
// here, an interface each; LoadedPlan::capabilities() hands out those that there are. Each user can do without:
//
//   if (ProgramRunner *programs = loaded.capabilities().programs)
//     return programs->runProgram(p, collectives);          // recorded, on streams
//   for (...) loaded.launch(p, step, index);                 // or step by step
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CAPABILITIES_H
#define TESSERA_RUNTIME_BACKEND_CAPABILITIES_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::rt {

/// How a backend that runs whole programs executes their collectives, sends and receives.
struct CollectiveRunner {
  std::function<Status(StepInTime at)> run;
  bool onHost = true; // run() waits for the device and works in host memory; false: it enqueues device work
  /// Whether all ranks say `mine`. All ranks call it at the same places. Null: there is no other rank.
  std::function<Result<bool>(bool mine)> agree = nullptr;
};

/// Runs the steps of a program as a whole, with streams and recorded graphs, instead of launch() one after the other.
class ProgramRunner {
public:
  virtual ~ProgramRunner() = default;
  /// Enqueues the program; LoadedPlan::synchronize() waits.
  virtual Status runProgram(uint32_t program, const CollectiveRunner &collectives) = 0;
  /// Waits for what is enqueued, and forgets what was recorded, since graphs hold the communicators whose work they have.
  /// Called before those end.
  virtual void forgetGraphs() {}
  /// Runs what runs in the place of a step that is a kernel: several steps as one, or nothing where the step runs in
  /// the place of another.
  virtual Status runPlace(uint32_t program, StepInTime at) = 0;
  /// What the user should know about how programs run; empty: nothing.
  virtual std::string notice() const { return ""; }
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
  /// Memory for the plain row-major contents of the i-th buffer, in its element type in memory. Waits until the last
  /// send() of the set no longer reads it.
  virtual Result<void *> host(size_t i, int set) = 0;
  /// Starts to copy a set to the device. Programs do not see it yet.
  virtual Status send(int set) = 0;
  /// Programs that are run from now on see the set that was sent last.
  virtual Status receive() = 0;
};

class InputPaths {
public:
  virtual ~InputPaths() = default;
  /// A path for input that does not wait for running programs; null where upload() is as good for these buffers. The
  /// plan outlives the path.
  virtual Result<std::unique_ptr<InputPath>> inputPath(const std::vector<uint32_t> &buffers) = 0;
};

/// Copies of buffers that a device keeps in its own memory.
class Snapshot {
public:
  virtual ~Snapshot() = default;
  /// Copies the buffers once all enqueued work is done. Does not wait for it.
  virtual Status take() = 0;
  /// Restores the contents that take() copied.
  virtual Status putBack() = 0;
};

class Snapshots {
public:
  virtual ~Snapshots() = default;
  /// Memory for copies of buffers. Null if the device has none to spare; the host then keeps the copies. The plan
  /// outlives the result.
  virtual std::unique_ptr<Snapshot> snapshot(const std::vector<uint32_t> &buffers) = 0;
};

/// Looks for numbers that are not finite while kernels write them.
class FiniteWatch {
public:
  virtual ~FiniteWatch() = default;
  /// From now on `found` is set when a run of `program` leaves a NaN or an infinity in `buffer`. It is valid once the
  /// device has been waited for. Returns false if nothing watches this buffer; the caller must then look at it.
  virtual bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) = 0;
  /// Called after the last of a program's steps if they were launched one by one.
  virtual Status endProgram(uint32_t program) { return Status(); }
};

/// Measures on a device how long its kernels wait for collectives.
class WaitTimers {
public:
  virtual ~WaitTimers() = default;
  /// From now on some of a program's runs are measured.
  virtual void measureWaits(uint32_t program) = 0;
  /// How long kernels waited in the last run, which has ended, in seconds; nothing if that run was not measured.
  virtual Result<std::optional<double>> waited(uint32_t program) = 0;
};

/// The optional abilities of a plan, which stay the same while it is loaded. The plan owns the objects; null means that
/// it does not have the ability.
struct Capabilities {
  bool onHost = true;          // LoadedPlan::address() is memory that the host reads and writes
  void *sharedArena = nullptr; // the arena, where communicators can register it (DeviceOptions::sharedArena)
  ProgramRunner *programs = nullptr;
  InputPaths *inputs = nullptr;
  Snapshots *snapshots = nullptr;
  FiniteWatch *finite = nullptr;
  WaitTimers *timers = nullptr;
};

} // namespace tessera::rt

#endif
