#include "runtime/executor/DeviceMessages.h"

#include "runtime/comm/BoxCopy.h"
#include "runtime/executor/Collectives.h"
#include "runtime/plan/ElementType.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/stages/Stages.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace tessera::rt {
namespace {

std::pair<uint32_t, uint32_t> keyOf(StepInTime at) { return {at.step, at.index}; }

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// The loops over a part of a tensor, in the order in which a plain tensor has its elements. Nothing if the part begins
/// or ends within a block.
std::optional<Box> boxIn(const Layout &layout, const std::vector<int64_t> &shape, const Block &part) {
  const std::vector<int64_t> sizes = physicalSizes(shape, layout);
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * sizes[i];
  if (layout.pitch != 0)
    return std::nullopt;
  Box box;
  auto loop = [&](int64_t offset, int64_t count, int64_t stride) {
    box.offset += offset * stride;
    box.count.push_back(count);
    box.stride.push_back(stride);
  };
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto blocked = std::ranges::find(layout.inner, int(d), [](const auto &inner) { return inner.first; });
    if (blocked == layout.inner.end()) {
      loop(part.offset[d], part.shape[d], strides[d]);
      continue;
    }
    const int64_t block = blocked->second;
    const int64_t within = strides[shape.size() + size_t(blocked - layout.inner.begin())];
    if (block == shape[d]) {
      loop(part.offset[d], part.shape[d], within);
    } else if (part.offset[d] % block == 0 && part.shape[d] % block == 0) {
      loop(part.offset[d] / block, part.shape[d] / block, strides[d]);
      loop(0, block, within);
    } else {
      return std::nullopt;
    }
  }
  if (box.count.empty()) // a scalar
    loop(0, 1, 1);
  return box;
}

/// Numbers of all ranks; each says how many it has.
Result<std::vector<std::vector<int64_t>>> gather(Communicator &everyone, std::vector<int64_t> mine) {
  const auto ranks = size_t(everyone.size());
  int64_t most = int64_t(mine.size());
  TESSERA_RETURN_IF_ERROR(everyone.allReduce(&most, &most, 1, plan::I64, plan::MAX));
  mine.resize(size_t(most), 0);
  std::vector<int64_t> all(ranks * mine.size());
  TESSERA_RETURN_IF_ERROR(everyone.allGather(mine.data(), all.data(), 1, mine.size(), plan::I64));
  std::vector<std::vector<int64_t>> lists;
  for (size_t r = 0; r < ranks; ++r)
    lists.emplace_back(all.begin() + int64_t(r) * most, all.begin() + int64_t(r + 1) * most);
  return lists;
}

} // namespace

Result<std::unique_ptr<DeviceMessages>> DeviceMessages::create(const plan::Plan &plan, LoadedPlan &loaded,
                                                               World &devices, Communicator &everyone) {
  std::vector<int> ranks(size_t(devices.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Result<std::unique_ptr<Communicator>> all = devices.group(ranks);
  if (!all)
    return all.status().context("messages between stages");
  std::unique_ptr<DeviceMessages> made(new DeviceMessages(loaded, std::move(*all)));
  size_t kept = 0;
  for (const plan::Program &program : plan.programs()) {
    Result<Program> prepared = made->prepare(plan, program, everyone);
    if (!prepared)
      return prepared.status().context("program " + quoted(program.name()));
    made->programs_.push_back(std::move(*prepared));
    kept = std::max(kept, made->placeKept(TimeOrder(program), made->programs_.back()));
  }
  TESSERA_RETURN_IF_ERROR(made->all_->prepare(nullptr, 0, made->scratchBytes()).context("messages between stages"));
  if (kept > 0) {
    Result<void *> memory = made->all_->keep(kept);
    if (!memory)
      return memory.status().context("messages between stages");
    made->kept_ = static_cast<char *>(*memory);
  }
  return made;
}

Result<DeviceMessages::Program> DeviceMessages::prepare(const plan::Plan &plan, const plan::Program &program,
                                                        Communicator &everyone) {
  Program made;
  Status status;
  for (const plan::Step &step : program.steps()) {
    Step &mine = made.steps.emplace_back();
    mine.sends = step.has_send();
    if (!step.has_send() && !step.has_receive())
      continue;
    mine.buffer = peerBuffer(step);
    mine.type = loaded_.dtype(mine.buffer);
    for (const PeerMessage &message : peerMessages(plan, step)) {
      std::optional<Box> box =
          boxIn(loaded_.layout(mine.buffer), toVector(plan.buffers(int(mine.buffer)).shape()), message.box);
      if (!box && status)
        status = Status::error("step " + quoted(step.name()) + " moves a part that begins or ends within a block");
      mine.messages.push_back({int(message.peer), box.value_or(Box())});
    }
  }
  Result<std::vector<std::vector<int64_t>>> meetings = gather(everyone, meetingsOf(plan, program));
  if (!meetings)
    return meetings.status();
  std::set<std::pair<uint32_t, uint32_t>> calls;
  const TimeOrder time(program);
  for (const SectionCall &call : time.calls())
    if (!calls.emplace(call.section, call.index).second)
      status = Status::error("section " + std::to_string(call.section) + " is called twice with index " +
                             std::to_string(call.index) + ", and its messages cannot be told apart");
  TESSERA_RETURN_IF_ERROR(status); // only now: no rank is left alone
  Result<std::vector<Departure>> order = departures(*meetings, all_->rank());
  if (!order)
    return order.status();
  for (const Departure &d : *order)
    made.leaving[keyOf(d.after)].push_back({d.send, d.message, d.after == d.send ? -1 : 0});
  return made;
}

int64_t DeviceMessages::bytesOf(const Step &step, uint32_t message) {
  return boxElements(step.messages[message].box) * int64_t(bytesPerElement(step.type));
}

/// Gives the copies of messages places that they have alone while they wait. How many bytes they need.
size_t DeviceMessages::placeKept(const TimeOrder &order, Program &program) const {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Leaving *>> late; // by Send
  for (auto &[after, list] : program.leaving)
    for (Leaving &l : list)
      if (l.place >= 0)
        late[keyOf(l.send)].push_back(&l);
  std::map<int64_t, int64_t> taken; // end, by begin
  int64_t most = 0;
  for (const StepInTime at : order) {
    if (const auto sent = late.find(keyOf(at)); sent != late.end())
      for (Leaving *l : sent->second) {
        const int64_t bytes = aligned(bytesOf(program.steps[at.step], l->message));
        l->place = 0;
        for (const auto &[begin, end] : taken) {
          if (l->place + bytes <= begin)
            break;
          l->place = std::max(l->place, end);
        }
        taken[l->place] = l->place + bytes;
        most = std::max(most, l->place + bytes);
        program.kept[keyOf(at)].push_back(*l);
      }
    if (const auto left = program.leaving.find(keyOf(at)); left != program.leaving.end())
      for (const Leaving &l : left->second)
        if (l.place >= 0)
          taken.erase(l.place);
  }
  return size_t(most);
}

size_t DeviceMessages::scratchBytes() const {
  int64_t most = 0;
  for (const Program &program : programs_)
    for (const Step &step : program.steps) {
      int64_t bytes = 0; // those of a Receive come at once
      for (uint32_t m = 0; m < step.messages.size(); ++m) {
        bytes = (step.sends ? 0 : bytes) + aligned(bytesOf(step, m));
        most = std::max(most, bytes);
      }
    }
  return size_t(most);
}

Status DeviceMessages::run(uint32_t program, StepInTime at) {
  const Program &mine = programs_[program];
  const Step &step = mine.steps[at.step];
  void *buffer = loaded_.addressAt(step.buffer, at.index);
  if (!step.sends && !step.messages.empty())
    TESSERA_RETURN_IF_ERROR(all_->exchange(nullptr, {}, buffer, step.messages, step.type));
  if (const auto kept = mine.kept.find(keyOf(at)); kept != mine.kept.end())
    for (const Leaving &l : kept->second) {
      const Box &from = step.messages[l.message].box;
      TESSERA_RETURN_IF_ERROR(all_->exchange(buffer, {{all_->rank(), from}}, kept_ + l.place,
                                             {{all_->rank(), {0, {boxElements(from)}, {1}}}}, step.type));
    }
  return leave(program, at);
}

Status DeviceMessages::leave(uint32_t program, StepInTime at) {
  const Program &mine = programs_[program];
  const auto leaving = mine.leaving.find(keyOf(at));
  if (leaving == mine.leaving.end())
    return Status();
  for (const Leaving &l : leaving->second) {
    const Step &step = mine.steps[l.send.step];
    Transfer message = step.messages[l.message];
    const void *from = loaded_.addressAt(step.buffer, l.send.index);
    if (l.place >= 0) {
      from = kept_ + l.place;
      message.box = {0, {boxElements(message.box)}, {1}};
    }
    TESSERA_RETURN_IF_ERROR(all_->exchange(from, {message}, nullptr, {}, step.type));
  }
  return Status();
}

} // namespace tessera::rt
