#include "runtime/executor/CommunicationLane.h"
#include "runtime/support/Threads.h"

#include <algorithm>
#include <new>

namespace tessera::rt {

/// How long a rank that has failed leaves its collective under way to itself before it tells the others. Mostly they
/// are in the same one, and would name this rank's failure as their own.
static constexpr std::chrono::seconds kPatience(2);

bool CommunicationLane::isNeeded(const plan::Plan &plan) {
  return std::ranges::any_of(plan.programs(), [](const plan::Program &program) {
    return std::ranges::any_of(program.steps(),
                               [](const plan::Step &step) { return step.resource() == plan::COMMUNICATION; });
  });
}

CommunicationLane::CommunicationLane(const plan::Plan &plan, Rank rank) : plan_(plan), rank_(std::move(rank)) {
  for (const plan::Program &program : plan.programs()) {
    std::vector<uint32_t> &steps = steps_.emplace_back();
    std::vector<bool> &awaited = awaited_.emplace_back();
    for (int s = 0; s < program.steps_size(); ++s)
      if (program.steps(s).resource() == plan::COMMUNICATION) {
        steps.push_back(uint32_t(s));
        awaited.resize(size_t(program.steps_size()));
        for (uint32_t other : program.steps(s).waits())
          awaited[other] = true;
      }
  }
  thread_ = std::thread([this] { work(); });
}

CommunicationLane::~CommunicationLane() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wakeLane_.notify_one();
  thread_.join();
}

bool CommunicationLane::runs(int program, uint32_t step) const {
  return plan_.programs(program).steps(int(step)).resource() == plan::COMMUNICATION;
}

void CommunicationLane::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wakeLane_.wait(lock, [&] { return leaving_ || (next_ < end_ && !stopping_); });
    if (leaving_)
      return;
    workCall(lock);
  }
}

/// Runs the steps of a call until its end, a failure or stopping_.
void CommunicationLane::workCall(std::unique_lock<std::mutex> &lock) {
  const plan::Program &program = plan_.programs(program_);
  const uint64_t call = call_;
  while (next_ < end_) {
    const uint32_t step = steps_[size_t(program_)][next_];
    const auto &waits = program.steps(int(step)).waits();
    const uint32_t until = waits.empty() ? 0 : waits[waits.size() - 1] + 1; // in ascending order
    wakeLane_.wait(lock, [&] { return leaving_ || stopping_ || call_ != call || ranksDone_ >= until; });
    if (leaving_ || stopping_ || call_ != call)
      return;
    running_ = true;
    lock.unlock();
    at_.store({step, index_}, std::memory_order_relaxed);
    const Clock::time_point begin = Clock::now();
    Status status;
    // As in runRanks: memory may run out.
    try {
      status = rank_.run(program_, {step, index_});
    } catch (const std::system_error &e) {
      status = systemFailure(e);
    } catch (const std::bad_alloc &) {
      status = Status::error("memory has run out; use fewer ranks on this machine, or a smaller batch");
    }
    const Clock::time_point end = Clock::now();
    at_.store(kNowhere, std::memory_order_relaxed);
    lock.lock();
    running_ = false;
    wakeRank_.notify_one();
    if (status.ok()) {
      ++next_;
      done_.push_back({step, begin, end});
      continue;
    }
    failure_ = status;
    stopping_ = true;
    if (among_) { // the rank's thread cannot say it
      lock.unlock();
      rank_.abort(status.message());
      lock.lock();
    }
    return;
  }
}

CommunicationLane::Call::Call(CommunicationLane &lane, int program, uint32_t begin, uint32_t end, uint32_t index)
    : lane_(lane), program_(program),
      used_(std::ranges::any_of(lane.steps_[size_t(program)], [&](uint32_t s) { return s >= begin && s < end; })),
      open_(used_) {
  if (!used_)
    return;
  const std::vector<uint32_t> &steps = lane.steps_[size_t(program)];
  {
    std::lock_guard lock(lane.mutex_);
    ++lane.call_;
    lane.program_ = program;
    lane.index_ = index;
    lane.next_ = size_t(std::ranges::lower_bound(steps, begin) - steps.begin());
    lane.end_ = size_t(std::ranges::lower_bound(steps, end) - steps.begin());
    lane.ranksDone_ = 0;
    lane.stopping_ = false;
    lane.failure_ = Status();
    lane.done_.clear();
  }
  lane.wakeLane_.notify_one();
}

/// Waits until the lane has reached a condition, or failed.
template <typename Condition> Status CommunicationLane::Call::wait(Condition condition) {
  std::unique_lock lock(lane_.mutex_);
  auto ready = [&] { return !lane_.failure_.ok() || condition(); };
  if (!ready()) {
    const Clock::time_point begin = Clock::now();
    lane_.rankWaits_.store(true, std::memory_order_relaxed);
    lane_.wakeRank_.wait(lock, ready);
    lane_.rankWaits_.store(false, std::memory_order_relaxed);
    waited_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return lane_.failure_;
}

Status CommunicationLane::Call::before(uint32_t step, bool amongRanks) {
  if (!used_)
    return Status();
  const auto &waits = lane_.plan_.programs(program_).steps(int(step)).waits();
  if (!waits.empty()) {
    const std::vector<uint32_t> &steps = lane_.steps_[size_t(program_)];
    const uint32_t last = waits[waits.size() - 1];
    const auto until = size_t(std::ranges::upper_bound(steps, last) - steps.begin());
    TESSERA_RETURN_IF_ERROR(wait([&] { return lane_.next_ >= until; }));
  }
  if (!amongRanks)
    return Status();
  std::lock_guard lock(lane_.mutex_);
  lane_.among_ = true;
  return lane_.failure_;
}

void CommunicationLane::Call::after(uint32_t step) {
  if (!used_)
    return;
  const bool awaited = lane_.awaited_[size_t(program_)][step];
  {
    std::lock_guard lock(lane_.mutex_);
    lane_.among_ = false;
    if (awaited)
      lane_.ranksDone_ = step + 1;
  }
  if (awaited)
    lane_.wakeLane_.notify_one();
}

Status CommunicationLane::Call::end() {
  if (!used_)
    return Status();
  TESSERA_RETURN_IF_ERROR(wait([&] { return lane_.next_ == lane_.end_; }));
  open_ = false;
  return Status();
}

Status CommunicationLane::Call::stop(const std::string &reason) {
  if (!open_)
    return Status();
  open_ = false;
  std::unique_lock lock(lane_.mutex_);
  const Status failure = lane_.failure_;
  lane_.stopping_ = true;
  lane_.among_ = false;
  lane_.wakeLane_.notify_one();
  const auto idle = [&] { return !lane_.running_; };
  if (!lane_.wakeRank_.wait_for(lock, kPatience, idle)) {
    lock.unlock();
    lane_.rank_.abort(reason);
    lock.lock();
    lane_.wakeRank_.wait(lock, idle);
  }
  lane_.next_ = lane_.end_ = 0;
  return failure;
}

} // namespace tessera::rt
