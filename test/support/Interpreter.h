//===- Interpreter.h - graph programs evaluated by definition ------------------------------------===//
//
// The oracle of tests: every operator of GraphOps.td written as its definition reads, in double
// precision whatever the element type says (integers and booleans are doubles too), sharing no code
// with kernels, rules or passes. Slow on purpose where that keeps it readable.
//
//   Tensor x = Tensor::of({2, 2}, {1, -2, 3, -4});
//   auto results = cantFail(interpret(func, {x}));       // results[0].data
//
// Partitioned programs run for all ranks in lockstep (interpretRanks): operator by operator, each
// rank with its own values and attributes; dist.collective exchanges values between them. In a global
// program dist.reshard does nothing. A program with micro-batches runs as dialects/graph/flow/Sections.h says.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_SUPPORT_INTERPRETER_H
#define TESSERA_TEST_SUPPORT_INTERPRETER_H

#include "dialects/graph/Graph.h"

#include <functional>
#include <vector>

namespace tessera::test {

struct Tensor {
  dist::Shape shape;
  std::vector<double> data; // row-major

  static Tensor of(llvm::ArrayRef<int64_t> shape, std::vector<double> data);
  static Tensor zeros(llvm::ArrayRef<int64_t> shape, double fill = 0);
  static Tensor scalar(double value) { return of({}, {value}); }
  int64_t rank() const { return int64_t(shape.size()); }
  int64_t size() const { return int64_t(data.size()); }
};

llvm::Expected<std::vector<Tensor>> interpret(mlir::func::FuncOp func, llvm::ArrayRef<Tensor> arguments);

/// Attributes of an operator that differ between ranks (ShardingRuleOpInterface::rankAttributes):
/// sets them in the list, which holds the operator's own.
using RankAttributes = std::function<void(mlir::Operation *op, int64_t rank, mlir::NamedAttrList &attributes)>;

/// Runs the function for all ranks: arguments[rank][i] to results[rank][i]. The module's mesh has as many ranks.
llvm::Expected<std::vector<std::vector<Tensor>>> interpretRanks(mlir::func::FuncOp func,
                                                                llvm::ArrayRef<std::vector<Tensor>> arguments,
                                                                const RankAttributes &attributes = nullptr);

/// Evaluates one operator of the graph dialect on given operands, with these attributes in place of its own.
/// graph.micro_rows takes the number of the micro-batch from the attribute `index` (0), and graph.accumulate hands on
/// what it would add.
llvm::Expected<std::vector<Tensor>> interpretOp(mlir::Operation *op, mlir::DictionaryAttr attributes,
                                                llvm::ArrayRef<const Tensor *> operands);

} // namespace tessera::test

#endif
