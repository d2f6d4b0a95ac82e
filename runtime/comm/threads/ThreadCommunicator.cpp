#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/threads/ThreadGroup.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

class ThreadCommunicator : public Communicator {
public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank, int run)
      : group_(std::move(group)), rank_(rank), size_(int(group_->ranks.size())), run_(run), calls_(size_),
        inputs_(size_), outputs_(size_) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) override;
  Status allGather(std::span<const Rows> tensors, plan::DType dtype) override;
  Status reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) override;
  Status broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) override;
  Status exchange(const void *in, const std::vector<Transfer> &sends, void *out, const std::vector<Transfer> &receives,
                  plan::DType dtype) override;
  Status barrier() override;

private:
  ThreadSlot &slot(int member) { return group_->slots[parity_][member]; }
  ThreadSlot &slotOfNextCall() { return group_->slots[parity_ ^ 1][rank_]; }

  /// Publishes this rank's part of a call, waits for the other parts, and compares them. `small`
  /// bytes of `in` are copied to the slot. On success this rank may read the other members' slots
  /// until its next call, and their `in` and `out` until finish().
  Status meet(Call call, const Status &mine, const void *in, void *out, size_t small,
              const std::vector<Transfer> *sends = nullptr, const std::vector<Transfer> *receives = nullptr);
  void finish() { group_->barrier.finish(); }
  /// Like meet(), for a list, each tensor of which takes `inputRows` rows of input. Returns whether the inputs of all are
  /// copied to the slots, one behind the other.
  Result<bool> meet(const Call &call, const Status &mine, std::span<const Rows> tensors, size_t inputRows,
                    size_t elementSize);

  std::string matchReceives(void *out, const std::vector<Transfer> &receives, size_t elementSize);

  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  const int size_;
  const int run_; // for the order of sums; threads have one link
  int parity_ = 0;
  // Kept between calls, so that a call allocates nothing.
  std::vector<const Call *> calls_;
  std::vector<const void *> inputs_;
  std::vector<void *> outputs_;
};

Status ThreadCommunicator::meet(Call call, const Status &mine, const void *in, void *out, size_t small,
                                const std::vector<Transfer> *sends, const std::vector<Transfer> *receives) {
  parity_ ^= 1;
  ThreadSlot &own = slot(rank_);
  own.call = call;
  own.in = in;
  own.out = out;
  own.sends = sends;
  own.receives = receives;
  own.error.clear();
  if (small > 0 && mine.ok())
    std::memcpy(own.small, in, small);
  if (!group_->barrier.arrive())
    return Status::error(std::string(callName(call.kind)) + " stopped: " + group_->abortReason());
  if (!mine)
    return mine;
  for (int m = 0; m < size_; ++m)
    calls_[m] = &slot(m).call;
  return checkAgreement(calls_, group_->ranks);
}

Status ThreadCommunicator::allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) {
  Call call{CallKind::AllReduce, dtype, reducer.reduction, 0, 1, count, 0, reducer.tree};
  call.run = run_;
  const Status mine = checkCall(call, size_);
  const size_t elementSize = bytesPerElement(dtype);
  // Small inputs are copied to the slots, and every member reads all of them. For larger ones it
  // pays that the members share the work.
  const bool small = mine.ok() && count * elementSize <= kSmallMessage;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, out, small ? count * elementSize : 0));
  if (small) {
    for (int m = 0; m < size_; ++m)
      inputs_[m] = slot(m).small;
    reduceByRuns(inputs_.data(), size_, run_, &out, 1, count, dtype, reducer);
    return Status();
  }
  // This member's slice, in whole cache lines.
  const size_t line = 64 / elementSize;
  const size_t share = (count + size_ * line - 1) / (size_ * line) * line;
  const size_t begin = std::min(count, share * rank_);
  const size_t end = std::min(count, begin + share);
  if (begin < end) {
    for (int m = 0; m < size_; ++m) {
      inputs_[m] = static_cast<const std::byte *>(slot(m).in) + begin * elementSize;
      outputs_[m] = static_cast<std::byte *>(slot(m).out) + begin * elementSize;
    }
    reduceByRuns(inputs_.data(), size_, run_, outputs_.data(), size_, end - begin, dtype, reducer);
  }
  finish();
  return Status();
}

Result<bool> ThreadCommunicator::meet(const Call &call, const Status &mine, std::span<const Rows> tensors,
                                      size_t inputRows, size_t elementSize) {
  const size_t bytes = mine.ok() ? call.outer * call.inner * inputRows * elementSize : 0;
  const bool small = mine.ok() && bytes <= kSmallMessage;
  std::byte packed[kSmallMessage];
  const void *in = packed;
  if (tensors.size() == 1) {
    in = tensors[0].in;
  } else if (small) {
    size_t at = 0;
    for (const Rows &rows : tensors) {
      const size_t own = rows.outer * rows.inner * inputRows * elementSize;
      if (own > 0)
        std::memcpy(packed + at, rows.in, own);
      at += own;
    }
  }
  slotOfNextCall().tensors = tensors;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, nullptr, small ? bytes : 0));
  return small;
}

Status ThreadCommunicator::allGather(std::span<const Rows> tensors, plan::DType dtype) {
  Call call = callOf(CallKind::AllGather, tensors, dtype);
  const Status mine = checkCall(call, size_);
  const size_t elementSize = bytesPerElement(dtype);
  const Result<bool> small = meet(call, mine, tensors, 1, elementSize);
  TESSERA_RETURN_IF_ERROR(small.status());
  size_t at = 0; // in a slot
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto rows = int64_t(tensors[t].outer), width = int64_t(tensors[t].inner);
    for (int m = 0; m < size_; ++m) {
      const void *from = *small ? slot(m).small + at : slot(m).tensors[t].in;
      copyBox(from, {0, {rows, width}, {width, 1}}, tensors[t].out, {m * width, {rows, width}, {size_ * width, 1}},
              elementSize);
    }
    at += tensors[t].outer * tensors[t].inner * elementSize;
  }
  if (!*small)
    finish();
  return Status();
}

Status ThreadCommunicator::reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) {
  Call call = callOf(CallKind::ReduceScatter, tensors, dtype, reducer);
  call.run = run_;
  const Status mine = checkCall(call, size_);
  const size_t elementSize = bytesPerElement(dtype);
  const Result<bool> small = meet(call, mine, tensors, size_t(size_), elementSize);
  TESSERA_RETURN_IF_ERROR(small.status());
  size_t at = 0; // in a slot
  for (size_t t = 0; t < tensors.size(); ++t) {
    const size_t row = tensors[t].inner * elementSize;
    for (size_t o = 0; o < tensors[t].outer; ++o) {
      for (int m = 0; m < size_; ++m) {
        const void *from = *small ? slot(m).small + at : slot(m).tensors[t].in;
        inputs_[m] = static_cast<const std::byte *>(from) + (o * size_ + rank_) * row;
      }
      void *to = static_cast<std::byte *>(tensors[t].out) + o * row;
      reduceByRuns(inputs_.data(), size_, run_, &to, 1, tensors[t].inner, dtype, reducer);
    }
    at += size_ * tensors[t].outer * row;
  }
  if (!*small)
    finish();
  return Status();
}

Status ThreadCommunicator::broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) {
  Call call{CallKind::Broadcast, dtype, 0, root, 1, count};
  const Status mine = checkCall(call, size_);
  const size_t bytes = count * bytesPerElement(dtype);
  const bool small = mine.ok() && bytes <= kSmallMessage;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, out, small && rank_ == root ? bytes : 0));
  const void *from = small ? static_cast<const void *>(slot(root).small) : slot(root).in;
  if (from != out && bytes > 0)
    std::memcpy(out, from, bytes);
  if (!small)
    finish();
  return Status();
}

/// Copies what the other members send to this one. Returns a description of what does not match, or
/// nothing.
std::string ThreadCommunicator::matchReceives(void *out, const std::vector<Transfer> &receives, size_t elementSize) {
  for (int peer = 0; peer < size_; ++peer) {
    const std::vector<Transfer> &sends = *slot(peer).sends;
    size_t next = 0; // position in the peer's list
    auto nextSend = [&]() -> const Transfer * {
      while (next < sends.size() && sends[next].peer != rank_)
        ++next;
      return next < sends.size() ? &sends[next++] : nullptr;
    };
    auto names = [&] { return "exchange mismatch: rank " + std::to_string(group_->ranks[peer]) + " sends "; };
    const std::string me = "rank " + std::to_string(group_->ranks[rank_]);
    for (const Transfer &receive : receives) {
      if (receive.peer != peer)
        continue;
      const Transfer *send = nextSend();
      if (!send)
        return names() + "fewer boxes to " + me + " than that rank receives";
      if (boxElements(send->box) != boxElements(receive.box))
        return names() + std::to_string(boxElements(send->box)) + " elements to " + me + ", which receives " +
               std::to_string(boxElements(receive.box));
      copyBox(slot(peer).in, send->box, out, receive.box, elementSize);
    }
    if (nextSend())
      return names() + "more boxes to " + me + " than that rank receives";
  }
  return {};
}

Status ThreadCommunicator::exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                                    const std::vector<Transfer> &receives, plan::DType dtype) {
  Call call{CallKind::Exchange, dtype, 0, 0, 1, 0};
  const Status mine = checkTransfers(call, size_, sends, receives);
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, out, 0, &sends, &receives));
  slot(rank_).error = matchReceives(out, receives, bytesPerElement(dtype));
  finish();
  for (int m = 0; m < size_; ++m)
    if (!slot(m).error.empty())
      return Status::error(slot(m).error);
  return Status();
}

Status ThreadCommunicator::barrier() { return meet(Call{CallKind::Barrier}, Status(), nullptr, nullptr, 0); }

} // namespace

std::unique_ptr<Communicator> createThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank, int run) {
  return std::make_unique<ThreadCommunicator>(std::move(group), rank, run);
}

} // namespace tessera::rt
