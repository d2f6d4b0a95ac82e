//===- GradientRules.h - the table of gradient rules ---------------------------------------------===//
//
// A rule computes the adjoints of an operator's operands from those of its results. It gets the operator and a
// GradientContext, and contributes an adjoint for each operand that needs one:
//
//   rule<ReshapeOp>([](ReshapeOp op, GradientContext &c) {
//     c.give(0, c.b.reshape(c.dy(), shapeOf(op.getX())));
//   });
//
// A contribution may have the broadcast shape; give() sums over the repeated dimensions. The rules of elementwise
// operators are the column GRADIENT of runtime/support/Elementwise.def. An operator that is linear in an operand (the
// "linear" clause of its sharding rule) needs no formula. Its adjoint is the operator itself, with the result's adjoint
// in the operand's place and zeros for the operands of the same linear group (derived()).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_GRADIENTRULES_H
#define TESSERA_COMPILER_AUTODIFF_GRADIENTRULES_H

#include "dialects/graph/OpWriter.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>

namespace tessera::compiler {

class GradientContext {
public:
  using Give = llvm::function_ref<void(unsigned operand, mlir::Value adjoint)>;
  GradientContext(graph::OpWriter &b, mlir::Operation *op, llvm::ArrayRef<mlir::Value> adjoints,
                  llvm::ArrayRef<bool> needed, Give give)
      : b(b), op_(op), adjoints_(adjoints), needed_(needed), give_(give) {}

  graph::OpWriter &b;

  /// Adjoint of a result; null if nothing depends on it.
  mlir::Value dy(unsigned result = 0) const { return adjoints_[result]; }
  /// Whether the adjoint of this operand is needed. If not, a rule must build nothing for it.
  bool needs(unsigned operand) const { return needed_[operand]; }
  /// Adds to the operand's adjoint. Does nothing if the adjoint is not needed.
  void give(unsigned operand, mlir::Value adjoint);
  /// Sets the name of the operators that are built next to "<operator>.<suffix>". The default suffix is "grad".
  void name(llvm::StringRef suffix);
  /// Contributes the operand's adjoint by linearity (see above). Returns false if the operator is not linear in it.
  bool derived(unsigned operand);
  /// Reports that this operator cannot be differentiated here. The message is "cannot differentiate OPERATOR: WHY".
  void fail(const llvm::Twine &why) { error_ = why.str(); }
  llvm::StringRef error() const { return error_; }

private:
  mlir::Operation *op_;
  llvm::ArrayRef<mlir::Value> adjoints_;
  llvm::ArrayRef<bool> needed_;
  Give give_;
  std::string error_;
};

using GradientRule = std::function<void(mlir::Operation *, GradientContext &)>;

class GradientRules {
public:
  /// The table, built once.
  static const GradientRules &get();

  /// The operator's rule; null: none.
  const GradientRule *find(mlir::Operation *op) const;
  bool has(mlir::OperationName name) const { return rules_.contains(name.getTypeID()); }
  /// Whether the operator's derivative is zero wherever it exists. This holds for random numbers, ..., and for the
  /// elementwise operators that Elementwise.def marks as step functions.
  bool isConstant(mlir::OperationName name) const { return constants_.contains(name.getTypeID()); }

  template <typename OpT, typename Fn> void rule(Fn fn) {
    rules_[mlir::TypeID::get<OpT>()] = [fn](mlir::Operation *op, GradientContext &c) { fn(llvm::cast<OpT>(op), c); };
  }
  template <typename... OpTs> void constant() { (constants_.insert(mlir::TypeID::get<OpTs>()), ...); }

private:
  GradientRules();
  llvm::DenseMap<mlir::TypeID, GradientRule> rules_; // looked up only, never walked
  llvm::DenseSet<mlir::TypeID> constants_;
};

// The rows, by kind of operator.
void addCollectiveRules(GradientRules &rules);  // GradientRulesCollectives.cpp
void addElementwiseRules(GradientRules &rules); // GradientRulesElementwise.cpp
void addStructuralRules(GradientRules &rules);  // GradientRulesStructural.cpp
void addNetworkRules(GradientRules &rules);     // GradientRulesNetwork.cpp

} // namespace tessera::compiler

#endif
