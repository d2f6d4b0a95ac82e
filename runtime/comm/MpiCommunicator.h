//===- MpiCommunicator.h - a group of MPI processes ------------------------------------------===//
//
// Internal to the MPI transport. Reductions and gathers are in MpiCommunicator.cpp, exchanges in
// MpiExchange.cpp.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MPICOMMUNICATOR_H
#define TESSERA_RUNTIME_COMM_MPICOMMUNICATOR_H

#include "runtime/comm/Call.h"
#include "runtime/comm/MpiMessages.h"

namespace tessera::rt {

/// Takes ownership of `comm`, whose members are the world ranks `ranks` in order.
class MpiCommunicator : public Communicator {
public:
  MpiCommunicator(MPI_Comm comm, std::vector<int> ranks) : comm_(comm), ranks_(std::move(ranks)) {
    MPI_Comm_rank(comm_, &rank_);
    size_ = static_cast<int>(ranks_.size());
    records_.resize(size_ * kRecord);
    inputs_.resize(size_);
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized)
      MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status allReduce(const void *in, void *out, size_t count, plan::DType dtype,
                   plan::Reduction reduction) override;
  Status allGather(const void *in, void *out, size_t outer, size_t inner,
                   plan::DType dtype) override;
  Status reduceScatter(const void *in, void *out, size_t outer, size_t inner, plan::DType dtype,
                       plan::Reduction reduction) override;
  Status broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) override;
  Status exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                  const std::vector<Transfer> &receives, plan::DType dtype) override;
  Status barrier() override;

private:
  /// The first message of every call: its signature, and small data along with it. One size for all
  /// calls, so that members which disagree still understand each other.
  static constexpr size_t kRecord = 512;
  static constexpr size_t kPayload = kRecord - sizeof(Call);

  using Byte = std::byte;

  /// Shows this rank's call to all and compares. Up to kPayload bytes of data go along.
  Status meet(Call call, const Status &mine, const void *data, size_t bytes);
  /// What `member` sent along.
  const Byte *payload(int member) const {
    return records_.data() + member * kRecord + sizeof(Call);
  }

  /// Every member's `bytes` to `out + member * blockStride` of all. My own block may be in place.
  Status gatherRound(const Byte *in, Byte *out, size_t bytes, size_t blockStride);
  Status segmentedAllReduce(const Byte *in, Byte *out, size_t count, plan::DType dtype,
                            plan::Reduction reduction);
  /// meet() for an exchange; all members tell all how much they send and receive per peer, and every
  /// member compares the whole table.
  Status checkTraffic(const std::vector<Transfer> &sends, const std::vector<Transfer> &receives,
                      Call call, const Status &mine);
  Byte *scratch(size_t bytes) {
    if (scratch_.size() < bytes)
      scratch_.resize(bytes);
    return scratch_.data();
  }

  MPI_Comm comm_;
  std::vector<int> ranks_;
  int rank_ = 0, size_ = 0;
  std::vector<Byte> records_;
  std::vector<const void *> inputs_;
  std::vector<Byte> scratch_;
};

} // namespace tessera::rt

#endif
