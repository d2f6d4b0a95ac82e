#include "dialects/graph/flow/MessageMembers.h"

#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/bit.h"

#include <unordered_map>

using namespace mlir;

namespace tessera::graph {

bool alike(const Sender &a, const Sender &b) {
  return a.element == b.element && a.collective.kind == b.collective.kind && a.collective.axes == b.collective.axes &&
         a.collective.reduction == b.collective.reduction;
}

std::vector<const Sender *> membersOf(const DataFlow &flow, llvm::ArrayRef<Sender> senders) {
  llvm::SmallDenseSet<int> sending;
  for (const Sender &sender : senders)
    sending.insert(sender.step);
  llvm::DenseMap<int, int> readers; // by root: senders that read it
  for (const Sender &sender : senders)
    for (int value : flow.steps[sender.step].reads)
      ++readers[flow.root(value)];
  std::vector<const Sender *> members;
  for (const Sender &sender : senders) {
    const DataFlow::Step &step = flow.steps[sender.step];
    const Membership membership = membershipOf(sender.collective);
    if (membership == Membership::None || step.reads.size() != 1 || step.makes.size() != 1)
      continue;
    if (membership == Membership::List) {
      if (ShapedType::getNumElements(sender.collective.localIn) > 0 &&
          ShapedType::getNumElements(sender.collective.localOut) > 0)
        members.push_back(&sender);
      continue;
    }
    const int root = flow.root(step.reads.front());
    const DataFlow::Value &operand = flow.values[root], &result = flow.values[step.makes.front()];
    if (operand.maker >= 0 && !operand.kept && !result.kept && operand.bytes == result.bytes && readers[root] == 1 &&
        !sending.contains(operand.maker))
      members.push_back(&sender);
  }
  return members;
}

std::vector<std::vector<Member>> MemberTimes::layers() const {
  std::vector<std::vector<Member>> layers;
  for (const Member &member : members_) {
    layers.resize(std::max(layers.size(), size_t(member.depth) + 1));
    layers[size_t(member.depth)].push_back(member);
  }
  return layers;
}

void MemberTimes::arrange(llvm::ArrayRef<const Sender *> senders) {
  llvm::DenseMap<int, const Sender *> at; // by merged step
  std::vector<int> mergedOf;
  for (auto [m, steps] : llvm::enumerate(flow_.members))
    for (int step : steps) {
      mergedOf.resize(std::max(mergedOf.size(), size_t(step) + 1), -1);
      mergedOf[step] = int(m);
    }
  for (const Sender *sender : senders)
    at[mergedOf[sender->step]] = sender;
  std::vector<int> memberOf(flow_.flow.steps.size(), -1), places;
  // A gather stands where it is first needed, since it takes memory. It may be sent as soon as it can, and is ready
  // when those before it are.
  std::vector<double> made(flow_.flow.values.size(), 0);
  double readyBefore = 0;
  const std::vector<int> order = executionOrder(flow_.flow);
  for (int m : order) {
    double needed = 0;
    for (int value : flow_.flow.steps[m].reads)
      needed = std::max(needed, made[value]);
    if (const Sender *sender = at.lookup(m)) {
      memberOf[m] = int(members_.size());
      places.push_back(m);
      const bool list = membershipOf(sender->collective.kind) == Membership::List;
      readyBefore = list ? std::max(readyBefore, needed) : total_;
      members_.push_back({sender, wholeBytes(*sender), readyBefore});
    }
    const double time = timeOf(m);
    total_ += time;
    for (int value : flow_.flow.steps[m].makes)
      made[value] = time > 0 ? total_ : needed;
  }
  findBehind(order, memberOf, places);
}

/// What depends on each member: the depth, and what kernels take. `memberOf` and `places` go from merged steps in
/// dependence order to members and back.
void MemberTimes::findBehind(llvm::ArrayRef<int> order, llvm::ArrayRef<int> memberOf, llvm::ArrayRef<int> places) {
  const std::vector<llvm::SmallVector<int, 2>> readers = flow_.flow.readers();
  const int end = int(flow_.flow.steps.size());
  std::vector<int> depths(flow_.flow.steps.size(), 0);
  for (int m : llvm::reverse(order)) {
    for (int value : flow_.flow.steps[m].makes)
      for (int reader : readers[value])
        if (reader != end)
          depths[m] = std::max(depths[m], depths[reader] + (memberOf[reader] >= 0));
    if (memberOf[m] >= 0)
      members_[memberOf[m]].depth = depths[m];
  }
  if (times_.empty())
    return;
  // A walk per member would take long in large programs. A word has a bit for each of 64 members. Kernels with the same
  // word are added up first: most of them are behind what the one before is behind. Sums of whole nanoseconds are
  // exact.
  std::vector<uint64_t> behind(flow_.flow.steps.size());
  std::unordered_map<uint64_t, double> times;
  for (size_t first = 0; first < members_.size(); first += 64) {
    std::fill(behind.begin(), behind.end(), 0);
    times.clear();
    double *time = nullptr;
    uint64_t word = 0;
    bool begun = false;
    for (int m : order) {
      begun |= m == places[first];
      if (!begun)
        continue;
      if (behind[m]) {
        if (!time || word != behind[m])
          time = &times[word = behind[m]];
        *time += timeOf(m);
      }
      uint64_t handed = behind[m];
      if (const int member = memberOf[m]; member >= int(first) && member < int(first) + 64)
        handed |= uint64_t(1) << (member - int(first));
      for (int value : handed ? llvm::ArrayRef<int>(flow_.flow.steps[m].makes) : llvm::ArrayRef<int>())
        for (int reader : readers[value])
          if (reader != end)
            behind[reader] |= handed;
    }
    for (auto [members, sum] : times)
      for (uint64_t left = members; left; left &= left - 1)
        members_[first + size_t(llvm::countr_zero(left))].behind += sum;
  }
}

double MemberTimes::timeOf(int merged) const {
  double time = 0;
  if (!times_.empty())
    for (int step : flow_.members[merged])
      time += double(times_[step]);
  return time;
}

} // namespace tessera::graph
