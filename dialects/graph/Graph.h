//===- Graph.h - the graph dialect -----------------------------------------------------------===//
//
// Operators are defined in GraphOps.td. This header adds what every user of the dialect needs: the
// names of the discardable attributes and functions to read a program's arguments and results.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPH_H
#define TESSERA_DIALECTS_GRAPH_GRAPH_H

#include "dialects/dist/DistInterfaces.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::graph {

/// Trait of elementwise operators: each point of the result follows from one point of each (broadcast) operand.
template <typename ConcreteOp>
class GraphElementwise : public mlir::OpTrait::TraitBase<ConcreteOp, GraphElementwise> {};

/// Infers the type of a broadcast: the common element type of the first two operands, and the shape by NumPy's rule.
/// Fails with one sentence if shapes or element types do not match.
llvm::LogicalResult inferBroadcast(std::optional<mlir::Location> loc, mlir::ValueRange operands,
                                   llvm::SmallVectorImpl<mlir::Type> &results);
/// inferBroadcast with the element type i1.
llvm::LogicalResult inferComparison(std::optional<mlir::Location> loc, mlir::ValueRange operands,
                                    llvm::SmallVectorImpl<mlir::Type> &results);

// Operators whose result type is such a broadcast.
template <typename ConcreteOp> class GraphBroadcasts : public mlir::OpTrait::TraitBase<ConcreteOp, GraphBroadcasts> {
public:
  static llvm::LogicalResult inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location> loc,
                                              mlir::ValueRange operands, mlir::DictionaryAttr, mlir::OpaqueProperties,
                                              mlir::RegionRange, llvm::SmallVectorImpl<mlir::Type> &results) {
    return inferBroadcast(loc, operands, results);
  }
};
template <typename ConcreteOp> class GraphCompares : public mlir::OpTrait::TraitBase<ConcreteOp, GraphCompares> {
public:
  static llvm::LogicalResult inferReturnTypes(mlir::MLIRContext *, std::optional<mlir::Location> loc,
                                              mlir::ValueRange operands, mlir::DictionaryAttr, mlir::OpaqueProperties,
                                              mlir::RegionRange, llvm::SmallVectorImpl<mlir::Type> &results) {
    return inferComparison(loc, operands, results);
  }
};

// What mixed precision makes of an operator (GraphOps.td; asked for by precisionOf in GraphKinds.h).
template <typename ConcreteOp> class GraphProducts : public mlir::OpTrait::TraitBase<ConcreteOp, GraphProducts> {};
template <typename ConcreteOp> class GraphFollows : public mlir::OpTrait::TraitBase<ConcreteOp, GraphFollows> {};
template <typename ConcreteOp> class GraphNormalizes : public mlir::OpTrait::TraitBase<ConcreteOp, GraphNormalizes> {};

// The operator adds the leaves of its summed factor itself (GraphOps.td).
template <typename ConcreteOp> class GraphAddsLeaves : public mlir::OpTrait::TraitBase<ConcreteOp, GraphAddsLeaves> {};
inline constexpr llvm::StringLiteral kLeavesAttr = "leaves"; // of such an operator

} // namespace tessera::graph

#include "dialects/graph/GraphDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/graph/GraphOps.h.inc"

namespace tessera::graph {

// Discardable attributes. On operators:
inline constexpr llvm::StringLiteral kNameAttr = "graph.name";      // the node's name in the model file
inline constexpr llvm::StringLiteral kGradOfAttr = "graph.grad_of"; // name of the operator it is a gradient of
inline constexpr llvm::StringLiteral kAgainAttr = "graph.again";    // recomputation has made it
// On function arguments and results:
inline constexpr llvm::StringLiteral kRoleAttr = "graph.role";
inline constexpr llvm::StringLiteral kUpdateAttr =
    "graph.update";                                            // argument: index of the result that is its new value
inline constexpr llvm::StringLiteral kFillAttr = "graph.fill"; // state: initial value of every element
// (arguments and results also carry graph.name)

// Roles.
inline constexpr llvm::StringLiteral kInput = "input", kTarget = "target", kStep = "step", kParameter = "parameter",
                                     kState = "state", kOutput = "output", kLoss = "loss", kCorrect = "correct",
                                     kPredictions = "predictions", kUpdate = "update";

/// The operator's name in messages: graph.name, else graph.grad_of + ".grad", else the mnemonic.
std::string nameOf(mlir::Operation *op);

llvm::StringRef argRole(mlir::func::FuncOp func, unsigned arg);
llvm::StringRef argName(mlir::func::FuncOp func, unsigned arg);
llvm::StringRef resultRole(mlir::func::FuncOp func, unsigned result);
llvm::StringRef resultName(mlir::func::FuncOp func, unsigned result);
/// Index of the result that holds the argument's new value; nullopt: it has none.
std::optional<unsigned> updateOf(mlir::func::FuncOp func, unsigned arg);

bool isElementwise(mlir::Operation *op);

/// The broadcast of two shapes by NumPy's rule; nullopt: they do not broadcast.
std::optional<dist::Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

} // namespace tessera::graph

#endif
