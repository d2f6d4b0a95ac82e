#include "runtime/executor/Executor.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/executor/GlobalTensors.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/Threads.h"
#include "runtime/tensor/BoundTensors.h"
#include "runtime/tensor/ConvertElements.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

namespace tessera::rt {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool hasProgram(plan::Role role) { return role != plan::PARAMETER && role != plan::STATE; }

} // namespace

Result<std::unique_ptr<Executor>> Executor::create(const plan::Plan &plan, Backend &backend, World &world,
                                                   const LoadOptions &options, World *deviceWorld) {
  if (uint32_t(world.rank()) != plan.rank())
    return Status::error("the plan is for rank " + std::to_string(plan.rank()) + ", this is rank " +
                         std::to_string(world.rank()));
  std::unique_ptr<Executor> executor(new Executor(plan));
  executor->widen_ = options.widen;
  std::vector<int> everyone(size_t(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  Result<std::unique_ptr<Communicator>> all = world.group(everyone);
  if (!all)
    return all.status();
  executor->everyone_ = std::move(*all);
  auto makeGroups = [&](World &from, std::vector<std::unique_ptr<Communicator>> &to) -> Status {
    for (const plan::Group &group : plan.groups()) {
      Result<std::unique_ptr<Communicator>> made = from.groupOf(group);
      if (!made)
        return made.status().context("group " + quoted(group.name()));
      to.push_back(std::move(*made));
    }
    return Status();
  };
  TESSERA_RETURN_IF_ERROR(makeGroups(world, executor->groups_));
  LoadOptions load = options;
  if (deviceWorld) {
    Result<bool> agree = executor->offsetsAgree();
    if (!agree)
      return agree.status();
    load.device.sharedArena = *agree;
  }
  Result<std::unique_ptr<LoadedPlan>> loaded = backend.load(plan, load);
  if (!loaded)
    return loaded.status().context("backend " + std::string(backend.name()));
  executor->loaded_ = std::move(*loaded);
  executor->can_ = executor->loaded_->capabilities();
  executor->onDevice_ = deviceWorld != nullptr;
  if (deviceWorld)
    TESSERA_RETURN_IF_ERROR(makeGroups(*deviceWorld, executor->deviceGroups_));
  TESSERA_RETURN_IF_ERROR(executor->prepareCollectives());
  if (plan.stages() > 1 && deviceWorld) {
    Result<std::unique_ptr<DeviceMessages>> messages =
        DeviceMessages::create(plan, *executor->loaded_, *deviceWorld, *executor->everyone_);
    if (!messages)
      return messages.status();
    executor->messages_ = std::move(*messages);
  } else if (plan.stages() > 1) {
    TESSERA_RETURN_IF_ERROR(world.openChannels());
  }
  for (const plan::Program &program : plan.programs()) {
    auto &calls = executor->peerCalls_.emplace_back();
    for (const plan::Step &step : program.steps())
      calls.push_back(step.has_send() || step.has_receive()
                          ? std::make_unique<PeerCall>(step, plan, *executor->loaded_, world)
                          : nullptr);
  }
  if (!deviceWorld && executor->can_.onHost && !executor->can_.programs && world.size() > 1 &&
      CommunicationLane::isNeeded(plan)) {
    TESSERA_RETURN_IF_ERROR(probeThreads(1));
    Executor *self = executor.get();
    executor->lane_ = std::make_unique<CommunicationLane>(
        plan, CommunicationLane::Rank{[self](int program, StepInTime at) { return self->runOnLane(program, at); },
                                      [&world](const std::string &reason) { world.abort(reason); }});
  }
  return executor;
}

Executor::~Executor() {
  if (can_.programs)
    can_.programs->forgetGraphs();
}

/// Whether the members of every group have the buffers of their collectives at equal offsets in their arenas. All ranks
/// get the same answer.
Result<bool> Executor::offsetsAgree() {
  std::vector<std::vector<int64_t>> low(groups_.size());
  for (const plan::Program &program : plan_.programs())
    for (const plan::Step &step : program.steps())
      if (step.has_collective())
        for (uint32_t b : {step.collective().input(), step.collective().output()})
          low[step.collective().group()].push_back(int64_t(plan_.buffers(int(b)).offset()));
  int64_t agree = !groups_.empty();
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (low[g].empty())
      continue;
    std::vector<int64_t> high = low[g];
    TESSERA_RETURN_IF_ERROR(groups_[g]->allReduce(low[g].data(), low[g].data(), low[g].size(), plan::I64, plan::MIN));
    TESSERA_RETURN_IF_ERROR(groups_[g]->allReduce(high.data(), high.data(), high.size(), plan::I64, plan::MAX));
    agree = agree && low[g] == high;
  }
  TESSERA_RETURN_IF_ERROR(everyone_->allReduce(&agree, &agree, 1, plan::I64, plan::MIN));
  return agree != 0;
}

/// A backend chooses layouts for its own rank's plan, and a rank at the border of a halo may choose differently. So the
/// members first compare the layouts of every collective's buffers.
Status Executor::prepareCollectives() {
  std::vector<std::vector<int64_t>> low(groups_.size());
  for (const plan::Program &program : plan_.programs())
    for (const plan::Step &step : program.steps())
      if (step.has_collective())
        low[step.collective().group()].push_back(layoutSignature(step.collective(), *loaded_));
  std::vector<std::vector<int64_t>> high = low;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (low[g].empty())
      continue;
    TESSERA_RETURN_IF_ERROR(groups_[g]->allReduce(low[g].data(), low[g].data(), low[g].size(), plan::I64, plan::MIN));
    TESSERA_RETURN_IF_ERROR(
        groups_[g]->allReduce(high[g].data(), high[g].data(), high[g].size(), plan::I64, plan::MAX));
  }
  std::vector<size_t> next(groups_.size(), 0);
  for (const plan::Program &program : plan_.programs()) {
    auto &calls = collectives_.emplace_back();
    for (const plan::Step &step : program.steps()) {
      calls.emplace_back();
      if (!step.has_collective())
        continue;
      uint32_t g = step.collective().group();
      size_t i = next[g]++;
      if (onDevice_ && low[g][i] != high[g][i])
        return Status::error("collective " + quoted(step.name()) + ": its ranks hold their parts in different layouts");
      calls.back() = std::make_unique<CollectiveCall>(plan_, step.collective(), *loaded_,
                                                      onDevice_ ? *deviceGroups_[g] : *groups_[g],
                                                      low[g][i] != high[g][i] || (!onDevice_ && !can_.onHost));
    }
    joinMessages(program, calls);
    times_.push_back({std::vector<double>(calls.size(), 0.0), 0});
  }
  waits_.resize(times_.size());
  for (size_t g = 0; g < deviceGroups_.size(); ++g) {
    size_t scratch = 0;
    for (int p = 0; p < plan_.programs_size(); ++p)
      for (int s = 0; s < plan_.programs(p).steps_size(); ++s)
        if (const CollectiveCall *call = collective(p, s); call && plan_.programs(p).steps(s).collective().group() == g)
          scratch = std::max(scratch, call->scratchBytes());
    TESSERA_RETURN_IF_ERROR(deviceGroups_[g]
                                ->prepare(can_.sharedArena, loaded_->arenaBytes(), scratch)
                                .context("group " + quoted(plan_.groups(int(g)).name())));
  }
  return Status();
}

void Executor::joinMessages(const plan::Program &program, std::vector<std::unique_ptr<CollectiveCall>> &calls) {
  for (int s = 0; s < program.steps_size(); ++s) {
    const int joined = int(followers(program.steps(s).collective()));
    std::vector<CollectiveCall *> others;
    for (int member = s + 1; member <= s + joined; ++member)
      others.push_back(calls[size_t(member)].get());
    if (joined > 0)
      calls[size_t(s)]->join(others);
    s += joined;
  }
}

double Executor::amongRanks(int program, bool ofLane) const {
  double seconds = 0;
  for (uint32_t s = 0; s < collectives_[size_t(program)].size(); ++s)
    if (const CollectiveCall *call = collective(program, int(s)); call && (ofLane || !lane_->runs(program, s)))
      seconds += call->seconds();
  for (const std::unique_ptr<PeerCall> &call : peerCalls_[size_t(program)])
    seconds += call ? call->seconds() : 0;
  return seconds;
}

std::optional<double> Executor::secondsBetweenStages(int program) const {
  if (onDevice_)
    return std::nullopt;
  double seconds = 0;
  for (const std::unique_ptr<PeerCall> &call : peerCalls_[size_t(program)])
    seconds += call ? call->seconds() : 0;
  return seconds;
}

int Executor::stagedCollectives(int program) const {
  int staged = 0;
  for (uint32_t s = 0; s < collectives_[size_t(program)].size(); ++s)
    if (const CollectiveCall *call = collective(program, int(s)); call && call->staged())
      staged += int(order(program).timesOf(s));
  return staged;
}

int Executor::collectivesBeside(int program) const {
  int beside = 0;
  for (uint32_t s = 0; lane_ && s < collectives_[size_t(program)].size(); ++s)
    beside += lane_->runs(program, s) ? int(order(program).timesOf(s)) : 0;
  return beside;
}

plan::DType Executor::heldType(plan::DType planned) const {
  return widen_ && planned == plan::F32 ? plan::F64 : planned;
}

plan::DType Executor::heldType(int binding) const { return loaded_->dtype(plan_.bindings(binding).buffer()); }

Status Executor::uploadConverted(uint32_t buffer, const void *host, plan::DType type) {
  plan::DType held = loaded_->dtype(buffer);
  if (held == type)
    return loaded_->upload(buffer, host);
  auto count = size_t(elementsOf(toVector(plan_.buffers(int(buffer)).shape())).value_or(0));
  std::vector<char> converted(count * bytesPerElement(held));
  convertElements(host, type, converted.data(), held, count);
  return loaded_->upload(buffer, converted.data());
}

Status Executor::loadWeights(const TensorSource *weights, bool strict) {
  TESSERA_RETURN_IF_ERROR(checkWeights(plan_, weights, strict));
  std::vector<char> host, padded; // hold one tensor's block at a time
  for (const plan::Binding &binding : plan_.bindings()) {
    if (hasProgram(binding.role()))
      continue;
    std::vector<int64_t> shape = toVector(plan_.buffers(int(binding.buffer())).shape());
    std::vector<int64_t> extent = extentOf(plan_, binding);
    // Values keep the type of the buffer, so that a checkpoint of a run in float64 loses no digits.
    plan::DType type = loaded_->dtype(binding.buffer());
    auto count = size_t(elementsOf(shape).value_or(0));
    host.resize(count * bytesPerElement(type));
    if (!begins(binding, weights)) {
      if (!isEmpty(extent))
        TESSERA_RETURN_IF_ERROR(weights->read(binding.name(), blockOf(plan_, binding), type, host.data()));
    } else { // a state
      double fill = binding.fill();
      uint64_t each = bytesPerElement(type);
      for (size_t i = 0; i < count; ++i)
        convertElements(&fill, plan::F64, host.data() + i * each, type, 1);
    }
    if (extent != shape) {
      padded.resize(host.size());
      padBox(shape, extent, host.data(), padded.data(), bytesPerElement(type));
      host.swap(padded);
    }
    TESSERA_RETURN_IF_ERROR(loaded_->upload(binding.buffer(), host.data()));
  }
  return Status();
}

Status Executor::feed(int binding, const void *host) {
  uint32_t buffer = plan_.bindings(binding).buffer();
  return uploadConverted(buffer, host, plan_.buffers(int(buffer)).dtype());
}

Status Executor::set(int binding, const void *host, plan::DType type) {
  return uploadConverted(plan_.bindings(binding).buffer(), host, type);
}

Status Executor::feedStep(const std::string &program, int64_t step) {
  trainingStep_.store(step, std::memory_order_relaxed);
  for (int binding : bindings(plan::STEP, program))
    TESSERA_RETURN_IF_ERROR(feed(binding, &step));
  return Status();
}

std::string Executor::whereabouts() const {
  std::string text = "step " + std::to_string(trainingStep_.load() + 1) + ", ";
  if (const char *what = doing_.load())
    return text + what;
  const int number = program_.load();
  const plan::Program &program = plan_.programs(number);
  const std::optional<StepInTime> beside = lane_ ? lane_->blocking() : std::nullopt;
  const StepInTime at = beside.value_or(step_.load());
  if (at.step >= uint32_t(program.steps_size())) // the other one's: the rank goes from one program to another
    return text + "program " + quoted(program.name());
  const plan::Step &step = program.steps(int(at.step));
  const std::string call = order(number).callText(at);
  return text + "program " + quoted(program.name()) + ", " + (call.empty() ? "" : call + ", ") +
         std::to_string(at.step + 1) + " of " + std::to_string(program.steps_size()) + ": " +
         (step.has_collective() ? "collective "
          : step.has_send()     ? "send "
          : step.has_receive()  ? "receive "
                                : "kernel ") +
         quoted(step.name()) + (step.has_send() ? " to " + peersText(plan(), step) : "") +
         (step.has_receive() ? " from " + peersText(plan(), step) : "");
}

void Executor::enterStep(int program, StepInTime at) {
  program_.store(program, std::memory_order_relaxed);
  step_.store(at, std::memory_order_relaxed);
  enter(nullptr);
}

Status Executor::runStep(int program, StepInTime at, bool inPlace) {
  enterStep(program, at);
  Status status = communicates(program, int(at.step)) ? runAmongRanks(program, at)
                  : inPlace                           ? can_.programs->runPlace(uint32_t(program), at)
                                                      : loaded_->launch(uint32_t(program), at.step, at.index);
  if (status.ok()) // building the message costs more than a small step
    return status;
  return status.context("program " + quoted(plan_.programs(program).name()));
}

Status Executor::runAmongRanks(int program, StepInTime at) {
  enterStep(program, at); // runs of whole programs do not pass through runStep
  return collective(program, int(at.step)) ? runCollective(program, at) : runPeer(program, at);
}

Status Executor::runCollective(int program, StepInTime at) {
  Status status = collectives_[size_t(program)][at.step]->run(at.index);
  if (status.ok() && messages_)
    status = messages_->leave(uint32_t(program), at);
  return status.ok() ? status
                     : status.context("collective " + quoted(plan_.programs(program).steps(int(at.step)).name()));
}

/// On the lane's thread.
Status Executor::runOnLane(int program, StepInTime at) {
  Status status = collectives_[size_t(program)][at.step]->run(at.index);
  progress_.fetch_add(1, std::memory_order_relaxed);
  if (status.ok())
    return status;
  return status.context("collective " + quoted(plan_.programs(program).steps(int(at.step)).name()))
      .context("program " + quoted(plan_.programs(program).name()));
}

/// Runs a program's steps with the lane's beside the others.
Status Executor::runBeside(int program) {
  const double before = amongRanks(program, /*ofLane=*/false);
  double waited = 0;
  int64_t place = 0;
  for (const SectionCall &at : order(program).calls()) {
    const Section &section = order(program).sections()[at.section];
    CommunicationLane::Call call(*lane_, program, section.begin, section.end, at.index);
    auto run = [&]() -> Status {
      for (uint32_t s = section.begin; s < section.end; ++s) {
        if (lane_->runs(program, s))
          continue;
        TESSERA_RETURN_IF_ERROR(call.before(s, communicates(program, int(s))));
        const Clock::time_point begin = observer_.call ? Clock::now() : Clock::time_point();
        TESSERA_RETURN_IF_ERROR(runStep(program, {s, at.index}));
        call.after(s);
        if (observer_.call)
          TESSERA_RETURN_IF_ERROR(
              observer_.call({program, int(s), at.index, place + int64_t(s - section.begin), begin, Clock::now()}));
      }
      return call.end();
    };
    if (Status status = run(); !status.ok()) {
      const Status failure =
          call.stop(status.message()); // an error of the lane may be what made this rank's thread fail
      return failure.ok() ? status : failure;
    }
    waited += call.waited();
    if (observer_.call)
      for (const CommunicationLane::Done &done : call.done())
        TESSERA_RETURN_IF_ERROR(observer_.call(
            {program, int(done.step), at.index, place + int64_t(done.step - section.begin), done.begin, done.end}));
    place += section.end - section.begin;
  }
  ++times_[size_t(program)].runs;
  waited_ = amongRanks(program, /*ofLane=*/false) - before + waited;
  if (can_.finite)
    TESSERA_RETURN_IF_ERROR(can_.finite->endProgram(uint32_t(program)));
  return loaded_->synchronize();
}

Status Executor::runPeer(int program, StepInTime at) {
  Status status =
      messages_ ? messages_->run(uint32_t(program), at) : peerCalls_[size_t(program)][at.step]->run(at.index);
  if (status.ok())
    return status;
  const plan::Step &step = plan_.programs(program).steps(int(at.step));
  return status.context((step.has_send() ? "send " : "receive ") + quoted(step.name()));
}

Status Executor::runWhole(int program, const std::function<void()> &meanwhile) {
  CollectiveRunner collectives;
  collectives.run = [&](StepInTime at) { return runAmongRanks(program, at); };
  collectives.onHost = !onDevice_;
  if (onDevice_)
    collectives.agree = [&](bool mine) -> Result<bool> {
      int64_t all = mine;
      TESSERA_RETURN_IF_ERROR(everyone_->allReduce(&all, &all, 1, plan::I64, plan::MIN));
      return all != 0;
    };
  const double before = amongRanks(program, /*ofLane=*/true);
  const Clock::time_point begin = Clock::now();
  Status status = can_.programs->runProgram(uint32_t(program), collectives);
  if (status.ok() && meanwhile)
    meanwhile();
  const double host = secondsSince(begin);
  if (status.ok())
    status = loaded_->synchronize();
  ++times_[size_t(program)].runs;
  if (!status)
    return status.context("program " + quoted(plan_.programs(program).name()));
  waited_ = amongRanks(program, /*ofLane=*/true) - before;
  if (collectives.onHost)
    return status;
  const double seconds = secondsSince(begin);
  std::optional<double> measured;
  if (can_.timers) {
    Result<std::optional<double>> waited = can_.timers->waited(uint32_t(program));
    if (!waited)
      return waited.status();
    measured = *waited;
  }
  waited_ = waits_[size_t(program)].run(seconds, host, measured);
  return status;
}

Status Executor::run(int program, const std::function<void()> &meanwhile) {
  if (lane_ && lane_->runs(program) && !measuring_ && (!observer_.call || observer_.beside))
    return runBeside(program);
  const bool watched = measuring_ || observer_.call;
  // Loading takes some ranks longer than others. NCCL connects at the first operation, and its time-outs begin there.
  if (onDevice_ && times_[size_t(program)].runs == 0)
    TESSERA_RETURN_IF_ERROR(everyone_->barrier());
  if (can_.programs && !watched)
    return runWhole(program, meanwhile);
  // Whoever measures sees the steps as they run. Whoever looks for the origin of a NaN sees every result.
  const bool inPlace = can_.programs && (!observer_.call || observer_.beside);
  StepTimes &times = times_[size_t(program)];
  if (times.runs == 1) {
    std::ranges::fill(times.seconds, 0);
    times.measured = 0;
  }
  const double before = amongRanks(program, /*ofLane=*/true);
  double inCollectives = 0;
  int64_t place = -1;
  Clock::time_point last = Clock::now();
  for (const StepInTime at : order(program)) {
    TESSERA_RETURN_IF_ERROR(runStep(program, at, inPlace));
    ++place;
    if (!watched)
      continue;
    TESSERA_RETURN_IF_ERROR(loaded_->synchronize());
    const Clock::time_point begin = last;
    last = Clock::now();
    const double seconds = std::chrono::duration<double>(last - begin).count();
    times.seconds[at.step] += seconds;
    inCollectives += communicates(program, int(at.step)) ? seconds : 0;
    if (!observer_.call)
      continue;
    TESSERA_RETURN_IF_ERROR(observer_.call({program, int(at.step), at.index, place, begin, last}));
    last = Clock::now();
  }
  ++times.runs;
  times.measured += watched;
  // After every step of a watched run the device has finished, so all time in collectives is among the ranks. On the
  // host, waiting for this rank's own kernels does not count.
  waited_ = onDevice_ ? inCollectives : amongRanks(program, /*ofLane=*/true) - before;
  if (can_.finite)
    TESSERA_RETURN_IF_ERROR(can_.finite->endProgram(uint32_t(program)));
  return loaded_->synchronize();
}

Status Executor::fetch(int binding, std::vector<char> &host) {
  uint32_t buffer = plan_.bindings(binding).buffer();
  auto count = size_t(elementsOf(toVector(plan_.buffers(int(buffer)).shape())).value_or(0));
  host.resize(count * bytesPerElement(loaded_->dtype(buffer)));
  return loaded_->download(buffer, host.data());
}

Result<double> Executor::fetchScalar(plan::Role role, const std::string &program) {
  std::vector<int> found = bindings(role, program);
  if (found.empty())
    return Status::error("program " + quoted(program) + " has no " + roleName(role));
  return fetchScalar(found[0]);
}

Result<double> Executor::fetchScalar(int binding) {
  std::vector<char> host;
  TESSERA_RETURN_IF_ERROR(fetch(binding, host));
  double value = 0;
  convertElements(host.data(), heldType(binding), &value, plan::F64, 1);
  return value;
}

std::vector<int> Executor::bindings(plan::Role role, const std::string &program) const {
  return bindingsOf(plan_, role, program);
}

} // namespace tessera::rt
