// Collectives of members in runs, in two levels. Member m is at place m % run of run m / run. Its run are the members
// that share its machine; its column are the members at the same place of all runs, with which it talks over the slow
// link.
#include "runtime/comm/BoxCopy.h"
#include "runtime/comm/MessageCommunicator.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/RowPieces.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// Blocks of fewer bytes go in one round with all members. It sends more over the slow link, but starts up once.
constexpr size_t kLeastBlock = 4096;
/// Bytes of a slice or of a round per member: see MessageCommunicator.cpp.
constexpr size_t kSlice = 512 << 10;

// Tags of the rounds. All of them may be under way at once.
constexpr int kRunScatterTag = 4, kColumnScatterTag = 5, kColumnGatherTag = 6, kRunGatherTag = 7;

/// Where part `i` begins of `total` elements in `parts` parts, the first ones the longest.
size_t cut(size_t total, int parts, int i) {
  return std::min(total, (total + size_t(parts) - 1) / size_t(parts) * size_t(i));
}

} // namespace

bool MessageCommunicator::goByRuns(size_t bytes, Reducer reducer) const {
  return bytes >= kLeastBlock && goesByRuns(size_, run_, reducer);
}

/// Works segment by segment. Slice p of a segment goes to place p of the own run and is summed there. Part q of the
/// slice goes to member q of the column, is summed, and comes back to the column. Then the run gathers its slices.
/// While a segment crosses the slow link, the next one is summed in the run, and the one before is gathered.
Status MessageCommunicator::allReduceByRuns(const Byte *in, Byte *out, size_t count, plan::DType dtype,
                                            Reducer reducer) {
  const size_t elementSize = bytesPerElement(dtype);
  const int runs = size_ / run_, place = rank_ % run_, own = rank_ / run_;
  const size_t segment = kSlice / elementSize * size_t(run_);
  const size_t segments = (count + segment - 1) / segment;
  Byte *buffers = scratch((2 * size_t(run_) + 1 + size_t(runs)) * kSlice);
  Byte *summed = buffers + 2 * size_t(run_) * kSlice, *ofColumn = summed + kSlice;
  auto received = [&](size_t s, int p) { return buffers + (s % 2 * size_t(run_) + size_t(p)) * kSlice; };
  auto inRun = [&](int p) { return own * run_ + p; };
  auto inColumn = [&](int q) { return q * run_ + place; };
  // In elements: where slice p of segment s begins, and part q of this member's slice.
  auto slice = [&](size_t s, int p) { return s * segment + cut(std::min(segment, count - s * segment), run_, p); };
  auto part = [&](size_t s, int q) { return cut(slice(s, place + 1) - slice(s, place), runs, q); };
  auto sliceBytes = [&](size_t s, int p) { return (slice(s, p + 1) - slice(s, p)) * elementSize; };
  auto partBytes = [&](size_t s, int q) { return (part(s, q + 1) - part(s, q)) * elementSize; };
  auto partOfOut = [&](size_t s, int q) { return out + (slice(s, place) + part(s, q)) * elementSize; };

  const std::unique_ptr<MessageRound> scatter[2] = {group_->round(kRunScatterTag), group_->round(kRunScatterTag)};
  const std::unique_ptr<MessageRound> columnScatter = group_->round(kColumnScatterTag);
  const std::unique_ptr<MessageRound> columnGather = group_->round(kColumnGatherTag);
  const std::unique_ptr<MessageRound> gather = group_->round(kRunGatherTag);
  auto postScatter = [&](size_t s) {
    return withOthers(
        place, run_, [&](int p) { return scatter[s % 2]->receive(inRun(p), received(s, p), sliceBytes(s, place)); },
        [&](int p) { return scatter[s % 2]->send(inRun(p), in + slice(s, p) * elementSize, sliceBytes(s, p)); });
  };
  auto postGather = [&](size_t s) {
    TESSERA_RETURN_IF_ERROR(gather->wait()); // of the segment before
    return withOthers(
        place, run_,
        [&](int p) { return gather->receive(inRun(p), out + slice(s, p) * elementSize, sliceBytes(s, p)); },
        [&](int p) { return gather->send(inRun(p), out + slice(s, place) * elementSize, sliceBytes(s, place)); });
  };
  TESSERA_RETURN_IF_ERROR(postScatter(0));
  for (size_t s = 0; s < segments; ++s) {
    if (s + 1 < segments)
      TESSERA_RETURN_IF_ERROR(postScatter(s + 1));
    // If input and output are one buffer, gathers overwrite what this round sends, so the round must end first.
    TESSERA_RETURN_IF_ERROR(scatter[s % 2]->wait());
    for (int p = 0; p < run_; ++p)
      inputs_[size_t(p)] = p == place ? in + slice(s, p) * elementSize : received(s, p);
    void *to = summed;
    reduceTo(inputs_.data(), run_, &to, 1, sliceBytes(s, place) / elementSize, dtype, reducer);
    TESSERA_RETURN_IF_ERROR(withOthers(
        own, runs,
        [&](int q) { return columnScatter->receive(inColumn(q), ofColumn + size_t(q) * kSlice, partBytes(s, own)); },
        [&](int q) { return columnScatter->send(inColumn(q), summed + part(s, q) * elementSize, partBytes(s, q)); }));
    TESSERA_RETURN_IF_ERROR(columnGather->wait());
    if (s > 0)
      TESSERA_RETURN_IF_ERROR(postGather(s - 1));
    TESSERA_RETURN_IF_ERROR(columnScatter->wait());
    for (int q = 0; q < runs; ++q)
      inputs_[size_t(q)] = q == own ? summed + part(s, q) * elementSize : ofColumn + size_t(q) * kSlice;
    to = partOfOut(s, own);
    reduceTo(inputs_.data(), runs, &to, 1, partBytes(s, own) / elementSize, dtype, reducer);
    TESSERA_RETURN_IF_ERROR(withOthers(
        own, runs, [&](int q) { return columnGather->receive(inColumn(q), partOfOut(s, q), partBytes(s, q)); },
        [&](int q) { return columnGather->send(inColumn(q), to, partBytes(s, own)); }));
  }
  TESSERA_RETURN_IF_ERROR(columnGather->wait());
  TESSERA_RETURN_IF_ERROR(postGather(segments - 1));
  return gather->wait();
}

/// The column gathers its blocks first, and then the run what its columns have.
Status MessageCommunicator::allGatherByRuns(std::span<const Rows> tensors, plan::DType dtype) {
  const size_t elementSize = bytesPerElement(dtype);
  const int runs = size_ / run_, place = rank_ % run_, own = rank_ / run_;
  for (RowRounds rounds(tensors, elementSize, kSlice, /*cutsRows=*/true); !rounds.pieces().empty(); rounds.next()) {
    const size_t block = rounds.bytes(), column = block * size_t(runs);
    Byte *columns = scratch(column * size_t(run_)); // by place, then by run
    auto at = [&](int p, int q) { return columns + size_t(p) * column + size_t(q) * block; };
    for (const RowPiece &piece : rounds.pieces())
      copyBox(tensors[piece.tensor].in, blockOf(tensors[piece.tensor], piece, 0, 1), at(place, own) + piece.at,
              packedRows(piece), elementSize);
    std::unique_ptr<MessageRound> round = group_->round(kColumnGatherTag);
    TESSERA_RETURN_IF_ERROR(withOthers(
        own, runs, [&](int q) { return round->receive(q * run_ + place, at(place, q), block); },
        [&](int q) { return round->send(q * run_ + place, at(place, own), block); }));
    TESSERA_RETURN_IF_ERROR(round->wait());
    round = group_->round(kRunGatherTag);
    TESSERA_RETURN_IF_ERROR(withOthers(
        place, run_, [&](int p) { return round->receive(own * run_ + p, at(p, 0), column); },
        [&](int p) { return round->send(own * run_ + p, at(place, 0), column); }));
    TESSERA_RETURN_IF_ERROR(round->wait());
    for (int p = 0; p < run_; ++p)
      for (int q = 0; q < runs; ++q)
        for (const RowPiece &piece : rounds.pieces())
          copyBox(at(p, q) + piece.at, packedRows(piece), tensors[piece.tensor].out,
                  blockOf(tensors[piece.tensor], piece, size_t(q) * size_t(run_) + size_t(p), size_t(size_)),
                  elementSize);
  }
  return Status();
}

/// The run scatters first: place p gets and sums what is for its column. Then the column scatters the sums.
Status MessageCommunicator::reduceScatterByRuns(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) {
  const size_t elementSize = bytesPerElement(dtype);
  const int runs = size_ / run_, place = rank_ % run_, own = rank_ / run_;
  for (RowRounds rounds(tensors, elementSize, kSlice, /*cutsRows=*/true); !rounds.pieces().empty(); rounds.next()) {
    const size_t block = rounds.bytes(), column = block * size_t(runs);
    Byte *sent = scratch((2 * size_t(run_) + 1) * column + column); // by place, then by run
    Byte *received = sent + size_t(run_) * column, *summed = received + size_t(run_) * column;
    Byte *ofColumn = summed + column;
    for (int p = 0; p < run_; ++p)
      for (int q = 0; q < runs; ++q)
        for (const RowPiece &piece : rounds.pieces())
          copyBox(tensors[piece.tensor].in,
                  blockOf(tensors[piece.tensor], piece, size_t(q) * size_t(run_) + size_t(p), size_t(size_)),
                  sent + size_t(p) * column + size_t(q) * block + piece.at, packedRows(piece), elementSize);
    std::unique_ptr<MessageRound> round = group_->round(kRunScatterTag);
    TESSERA_RETURN_IF_ERROR(withOthers(
        place, run_, [&](int p) { return round->receive(own * run_ + p, received + size_t(p) * column, column); },
        [&](int p) { return round->send(own * run_ + p, sent + size_t(p) * column, column); }));
    TESSERA_RETURN_IF_ERROR(round->wait());
    for (int p = 0; p < run_; ++p)
      inputs_[size_t(p)] = (p == place ? sent : received) + size_t(p) * column;
    void *to = summed;
    reduceTo(inputs_.data(), run_, &to, 1, column / elementSize, dtype, reducer);
    round = group_->round(kColumnScatterTag);
    TESSERA_RETURN_IF_ERROR(withOthers(
        own, runs, [&](int q) { return round->receive(q * run_ + place, ofColumn + size_t(q) * block, block); },
        [&](int q) { return round->send(q * run_ + place, summed + size_t(q) * block, block); }));
    TESSERA_RETURN_IF_ERROR(round->wait());
    for (int q = 0; q < runs; ++q)
      inputs_[size_t(q)] = (q == own ? summed : ofColumn) + size_t(q) * block;
    for (const RowPiece &piece : rounds.pieces()) {
      to = static_cast<Byte *>(tensors[piece.tensor].out) +
           (piece.row * tensors[piece.tensor].inner + piece.column) * elementSize;
      reduceTo(inputs_.data(), runs, &to, 1, piece.rows * piece.width, dtype, reducer);
      for (int q = 0; q < runs; ++q)
        inputs_[size_t(q)] = static_cast<const Byte *>(inputs_[size_t(q)]) + piece.bytes(elementSize);
    }
  }
  return Status();
}

} // namespace tessera::rt
