#include "runtime/comm/MessageCommunicator.h"

#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// For inputs of up to kGatherReduce bytes, every member gathers all inputs and reduces them itself. This sends more
/// data in fewer messages.
constexpr size_t kGatherReduce = 16384;
/// Bytes of a slice: long enough to hide the latency, short enough that a few stay in the cache.
constexpr size_t kSlice = 512 << 10;

// Tags of the rounds. Two rounds of one all-reduce may be under way at once, so they have different tags.
constexpr int kScatterTag = 2, kGatherTag = 3;

} // namespace

Status MessageCommunicator::meet(Call call, const Status &mine, const void *data, size_t bytes) {
  Byte record[kRecord] = {};
  std::memcpy(record, &call, sizeof(Call));
  if (bytes > 0 && mine.ok())
    std::memcpy(record + sizeof(Call), data, bytes);
  TESSERA_RETURN_IF_ERROR(group_->allGather(record, records_.data(), kRecord));
  if (!mine)
    return mine;
  std::vector<Call> calls(size_);
  std::vector<const Call *> pointers(size_);
  for (int m = 0; m < size_; ++m) {
    std::memcpy(&calls[m], records_.data() + m * kRecord, sizeof(Call));
    pointers[m] = &calls[m];
  }
  return checkAgreement(pointers, ranks_);
}

/// Works segment by segment. Slice m of a segment goes to member m, is summed there, and comes back to all members.
/// While one segment is summed and gathered, the slices of the next are under way.
Status MessageCommunicator::segmentedAllReduce(const Byte *in, Byte *out, size_t count, plan::DType dtype,
                                               Reducer reducer) {
  const size_t elementSize = bytesPerElement(dtype);
  const size_t segment = kSlice / elementSize * size_;
  const size_t segments = (count + segment - 1) / segment;
  Byte *buffers = scratch(2 * size_ * kSlice);
  auto received = [&](size_t s, int m) { return buffers + (s % 2 * size_ + m) * kSlice; };
  // The first byte of slice m of segment s, and its number of bytes.
  auto start = [&](size_t s, int m) {
    const size_t length = std::min(segment, count - s * segment);
    return s * segment + std::min(length, (length + size_ - 1) / size_ * m);
  };
  auto part = [&](size_t s, int m) { return (start(s, m + 1) - start(s, m)) * elementSize; };

  const std::unique_ptr<MessageRound> scatter[2] = {group_->round(kScatterTag), group_->round(kScatterTag)};
  const std::unique_ptr<MessageRound> gather = group_->round(kGatherTag);
  auto postScatter = [&](size_t s) {
    return withOthers(
        rank_, size_, [&](int peer) { return scatter[s % 2]->receive(peer, received(s, peer), part(s, rank_)); },
        [&](int peer) { return scatter[s % 2]->send(peer, in + start(s, peer) * elementSize, part(s, peer)); });
  };
  TESSERA_RETURN_IF_ERROR(postScatter(0));
  for (size_t s = 0; s < segments; ++s) {
    if (s + 1 < segments)
      TESSERA_RETURN_IF_ERROR(postScatter(s + 1));
    // If input and output are one buffer, the gather overwrites what this round sends, so the round must end first.
    TESSERA_RETURN_IF_ERROR(scatter[s % 2]->wait());
    for (int m = 0; m < size_; ++m)
      inputs_[m] = m == rank_ ? in + start(s, m) * elementSize : received(s, m);
    void *reduced = out + start(s, rank_) * elementSize;
    reduceByRuns(inputs_.data(), size_, run_, &reduced, 1, part(s, rank_) / elementSize, dtype, reducer);
    TESSERA_RETURN_IF_ERROR(gather->wait()); // the gather of the segment before
    TESSERA_RETURN_IF_ERROR(withOthers(
        rank_, size_,
        [&](int peer) { return gather->receive(peer, out + start(s, peer) * elementSize, part(s, peer)); },
        [&](int peer) { return gather->send(peer, reduced, part(s, rank_)); }));
  }
  return gather->wait();
}

Status MessageCommunicator::allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) {
  Call call{CallKind::AllReduce, dtype, reducer.reduction, 0, 1, count, 0, reducer.tree};
  call.run = run_;
  const Status mine = checkCall(call, size_);
  const size_t elementSize = bytesPerElement(dtype), bytes = mine.ok() ? count * elementSize : 0;
  const bool small = bytes <= kPayload;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, small ? bytes : 0));
  const Byte *from = static_cast<const Byte *>(in);
  Byte *to = static_cast<Byte *>(out);
  if (small || bytes <= kGatherReduce) {
    if (!small)
      TESSERA_RETURN_IF_ERROR(gatherRound(from, scratch(size_ * bytes), bytes, bytes));
    for (int m = 0; m < size_; ++m)
      inputs_[m] = small ? payload(m) : scratch_.data() + m * bytes;
    reduceByRuns(inputs_.data(), size_, run_, &out, 1, count, dtype, reducer);
    return Status();
  }
  if (goByRuns(bytes, reducer))
    return allReduceByRuns(from, to, count, dtype, reducer);
  return segmentedAllReduce(from, to, count, dtype, reducer);
}

Status MessageCommunicator::broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) {
  Call call{CallKind::Broadcast, dtype, 0, root, 1, count};
  const Status mine = checkCall(call, size_);
  const size_t bytes = mine.ok() ? count * bytesPerElement(dtype) : 0;
  const bool small = bytes <= kPayload;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, small ? bytes : 0));
  if (bytes == 0)
    return Status();
  const void *source = small ? payload(root) : in;
  if ((small || rank_ == root) && source != out)
    std::memcpy(out, source, bytes);
  return small ? Status() : group_->broadcast(out, bytes, root);
}

Status MessageCommunicator::barrier() { return meet(Call{CallKind::Barrier}, Status(), nullptr, 0); }

} // namespace tessera::rt
