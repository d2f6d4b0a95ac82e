// Communicator's operations by NCCL. The rows of a gather and the boxes of an exchange are packed and unpacked on the
// communication stream (DeviceBoxes.h). Sums as trees are made of messages: every member adds a part of what all have
// (DeviceSums.h), and of an all-reduce sends it to the others.
#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/CollectiveCall.h"
#include "runtime/comm/nccl/NcclGroup.h"
#include "runtime/plan/ElementType.h"
#include "runtime/tensor/ConvertElements.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

namespace {

constexpr double kPatience = 120; // seconds that an operation may take to be enqueued

class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(std::shared_ptr<NcclGroups> groups, TesseraComm *comm, std::vector<int> ranks,
                   std::unique_ptr<Communicator> channel)
      : groups_(std::move(groups)), comm_(comm), ranks_(std::move(ranks)), channel_(std::move(channel)),
        me_(channel_->rank()) {}
  ~NcclCommunicator() override {
    deregister();
    if (!groups_->failure.empty())
      groups_->release(); // while the memory that is registered is there
  }

  int rank() const override { return me_; }
  int size() const override { return int(ranks_.size()); }
  bool enqueues() const override { return true; }

  Status allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) override {
    Call call{CallKind::AllReduce, dtype, reducer.reduction, 0, 1, count, 0, reducer.tree};
    TESSERA_RETURN_IF_ERROR(checkCall(call, size()));
    if (isTree(dtype, reducer))
      return allReduceAsTree(call, static_cast<const char *>(in), static_cast<char *>(out));
    return operation(
        call, [&](TesseraMessage *m) { return api().allReduce(comm_, in, out, count, dtype, reducer.reduction, m); });
  }

  Status allGather(std::span<const Rows> tensors, plan::DType dtype) override;
  Status reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) override;

  Status broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) override {
    Call call{CallKind::Broadcast, dtype, 0, root, 1, count};
    TESSERA_RETURN_IF_ERROR(checkCall(call, size()));
    return operation(call, [&](TesseraMessage *m) { return api().broadcast(comm_, in, out, count, dtype, root, m); });
  }

  Status exchange(const void *in, const std::vector<Transfer> &sends, void *out, const std::vector<Transfer> &receives,
                  plan::DType dtype) override;

  Status fill(void *out, const std::vector<Box> &boxes, plan::DType dtype, double value) override;

  Status prepare(void *memory, size_t bytes, size_t scratch) override {
    void *own = nullptr;
    TESSERA_RETURN_IF_ERROR(
        reserve(std::max<size_t>(scratch, 256), own, memory ? MemoryKind::Shared : MemoryKind::Device));
    if (!memory)
      return Status();
    // Either all members register their memory or none: for other cases NCCL's behaviour is undefined.
    int64_t good = enlist(memory, bytes) && enlist(own, scratch_.back().size());
    TESSERA_RETURN_IF_ERROR(channel_->allReduce(&good, &good, 1, plan::I64, plan::MIN));
    if (!good)
      deregister();
    return Status();
  }

  Result<void *> keep(size_t bytes) override {
    Result<DeviceMemory> memory = DeviceMemory::allocate(groups_->device, bytes);
    if (!memory)
      return memory.status();
    kept_.push_back(std::move(*memory));
    return static_cast<void *>(kept_.back().data());
  }

  /// Members only meet here. Device::finish waits for enqueued work.
  Status barrier() override {
    void *token = nullptr;
    TESSERA_RETURN_IF_ERROR(reserve(4, token));
    TESSERA_RETURN_IF_ERROR(allReduce(token, token, 1, plan::I32, plan::MAX));
    return groups_->device->finish();
  }

private:
  /// Whether sums are added by the members: NCCL adds in an order of its own, which depends on the number of members, the
  /// size and the links.
  bool isTree(plan::DType dtype, Reducer reducer) const {
    return reducer.tree && !anyOrder(size(), dtype, reducer.reduction);
  }

  /// Elements in as many parts as there are members. The last ones may be shorter or empty.
  struct Parts {
    size_t count = 0, length = 0;
    size_t begin(int member) const { return std::min(size_t(member) * length, count); }
    size_t lengthOf(int member) const { return begin(member + 1) - begin(member); }
  };

  /// Adds this member's part of what all members have, into `sum`. `received`: room for this part of each.
  Status addPart(const Call &call, const char *in, const Parts &parts, char *received, char *sum) {
    const auto dtype = static_cast<plan::DType>(call.dtype);
    const size_t element = bytesPerElement(dtype), mine = parts.lengthOf(me_);
    TESSERA_RETURN_IF_ERROR(groups_->device->copy(TESSERA_COMM_STREAM, received + size_t(me_) * mine * element,
                                                  in + parts.begin(me_) * element, mine * element));
    TESSERA_RETURN_IF_ERROR(toOthers(
        call,
        [&](int peer) {
          return Bytes{in + parts.begin(peer) * element, parts.lengthOf(peer) * element};
        },
        [&](int peer) {
          return Bytes{received + size_t(peer) * mine * element, mine * element};
        }));
    return groups_->sums.add(received, size(), mine, sum, mine, dtype);
  }

  Status allReduceAsTree(const Call &call, const char *in, char *out) {
    const size_t element = bytesPerElement(static_cast<plan::DType>(call.dtype));
    const Parts parts{call.inner, (call.inner + ranks_.size() - 1) / ranks_.size()};
    void *received = nullptr;
    TESSERA_RETURN_IF_ERROR(reserve(std::max<size_t>(ranks_.size() * parts.length * element, 1), received));
    TESSERA_RETURN_IF_ERROR(addPart(call, in, parts, static_cast<char *>(received), out + parts.begin(me_) * element));
    auto partOf = [&](int member) {
      return Bytes{out + parts.begin(member) * element, parts.lengthOf(member) * element};
    };
    return toOthers(
        call, [&](int) { return partOf(me_); }, partOf);
  }

  const TesseraDeviceApi &api() const { return groups_->device->api(); }

  /// Enqueues one operation and waits until NCCL has accepted it, but not until it has run.
  template <typename F> Status operation(const Call &call, F &&run) {
    if (!groups_->failure.empty())
      return Status::error(groups_->failure);
    Status status = Device::check(run);
    if (!status)
      return groups_->fail(status.message());
    return groups_->settle(comm_, kPatience, callName(call.kind));
  }

  /// Enqueues one operation for each tensor of a list, which NCCL starts as one.
  template <typename F> Status operations(const Call &call, size_t count, F &&run) {
    if (count == 1)
      return operation(call, [&](TesseraMessage *m) { return run(0, m); });
    return operation(call, [&](TesseraMessage *m) {
      return grouped(m, [&] {
        int32_t code = TESSERA_OK;
        for (size_t i = 0; i < count && code == TESSERA_OK; ++i)
          code = run(i, m);
        return code;
      });
    });
  }

  /// What `run` asks of NCCL begins together.
  template <typename F> int32_t grouped(TesseraMessage *m, F &&run) {
    if (const int32_t code = api().groupStart(comm_, m); code != TESSERA_OK)
      return code;
    const int32_t code = run();
    // A group that stays open would keep back everything that this thread asks of NCCL from now on.
    TesseraMessage later;
    const int32_t ended = api().groupEnd(comm_, code == TESSERA_OK ? m : &later);
    return code == TESSERA_OK ? ended : code;
  }

  struct Bytes {
    const char *at = nullptr;
    size_t count = 0;
  };
  /// Sends what `sent` says to every other member, and receives from it where `received` says.
  template <typename Sent, typename Received> Status toOthers(const Call &call, Sent &&sent, Received &&received) {
    return operation(call, [&](TesseraMessage *m) {
      return grouped(m, [&] {
        int32_t code = TESSERA_OK;
        for (int peer = 0; peer < size() && code == TESSERA_OK; ++peer) {
          const Bytes to = sent(peer), from = received(peer);
          if (peer != me_ && to.count > 0)
            code = api().send(comm_, to.at, to.count, peer, m);
          if (peer != me_ && from.count > 0 && code == TESSERA_OK)
            code = api().receive(comm_, const_cast<char *>(from.at), from.count, peer, m);
        }
        return code;
      });
    });
  }

  /// Places in this communicator's memory for tensors whose rows NCCL cannot take as they lie, null for the others; and
  /// one of `behind` bytes.
  struct Places {
    std::vector<char *> packed;
    char *behind = nullptr;
  };
  Result<Places> placesFor(std::span<const Rows> tensors, size_t elementSize, size_t behind = 0) {
    Places places{std::vector<char *>(tensors.size(), nullptr)};
    size_t bytes = behind;
    for (const Rows &rows : tensors)
      bytes += packedBytes(rows, elementSize);
    if (bytes == 0)
      return places;
    void *memory = nullptr;
    TESSERA_RETURN_IF_ERROR(reserve(bytes, memory));
    places.behind = static_cast<char *>(memory);
    for (size_t t = 0; t < tensors.size(); ++t)
      if (const size_t own = packedBytes(tensors[t], elementSize)) {
        places.packed[t] = places.behind;
        places.behind += own;
      }
    return places;
  }
  size_t packedBytes(const Rows &rows, size_t elementSize) const {
    return rows.outer > 1 ? (ranks_.size() * rows.outer * rows.inner * elementSize + 255) / 256 * 256 : 0;
  }

  /// Memory that the members' blocks of a tensor's rows lie in one after the other, seen as the tensor has them.
  Box blocks(const Rows &rows) const {
    const auto n = int64_t(ranks_.size()), outer = int64_t(rows.outer), inner = int64_t(rows.inner);
    return {0, {outer, n, inner}, {inner, outer * inner, 1}};
  }
  Box tensor(const Rows &rows) const {
    const auto n = int64_t(ranks_.size()), outer = int64_t(rows.outer), inner = int64_t(rows.inner);
    return {0, {outer, n, inner}, {n * inner, inner, 1}};
  }

  /// Registers memory; false if that is not possible. Groups of the same ranks share registrations, as they share
  /// NCCL's communicator.
  bool enlist(void *memory, size_t bytes) {
    if (!groups_->registered.insert({comm_, memory}).second)
      return true;
    void *registration = nullptr;
    const Status status =
        Device::check([&](TesseraMessage *m) { return api().registerMemory(comm_, memory, bytes, &registration, m); });
    if (status)
      registrations_.push_back({memory, registration});
    else
      groups_->registered.erase({comm_, memory});
    return status.ok();
  }

  void deregister() {
    if (registrations_.empty() || !groups_->failure.empty())
      return;                                          // revoked communicators drop them when they are destroyed
    const Status finished = groups_->device->finish(); // no work may use them any more
    for (const auto &[memory, registration] : registrations_)
      if (groups_->failure.empty()) {
        groups_->registered.erase({comm_, memory});
        api().deregisterMemory(comm_, registration);
      }
    static_cast<void>(finished); // an error was reported to whoever ran the work
    registrations_.clear();
  }

  /// Device memory of this communicator, of at least `bytes` bytes. It only grows, and old memory is kept, since a
  /// recorded graph may use it. All calls share it, since the communication stream runs them in order.
  Status reserve(size_t bytes, void *&memory, MemoryKind kind = MemoryKind::Device) {
    if (scratch_.empty() || scratch_.back().size() < bytes) {
      if (!registrations_.empty())
        return Status::error("a collective needs " + std::to_string(bytes) +
                             " bytes of its own, more than was prepared");
      Result<DeviceMemory> more = DeviceMemory::allocate(groups_->device, bytes, kind);
      if (!more)
        return more.status().context("a collective's buffer");
      scratch_.push_back(std::move(*more));
    }
    memory = scratch_.back().data();
    return Status();
  }

  std::shared_ptr<NcclGroups> groups_;
  TesseraComm *comm_;
  const std::vector<int> ranks_;
  const std::unique_ptr<Communicator> channel_;
  const int me_;
  std::vector<DeviceMemory> scratch_, kept_;
  std::vector<std::pair<void *, void *>> registrations_; // memory, NCCL's handle
  // Values that halos are filled with, by value: an element.
  std::map<std::pair<int, double>, DeviceMemory> patterns_;
};

Status NcclCommunicator::allGather(std::span<const Rows> tensors, plan::DType dtype) {
  Call call = callOf(CallKind::AllGather, tensors, dtype);
  TESSERA_RETURN_IF_ERROR(checkCall(call, size()));
  const size_t elementSize = bytesPerElement(dtype);
  const Result<Places> places = placesFor(tensors, elementSize);
  TESSERA_RETURN_IF_ERROR(places.status());
  const std::vector<char *> &packed = places->packed;
  TESSERA_RETURN_IF_ERROR(operations(call, tensors.size(), [&](size_t t, TesseraMessage *m) {
    const Rows &rows = tensors[t];
    return api().allGather(comm_, rows.in, packed[t] ? packed[t] : rows.out, rows.outer * rows.inner, dtype, m);
  }));
  for (size_t t = 0; t < tensors.size(); ++t)
    if (packed[t])
      TESSERA_RETURN_IF_ERROR(
          groups_->boxes.copy(packed[t], blocks(tensors[t]), tensors[t].out, tensor(tensors[t]), elementSize));
  return Status();
}

Status NcclCommunicator::reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) {
  Call call = callOf(CallKind::ReduceScatter, tensors, dtype, reducer);
  TESSERA_RETURN_IF_ERROR(checkCall(call, size()));
  const size_t elementSize = bytesPerElement(dtype);
  size_t received = 0; // where sums are trees: what the members send, of one tensor at a time
  for (const Rows &rows : tensors)
    if (isTree(dtype, reducer))
      received = std::max(received, ranks_.size() * rows.outer * rows.inner * elementSize);
  const Result<Places> places = placesFor(tensors, elementSize, received);
  TESSERA_RETURN_IF_ERROR(places.status());
  const std::vector<char *> &packed = places->packed;
  for (size_t t = 0; t < tensors.size(); ++t)
    if (packed[t])
      TESSERA_RETURN_IF_ERROR(
          groups_->boxes.copy(tensors[t].in, tensor(tensors[t]), packed[t], blocks(tensors[t]), elementSize));
  if (isTree(dtype, reducer)) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const size_t part = tensors[t].outer * tensors[t].inner;
      TESSERA_RETURN_IF_ERROR(addPart(call, packed[t] ? packed[t] : static_cast<const char *>(tensors[t].in),
                                      {ranks_.size() * part, part}, places->behind,
                                      static_cast<char *>(tensors[t].out)));
    }
    return Status();
  }
  return operations(call, tensors.size(), [&](size_t t, TesseraMessage *m) {
    const Rows &rows = tensors[t];
    return api().reduceScatter(comm_, packed[t] ? packed[t] : rows.in, rows.out, rows.outer * rows.inner, dtype,
                               reducer.reduction, m);
  });
}

Status NcclCommunicator::exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                                  const std::vector<Transfer> &receives, plan::DType dtype) {
  Call call{CallKind::Exchange, dtype, 0, 0, 1, 0};
  TESSERA_RETURN_IF_ERROR(checkTransfers(call, size(), sends, receives));
  const int64_t size = int64_t(bytesPerElement(dtype));
  const auto *from = static_cast<const char *>(in);
  auto *to = static_cast<char *>(out);
  // A message whose box is one run of memory is sent as it is; others are packed first. Messages to this rank itself
  // are copies.
  struct Piece {
    const Transfer *transfer;
    int64_t bytes = 0;
    int64_t place = -1; // offset in the scratch memory; -1: not packed
  };
  int64_t scratch = 0;
  auto plan = [&](const std::vector<Transfer> &list) {
    std::vector<Piece> pieces;
    for (const Transfer &t : list) {
      Piece piece{&t, boxElements(t.box) * size, -1};
      if (piece.bytes == 0)
        continue;
      if (!isRun(t.box)) {
        piece.place = scratch;
        scratch += (piece.bytes + 255) / 256 * 256;
      }
      pieces.push_back(piece);
    }
    return pieces;
  };
  std::vector<Piece> outgoing = plan(sends), incoming = plan(receives);
  void *memory = nullptr;
  if (scratch > 0)
    TESSERA_RETURN_IF_ERROR(reserve(size_t(scratch), memory));
  auto *packed = static_cast<char *>(memory);
  auto whereSent = [&](const Piece &p) {
    return p.place < 0 ? from + p.transfer->box.offset * size : packed + p.place;
  };
  auto whereReceived = [&](const Piece &p) {
    return p.place < 0 ? to + p.transfer->box.offset * size : packed + p.place;
  };
  for (const Piece &p : outgoing)
    if (p.place >= 0)
      TESSERA_RETURN_IF_ERROR(
          groups_->boxes.copy(from, p.transfer->box, packed + p.place, {0, {p.bytes / size}, {1}}, size_t(size)));
  // Messages to this rank itself match in the order of the lists.
  size_t next = 0;
  for (const Piece &p : incoming) {
    if (p.transfer->peer != me_)
      continue;
    while (next < outgoing.size() && outgoing[next].transfer->peer != me_)
      ++next;
    if (next == outgoing.size() || outgoing[next].bytes != p.bytes)
      return Status::error("exchange mismatch: rank " + std::to_string(ranks_[size_t(me_)]) +
                           " receives from itself what it does not send");
    TESSERA_RETURN_IF_ERROR(
        groups_->device->copy(TESSERA_COMM_STREAM, whereReceived(p), whereSent(outgoing[next]), size_t(p.bytes)));
    ++next;
  }
  bool others = false;
  for (const std::vector<Piece> *list : {&outgoing, &incoming})
    for (const Piece &p : *list)
      others = others || p.transfer->peer != me_;
  if (others)
    TESSERA_RETURN_IF_ERROR(operation(call, [&](TesseraMessage *m) {
      return grouped(m, [&] {
        int32_t code = TESSERA_OK;
        for (const Piece &p : outgoing)
          if (code == TESSERA_OK && p.transfer->peer != me_)
            code = api().send(comm_, whereSent(p), size_t(p.bytes), p.transfer->peer, m);
        for (const Piece &p : incoming)
          if (code == TESSERA_OK && p.transfer->peer != me_)
            code = api().receive(comm_, whereReceived(p), size_t(p.bytes), p.transfer->peer, m);
        return code;
      });
    }));
  for (const Piece &p : incoming)
    if (p.place >= 0)
      TESSERA_RETURN_IF_ERROR(
          groups_->boxes.copy(packed + p.place, {0, {p.bytes / size}, {1}}, to, p.transfer->box, size_t(size)));
  return Status();
}

Status NcclCommunicator::fill(void *out, const std::vector<Box> &boxes, plan::DType dtype, double value) {
  const size_t size = bytesPerElement(dtype);
  DeviceMemory &pattern = patterns_[{int(dtype), value}];
  if (!pattern.data()) {
    // The pattern is made at the first run, which is never recorded as a graph.
    char host[8];
    convertElements(&value, plan::F64, host, dtype, 1);
    Result<DeviceMemory> memory = DeviceMemory::allocate(groups_->device, size);
    if (!memory)
      return memory.status().context("a halo's edge");
    TESSERA_RETURN_IF_ERROR(groups_->device->copy(TESSERA_COMM_STREAM, memory->data(), host, size));
    TESSERA_RETURN_IF_ERROR(groups_->device->finish());
    pattern = std::move(*memory);
  }
  for (const Box &box : boxes)
    TESSERA_RETURN_IF_ERROR(
        groups_->boxes.copy(pattern.data(), {0, box.count, std::vector<int64_t>(box.count.size(), 0)}, out, box, size));
  return Status();
}

} // namespace

std::unique_ptr<Communicator> createNcclCommunicator(std::shared_ptr<NcclGroups> groups, TesseraComm *comm,
                                                     std::vector<int> ranks, std::unique_ptr<Communicator> channel) {
  return std::make_unique<NcclCommunicator>(std::move(groups), comm, std::move(ranks), std::move(channel));
}

} // namespace tessera::rt
