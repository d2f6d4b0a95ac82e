//===- Executor.h - runs one rank's plan ------------------------------------------------------===//
//
// Loads a checked plan on a backend, fills its parameters and states, and runs its programs:
// kernels by the backend, collectives by the communicators of the plan's groups, sends and receives by
// the world, or between devices (DeviceMessages.h). One per rank; one thread drives it. Where ranks meet on the host, a
// thread of the executor's own runs the collectives that the plan has beside kernels (CommunicationLane.h).
//
//   Result<std::unique_ptr<Executor>> executor = Executor::create(plan, *backend, *world, {});
//   TESSERA_RETURN_IF_ERROR((*executor)->loadWeights(weights));
//   int train = findProgram(plan, "train");
//   TESSERA_RETURN_IF_ERROR((*executor)->feed(input, batch));       // a binding's index
//   TESSERA_RETURN_IF_ERROR((*executor)->run(train));
//   Result<double> loss = (*executor)->fetchScalar(plan::LOSS, "train");
//
// All ranks create and run in step. Errors name the step; a rank that gets one must abort its
// world, as runRanks (Launcher.h) does.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_EXECUTOR_H
#define TESSERA_RUNTIME_EXECUTOR_EXECUTOR_H

#include "runtime/backend/Backend.h"
#include "runtime/comm/Communicator.h"
#include "runtime/executor/Collectives.h"
#include "runtime/executor/CommunicationLane.h"
#include "runtime/executor/DeviceMessages.h"
#include "runtime/executor/DeviceWaits.h"
#include "runtime/executor/PeerCall.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/tensor/Safetensors.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::rt {

/// The time that a program's steps took, if it was measured. The first run, in which libraries make their kernels, is
/// left out once there is a second.
struct StepTimes {
  std::vector<double> seconds; // by step, summed over the measured runs and all calls in them
  uint64_t runs = 0, measured = 0;
};

/// One step of a program that has run.
struct StepDone {
  int program = 0, step = 0;
  uint32_t index = 0; // of the call of the step's section
  int64_t place = 0;  // so many steps of the program ran before it
  std::chrono::steady_clock::time_point begin, end;
};

class Executor {
public:
  /// The plan and the worlds outlive the executor. `deviceWorld` makes communicators that work in the memory of
  /// the backend's device; without one, collectives of a device go through host memory and `world`.
  static Result<std::unique_ptr<Executor>> create(const plan::Plan &plan, Backend &backend, World &world,
                                                  const LoadOptions &options, World *deviceWorld = nullptr);
  /// Waits for the device. Recorded graphs go first, then communicators, then memory, as NCCL demands.
  ~Executor();

  /// Uploads this rank's block of every parameter and state. A parameter must be in `weights`. A state that is not
  /// there takes its fill, or is an error with `strict`. `weights` may be null if the plan has no parameters.
  Status loadWeights(const TensorSource *weights, bool strict);

  /// Sets an INPUT, TARGET or STEP binding. `host` is row-major, in the plan's element type.
  Status feed(int binding, const void *host);
  /// Sets the buffer of any binding; `host` has the element type `type`.
  Status set(int binding, const void *host, plan::DType type);
  Status feedStep(const std::string &program, int64_t step);
  /// Runs a program. Where a device runs it by itself, `meanwhile` is called while the work is under way.
  Status run(int program, const std::function<void()> &meanwhile = nullptr);
  /// Reads the buffer of a binding into `host`, row-major, in the plan's element type, or F64 for F32 if widened.
  Status fetch(int binding, std::vector<char> &host);
  Result<double> fetchScalar(plan::Role role, const std::string &program);
  Result<double> fetchScalar(int binding);

  /// The bindings of a role in ordinal order, as indices; `program` is empty for PARAMETER and
  /// STATE.
  std::vector<int> bindings(plan::Role role, const std::string &program) const;

  const plan::Plan &plan() const { return plan_; }
  LoadedPlan &loaded() { return *loaded_; }
  const Capabilities &capabilities() const { return can_; }
  /// A communicator of all ranks, beside those of the plan.
  Communicator &everyone() { return *everyone_; }
  plan::DType heldType(int binding) const;
  /// The element type that ranks hold a tensor in, of which the plan says `planned`.
  plan::DType heldType(plan::DType planned) const;

  /// Sets what whereabouts() says while the rank is outside of programs. `what` is a string literal.
  void enter(const char *what) {
    doing_.store(what, std::memory_order_relaxed);
    progress_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Both are safe from any thread. progress() changes whenever the rank gets on. whereabouts() says where it is: "step
  /// 17, program 'train', 12 of 31: collective 'fc1/all-reduce'"; in a section that repeats "step 17, program 'train',
  /// micro-batch 3 of 16, 12 of 31: ...".
  uint64_t progress() const { return progress_.load(std::memory_order_relaxed); }
  std::string whereabouts() const;

  /// From now on waitedSeconds() is known for runs of this program, also on a device.
  void measureWaits(int program) {
    if (can_.timers)
      can_.timers->measureWaits(uint32_t(program));
  }
  /// How long the rank's thread was in collectives, sends and receives in the last run(), or waited for those beside it,
  /// in seconds, most of it waiting for other ranks. What kernels hid does not count. On a device it is how long its
  /// kernels waited for other ranks; this is unknown for the first runs.
  std::optional<double> waitedSeconds() const { return waited_; }
  /// How long the rank's thread was in a program's sends and receives in all its runs, most of it waiting for other
  /// stages. Unknown on a device.
  std::optional<double> secondsBetweenStages(int program) const;

  /// How many collectives of a run go through plain copies because of layouts.
  int stagedCollectives(int program) const;
  /// How many collectives of a run may run beside kernels here.
  int collectivesBeside(int program) const;

  /// Called for every step by the rank's thread.
  struct Observer {
    std::function<Status(const StepDone &)> call;
    // Steps run as they do unobserved: beside others as the plan has it, and told when their section's call has ended; on
    // a device several as one, in the place of one of them.
    bool beside = false;
    Observer(std::nullptr_t = nullptr) {}
    template <typename Call>
    requires std::is_invocable_r_v<Status, Call, const StepDone &> Observer(Call call, bool beside = false)
        : call(std::move(call)), beside(beside) {}
  };
  /// From now on run() runs a program step by step, waits for each step, and calls `observer`. Null ends this. Returns
  /// the observer that was set before.
  Observer observe(Observer observer) { return std::exchange(observer_, std::move(observer)); }
  /// How a step runs, if not by itself.
  std::optional<AsRun> asRun(int program, int step) const { return loaded_->asRun(uint32_t(program), uint32_t(step)); }
  /// The call behind a step that is a send or a receive; null for other steps.
  const PeerCall *peerCall(int program, int step) const { return peerCalls_[size_t(program)][size_t(step)].get(); }
  /// Whether other ranks have a part in a step.
  bool communicates(int program, int step) const { return collective(program, step) || peerCall(program, step); }
  /// The call behind a step that is a collective; null for other steps.
  const CollectiveCall *collective(int program, int step) const {
    return collectives_[size_t(program)][size_t(step)].get();
  }

  /// From now on run() waits for every step and measures it. Nothing runs beside another.
  void measure() { measuring_ = true; }
  /// What of a program runs when.
  const TimeOrder &order(int program) const { return orders_.at(size_t(program)); }
  const StepTimes &times(int program) const { return times_.at(size_t(program)); }

private:
  explicit Executor(const plan::Plan &plan) : plan_(plan), orders_(plan.programs().begin(), plan.programs().end()) {}
  Result<bool> offsetsAgree();
  Status prepareCollectives();
  static void joinMessages(const plan::Program &program, std::vector<std::unique_ptr<CollectiveCall>> &calls);
  void enterStep(int program, StepInTime at);
  Status runStep(int program, StepInTime at, bool inPlace = false);
  Status runAmongRanks(int program, StepInTime at);
  Status runCollective(int program, StepInTime at);
  Status runPeer(int program, StepInTime at);
  Status runWhole(int program, const std::function<void()> &meanwhile);
  Status runOnLane(int program, StepInTime at);
  Status runBeside(int program);
  /// Seconds so far; of the rank's thread alone, or of the lane's steps as well.
  double amongRanks(int program, bool ofLane) const;
  Status uploadConverted(uint32_t buffer, const void *host, plan::DType type);

  const plan::Plan &plan_;
  const std::vector<TimeOrder> orders_; // by program
  std::unique_ptr<LoadedPlan> loaded_;
  Capabilities can_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<std::unique_ptr<Communicator>> deviceGroups_; // empty: collectives run on the host
  std::unique_ptr<DeviceMessages> messages_;                // null: there are none, or they go through the host
  bool onDevice_ = false;                                   // other ranks are met in device memory
  std::unique_ptr<Communicator> everyone_;
  std::vector<std::vector<std::unique_ptr<CollectiveCall>>> collectives_; // by program, step
  std::vector<std::vector<std::unique_ptr<PeerCall>>> peerCalls_;         // by program, step
  std::vector<StepTimes> times_;
  std::vector<DeviceWaits> waits_; // by program
  std::optional<double> waited_;
  bool measuring_ = false, widen_ = false;
  Observer observer_;
  // The rank's thread writes these, its monitor reads them.
  std::atomic<uint64_t> progress_ = 0;
  std::atomic<const char *> doing_ = "starting"; // null: the rank is in a program's step
  std::atomic<int> program_ = 0;
  std::atomic<StepInTime> step_ = StepInTime();
  std::atomic<int64_t> trainingStep_ = 0;
  std::unique_ptr<CommunicationLane> lane_; // null: all steps run on the rank's thread. It ends before what it uses.
};

} // namespace tessera::rt

#endif
