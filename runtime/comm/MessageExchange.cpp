#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/MessageCommunicator.h"
#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// How much one member sends to and receives from one peer in an exchange. The order matters, since
/// the sizes are hashed as a sequence.
struct Traffic {
  int64_t sends = 0, sendElements = 0, sendHash = 0;
  int64_t receives = 0, receiveElements = 0, receiveHash = 0;
};

int64_t hashSize(int64_t hash, int64_t elements) {
  const uint64_t h = (uint64_t(hash) ^ uint64_t(elements)) * 0x9e3779b97f4a7c15u;
  return int64_t(h ^ (h >> 32));
}

/// Whether the elements of a box lie one after another, so that they need no packing.
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

} // namespace

Status MessageCommunicator::checkTraffic(const std::vector<Transfer> &sends, const std::vector<Transfer> &receives,
                                         Call call, const Status &mine) {
  std::vector<Traffic> own(size_), table(size_t(size_) * size_);
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
  const bool along = bytes <= kPayload; // in small groups the sizes go with the call and need no extra round
  TESSERA_RETURN_IF_ERROR(meet(call, mine, own.data(), along ? bytes : 0));
  if (along) {
    for (int m = 0; m < size_; ++m)
      std::memcpy(table.data() + m * size_, payload(m), bytes);
  } else {
    TESSERA_RETURN_IF_ERROR(group_->allGather(own.data(), table.data(), bytes));
  }
  for (int from = 0; from < size_; ++from)
    for (int to = 0; to < size_; ++to) {
      const Traffic &s = table[from * size_ + to], &r = table[to * size_ + from];
      const std::string sender = "exchange mismatch: rank " + std::to_string(ranks_[from]) + " sends ";
      const std::string receiver = "rank " + std::to_string(ranks_[to]);
      if (s.sends != r.receives)
        return Status::error(sender + (s.sends < r.receives ? "fewer" : "more") + " boxes to " + receiver +
                             " than that rank receives");
      if (s.sendElements != r.receiveElements)
        return Status::error(sender + std::to_string(s.sendElements) + " elements to " + receiver +
                             ", which receives " + std::to_string(r.receiveElements));
      if (s.sendHash != r.receiveHash)
        return Status::error(sender + "boxes of other sizes to " + receiver + " than that rank receives");
    }
  return Status();
}

Status MessageCommunicator::exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                                     const std::vector<Transfer> &receives, plan::DType dtype) {
  Call call{CallKind::Exchange, dtype, 0, 0, 1, 0};
  const Status mine = checkTransfers(call, size_, sends, receives);
  TESSERA_RETURN_IF_ERROR(checkTraffic(sends, receives, call, mine));
  const size_t elementSize = bytesPerElement(dtype);
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
  std::unique_ptr<MessageRound> round = group_->round(1);
  std::vector<std::pair<const Transfer *, Byte *>> unpack;
  for (const Transfer &t : receives) {
    if (t.peer == rank_)
      continue;
    Byte *place = static_cast<Byte *>(out) + t.box.offset * elementSize;
    if (!contiguous(t.box)) {
      place = take(bytesOf(t));
      unpack.push_back({&t, place});
    }
    TESSERA_RETURN_IF_ERROR(round->receive(t.peer, place, bytesOf(t)));
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
    TESSERA_RETURN_IF_ERROR(round->send(t.peer, place, bytesOf(t)));
  }
  // Messages to this rank itself are copied while the others are under way.
  auto own = receives.begin();
  for (const Transfer &t : sends) {
    if (t.peer != rank_)
      continue;
    own = std::find_if(own, receives.end(), [&](auto &r) { return r.peer == rank_; });
    copyBox(in, t.box, out, own->box, elementSize);
    ++own;
  }
  TESSERA_RETURN_IF_ERROR(round->wait());
  for (auto [t, place] : unpack)
    copyBox(place, packedBox(boxElements(t->box)), out, t->box, elementSize);
  return Status();
}

} // namespace tessera::rt
