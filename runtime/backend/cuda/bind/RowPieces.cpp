#include "runtime/backend/cuda/bind/RowPieces.h"

#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// One piece of softmax and its kin, over [lines, extent]. Values are numbered as in an expression: inputs first.
class Piece {
public:
  Piece(std::vector<RowPiece> &pieces, const AxisGeometry &g)
      : pieces_(pieces), full_{g.outer, g.extent}, row_{g.outer, 1} {
    pieces_.emplace_back();
    pieces_.back().code.domain = full_;
  }
  /// Before any operator of the piece: what it reads has the first numbers.
  uint32_t operand(const KernelCall &call, size_t i) {
    piece().inputs.push_back({std::nullopt, i});
    piece().code.inputs.push_back({call.inputs[i].dtype, full_, call.inputs[i].layout.pitch});
    return value();
  }
  uint32_t made(size_t by, size_t result) {
    const ExpressionResult &r = pieces_[by].code.results[result];
    piece().inputs.push_back({RowMember::Source{by, result}, 0});
    piece().code.inputs.push_back({r.type, r.view});
    return value();
  }
  uint32_t op(Op what, plan::DType type, std::initializer_list<uint32_t> operands) {
    Instr instr;
    instr.op = what;
    instr.type = type;
    for (uint32_t o : operands)
      instr.operands[instr.arity++] = o;
    piece().code.code.push_back(instr);
    return value();
  }
  void reduced(uint32_t v, plan::Reduction reduction, plan::DType type) {
    piece().code.results.push_back({v, reduction, type, row_});
    piece().outputs.push_back(std::nullopt);
  }
  void result(uint32_t v, plan::DType type) {
    piece().code.results.push_back({v, plan::NONE, type, full_});
    piece().outputs.push_back(std::nullopt);
  }
  /// The call's only output.
  void result(uint32_t v, const KernelCall &call) {
    piece().code.results.push_back({v, plan::NONE, call.outputs[0].dtype, full_, call.outputs[0].layout.pitch});
    piece().outputs.push_back(0);
  }

private:
  RowPiece &piece() { return pieces_.back(); }
  uint32_t value() { return piece().code.valueCount() - 1; }

  std::vector<RowPiece> &pieces_;
  const Shape full_, row_;
};

/// The pieces of a softmax, in the types of SoftmaxLines.cpp: sums, and what follows from them once for each row, in
/// F64, and what is computed for each element in the type of the call.
std::vector<RowPiece> softmaxPieces(const KernelCall &call) {
  const AxisGeometry g = *axisGeometry(call);
  if (g.inner != 1)
    return {};
  const plan::DType stored = call.outputs[0].dtype, type = stored == plan::F64 ? plan::F64 : plan::F32;
  std::vector<RowPiece> pieces;
  if (call.name() == "softmax") {
    {
      Piece top(pieces, g);
      top.reduced(top.operand(call, 0), plan::MAX, type);
    }
    {
      Piece sum(pieces, g);
      const uint32_t x = sum.operand(call, 0), top = sum.made(0, 0),
                     e = sum.op(Op::Exp, type, {sum.op(Op::Sub, type, {x, top})});
      sum.reduced(sum.op(Op::Cast, plan::F64, {e}), plan::SUM, plan::F64);
      sum.result(e, type);
    }
    Piece last(pieces, g);
    const uint32_t e = last.made(1, 1), sum = last.made(1, 0), inverse = last.op(Op::Reciprocal, plan::F64, {sum});
    last.result(last.op(Op::Mul, type, {e, last.op(Op::Cast, type, {inverse})}), call);
    return pieces;
  }
  {
    Piece sum(pieces, g);
    const uint32_t dy = sum.operand(call, 0), y = sum.operand(call, 1), wide = sum.op(Op::Cast, plan::F64, {dy});
    sum.reduced(sum.op(Op::Mul, plan::F64, {wide, sum.op(Op::Cast, plan::F64, {y})}), plan::SUM, plan::F64);
  }
  Piece last(pieces, g);
  const uint32_t dy = last.operand(call, 0), y = last.operand(call, 1),
                 sum = last.op(Op::Cast, type, {last.made(0, 0)});
  last.result(last.op(Op::Mul, type, {y, last.op(Op::Sub, type, {dy, sum})}), call);
  return pieces;
}

} // namespace

RowPiece rowPiece(ExpressionCode code) {
  RowPiece piece;
  for (size_t i = 0; i < code.inputs.size(); ++i)
    piece.inputs.push_back({std::nullopt, i});
  for (size_t r = 0; r < code.results.size(); ++r)
    piece.outputs.push_back(r);
  piece.code = std::move(code);
  return piece;
}

std::vector<RowPiece> rowPieces(const KernelCall &call) {
  bool blocks = false;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      blocks = blocks || !view.layout.inner.empty();
  const std::string &name = call.name();
  if (name == "softmax" || name == "softmax_grad")
    return blocks ? std::vector<RowPiece>() : softmaxPieces(call);
  if (!isExpressionKernel(name))
    return {};
  Result<ExpressionCode> code = lowerExpression(call);
  std::optional<ExpressionCode> lying = code ? std::optional(std::move(*code)) : std::nullopt;
  if (lying)
    lying = blocks ? withChannelsLast(*lying, call) : withPitches(*lying, call);
  if (!lying)
    return {};
  std::vector<RowPiece> pieces;
  pieces.push_back(rowPiece(std::move(*lying)));
  return pieces;
}

std::vector<Rows> rowsOf(const std::vector<RowPiece> &pieces) {
  std::vector<Rows> all;
  for (const RowPiece &piece : pieces)
    for (const Rows &n : rowsOf(piece.code))
      if (std::none_of(all.begin(), all.end(),
                       [&](const Rows &o) { return o.rows == n.rows && o.columns == n.columns; }))
        all.push_back(n);
  return all;
}

void addMembers(std::vector<RowMember> &members, const std::vector<RowPiece> &pieces, const KernelCall &call) {
  const size_t first = members.size();
  for (const RowPiece &piece : pieces) {
    RowMember member;
    member.code = &piece.code;
    for (const RowPiece::Input &input : piece.inputs) {
      member.inputs.push_back(input.made ? TensorView() : call.inputs[input.operand]);
      member.from.push_back(input.made);
      if (input.made)
        member.from.back()->member += first;
    }
    for (const std::optional<size_t> &output : piece.outputs) {
      member.outputs.push_back(output ? call.outputs[*output] : TensorView());
      member.stored.push_back(output.has_value());
    }
    members.push_back(std::move(member));
  }
}

std::optional<CudaKernel> bindPieces(const std::vector<RowPiece> &pieces, const KernelCall &call) {
  std::vector<RowMember> members;
  addMembers(members, pieces, call);
  for (const Rows &size : rowsOf(pieces))
    if (std::optional<RowChain> chain = mergeRows(members, size); chain && chain->separate)
      return bindRows(*chain);
  return std::nullopt;
}

} // namespace tessera::rt::cuda
