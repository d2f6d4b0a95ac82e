//===- RowPieces.h - the tensors of a gather or scatter, cut into rounds ------------------------===//
//
// A list of tensors, whose blocks are rows (Communicator.h), goes from member to member in rounds of at most so many
// bytes per block. A round is a list of pieces: whole rows of a tensor, or a part of a row that is longer than a round.
// So short tensors share rounds, and long rows are sent from their place.
//
//   // [2, n, 3] and [1, n, 5] floats in rounds of 32 bytes
//   for (RowRounds rounds(tensors, 4, 32); !rounds.pieces().empty(); rounds.next())
//     rounds.pieces()                     // {tensor 0, rows 0..1, columns 0..2}; then {tensor 1, row 0, columns 0..4}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_ROWPIECES_H
#define TESSERA_RUNTIME_COMM_ROWPIECES_H

#include "runtime/comm/Communicator.h"

namespace tessera::rt {

struct RowPiece {
  size_t tensor = 0;
  size_t row = 0, rows = 1;     // outer indices
  size_t column = 0, width = 0; // elements of a row; all of them if there are several rows
  size_t at = 0;                // the bytes of the round that come before it

  size_t bytes(size_t elementSize) const { return rows * width * elementSize; }
};

/// One of `blocks` blocks of a tensor's rows, seen as [outer, blocks, inner].
Box blockOf(const Rows &tensor, const RowPiece &piece, size_t block, size_t blocks);
/// A piece whose rows lie one behind the other, from offset 0.
Box packedRows(const RowPiece &piece);

class RowRounds {
public:
  /// `cutsRows`: a row that is longer than `most` bytes is cut; else it is a round of its own.
  RowRounds(std::span<const Rows> tensors, size_t elementSize, size_t most, bool cutsRows)
      : tensors_(tensors), elementSize_(elementSize), most_(most), cutsRows_(cutsRows) {
    next();
  }
  /// Of this round; empty: there are no more rounds.
  std::span<const RowPiece> pieces() const { return pieces_; }
  /// Of all pieces of this round.
  size_t bytes() const { return bytes_; }
  /// Whether the round is one piece that is one range of bytes in every block.
  bool inPlace() const { return pieces_.size() == 1 && pieces_.front().rows == 1; }
  void next();

private:
  std::span<const Rows> tensors_;
  const size_t elementSize_, most_;
  const bool cutsRows_;
  std::vector<RowPiece> pieces_;
  size_t bytes_ = 0;
  size_t tensor_ = 0, row_ = 0, column_ = 0; // what comes next
};

} // namespace tessera::rt

#endif
