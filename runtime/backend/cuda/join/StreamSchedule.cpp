#include "runtime/backend/cuda/join/StreamSchedule.h"

#include "runtime/device/DeviceApi.h"
#include "runtime/plan/PlanInfo.h"

namespace tessera::rt::cuda {
bool meet(const std::vector<ByteRange> &a, const std::vector<ByteRange> &b) {
  for (const ByteRange &x : a)
    for (const ByteRange &y : b)
      if (x.begin < y.end && y.begin < x.end)
        return true;
  return false;
}

bool conflict(const StepAccess &a, const StepAccess &b) {
  return meet(a.writes, b.reads) || meet(a.writes, b.writes) || meet(a.reads, b.writes);
}

namespace {

/// Makes one segment on two streams of what runs in [begin, end) of the order.
Segment streams(const std::vector<StepAccess> &inTime, const std::vector<StepInTime> &order, size_t begin, size_t end) {
  Segment segment;
  segment.events = 1;
  std::vector<int> placed[2]; // positions of each stream's steps in segment.steps
  int waited[2] = {-1, -1};   // position of the latest step of the other stream that each has waited for
  auto eventAfter = [&](int position) {
    int &records = segment.steps[size_t(position)].records;
    if (records < 0)
      records = segment.events++;
    return records;
  };
  for (size_t s = begin; s < end; ++s) {
    const StepAccess &access = inTime[s];
    ScheduledStep next;
    next.at = order[s];
    next.stream = access.amongRanks ? TESSERA_COMM_STREAM : TESSERA_COMPUTE_STREAM;
    const int me = next.stream;
    const std::vector<int> &others = placed[me == TESSERA_COMM_STREAM ? TESSERA_COMPUTE_STREAM : TESSERA_COMM_STREAM];
    for (auto other = others.rbegin(); other != others.rend() && *other > waited[me]; ++other)
      if (conflict(inTime[begin + size_t(*other)], access)) {
        next.waitsFor = eventAfter(*other);
        waited[me] = *other;
        break;
      }
    if (me == TESSERA_COMM_STREAM && placed[me].empty() && next.waitsFor < 0)
      next.waitsFor = 0; // forks the stream
    placed[me].push_back(int(segment.steps.size()));
    segment.steps.push_back(next);
  }
  if (!placed[TESSERA_COMM_STREAM].empty())
    segment.joins = eventAfter(placed[TESSERA_COMM_STREAM].back());
  return segment;
}

} // namespace

std::vector<Segment> scheduleProgram(const std::vector<StepAccess> &inTime, const std::vector<StepInTime> &order,
                                     bool ranksMeetOnHost) {
  std::vector<Segment> segments;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = order.size();
    if (ranksMeetOnHost) {
      end = begin;
      while (end < order.size() && !inTime[end].amongRanks)
        ++end;
      if (end == begin) {
        Segment host;
        host.onHost = true;
        host.steps.push_back({order[begin], TESSERA_COMPUTE_STREAM, -1, -1});
        segments.push_back(host);
        ++begin;
        continue;
      }
    }
    segments.push_back(streams(inTime, order, begin, end));
    begin = end;
  }
  return segments;
}

std::vector<StepAccess> accessesOf(const plan::Program &program, const std::vector<ByteRange> &buffers) {
  std::vector<StepAccess> accesses;
  const std::vector<int> messages = messagesOf(program);
  for (const plan::Step &step : program.steps()) {
    StepAccess access;
    access.amongRanks = !step.has_kernel();
    for (uint32_t b : readsOf(step))
      access.reads.push_back(buffers[b]);
    for (uint32_t b : writesOf(step))
      access.writes.push_back(buffers[b]);
    accesses.push_back(std::move(access));
  }
  // All of a message happens at its first step. So that nothing comes between, every member has the accesses of all.
  for (size_t s = accesses.size(); s-- > 0;)
    if (const int first = messages[s]; first >= 0 && first != int(s))
      for (auto list : {&StepAccess::reads, &StepAccess::writes})
        (accesses[size_t(first)].*list).push_back((accesses[s].*list).front());
  for (size_t s = 0; s < accesses.size(); ++s)
    if (const int first = messages[s]; first >= 0 && first != int(s))
      accesses[s] = accesses[size_t(first)];
  return accesses;
}

} // namespace tessera::rt::cuda
