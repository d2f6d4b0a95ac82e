#include "runtime/comm/RowPieces.h"

#include <algorithm>

namespace tessera::rt {

Box blockOf(const Rows &tensor, const RowPiece &piece, size_t block, size_t blocks) {
  const auto inner = int64_t(tensor.inner), n = int64_t(blocks);
  return {(int64_t(piece.row) * n + int64_t(block)) * inner + int64_t(piece.column),
          {int64_t(piece.rows), int64_t(piece.width)},
          {n * inner, 1}};
}

Box packedRows(const RowPiece &piece) {
  return {0, {int64_t(piece.rows), int64_t(piece.width)}, {int64_t(piece.width), 1}};
}

void RowRounds::next() {
  pieces_.clear();
  bytes_ = 0;
  while (tensor_ < tensors_.size()) {
    const Rows &tensor = tensors_[tensor_];
    if (row_ == tensor.outer || tensor.inner == 0) {
      ++tensor_;
      row_ = column_ = 0;
      continue;
    }
    const size_t rowBytes = tensor.inner * elementSize_;
    RowPiece piece{tensor_, row_, 1, column_, tensor.inner - column_, bytes_};
    if (rowBytes > most_) { // what is left of a long row may be short enough to share a round
      if (cutsRows_)
        piece.width = std::min(piece.width, most_ / elementSize_);
      if (bytes_ > 0 && bytes_ + piece.bytes(elementSize_) > most_)
        return;
      column_ += piece.width;
      if (column_ == tensor.inner) {
        column_ = 0;
        ++row_;
      }
    } else {
      piece.rows = std::min(tensor.outer - row_, (most_ - bytes_) / rowBytes);
      if (piece.rows == 0)
        return;
      row_ += piece.rows;
    }
    bytes_ += piece.bytes(elementSize_);
    pieces_.push_back(piece);
    if (bytes_ >= most_)
      return;
  }
}

} // namespace tessera::rt
