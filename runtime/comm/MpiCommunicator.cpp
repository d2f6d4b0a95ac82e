#include "runtime/comm/MpiCommunicator.h"

#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/Call.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// The first message of every call: its signature, and small data along with it. One size for all
/// calls, so that members which disagree still understand each other.
constexpr size_t kRecord = 512;
constexpr size_t kPayload = kRecord - sizeof(Call);
/// Up to here a reduction gathers all inputs everywhere: fewer messages, more data.
constexpr size_t kGatherReduce = 16384;
/// Bytes of a slice in flight: two of them per member stay in the cache.
constexpr size_t kSegment = 256 << 10;
/// MPI counts are ints; longer messages are cut.
constexpr size_t kMessage = 1 << 30;
constexpr int kTag = 1;

/// What one member sends to and receives from one peer in an exchange. The order matters: sizes are
/// hashed as a sequence.
struct Traffic {
  int64_t sends = 0, sendElements = 0, sendHash = 0;
  int64_t receives = 0, receiveElements = 0, receiveHash = 0;
};

int64_t hashSize(int64_t hash, int64_t elements) {
  const uint64_t h =
      (static_cast<uint64_t>(hash) ^ static_cast<uint64_t>(elements)) * 0x9e3779b97f4a7c15u;
  return static_cast<int64_t>(h ^ (h >> 32));
}

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
  using Byte = std::byte;

  /// Shows this rank's call to all and compares. Up to kPayload bytes of data go along.
  Status meet(Call call, const Status &mine, const void *data, size_t bytes);
  const Byte *payload(int member) const {
    return records_.data() + member * kRecord + sizeof(Call);
  }

  // Point-to-point messages of one round; wait() completes them all.
  Status send(int peer, const void *data, size_t bytes);
  Status receive(int peer, void *data, size_t bytes);
  Status wait();

  Status gatherRound(const Byte *in, Byte *out, size_t bytes, size_t blockStride);
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
  std::vector<MPI_Request> requests_;
};

Status MpiCommunicator::meet(Call call, const Status &mine, const void *data, size_t bytes) {
  Byte record[kRecord] = {};
  std::memcpy(record, &call, sizeof(Call));
  if (bytes > 0 && mine.ok())
    std::memcpy(record + sizeof(Call), data, bytes);
  TESSERA_RETURN_IF_ERROR(
      mpiStatus(MPI_Allgather(record, kRecord, MPI_BYTE, records_.data(), kRecord, MPI_BYTE, comm_),
                "MPI_Allgather"));
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

Status MpiCommunicator::send(int peer, const void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMessage) {
    const int n = static_cast<int>(std::min(kMessage, bytes - at));
    requests_.emplace_back();
    const int code = MPI_Isend(static_cast<const Byte *>(data) + at, n, MPI_BYTE, peer, kTag, comm_,
                               &requests_.back());
    if (code != MPI_SUCCESS) {
      requests_.pop_back();
      return mpiStatus(code, "MPI_Isend");
    }
  }
  return Status();
}

Status MpiCommunicator::receive(int peer, void *data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kMessage) {
    const int n = static_cast<int>(std::min(kMessage, bytes - at));
    requests_.emplace_back();
    const int code = MPI_Irecv(static_cast<Byte *>(data) + at, n, MPI_BYTE, peer, kTag, comm_,
                               &requests_.back());
    if (code != MPI_SUCCESS) {
      requests_.pop_back();
      return mpiStatus(code, "MPI_Irecv");
    }
  }
  return Status();
}

Status MpiCommunicator::wait() {
  const int code =
      MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
  return mpiStatus(code, "MPI_Waitall");
}

/// Every member's `bytes` to `out + member * blockStride` of all. My own block may be in place.
Status MpiCommunicator::gatherRound(const Byte *in, Byte *out, size_t bytes, size_t blockStride) {
  // Each rank starts with its successor: the messages spread over the members.
  for (int step = 1; step < size_; ++step) {
    const int from = (rank_ + size_ - step) % size_;
    TESSERA_RETURN_IF_ERROR(receive(from, out + from * blockStride, bytes));
  }
  for (int step = 1; step < size_; ++step)
    TESSERA_RETURN_IF_ERROR(send((rank_ + step) % size_, in, bytes));
  Byte *mine = out + rank_ * blockStride;
  if (mine != in && bytes > 0)
    std::memcpy(mine, in, bytes);
  return wait();
}

Status MpiCommunicator::allReduce(const void *in, void *out, size_t count, plan::DType dtype,
                                  plan::Reduction reduction) {
  Call call{CallKind::AllReduce, dtype, reduction, 0, 1, count};
  const Status mine = checkCall(call, size_);
  const size_t elementSize = commElementSize(dtype), bytes = mine.ok() ? count * elementSize : 0;
  const bool small = bytes <= kPayload;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, small ? bytes : 0));
  const Byte *from = static_cast<const Byte *>(in);
  Byte *to = static_cast<Byte *>(out);
  if (small || bytes <= kGatherReduce) {
    if (!small)
      TESSERA_RETURN_IF_ERROR(gatherRound(from, scratch(size_ * bytes), bytes, bytes));
    for (int m = 0; m < size_; ++m)
      inputs_[m] = small ? payload(m) : scratch_.data() + m * bytes;
    reduceTo(inputs_.data(), size_, &out, 1, count, dtype, reduction);
    return Status();
  }
  // Segment by segment: slice s of the segment goes to member s, is summed there, and comes back.
  const size_t slice = kSegment / elementSize;
  for (size_t begin = 0; begin < count; begin += slice * size_) {
    const size_t length = std::min(slice * size_, count - begin);
    const size_t share = (length + size_ - 1) / size_;
    auto start = [&](int m) { return begin + std::min(length, share * m); };
    auto part = [&](int m) { return (start(m + 1) - start(m)) * elementSize; };
    const size_t myBytes = part(rank_);
    Byte *buffer = scratch(size_ * kSegment);
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + size_ - step) % size_;
      TESSERA_RETURN_IF_ERROR(receive(peer, buffer + peer * kSegment, myBytes));
    }
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      TESSERA_RETURN_IF_ERROR(send(peer, from + start(peer) * elementSize, part(peer)));
    }
    TESSERA_RETURN_IF_ERROR(wait());
    for (int m = 0; m < size_; ++m)
      inputs_[m] = m == rank_ ? from + start(m) * elementSize : buffer + m * kSegment;
    void *reduced = to + start(rank_) * elementSize;
    reduceTo(inputs_.data(), size_, &reduced, 1, myBytes / elementSize, dtype, reduction);
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + size_ - step) % size_;
      TESSERA_RETURN_IF_ERROR(receive(peer, to + start(peer) * elementSize, part(peer)));
    }
    for (int step = 1; step < size_; ++step)
      TESSERA_RETURN_IF_ERROR(send((rank_ + step) % size_, reduced, myBytes));
    TESSERA_RETURN_IF_ERROR(wait());
  }
  return Status();
}

Status MpiCommunicator::allGather(const void *in, void *out, size_t outer, size_t inner,
                                  plan::DType dtype) {
  Call call{CallKind::AllGather, dtype, 0, 0, outer, inner};
  const Status mine = checkCall(call, size_);
  const size_t row = mine.ok() ? inner * commElementSize(dtype) : 0, bytes = outer * row;
  const bool small = bytes <= kPayload;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, small ? bytes : 0));
  const Byte *from = static_cast<const Byte *>(in);
  Byte *to = static_cast<Byte *>(out);
  if (bytes == 0)
    return Status();
  // Rows of one round: one where rows are long (straight to their place), else as many as a segment
  // holds, by way of a packed buffer.
  const size_t rows = small ? outer : std::max<size_t>(1, kSegment / row);
  for (size_t o = 0; o < outer; o += rows) {
    const size_t n = std::min(rows, outer - o);
    Byte *base = to + o * size_ * row;
    if (n == 1 && !small) {
      TESSERA_RETURN_IF_ERROR(gatherRound(from + o * row, base, row, row));
      continue;
    }
    if (!small)
      TESSERA_RETURN_IF_ERROR(
          gatherRound(from + o * row, scratch(size_ * n * row), n * row, n * row));
    const auto height = static_cast<int64_t>(n), width = static_cast<int64_t>(inner);
    for (int m = 0; m < size_; ++m)
      copyBox(small ? payload(m) : scratch_.data() + m * n * row, {0, {height, width}, {width, 1}},
              base, {m * width, {height, width}, {size_ * width, 1}}, commElementSize(dtype));
  }
  return Status();
}

Status MpiCommunicator::reduceScatter(const void *in, void *out, size_t outer, size_t inner,
                                      plan::DType dtype, plan::Reduction reduction) {
  Call call{CallKind::ReduceScatter, dtype, reduction, 0, outer, inner};
  const Status mine = checkCall(call, size_);
  TESSERA_RETURN_IF_ERROR(meet(call, mine, nullptr, 0));
  const size_t elementSize = commElementSize(dtype), row = inner * elementSize;
  const Byte *from = static_cast<const Byte *>(in);
  Byte *to = static_cast<Byte *>(out);
  if (outer * row == 0)
    return Status();
  // A round covers `rows` rows and `width` elements of each: whole short rows, packed per member,
  // or a piece of one long row.
  const size_t width = std::min(inner, kSegment / elementSize);
  const size_t rows = std::max<size_t>(1, std::min(outer, kSegment / row));
  Byte *received = scratch(2 * size_ * rows * width * elementSize);
  Byte *packed = received + size_ * rows * width * elementSize;
  for (size_t o = 0; o < outer; o += rows)
    for (size_t i = 0; i < inner; i += width) {
      const size_t n = std::min(rows, outer - o), w = std::min(width, inner - i);
      const size_t block = n * w * elementSize;
      for (int m = 0; m < size_; ++m) {
        const Byte *source = from + (o * size_ + m) * row + i * elementSize;
        if (n == 1) {
          inputs_[m] = source;
          continue;
        }
        const auto height = static_cast<int64_t>(n), length = static_cast<int64_t>(w);
        copyBox(source, {0, {height, length}, {size_ * length, 1}}, packed + m * block,
                {0, {height, length}, {length, 1}}, elementSize);
        inputs_[m] = packed + m * block;
      }
      for (int step = 1; step < size_; ++step) {
        const int peer = (rank_ + size_ - step) % size_;
        TESSERA_RETURN_IF_ERROR(receive(peer, received + peer * block, block));
      }
      for (int step = 1; step < size_; ++step) {
        const int peer = (rank_ + step) % size_;
        TESSERA_RETURN_IF_ERROR(send(peer, inputs_[peer], block));
      }
      TESSERA_RETURN_IF_ERROR(wait());
      for (int m = 0; m < size_; ++m)
        if (m != rank_)
          inputs_[m] = received + m * block;
      void *result = to + o * row + i * elementSize;
      reduceTo(inputs_.data(), size_, &result, 1, n * w, dtype, reduction);
    }
  return Status();
}

Status MpiCommunicator::broadcast(const void *in, void *out, size_t count, plan::DType dtype,
                                  int root) {
  Call call{CallKind::Broadcast, dtype, 0, root, 1, count};
  const Status mine = checkCall(call, size_);
  const size_t bytes = mine.ok() ? count * commElementSize(dtype) : 0;
  const bool small = bytes <= kPayload;
  TESSERA_RETURN_IF_ERROR(meet(call, mine, in, small ? bytes : 0));
  if (bytes == 0)
    return Status();
  const void *source = small ? payload(root) : in;
  if ((small || rank_ == root) && source != out)
    std::memcpy(out, source, bytes);
  for (size_t at = 0; !small && at < bytes; at += kMessage)
    TESSERA_RETURN_IF_ERROR(mpiStatus(MPI_Bcast(static_cast<Byte *>(out) + at,
                                                static_cast<int>(std::min(kMessage, bytes - at)),
                                                MPI_BYTE, root, comm_),
                                      "MPI_Bcast"));
  return Status();
}

/// All members tell all how much they send and receive per peer; every member compares the whole
/// table.
Status MpiCommunicator::checkTraffic(const std::vector<Transfer> &sends,
                                     const std::vector<Transfer> &receives, Call call,
                                     const Status &mine) {
  std::vector<Traffic> own(size_), table(static_cast<size_t>(size_) * size_);
  if (mine) {
    for (const Transfer &t : sends) {
      Traffic &to = own[t.peer];
      const int64_t elements = boxElements(t.box);
      ++to.sends, to.sendElements += elements, to.sendHash = hashSize(to.sendHash, elements);
    }
    for (const Transfer &t : receives) {
      Traffic &from = own[t.peer];
      const int64_t elements = boxElements(t.box);
      ++from.receives, from.receiveElements += elements;
      from.receiveHash = hashSize(from.receiveHash, elements);
    }
  }
  const size_t bytes = size_ * sizeof(Traffic);
  const bool along = bytes <= kPayload; // small groups: no extra round
  TESSERA_RETURN_IF_ERROR(meet(call, mine, own.data(), along ? bytes : 0));
  if (along) {
    for (int m = 0; m < size_; ++m)
      std::memcpy(table.data() + m * size_, payload(m), bytes);
  } else {
    TESSERA_RETURN_IF_ERROR(
        mpiStatus(MPI_Allgather(own.data(), static_cast<int>(bytes), MPI_BYTE, table.data(),
                                static_cast<int>(bytes), MPI_BYTE, comm_),
                  "MPI_Allgather"));
  }
  for (int from = 0; from < size_; ++from)
    for (int to = 0; to < size_; ++to) {
      const Traffic &s = table[from * size_ + to], &r = table[to * size_ + from];
      const std::string sender =
          "exchange mismatch: rank " + std::to_string(ranks_[from]) + " sends ";
      const std::string receiver = "rank " + std::to_string(ranks_[to]);
      if (s.sends != r.receives)
        return Status::error(sender + (s.sends < r.receives ? "fewer" : "more") + " boxes to " +
                             receiver + " than that rank receives");
      if (s.sendElements != r.receiveElements)
        return Status::error(sender + std::to_string(s.sendElements) + " elements to " + receiver +
                             ", which receives " + std::to_string(r.receiveElements));
      if (s.sendHash != r.receiveHash)
        return Status::error(sender + "boxes of other sizes to " + receiver +
                             " than that rank receives");
    }
  return Status();
}

/// A box whose elements lie in a row needs no packing.
bool contiguous(const Box &box) {
  int64_t expected = 1;
  for (size_t d = box.count.size(); d-- > 0;) {
    if (box.count[d] != 1 && box.stride[d] != expected)
      return false;
    expected *= box.count[d];
  }
  return true;
}

Box packedBox(int64_t elements) { return {0, {elements}, {1}}; }

Status MpiCommunicator::exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                                 const std::vector<Transfer> &receives, plan::DType dtype) {
  Call call{CallKind::Exchange, dtype, 0, 0, 1, 0};
  const Status mine = checkTransfers(call, size_, sends, receives);
  TESSERA_RETURN_IF_ERROR(checkTraffic(sends, receives, call, mine));
  const size_t elementSize = commElementSize(dtype);
  auto bytesOf = [&](const Transfer &t) { return boxElements(t.box) * elementSize; };
  size_t packedBytes = 0;
  for (const std::vector<Transfer> *list : {&sends, &receives})
    for (const Transfer &t : *list)
      if (t.peer != rank_ && !contiguous(t.box))
        packedBytes += (bytesOf(t) + 63) / 64 * 64;
  Byte *pack = scratch(packedBytes);
  auto take = [&](size_t bytes) {
    Byte *place = pack;
    pack += (bytes + 63) / 64 * 64;
    return place;
  };
  std::vector<std::pair<const Transfer *, Byte *>> unpack;
  for (const Transfer &t : receives) {
    if (t.peer == rank_)
      continue;
    Byte *place = static_cast<Byte *>(out) + t.box.offset * elementSize;
    if (!contiguous(t.box)) {
      place = take(bytesOf(t));
      unpack.push_back({&t, place});
    }
    TESSERA_RETURN_IF_ERROR(receive(t.peer, place, bytesOf(t)));
  }
  for (const Transfer &t : sends) {
    if (t.peer == rank_)
      continue;
    const Byte *place = static_cast<const Byte *>(in) + t.box.offset * elementSize;
    if (!contiguous(t.box)) {
      Byte *packed = take(bytesOf(t));
      copyBox(in, t.box, packed, packedBox(boxElements(t.box)), elementSize);
      place = packed;
    }
    TESSERA_RETURN_IF_ERROR(send(t.peer, place, bytesOf(t)));
  }
  // My own messages, while the others are under way.
  auto receive = receives.begin();
  for (const Transfer &t : sends) {
    if (t.peer != rank_)
      continue;
    receive = std::find_if(receive, receives.end(), [&](auto &r) { return r.peer == rank_; });
    copyBox(in, t.box, out, receive->box, elementSize);
    ++receive;
  }
  TESSERA_RETURN_IF_ERROR(wait());
  for (auto [t, place] : unpack)
    copyBox(place, packedBox(boxElements(t->box)), out, t->box, elementSize);
  return Status();
}

Status MpiCommunicator::barrier() { return meet(Call{CallKind::Barrier}, Status(), nullptr, 0); }

} // namespace

Status mpiStatus(int code, const char *function) {
  if (code == MPI_SUCCESS)
    return Status();
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status::error(std::string(function) + ": " + text);
}

std::unique_ptr<Communicator> createMpiCommunicator(MPI_Comm comm, std::vector<int> ranks) {
  return std::make_unique<MpiCommunicator>(comm, std::move(ranks));
}

} // namespace tessera::rt
