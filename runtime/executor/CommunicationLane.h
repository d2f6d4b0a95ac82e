//===- CommunicationLane.h - collectives beside a rank's kernels --------------------------------===//
//
// A thread that runs the steps of one rank's communication resource (plan.proto). The rank's own thread runs the
// others, and tells the lane where it is:
//
//   CommunicationLane::Call beside(lane, program, call);             // the lane begins its steps of the call
//   for (uint32_t s = section.begin; s < section.end; ++s) {
//     if (lane.runs(program, s))
//       continue;
//     TESSERA_RETURN_IF_ERROR(beside.before(s));                      // waits as the plan says
//     ... run the step ...
//     beside.after(s);
//   }
//   TESSERA_RETURN_IF_ERROR(beside.end());                            // all steps have ended
//
// A failure of the lane is an error of the next before() or end(). Whoever leaves a call early stops the lane: what it
// has not begun does not run, and what it has begun is waited for. That ends as soon as every rank has come as far, or
// one has failed and said so; a rank that others wait for in another place says so itself.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_EXECUTOR_COMMUNICATIONLANE_H
#define TESSERA_RUNTIME_EXECUTOR_COMMUNICATIONLANE_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tessera::rt {

class CommunicationLane {
public:
  using Clock = std::chrono::steady_clock;
  /// A step that the lane has run.
  struct Done {
    uint32_t step = 0;
    Clock::time_point begin, end;
  };
  /// What the lane asks of its rank. `run` runs a step, on the lane's thread. `abort` tells the other ranks of a failure:
  /// it is called on the lane's thread where the rank's is among other ranks, which would wait there for this one's part,
  /// and on the rank's thread where the lane is.
  struct Rank {
    std::function<Status(int program, StepInTime at)> run;
    std::function<void(const std::string &reason)> abort;
  };

  /// The plan passed the checker, and outlives the lane.
  CommunicationLane(const plan::Plan &plan, Rank rank);
  ~CommunicationLane();

  /// Whether a plan has steps for the lane.
  static bool isNeeded(const plan::Plan &plan);
  /// Whether the lane runs a step.
  bool runs(int program, uint32_t step) const;
  /// Whether the lane runs steps of a program.
  bool runs(int program) const { return !steps_[size_t(program)].empty(); }

  /// The lane's step while the rank's thread waits for the lane; nothing while it does not. Safe from any thread.
  std::optional<StepInTime> blocking() const {
    const StepInTime at = at_.load(std::memory_order_relaxed);
    return at == kNowhere || !rankWaits_.load(std::memory_order_relaxed) ? std::nullopt : std::optional(at);
  }

  /// One call of a section, as the rank's thread sees it. One at a time.
  class Call {
  public:
    Call(CommunicationLane &lane, int program, uint32_t begin, uint32_t end, uint32_t index);
    ~Call() { static_cast<void>(stop("the rank's thread has left")); }
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    /// Before a step of the rank's thread; `amongRanks`: other ranks have a part in it.
    Status before(uint32_t step, bool amongRanks);
    void after(uint32_t step);
    Status end();
    /// Stops the lane, since the rank's thread has failed. Returns the lane's failure, if that came first; else success.
    Status stop(const std::string &reason);
    /// How long the rank's thread has waited for the lane, in seconds.
    double waited() const { return waited_; }
    /// What the lane has run. Only after end().
    const std::vector<Done> &done() const { return lane_.done_; }

  private:
    template <typename Condition> Status wait(Condition condition);
    CommunicationLane &lane_;
    const int program_;
    const bool used_; // the lane has steps in this call
    bool open_;
    double waited_ = 0;
  };

private:
  static constexpr StepInTime kNowhere = {~0u, ~0u};
  void work();
  void workCall(std::unique_lock<std::mutex> &lock);

  const plan::Plan &plan_;
  const Rank rank_;
  std::vector<std::vector<uint32_t>> steps_; // by program: the lane's, in order
  std::vector<std::vector<bool>> awaited_;   // by program, step: the lane waits for it; empty if the lane has no step
  std::atomic<StepInTime> at_ = kNowhere;
  std::atomic<bool> rankWaits_ = false;

  std::mutex mutex_;
  std::condition_variable wakeLane_, wakeRank_;
  // Guarded by mutex_.
  uint64_t call_ = 0; // how many there were
  int program_ = 0;
  uint32_t index_ = 0;        // of the call
  size_t next_ = 0, end_ = 0; // of steps_[program_]: the step that the lane runs next; where the call ends
  uint32_t ranksDone_ = 0;    // the rank's awaited steps before this one have ended
  bool running_ = false;      // the lane is in a step
  bool among_ = false;        // the rank's thread is in a step among ranks
  bool stopping_ = false, leaving_ = false;
  Status failure_;
  std::vector<Done> done_;
  std::thread thread_;
};

} // namespace tessera::rt

#endif
