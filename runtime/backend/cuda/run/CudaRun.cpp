// Running: copies, single steps, and whole programs as recorded graphs.
#include "runtime/backend/cuda/run/CudaInput.h"
#include "runtime/backend/cuda/run/CudaPlan.h"
#include "runtime/backend/cuda/run/CudaSnapshot.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tessera::rt::cuda {
namespace {

/// One of kMeasureEvery runs is measured.
constexpr int64_t kMeasureEvery = 8;

/// How often the compute stream waits for the communication stream.
int waitsOfCompute(const Segment &segment) {
  int waits = segment.joins >= 0;
  for (const ScheduledStep &s : segment.steps)
    waits += s.waitsFor >= 0 && s.stream == TESSERA_COMPUTE_STREAM;
  return waits;
}

} // namespace

Status CudaPlan::uploadAt(uint32_t buffer, uint32_t index, const void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  toldBy_.reset();
  const TensorView &v = buffers()[buffer];
  const auto *from = static_cast<const char *>(host);
  std::vector<char> converted;
  if (!v.layout.plain()) {
    converted.resize(v.bytes());
    convertLayout(converted.data(), v.layout, host, Layout(), v.shape, bytesPerElement(v.dtype));
    from = converted.data();
  }
  return copyIn(static_cast<char *>(addressAt(buffer, index)), from, v.bytes());
}

/// The contents go through pinned memory piece by piece. The caller goes on while the copies run, until the pinned
/// memory is full.
Status CudaPlan::copyIn(char *to, const char *from, size_t bytes) {
  for (size_t left = bytes; left > 0;) {
    if (staged_ == staging_.size())
      TESSERA_RETURN_IF_ERROR(synchronize());
    const size_t piece = std::min(left, staging_.size() - staged_);
    char *place = staging_.data() + staged_;
    std::memcpy(place, from, piece);
    TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COMPUTE_STREAM, to, place, piece));
    staged_ = std::min(staging_.size(), (staged_ + piece + 63) / 64 * 64);
    from += piece;
    to += piece;
    left -= piece;
  }
  return Status();
}

Status CudaPlan::downloadAt(uint32_t buffer, uint32_t index, void *host) {
  TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
  const TensorView &v = buffers()[buffer];
  std::vector<char> held(v.layout.plain() ? 0 : v.bytes());
  char *to = held.empty() ? static_cast<char *>(host) : held.data();
  const auto *from = static_cast<const char *>(addressAt(buffer, index));
  TESSERA_RETURN_IF_ERROR(synchronize()); // after this all pinned memory is free
  for (const Scalar &scalar : scalars_)
    if (scalar.buffer == buffer && toldBy_ == scalar.program) {
      std::memcpy(host, told_.data() + scalar.place, v.bytes());
      return Status();
    }
  for (size_t left = v.bytes(); left > 0;) {
    const size_t piece = std::min(left, staging_.size());
    TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COMPUTE_STREAM, staging_.data(), from, piece));
    TESSERA_RETURN_IF_ERROR(device_->finish());
    std::memcpy(to, staging_.data(), piece);
    from += piece;
    to += piece;
    left -= piece;
  }
  if (!held.empty())
    convertLayout(host, Layout(), held.data(), v.layout, v.shape, bytesPerElement(v.dtype));
  return Status();
}

Result<std::unique_ptr<InputPath>> CudaPlan::inputPath(const std::vector<uint32_t> &wanted) {
  std::vector<CudaInput::Target> targets;
  size_t bytes = 0;
  for (uint32_t buffer : wanted) {
    TESSERA_RETURN_IF_ERROR(checkBuffer(buffer));
    if (!buffers()[buffer].layout.plain())
      return std::unique_ptr<InputPath>(); // the host would have to convert the elements, so upload() is as good
    targets.push_back({buffers()[buffer].data, buffers()[buffer].bytes()});
    bytes += buffers()[buffer].bytes();
  }
  inputBytes_ = std::max(inputBytes_, bytes);
  return CudaInput::create(device_, targets);
}

/// Libraries and communicators allocate memory at first use. So copies are made only where twice their size is free.
std::unique_ptr<Snapshot> CudaPlan::snapshot(const std::vector<uint32_t> &wanted) {
  std::vector<CudaSnapshot::Part> parts;
  for (uint32_t buffer : wanted)
    parts.push_back({buffers().at(buffer).as<char>(), buffers()[buffer].bytes()});
  const size_t bytes = CudaSnapshot::bytesFor(parts);
  size_t free = 0; // other ranks may share the device
  if (!call([&](TesseraMessage *m) { return device_->api().freeMemory(device_->handle(), &free, m); }) ||
      2 * bytes > free)
    return nullptr;
  std::unique_ptr<Snapshot> made = CudaSnapshot::create(device_, std::move(parts));
  snapshotBytes_ += made ? bytes : 0;
  return made;
}

Capabilities CudaPlan::capabilities() {
  Capabilities all;
  all.onHost = false;
  all.sharedArena = shared_ ? arena_.data() : nullptr;
  all.programs = this;
  all.inputs = this;
  all.snapshots = this;
  all.finite = this;
  all.timers = this;
  return all;
}

Status CudaPlan::synchronize() {
  TESSERA_RETURN_IF_ERROR(device_->finish());
  staged_ = 0;
  for (auto &[program, check] : checks_)
    check.collect();
  return Status();
}

void *CudaPlan::resolve(const Place &place, uint32_t index) const {
  const uint64_t value = place.value + (place.period ? index % place.period : index) * place.perIndex;
  return place.scratch ? scratch_.data() + value : reinterpret_cast<void *>(value + shiftAt(place.value, index));
}

Status CudaPlan::run(const Bound &bound, const Kernel &kernel, uint32_t index) {
  const TesseraDeviceApi &api = device_->api();
  TesseraDevice *d = device_->handle();
  auto resolve = [&](const Place &place) { return this->resolve(place, index); };
  if (const auto *launch = std::get_if<Launch>(&bound.action)) {
    void *values[64], *pointers[64];
    std::vector<void *> more; // rarely used: for an expression with more operands
    const size_t n = launch->arguments.size();
    void **value = values, **pointer = pointers;
    if (n > 64) {
      more.resize(2 * n);
      value = more.data();
      pointer = more.data() + n;
    }
    for (size_t i = 0; i < n; ++i) {
      value[i] = resolve(launch->arguments[i]);
      pointer[i] = &value[i];
    }
    return call([&](TesseraMessage *m) {
      return api.launch(d, TESSERA_COMPUTE_STREAM, codes_[bound.code], launch->grid.data(), launch->block, pointer,
                        uint32_t(n), m);
    });
  }
  if (const auto *copy = std::get_if<CopyBytes>(&bound.action))
    return device_->copy(TESSERA_COMPUTE_STREAM, resolve(copy->to), resolve(copy->from), copy->bytes);
  if (const auto *fill = std::get_if<FillBytes>(&bound.action))
    return call(
        [&](TesseraMessage *m) { return api.fill(d, TESSERA_COMPUTE_STREAM, resolve(fill->to), 0, fill->bytes, m); });
  TesseraOperands operands = {};
  operands.workspace = scratch_.data() + kernel.workspace;
  if (const auto *matmul = std::get_if<LibraryMatMul>(&bound.action)) {
    operands.a = resolve(matmul->a);
    operands.b = resolve(matmul->b);
    operands.y = resolve(matmul->y);
    if (matmul->what.epilogue & TESSERA_EPILOGUE_BIAS)
      operands.bias = resolve(matmul->bias);
    if (matmul->what.epilogue & (TESSERA_EPILOGUE_KEEP | TESSERA_EPILOGUE_SUM))
      operands.aux = resolve(matmul->aux);
  } else if (const auto *conv = std::get_if<LibraryConv>(&bound.action)) {
    operands.a = resolve(conv->a);
    operands.b = resolve(conv->b);
    operands.y = resolve(conv->y);
  } else {
    const auto &attention = std::get<LibraryAttention>(bound.action);
    for (size_t t = 0; t < attention.tensors.size(); ++t)
      operands.tensors[t] = resolve(attention.tensors[t]);
  }
  return call([&](TesseraMessage *m) { return api.runOp(d, bound.op, &operands, m); });
}

Status CudaPlan::run(const Kernel &kernel, uint32_t program, StepInTime at) {
  for (const Bound &bound : kernel.actions)
    if (Status status = run(bound, kernel, at.index); !status)
      return status.context(stepText(program, at.step));
  return Status();
}

Status CudaPlan::launch(uint32_t program, uint32_t number, uint32_t index) {
  TESSERA_RETURN_IF_ERROR(checkStep(program, number));
  toldBy_.reset();
  return run(kernels_[program][number], program, {number, index});
}

std::string CudaPlan::implementation(uint32_t program, uint32_t number) const {
  const std::optional<size_t> place = joins_[program].placeOf(number);
  return kernels_[program][number].description +
         (!place             ? ""
          : *place == number ? " (in whole programs: " + joined_[program].at(number).description + ")"
                             : " (in whole programs: with step " + std::to_string(*place) + ")");
}

Status CudaPlan::runPlace(uint32_t program, StepInTime at) {
  TESSERA_RETURN_IF_ERROR(checkStep(program, at.step));
  const std::optional<size_t> place = joins_[program].placeOf(at.step);
  toldBy_.reset();
  return !place              ? launch(program, at.step, at.index)
         : *place == at.step ? run(joined_[program].at(at.step), program, at)
                             : Status();
}

std::optional<AsRun> CudaPlan::asRun(uint32_t program, uint32_t number) const {
  const std::optional<size_t> place = joins_[program].placeOf(number);
  if (!place)
    return std::nullopt;
  const StepAccess &access = joins_[program].accesses()[*place];
  AsRun as;
  as.place = uint32_t(*place);
  as.implementation = "cuda: " + joined_[program].at(*place).description;
  for (const auto *ranges : {&access.reads, &access.writes})
    for (const ByteRange &range : *ranges)
      as.bytes += range.end - range.begin;
  return as;
}

Status CudaPlan::schedule(ProgramState &state, uint32_t program, bool onHost) {
  std::vector<StepInTime> order;
  std::vector<StepAccess> inTime;
  for (const StepInTime at : TimeOrder(plan().programs(int(program)))) {
    order.push_back(at);
    StepAccess &access = inTime.emplace_back(joins_[program].accesses()[at.step]);
    for (auto *ranges : {&access.reads, &access.writes})
      for (ByteRange &range : *ranges) {
        const uint64_t shift = shiftOf(range.begin, at.index);
        range.begin += shift;
        range.end += shift;
      }
  }
  state.segments = scheduleProgram(inTime, order, onHost);
  state.graphs.assign(state.segments.size(), nullptr);
  state.timedGraphs = state.graphs;
  state.onHost = onHost;
  const TesseraDeviceApi &api = device_->api();
  for (const Segment &segment : state.segments) {
    state.events.emplace_back();
    for (int e = 0; e < segment.events; ++e) {
      TesseraEvent *event = nullptr;
      TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.createEvent(device_->handle(), &event, m); }));
      state.events.back().push_back(event);
    }
    state.timers.emplace_back();
    for (int t = 0; t < 2 * waitsOfCompute(segment); ++t) {
      TesseraEvent *timer = nullptr;
      TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.createTimer(device_->handle(), &timer, m); }));
      state.timers.back().push_back(timer);
    }
  }
  state.scheduled = true;
  return Status();
}

Status CudaPlan::enqueue(ProgramState &state, size_t index, uint32_t program, const CollectiveRunner &collectives,
                         bool timed) {
  const TesseraDeviceApi &api = device_->api();
  TesseraDevice *d = device_->handle();
  const Segment &segment = state.segments[index];
  const std::vector<TesseraEvent *> &events = state.events[index];
  auto timer = state.timers[index].begin();
  auto record = [&](int stream, TesseraEvent *event) {
    return call([&](TesseraMessage *m) { return api.record(d, stream, event, m); });
  };
  auto wait = [&](int stream, int event) {
    const bool timing = timed && stream == TESSERA_COMPUTE_STREAM;
    if (timing)
      TESSERA_RETURN_IF_ERROR(record(stream, *timer++));
    TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.wait(d, stream, events[size_t(event)], m); }));
    return timing ? record(stream, *timer++) : Status();
  };
  if (segment.joins >= 0) // there is something to fork
    TESSERA_RETURN_IF_ERROR(record(TESSERA_COMPUTE_STREAM, events[0]));
  for (const ScheduledStep &s : segment.steps) {
    if (s.waitsFor >= 0)
      TESSERA_RETURN_IF_ERROR(wait(s.stream, s.waitsFor));
    TESSERA_RETURN_IF_ERROR(step(program, s.at.step).has_kernel() ? runPlace(program, s.at) : collectives.run(s.at));
    if (s.records >= 0)
      TESSERA_RETURN_IF_ERROR(record(s.stream, events[size_t(s.records)]));
  }
  if (segment.joins >= 0)
    TESSERA_RETURN_IF_ERROR(wait(TESSERA_COMPUTE_STREAM, segment.joins));
  return index + 1 == state.segments.size() ? tell(program) : Status();
}

/// Copies the numbers that the program tells to pinned memory.
Status CudaPlan::tell(uint32_t program) {
  for (const Scalar &scalar : scalars_)
    if (scalar.program == program)
      TESSERA_RETURN_IF_ERROR(device_->copy(TESSERA_COMPUTE_STREAM, told_.data() + scalar.place,
                                            buffers()[scalar.buffer].as<char>(), buffers()[scalar.buffer].bytes()));
  return Status();
}

Status CudaPlan::record(ProgramState &state, size_t index, uint32_t program, const CollectiveRunner &collectives,
                        bool timed) {
  const TesseraDeviceApi &api = device_->api();
  TesseraDevice *d = device_->handle();
  TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) { return api.captureBegin(d, m); }));
  Status status = enqueue(state, index, program, collectives, timed);
  TesseraGraph *graph = nullptr;
  Status ended = call([&](TesseraMessage *m) { return api.captureEnd(d, status.ok() ? &graph : nullptr, m); });
  if (status.ok())
    status = ended;
  (timed ? state.timedGraphs : state.graphs)[index] = graph;
  return status;
}

/// Records a graph of every segment. If one rank cannot, none uses its graphs, because NCCL demands that all members of
/// a group record a collective or none. Without graphs the program runs correctly, but slower or unmeasured. The
/// caller's notice() says so.
Status CudaPlan::recordAll(ProgramState &state, uint32_t program, const CollectiveRunner &collectives, bool timed) {
  std::vector<TesseraGraph *> &graphs = timed ? state.timedGraphs : state.graphs;
  Status mine;
  for (size_t i = 0; i < state.segments.size() && mine; ++i)
    if (!state.segments[i].onHost && !(timed && state.timers[i].empty()))
      mine = record(state, i, program, collectives, timed);
  bool all = mine.ok();
  if (collectives.agree) {
    Result<bool> agreed = collectives.agree(all);
    if (!agreed)
      return agreed.status();
    all = *agreed;
  }
  (timed ? state.timedRecorded : state.recorded) = true;
  if (all)
    return Status();
  forget(graphs);
  const std::string why = mine ? "on another rank" : mine.message();
  if (timed) {
    state.measures = false;
    notice_ = "it is not measured which rank is slow, since recording a graph with timers failed: " + why;
  } else {
    graphs_ = false;
    notice_ = "steps are launched one by one, since recording a graph failed: " + why;
  }
  return Status();
}

/// The first run is step by step: libraries and communicators allocate and connect at first use, which a
/// recording does not allow. The second records, and every run from then on replays.
Status CudaPlan::runProgram(uint32_t program, const CollectiveRunner &collectives) {
  if (program >= programs_.size())
    return Status::error("there is no program " + std::to_string(program));
  ProgramState &state = programs_[program];
  if (!state.scheduled)
    TESSERA_RETURN_IF_ERROR(schedule(state, program, collectives.onHost));
  // The first two runs and those that record are not measured, since the host has more to do in them.
  state.measured = state.measures && !state.onHost && state.runs % kMeasureEvery == 2;
  // All ranks come here with the same answers, since they agree on what was recorded.
  if (state.runs >= 1 && graphs_ && !state.recorded)
    TESSERA_RETURN_IF_ERROR(recordAll(state, program, collectives, /*timed=*/false));
  if (state.runs >= 1 && graphs_ && state.measures && !state.timedRecorded)
    TESSERA_RETURN_IF_ERROR(recordAll(state, program, collectives, /*timed=*/true));
  for (size_t i = 0; i < state.segments.size(); ++i) {
    const Segment &segment = state.segments[i];
    if (segment.onHost) {
      TESSERA_RETURN_IF_ERROR(collectives.run(segment.steps[0].at));
      continue;
    }
    const bool timed = state.measured && !state.timers[i].empty();
    TesseraGraph *graph = (timed ? state.timedGraphs : state.graphs)[i];
    TESSERA_RETURN_IF_ERROR(
        graph ? call([&](TesseraMessage *m) { return device_->api().launchGraph(device_->handle(), graph, m); })
              : enqueue(state, i, program, collectives, timed));
  }
  ++state.runs;
  const bool told = !state.segments.empty() && !state.segments.back().onHost;
  return told ? ended(program) : endProgram(program);
}

void CudaPlan::forgetGraphs() {
  static_cast<void>(device_->finish()); // an error was reported to whoever ran the work
  for (ProgramState &state : programs_) {
    forget(state.graphs);
    forget(state.timedGraphs);
  }
}

void CudaPlan::forget(std::vector<TesseraGraph *> &graphs) {
  for (TesseraGraph *&graph : graphs)
    if (graph)
      device_->api().destroyGraph(device_->handle(), std::exchange(graph, nullptr));
}

/// Only parameters and states are watched: other memory has been reused when the program ends.
bool CudaPlan::watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &found) {
  const bool stays = std::any_of(plan().bindings().begin(), plan().bindings().end(), [&](const plan::Binding &b) {
    return b.buffer() == buffer && (b.role() == plan::PARAMETER || b.role() == plan::STATE);
  });
  if (program >= programs_.size() || buffer >= buffers().size() || !stays)
    return false;
  FiniteCheck &check = checks_.try_emplace(program, device_, found).first->second;
  if (check.found() != found)
    return false;
  check.add(buffers()[buffer]);
  return true;
}

Status CudaPlan::endProgram(uint32_t program) {
  TESSERA_RETURN_IF_ERROR(tell(program));
  return ended(program);
}

/// What is left to do at the end of a program once it has told its numbers.
Status CudaPlan::ended(uint32_t program) {
  toldBy_ = program;
  const auto check = checks_.find(program);
  return check == checks_.end() ? Status() : check->second.enqueue();
}

void CudaPlan::measureWaits(uint32_t program) {
  if (program < programs_.size())
    programs_[program].measures = true;
}

Result<std::optional<double>> CudaPlan::waited(uint32_t program) {
  if (program >= programs_.size() || !programs_[program].measured)
    return std::optional<double>();
  double sum = 0;
  for (const std::vector<TesseraEvent *> &timers : programs_[program].timers)
    for (size_t t = 0; t < timers.size(); t += 2) {
      double seconds = 0;
      TESSERA_RETURN_IF_ERROR(call([&](TesseraMessage *m) {
        return device_->api().elapsed(device_->handle(), timers[t], timers[t + 1], &seconds, m);
      }));
      sum += seconds;
    }
  return std::optional<double>(sum);
}

} // namespace tessera::rt::cuda
