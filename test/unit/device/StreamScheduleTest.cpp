// The schedule of two streams against brute force: every pair of conflicting steps is ordered by streams and
// events, for random programs.
#include "runtime/backend/cuda/join/StreamSchedule.h"
#include "runtime/device/DeviceApi.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

using namespace tessera::rt::cuda;
using tessera::rt::StepInTime;

namespace {

bool overlap(const std::vector<ByteRange> &a, const std::vector<ByteRange> &b) {
  for (const ByteRange &x : a)
    for (const ByteRange &y : b)
      if (std::max(x.begin, y.begin) < std::min(x.end, y.end))
        return true;
  return false;
}

/// before[i] = all positions that are done when position i starts; from streams and events alone.
std::vector<std::set<int>> happensBefore(const Segment &segment) {
  std::vector<std::set<int>> before(segment.steps.size());
  std::map<int, int> recorded; // event -> position
  int last[2] = {-1, -1};
  for (int i = 0; i < int(segment.steps.size()); ++i) {
    const ScheduledStep &s = segment.steps[size_t(i)];
    auto follow = [&](int p) {
      if (p < 0)
        return;
      auto &mine = before[size_t(i)];
      mine.insert(p);
      mine.insert(before[size_t(p)].begin(), before[size_t(p)].end());
    };
    follow(last[s.stream]);
    if (s.waitsFor > 0) {
      REQUIRE(recorded.count(s.waitsFor) == 1);
      follow(recorded[s.waitsFor]);
    }
    if (s.records >= 0) {
      REQUIRE(s.records > 0);
      REQUIRE(s.records < segment.events);
      REQUIRE(recorded.emplace(s.records, i).second);
    }
    last[s.stream] = i;
  }
  return before;
}

/// Every step once.
std::vector<StepInTime> once(const std::vector<StepAccess> &steps) {
  std::vector<StepInTime> order;
  for (uint32_t s = 0; s < steps.size(); ++s)
    order.push_back({s, 0});
  return order;
}

std::vector<StepAccess> randomProgram(std::mt19937 &random, int steps, int cells) {
  auto ranges = [&](int most) {
    std::vector<ByteRange> list;
    for (int n = int(random() % unsigned(most)) + 1; n > 0; --n) {
      uint64_t begin = random() % unsigned(cells);
      list.push_back({begin * 64, (begin + 1 + random() % 3) * 64});
    }
    return list;
  };
  std::vector<StepAccess> program;
  for (int i = 0; i < steps; ++i)
    program.push_back({random() % 3 == 0, ranges(3), ranges(2)});
  return program;
}

} // namespace

TEST_CASE("streams: the worked example") {
  auto range = [](uint64_t cell) { return std::vector<ByteRange>{{cell * 64, cell * 64 + 64}}; };
  // 0 kernel writes g1, 1 collective g1 -> r1, 2 kernel writes g2, 3 kernel reads r1
  std::vector<StepAccess> steps = {{false, range(9), range(0)},
                                   {true, range(0), range(1)},
                                   {false, range(9), range(2)},
                                   {false, range(1), range(3)}};
  std::vector<Segment> segments = scheduleProgram(steps, once(steps), false);
  REQUIRE(segments.size() == 1);
  const std::vector<ScheduledStep> &s = segments[0].steps;
  CHECK(s[0].records == s[1].waitsFor);
  CHECK(s[1].stream == TESSERA_COMM_STREAM);
  CHECK(s[2].waitsFor == -1); // overlaps with the collective
  CHECK(s[3].waitsFor == s[1].records);
  CHECK(segments[0].joins == s[1].records);
}

TEST_CASE("streams: conflicting steps are ordered, for random programs") {
  std::mt19937 random(1);
  int unordered = 0, pairs = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<StepAccess> each = randomProgram(random, 2 + round % 30, 4 + round % 40);
    std::vector<StepInTime> order = once(each);
    const bool repeats = round % 3 == 0;
    if (repeats) { // the second half as a section that is called three times
      const std::vector<StepInTime> half(order.begin() + int(order.size() / 2), order.end());
      for (uint32_t call = 1; call < 3; ++call)
        for (const StepInTime at : half)
          order.push_back({at.step, call});
    }
    std::vector<StepAccess> steps; // in time
    for (const StepInTime at : order)
      steps.push_back(each[at.step]);
    std::vector<Segment> segments = scheduleProgram(steps, order, false);
    REQUIRE(segments.size() == 1);
    const Segment &segment = segments[0];
    REQUIRE(segment.steps.size() == steps.size());
    std::vector<std::set<int>> before = happensBefore(segment);
    bool communicates = false;
    for (size_t i = 0; i < steps.size(); ++i) {
      REQUIRE(segment.steps[i].at == order[i]);
      const bool comm = segment.steps[i].stream == TESSERA_COMM_STREAM;
      REQUIRE(comm == steps[i].amongRanks);
      // The first step of the second stream waits for something: recording demands it.
      if (comm && !communicates)
        REQUIRE(segment.steps[i].waitsFor >= 0);
      communicates |= comm;
      for (size_t p = 0; p < i; ++p) {
        const bool conflict = overlap(steps[p].writes, steps[i].reads) || overlap(steps[p].writes, steps[i].writes) ||
                              overlap(steps[p].reads, steps[i].writes);
        const bool ordered = before[i].count(int(p)) != 0;
        pairs += !repeats; // what runs three times is far apart, and so nearly always ordered by others
        unordered += !repeats && !ordered;
        if (conflict)
          REQUIRE(ordered);
      }
    }
    CHECK((segment.joins >= 0) == communicates);
    if (communicates) { // the last step of the second stream is joined
      auto last = std::find_if(segment.steps.rbegin(), segment.steps.rend(),
                               [](const auto &s) { return s.stream == TESSERA_COMM_STREAM; });
      CHECK(last->records == segment.joins);
    }
  }
  CHECK(unordered > pairs / 50); // it does not simply order everything
}

TEST_CASE("streams: collectives through the host cut a program into segments") {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<StepAccess> steps = randomProgram(random, 20, 10);
    std::vector<Segment> segments = scheduleProgram(steps, once(steps), true);
    uint32_t next = 0;
    bool kernels = false;
    for (const Segment &segment : segments) {
      REQUIRE_FALSE(segment.steps.empty());
      CHECK(segment.joins == -1);            // one stream
      REQUIRE((segment.onHost || !kernels)); // kernels stay together
      kernels = !segment.onHost;
      for (const ScheduledStep &s : segment.steps) {
        CHECK(s.at.step == next);
        CHECK(steps[next].amongRanks == segment.onHost);
        CHECK(s.stream == TESSERA_COMPUTE_STREAM);
        ++next;
      }
    }
    CHECK(next == steps.size());
  }
}

TEST_CASE("what is sent as one message waits for all of its operands, and all who read wait for it") {
  tessera::plan::Program program;
  auto kernel = [&](uint32_t in, uint32_t out) {
    auto *k = program.add_steps()->mutable_kernel();
    k->add_inputs(in);
    k->add_outputs(out);
  };
  auto reduce = [&](uint32_t buffer, uint32_t joined) {
    auto *c = program.add_steps()->mutable_collective();
    c->set_kind(tessera::plan::ALL_REDUCE);
    c->set_input(buffer);
    c->set_output(buffer);
    c->set_joined(joined);
  };
  kernel(0, 1);
  kernel(0, 2);
  reduce(1, 1); // step 2 sends what step 3 would send
  reduce(2, 0);
  kernel(1, 3); // reads what step 2 writes, which is done when the message is
  const std::vector<ByteRange> buffers = {{0, 64}, {64, 128}, {128, 192}, {192, 256}};
  const std::vector<StepAccess> accesses = accessesOf(program, buffers);
  const std::vector<Segment> segments = scheduleProgram(accesses, once(accesses), false);
  REQUIRE(segments.size() == 1);
  const std::vector<ScheduledStep> &steps = segments[0].steps;
  CHECK(steps[2].waitsFor == steps[1].records);
  CHECK(steps[1].records > 0);
  CHECK(steps[4].waitsFor == steps[3].records);
}
