//===- Program.h - a function as the strategies see it -------------------------------------------===//
//
// Program lists the operators of one function in order. Each has the facts on which every choice rests: its sharding
// rule, and the shapes and element sizes of its tensors. Operators that are equal in all of this (the layers of a deep
// network) share one OperatorClass, and what depends on the class is computed once.
//
//   Expected<Program> program = Program::analyse(func);
//   program->operators[3].cls->rule            // the rule, bound to shapes
//   program->operators[3].name                 // as in the model file
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_PROGRAM_H
#define TESSERA_STRATEGIES_SPACE_PROGRAM_H

#include "dialects/dist/ShardingRule.h"
#include "dialects/dist/wire/Wire.h"
#include "dialects/graph/flow/Fusion.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <memory>
#include <string>
#include <vector>

namespace tessera::strategies {

using dist::AxisList;
using dist::Cut;
using dist::Mesh;
using dist::Shape;
using dist::Sharding;
using dist::ShardingRule;
using dist::Strategy;

/// Operators are equal that have the same name, properties and types, and whose sums are sent alike: MLIR's unique
/// pointers of these. Looked up only, and as long as the context lives.
using OperatorKey = std::vector<const void *>;
OperatorKey keyOf(mlir::Operation *op);

/// What equal operators have in common.
struct OperatorClass {
  int id = 0; // position in Program::classes
  ShardingRule rule;
  llvm::SmallVector<Shape> operandShapes, resultShapes;
  llvm::SmallVector<int64_t> operandBytes, resultBytes; // of one element
  llvm::SmallVector<dist::Wire> resultWires;            // in what sums are sent (graph::sentAs)
  /// By factor, the units above 1 in which it is worth cutting (Units.h); empty: none is known.
  std::vector<llvm::SmallVector<int64_t, 2>> units;
  int elementBits = 32;                         // the arithmetic's width: of the widest operand that is not only added
  mlir::Operation *sample = nullptr;            // one of the operators; the cost model asks it for its flops
  graph::LoopPart part = graph::LoopPart::None; // what the operator becomes in a loop
  bool addsUp = false;                          // over micro-batches: it also reads its results' memory

  /// The class of an operator with a rule, on ranked static tensors. Fails where the rule does not fit the operator.
  static llvm::Expected<std::unique_ptr<OperatorClass>> of(mlir::Operation *op);

  bool operator<(const OperatorClass &) const = delete;
};

struct OperatorInfo {
  mlir::Operation *op = nullptr;
  std::string name; // as in the model file
  const OperatorClass *cls = nullptr;
  /// The loop that fusion would put it into if nothing were cut (graph::formLoops), as the index of the loop's first
  /// operator. -1: the operator is Free (graph::LoopPart), so its readers' loops compute it.
  int loop = -1;
  graph::Section section = graph::Section::Begin;
  int64_t times = 1;        // how often it runs in a step: once for each micro-batch in the body
  bool mayKeepCopy = false; // graph::mayKeepCopy
};

/// One place where an operator reads a value.
struct ValueUse {
  int op;      // index in operators
  int operand; // operand number
};

struct Program {
  mlir::func::FuncOp func;
  std::vector<OperatorInfo> operators;                       // in program order
  std::vector<std::shared_ptr<const OperatorClass>> classes; // shared by copies
  llvm::DenseMap<mlir::Operation *, int> index;              // into operators
  int64_t parts = 1;                                         // micro-batches
  llvm::DenseSet<mlir::Value> perMicroBatch; // made anew for each, or carried from one to the next; looked up only

  /// Fails with one sentence on a function of several blocks, an operator without a rule, and a tensor that is not
  /// ranked or not static.
  static llvm::Expected<Program> analyse(mlir::func::FuncOp func);

  mlir::Operation *returnOp() const;
  /// How often in a step the value is resharded, where it is.
  int64_t times(mlir::Value value) const { return perMicroBatch.contains(value) ? parts : 1; }
  /// Index of the operator that produces the value; -1: an argument.
  int producer(mlir::Value value) const;
  /// Where operators read the value, in program order. The return does not count.
  llvm::SmallVector<ValueUse> uses(mlir::Value value) const;
  /// Whether fusion keeps the value out of memory. It does so if every reader is in the loop of the value's operator,
  /// or if that operator is Free and every reader is in some loop. `alike` says whether a reader takes the blocks that
  /// are made.
  bool staysInLoop(mlir::Value value, llvm::function_ref<bool(mlir::OpOperand &)> alike) const;
};

/// Which values, and which operators' work, grow with the batch. The batch is dimension 0 of inputs and targets; the
/// rules say in which dimensions of later tensors it is, until an operator sums over it.
struct BatchDependence {
  explicit BatchDependence(const Program &program);
  std::vector<bool> operators;
  llvm::DenseSet<mlir::Value> values;
};

/// Shape and bytes per element of a ranked static tensor.
Shape shapeOf(mlir::Value value);
int64_t elementBytes(mlir::Type type);
int64_t numElements(llvm::ArrayRef<int64_t> shape);

} // namespace tessera::strategies

#endif
