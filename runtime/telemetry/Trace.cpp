#include "runtime/telemetry/Trace.h"

#include "runtime/backend/HostPlan.h"
#include "runtime/backend/KernelWork.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/support/File.h"
#include "runtime/telemetry/RankLog.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace tessera::rt {
namespace {

/// "peer": 2, or "peers": [2, 3].
std::string peersJson(const std::vector<uint32_t> &peers) {
  if (peers.size() == 1)
    return "\"peer\": " + std::to_string(peers[0]);
  std::string list;
  for (uint32_t peer : peers)
    list += (list.empty() ? "" : ", ") + std::to_string(peer);
  return "\"peers\": [" + list + "]";
}

constexpr int64_t kMostSteps = 100;
constexpr size_t kInputsBefore = 4; // batches that were prepared before the first step

std::string quotedJson(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

int64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// "12.345": microseconds, as the format wants them.
std::string microseconds(int64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000), static_cast<long long>(ns % 1000));
  return text;
}

/// A number that is equal in processes that share a monotonic clock.
int64_t clockIdentity() {
  uint64_t hash = 14695981039346656037ull; // FNV-1a
  if (Result<std::string> boot = readFile("/proc/sys/kernel/random/boot_id", 256))
    for (char c : *boot)
      hash = (hash ^ uint8_t(c)) * 1099511628211ull;
  return int64_t(hash);
}

/// What this rank must add to its clock to get that of rank 0, in nanoseconds. Ranks of one machine share a clock.
/// Between machines it is the median difference of the clocks right after some barriers.
Result<int64_t> clockShift(Communicator &everyone) {
  constexpr int kRounds = 9;
  const auto ranks = size_t(everyone.size());
  auto all = [&](int64_t mine) -> Result<std::vector<int64_t>> {
    std::vector<int64_t> values(ranks);
    TESSERA_RETURN_IF_ERROR(everyone.allGather(&mine, values.data(), 1, 1, plan::I64));
    return values;
  };
  Result<std::vector<int64_t>> clocks = all(clockIdentity());
  if (!clocks)
    return clocks.status();
  // The first rank that has this rank's clock.
  const auto same =
      size_t(std::find(clocks->begin(), clocks->end(), (*clocks)[size_t(everyone.rank())]) - clocks->begin());
  if (std::count(clocks->begin(), clocks->end(), clocks->front()) == everyone.size())
    return int64_t(0);
  std::vector<int64_t> shifts;
  for (int round = 0; round < kRounds; ++round) {
    TESSERA_RETURN_IF_ERROR(everyone.barrier());
    Result<std::vector<int64_t>> times = all(nanoseconds(std::chrono::steady_clock::now()));
    if (!times)
      return times.status();
    shifts.push_back(times->front() - (*times)[same]);
  }
  std::nth_element(shifts.begin(), shifts.begin() + kRounds / 2, shifts.end());
  return same == 0 ? 0 : shifts[kRounds / 2];
}

/// Collects the texts of all ranks on rank 0, in the order of ranks.
Result<std::string> gather(Communicator &everyone, const std::string &mine) {
  const auto ranks = size_t(everyone.size());
  std::vector<int64_t> lengths(ranks);
  const auto length = int64_t(mine.size());
  TESSERA_RETURN_IF_ERROR(everyone.allGather(&length, lengths.data(), 1, 1, plan::I64));
  std::string whole;
  std::vector<Transfer> receives;
  if (everyone.rank() == 0) {
    int64_t offset = 0;
    for (size_t r = 0; r < ranks; ++r) {
      receives.push_back({int(r), {offset, {lengths[r]}, {1}}});
      offset += lengths[r];
    }
    whole.resize(size_t(offset));
  }
  TESSERA_RETURN_IF_ERROR(everyone.exchange(mine.data(), {{0, {0, {length}, {1}}}}, whole.data(), receives, plan::U8));
  return whole;
}

/// The rate of an amount over some nanoseconds, as "GB/s" or "GFLOP/s".
std::string perSecond(const char *unit, double amount, int64_t ns) {
  char text[64];
  std::snprintf(text, sizeof text, ", \"%s\": %.6g", unit, amount / std::max<double>(double(ns), 1));
  return text;
}

} // namespace

Result<StepRange> parseStepRange(const std::string &text) {
  StepRange range;
  const char *end = text.data() + text.size();
  auto number = [&](const char *from, int64_t &value) {
    auto parsed = std::from_chars(from, end, value);
    return parsed.ec == std::errc() ? parsed.ptr : nullptr;
  };
  const char *at = number(text.data(), range.first);
  range.last = range.first;
  if (at && at != end && *at == ':')
    at = number(at + 1, range.last);
  if (at != end || range.first < 1 || range.last < range.first)
    return Status::error("steps=" + text + ": give one step (steps=10) or the first and the last (steps=10:12)");
  if (range.last - range.first >= kMostSteps)
    return Status::error("steps=" + text + ": at most " + std::to_string(kMostSteps) + " steps can be traced");
  return range;
}

Trace::Trace(Executor &executor, StepRange range, std::string file, std::optional<Prediction> predicted)
    : executor_(executor), range_(range), file_(std::move(file)), predicted_(std::move(predicted)) {}

Trace::~Trace() {
  if (active())
    executor_.observe(nullptr);
}

DataOptions::Produced Trace::producer() {
  return [this](int64_t batch, Time begin, Time end) {
    std::lock_guard lock(mutex_);
    if (closed_)
      return;
    inputs_.push_back({Track::Input, begin, end, nullptr, batch});
    // Before the first step of the trace only the last batches are kept.
    if (events_.empty() && inputs_.size() > kInputsBefore)
      inputs_.erase(inputs_.begin());
  };
}

void Trace::begin(int64_t step) {
  if (written_ || step < range_.first || step > range_.last)
    return;
  step_ = step;
  stepBegin_ = std::chrono::steady_clock::now();
  auto note = [this](const StepDone &done) {
    const Track track = executor_.communicates(done.program, done.step) ? Track::Communication : Track::Compute;
    std::lock_guard lock(mutex_);
    events_.push_back({track, done.begin, done.end, nullptr, done.step, done.program, done.index});
    return Status();
  };
  executor_.observe({note, /*beside=*/true});
}

void Trace::closePhase(Time now) {
  std::lock_guard lock(mutex_);
  if (phase_)
    events_.push_back({Track::Step, phaseBegin_, now, phase_});
  phase_ = nullptr;
}

void Trace::phase(const char *what) {
  if (!active())
    return;
  const Time now = std::chrono::steady_clock::now();
  closePhase(now);
  phase_ = what;
  phaseBegin_ = now;
}

Status Trace::end() {
  if (!active())
    return Status();
  const Time now = std::chrono::steady_clock::now();
  closePhase(now);
  {
    std::lock_guard lock(mutex_);
    events_.push_back({Track::Step, stepBegin_, now, nullptr, step_});
  }
  executor_.observe(nullptr);
  return std::exchange(step_, 0) == range_.last ? write() : Status();
}

Status Trace::finish() { return written_ || events_.empty() ? Status() : write(); }

/// Name, category and arguments of a program's step.
std::string Trace::stepText(const Event &event) const {
  const plan::Plan &plan = executor_.plan();
  const plan::Step &step = plan.programs(event.program).steps(int(event.number));
  const int64_t ns = nanoseconds(event.end) - nanoseconds(event.begin);
  const std::string which = executor_.order(event.program).callText({uint32_t(event.number), event.index});
  const std::string microBatch = which.empty() ? "" : "\"micro_batch\": " + std::to_string(event.index + 1) + ", ";
  std::string text = "\"name\": " + quotedJson(step.name() + (which.empty() ? "" : "/" + which));
  if (step.has_collective()) {
    const plan::Collective &c = step.collective();
    const plan::Group &group = plan.groups(int(c.group()));
    // The elements of a plan that runs widened are wider than the plan says.
    const uint64_t planned = bytesPerElement(plan.buffers(int(c.input())).dtype()),
                   held = bytesPerElement(executor_.loaded().dtype(c.input()));
    // The first step of a message sends for all of them.
    const bool joined = executor_.collective(event.program, int(event.number))->joined();
    uint64_t sent = joined ? 0 : bytesSent(plan, c);
    for (int s = int(event.number) + 1; !joined && s <= int(event.number + followers(c)); ++s)
      if (executor_.collective(event.program, s)->joined())
        sent += bytesSent(plan, plan.programs(event.program).steps(s).collective());
    sent = sent * held / std::max<uint64_t>(planned, 1);
    text += ", \"cat\": \"collective\", \"args\": {" + microBatch +
            "\"kind\": " + quotedJson(collectiveName(c.kind())) + ", \"group\": " + quotedJson(group.name()) +
            ", \"ranks\": [";
    for (int i = 0; i < group.ranks_size(); ++i)
      text += (i ? ", " : "") + std::to_string(group.ranks(i));
    text += "], \"bytes_sent\": " + std::to_string(sent) + perSecond("GB/s", double(sent), ns);
    if (executor_.collective(event.program, int(event.number))->staged())
      text += ", \"copied\": true";
    if (joined)
      text += ", \"joined\": true";
    return text + "}";
  }
  if (const PeerCall *call = executor_.peerCall(event.program, int(event.number)))
    return text + ", \"cat\": \"" + (call->sends() ? "send" : "receive") + "\", \"args\": {" + microBatch +
           peersJson(call->peers()) + ", \"channel\": " + std::to_string(call->channel()) + ", \"bytes_" +
           (call->sends() ? "sent" : "received") + "\": " + std::to_string(call->bytes()) +
           perSecond("GB/s", double(call->bytes()), ns) + "}";
  text += ", \"cat\": \"kernel\", \"args\": {" + microBatch + "\"kernel\": " + quotedJson(step.kernel().name()) +
          ", \"implementation\": " +
          quotedJson(executor_.loaded().describe(uint32_t(event.program), uint32_t(event.number)));
  KernelCall call;
  std::vector<TensorView> buffers;
  auto view = [&](uint32_t b) {
    const plan::Buffer &buffer = plan.buffers(int(b));
    return TensorView{executor_.loaded().dtype(b), toVector(buffer.shape()), Layout(), nullptr};
  };
  call.kernel = &step.kernel();
  for (uint32_t b : step.kernel().inputs())
    call.inputs.push_back(view(b));
  for (uint32_t b : step.kernel().outputs())
    call.outputs.push_back(view(b));
  const KernelWork work = workOf(call);
  text += ", \"bytes\": " + std::to_string(work.bytes) + perSecond("GB/s", double(work.bytes), ns);
  if (work.flops) {
    char flops[48];
    std::snprintf(flops, sizeof flops, ", \"flops\": %.0f", *work.flops);
    text += flops + perSecond("GFLOP/s", *work.flops, ns);
  }
  return text + "}";
}

/// The tracks of a rank in the order in which they are shown, by the number of the track.
static constexpr struct {
  int number;
  const char *name;
  bool predicted;
} kTracks[] = {{0, "steps", false},   {4, "predicted compute", true}, {5, "predicted communication", true},
               {1, "compute", false}, {2, "communication", false},    {3, "input", false}};

/// What was predicted of every step, from the begin of the first kernel or collective that it ran; or from the end of
/// the prediction before it, where the steps took less time than that.
std::string Trace::predictedText(const std::vector<Event> &sorted, int64_t shift) const {
  std::string text;
  int64_t begin = INT64_MIN;
  for (auto step = sorted.begin(); step != sorted.end(); ++step) {
    if (step->track != Track::Step || step->what)
      continue;
    const auto first = std::find_if(step, sorted.end(), [&](const Event &event) {
      return event.track == Track::Compute || event.track == Track::Communication;
    });
    if (first == sorted.end() || first->begin > step->end)
      continue;
    const plan::Program &program = executor_.plan().programs(first->program);
    begin = std::max(begin, nanoseconds(first->begin) + shift);
    for (const Prediction::Run &run : predicted_->runs) {
      const bool communicates = executor_.communicates(first->program, int(run.at.step));
      const std::string which = executor_.order(first->program).callText(run.at);
      text += "{\"ph\": \"X\", \"pid\": " + std::to_string(executor_.plan().rank()) +
              ", \"tid\": " + (communicates ? "5" : "4") + ", \"ts\": " + microseconds(begin + run.begin) +
              ", \"dur\": " + microseconds(run.end - run.begin) +
              ", \"name\": " + quotedJson(program.steps(int(run.at.step)).name() + (which.empty() ? "" : "/" + which)) +
              ", \"cat\": \"predicted\"},\n";
    }
    begin += predicted_->end;
  }
  return text;
}

/// This rank's events, `shift` nanoseconds later, each followed by a comma and the end of a line.
std::string Trace::text(int64_t shift) const {
  const int rank = int(executor_.plan().rank());
  const std::string pid = "\"pid\": " + std::to_string(rank);
  std::string text;
  auto describe = [&](const char *what, int track, const std::string &arguments) {
    text += "{\"ph\": \"M\", " + pid + ", \"tid\": " + std::to_string(track) + ", \"name\": \"" + what +
            "\", \"args\": {" + arguments + "}},\n";
  };
  describe("process_name", 0, "\"name\": " + quotedJson("rank " + std::to_string(rank) + " (" + processText() + ")"));
  describe("process_sort_index", 0, "\"sort_index\": " + std::to_string(rank));
  const bool predicts = predicted_.has_value();
  int place = 0;
  for (const auto &track : kTracks)
    if (predicts || !track.predicted) {
      describe("thread_name", track.number, std::string("\"name\": \"") + track.name + "\"");
      describe("thread_sort_index", track.number, "\"sort_index\": " + std::to_string(place++));
    }
  std::vector<Event> sorted = events_;
  // The last batches that were ready before the first step are needed by the first steps, so they are part of the
  // trace.
  sorted.insert(sorted.end(), inputs_.begin(), inputs_.end());
  // An event that encloses others must stand before them.
  std::stable_sort(sorted.begin(), sorted.end(), [](const Event &a, const Event &b) {
    return std::pair(a.begin, b.end) < std::pair(b.begin, a.end);
  });
  for (const Event &event : sorted) {
    const int64_t begin = nanoseconds(event.begin) + shift;
    text += "{\"ph\": \"X\", " + pid + ", \"tid\": " + std::to_string(int(event.track)) +
            ", \"ts\": " + microseconds(begin) +
            ", \"dur\": " + microseconds(nanoseconds(event.end) - nanoseconds(event.begin)) + ", ";
    const std::string number = std::to_string(event.number);
    if (event.track == Track::Input)
      text += "\"name\": \"batch " + number + "\", \"cat\": \"input\", \"args\": {\"batch\": " + number + "}";
    else if (event.track != Track::Step)
      text += stepText(event);
    else if (event.what)
      text += "\"name\": \"" + std::string(event.what) + "\", \"cat\": \"phase\"";
    else
      text += "\"name\": \"step " + number + "\", \"cat\": \"step\", \"args\": {\"step\": " + number + "}";
    text += "},\n";
  }
  return predicts ? text + predictedText(sorted, shift) : text;
}

Status Trace::write() {
  written_ = true;
  std::string mine;
  Result<int64_t> shift = clockShift(executor_.everyone());
  if (!shift)
    return shift.status();
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    // The time of the file begins with the first event of any rank.
    int64_t first = INT64_MAX;
    for (const std::vector<Event> *events : {&events_, &inputs_})
      for (const Event &event : *events)
        first = std::min(first, nanoseconds(event.begin) + *shift);
    TESSERA_RETURN_IF_ERROR(executor_.everyone().allReduce(&first, &first, 1, plan::I64, plan::MIN));
    mine = text(*shift - first);
    events_ = {};
    inputs_ = {};
  }
  Result<std::string> all = gather(executor_.everyone(), mine);
  if (!all)
    return all.status();
  if (executor_.plan().rank() != 0)
    return Status();
  all->erase(all->size() - 2, 1); // no comma behind the last
  return writeFile(
      file_, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"plan\": " + quotedJson(executor_.plan().plan_id()) +
                 ", \"model\": " + quotedJson(executor_.plan().model()) + "}, \"traceEvents\": [\n" + *all + "]}\n");
}

} // namespace tessera::rt
