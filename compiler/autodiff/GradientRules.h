//===- GradientRules.h - the table of gradient rules ---------------------------------------------===//
//
// A rule says what one operator hands back to its operands. It sees the operator and the adjoints
// of its results through GradientContext and contributes adjoints of the operands that are asked
// for:
//
//   rule<ReshapeOp>([](ReshapeOp op, GradientContext &c) {
//     c.give(0, c.b.reshape(c.dy(), shapeOf(op.getX())));
//   });
//
// Contributions may have the broadcast shape: give() sums over the stretched dimensions. The rules of
// elementwise operators are the column GRADIENT of runtime/support/Elementwise.def. One that is linear in
// an operand (the "linear" clause of its sharding rule) says only that: the adjoint is the operator itself
// with the result's adjoint in the operand's place and zeros for the operands that are partial together
// with it (derived()).
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
  /// Whether the adjoint of this operand is asked for. Rules must not build anything otherwise.
  bool needs(unsigned operand) const { return needed_[operand]; }
  /// Contributes to the operand's adjoint (ignored if nobody needs it).
  void give(unsigned operand, mlir::Value adjoint);
  /// Names what is built next "<operator>.<suffix>"; ".grad" is the default.
  void name(llvm::StringRef suffix);
  /// The operand's adjoint by linearity; see above. False: the operator is not linear in it.
  bool derived(unsigned operand);
  /// This operator cannot be differentiated here; `why` completes a sentence.
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
  /// An operator whose derivative is zero wherever it has one (random, ...; of the elementwise ones those that
  /// Elementwise.def says to go in steps).
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
