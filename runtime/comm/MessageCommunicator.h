//===- MessageCommunicator.h - collectives made of messages ----------------------------------===//
//
// The communicator of every transport between processes: MPI and TCP. Results are those of the thread
// transport, bit for bit: a reduction moves data by messages and adds by Reduce.h, in its orders. Small
// messages are gathered by all; larger ones go as reduce-scatter (all-to-all of slices, ordered local
// sum) and all-gather, in segments that stay in the cache (Thakur, Rabenseifner, Gropp: Optimization of
// collective communication operations in MPICH, 2005, section 4.5, with the tree replaced by all-to-all).
// The bytes that a rank sends are those of a ring, whose order of addition differs from slice to slice.
//
// Members in runs of neighbours, such as the ranks of one machine, meet in two levels: a reduction is scattered inside
// the runs, and a gather ends there, so that between runs each byte is sent by one member of a run instead of by all.
//
//   MessageCommunicator comm(std::move(group), {4, 6});           // members are world ranks 4 and 6
//   MessageCommunicator all(std::move(group), {0, 1, 2, 3}, 2);   // two machines with two ranks each
//
// Mismatched calls and bad arguments are errors on all members, as with threads: the signatures travel
// ahead of the data. Reductions are in MessageCommunicator.cpp, gathers and scatters in MessageRows.cpp,
// exchanges in MessageExchange.cpp. What goes by runs is in MessageRuns.cpp.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MESSAGECOMMUNICATOR_H
#define TESSERA_RUNTIME_COMM_MESSAGECOMMUNICATOR_H

#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/Messages.h"

namespace tessera::rt {

class MessageCommunicator : public Communicator {
public:
  /// `ranks` are the world ranks of the members, in order. `run` divides their number.
  MessageCommunicator(std::unique_ptr<MessageGroup> group, std::vector<int> ranks, int run = 1)
      : group_(std::move(group)), ranks_(std::move(ranks)), rank_(group_->rank()), size_(group_->size()), run_(run),
        records_(size_ * kRecord), inputs_(size_) {}

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
  /// The first message of every call holds its signature and small data. It has the same size for all calls, so that
  /// members which call different operations still understand each other.
  static constexpr size_t kRecord = 512;
  static constexpr size_t kPayload = kRecord - sizeof(Call);

  static constexpr int kPlainTag = 1; // of a call's rounds, unless several are under way at once

  using Byte = std::byte;

  /// Shows this rank's call to all members and compares theirs. Up to kPayload bytes of data go along.
  Status meet(Call call, const Status &mine, const void *data, size_t bytes);
  /// The data that `member` sent along.
  const Byte *payload(int member) const { return records_.data() + member * kRecord + sizeof(Call); }

  /// Sends `bytes` of every member to `out + member * blockStride` of all members. This member's own block may be there
  /// already.
  Status gatherRound(const Byte *in, Byte *out, size_t bytes, size_t blockStride);
  Status segmentedAllReduce(const Byte *in, Byte *out, size_t count, plan::DType dtype, Reducer reducer);
  /// Whether blocks of so many bytes are worth two levels, and the order allows them.
  bool goByRuns(size_t bytes, Reducer reducer) const;
  Status allReduceByRuns(const Byte *in, Byte *out, size_t count, plan::DType dtype, Reducer reducer);
  Status allGatherByRuns(std::span<const Rows> tensors, plan::DType dtype);
  Status reduceScatterByRuns(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer);
  /// Like meet(), for an exchange. All members tell each other how much they send to and receive from every peer, and
  /// every member compares the whole table.
  Status checkTraffic(const std::vector<Transfer> &sends, const std::vector<Transfer> &receives, Call call,
                      const Status &mine);
  Byte *scratch(size_t bytes) {
    if (scratch_.size() < bytes)
      scratch_.resize(bytes);
    return scratch_.data();
  }

  std::unique_ptr<MessageGroup> group_;
  std::vector<int> ranks_;
  const int rank_, size_, run_;
  std::vector<Byte> records_;
  std::vector<const void *> inputs_;
  std::vector<Byte> scratch_;
};

} // namespace tessera::rt

#endif
