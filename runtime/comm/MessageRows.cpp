// Gathers and scatters by messages, in one round each. Tensors of a list share rounds (RowPieces.h).
#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/MessageCommunicator.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/RowPieces.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

/// Bytes of a round per member: long enough to hide the latency, short enough that a few stay in the cache.
constexpr size_t kRound = 512 << 10;

} // namespace

Status MessageCommunicator::gatherRound(const Byte *in, Byte *out, size_t bytes, size_t blockStride) {
  std::unique_ptr<MessageRound> round = group_->round(kPlainTag);
  TESSERA_RETURN_IF_ERROR(withOthers(
      rank_, size_, [&](int peer) { return round->receive(peer, out + peer * blockStride, bytes); },
      [&](int peer) { return round->send(peer, in, bytes); }));
  Byte *mine = out + rank_ * blockStride;
  if (mine != in && bytes > 0)
    std::memcpy(mine, in, bytes);
  return round->wait();
}

Status MessageCommunicator::allGather(std::span<const Rows> tensors, plan::DType dtype) {
  Call call = callOf(CallKind::AllGather, tensors, dtype);
  const Status mine = checkCall(call, size_);
  const size_t elementSize = bytesPerElement(dtype), bytes = mine.ok() ? call.outer * call.inner * elementSize : 0;
  const bool small = mine.ok() && bytes <= kPayload; // then the data goes along with the call, in one round
  auto pack = [&](std::span<const RowPiece> pieces, Byte *to) {
    for (const RowPiece &piece : pieces)
      std::memcpy(to + piece.at,
                  static_cast<const Byte *>(tensors[piece.tensor].in) +
                      (piece.row * tensors[piece.tensor].inner + piece.column) * elementSize,
                  piece.bytes(elementSize));
  };
  RowRounds rounds(mine.ok() ? tensors : std::span<const Rows>(), elementSize, kRound, /*cutsRows=*/false);
  Byte own[kPayload];
  if (small)
    pack(rounds.pieces(), own);
  TESSERA_RETURN_IF_ERROR(meet(call, mine, own, small ? bytes : 0));
  if (!small && goByRuns(bytes, plan::NONE))
    return allGatherByRuns(tensors, dtype);
  const size_t most = std::min(bytes, kRound);
  Byte *received = scratch(small ? 0 : (size_t(size_) + 1) * most);
  Byte *sent = received + (small ? 0 : size_t(size_) * most);
  for (; !rounds.pieces().empty(); rounds.next()) {
    const RowPiece &first = rounds.pieces().front();
    if (rounds.inPlace() && !small) {
      const size_t row = first.bytes(elementSize);
      TESSERA_RETURN_IF_ERROR(gatherRound(static_cast<const Byte *>(tensors[first.tensor].in) + first.row * row,
                                          static_cast<Byte *>(tensors[first.tensor].out) + first.row * size_ * row, row,
                                          row));
      continue;
    }
    if (!small) {
      pack(rounds.pieces(), sent);
      TESSERA_RETURN_IF_ERROR(gatherRound(sent, received, rounds.bytes(), rounds.bytes()));
    }
    for (int m = 0; m < size_; ++m)
      for (const RowPiece &piece : rounds.pieces())
        copyBox((small ? payload(m) : received + size_t(m) * rounds.bytes()) + piece.at, packedRows(piece),
                tensors[piece.tensor].out, blockOf(tensors[piece.tensor], piece, size_t(m), size_t(size_)),
                elementSize);
  }
  return Status();
}

Status MessageCommunicator::reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) {
  Call call = callOf(CallKind::ReduceScatter, tensors, dtype, reducer);
  call.run = run_;
  const Status mine = checkCall(call, size_);
  TESSERA_RETURN_IF_ERROR(meet(call, mine, nullptr, 0));
  const size_t elementSize = bytesPerElement(dtype), bytes = call.outer * call.inner * elementSize;
  if (goByRuns(bytes, reducer))
    return reduceScatterByRuns(tensors, dtype, reducer);
  const size_t most = std::min(kRound, bytes);
  Byte *received = scratch(2 * size_t(size_) * most), *sent = received + size_t(size_) * most;
  for (RowRounds rounds(tensors, elementSize, kRound, /*cutsRows=*/true); !rounds.pieces().empty(); rounds.next()) {
    const size_t block = rounds.bytes();
    for (int m = 0; m < size_; ++m) {
      if (rounds.inPlace()) {
        const RowPiece &piece = rounds.pieces().front();
        const Rows &tensor = tensors[piece.tensor];
        inputs_[m] = static_cast<const Byte *>(tensor.in) +
                     ((piece.row * size_t(size_) + size_t(m)) * tensor.inner + piece.column) * elementSize;
        continue;
      }
      for (const RowPiece &piece : rounds.pieces())
        copyBox(tensors[piece.tensor].in, blockOf(tensors[piece.tensor], piece, size_t(m), size_t(size_)),
                sent + size_t(m) * block + piece.at, packedRows(piece), elementSize);
      inputs_[m] = sent + size_t(m) * block;
    }
    std::unique_ptr<MessageRound> round = group_->round(kPlainTag);
    TESSERA_RETURN_IF_ERROR(withOthers(
        rank_, size_, [&](int peer) { return round->receive(peer, received + size_t(peer) * block, block); },
        [&](int peer) { return round->send(peer, inputs_[peer], block); }));
    TESSERA_RETURN_IF_ERROR(round->wait());
    for (int m = 0; m < size_; ++m)
      if (m != rank_)
        inputs_[m] = received + size_t(m) * block;
    for (const RowPiece &piece : rounds.pieces()) {
      void *result = static_cast<Byte *>(tensors[piece.tensor].out) +
                     (piece.row * tensors[piece.tensor].inner + piece.column) * elementSize;
      reduceByRuns(inputs_.data(), size_, run_, &result, 1, piece.rows * piece.width, dtype, reducer);
      for (const void *&input : inputs_)
        input = static_cast<const Byte *>(input) + piece.bytes(elementSize);
    }
  }
  return Status();
}

} // namespace tessera::rt
