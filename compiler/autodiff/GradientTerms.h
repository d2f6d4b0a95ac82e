//===- GradientTerms.h - expressions for the column GRADIENT of Elementwise.def --------------------===//
//
// A Term is an expression over placeholders: the result's adjoint, the result, and the operands. A row of
// Elementwise.def states a gradient once as a Term, and the Term is built for every operator of the kind:
//
//   Term g = resultAdjoint(), y = result();
//   Term tanh = g * (1 - y * y);           // 3 operators where it is built
//   c.give(0, tanh.build(op, c));
//
// A term's operands are built from left to right, but a number after the other operand. A number is a scalar of the
// element type of g. Operands may have different shapes: the operators broadcast, and GradientContext::give() sums.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_GRADIENTTERMS_H
#define TESSERA_COMPILER_AUTODIFF_GRADIENTTERMS_H

#include "compiler/autodiff/GradientRules.h"

#include <optional>
#include <vector>

namespace tessera::compiler::terms {

/// What the column GRADIENT may have in place of an expression.
enum class Instead { Linear, None, ByCode };

class Term {
public:
  using Builder = std::function<mlir::Value(mlir::Operation *, GradientContext &, llvm::ArrayRef<mlir::Value> parts)>;

  Term(double number) : number_(number) {} // implicit: 1 - y * y
  Term(Instead instead) : instead_(instead) {}
  explicit Term(Builder builder, std::vector<Term> parts = {})
      : builder_(std::move(builder)), parts_(std::move(parts)) {}

  bool is(Instead instead) const { return instead_ == instead; }
  std::optional<double> number() const { return number_; }
  /// Builds the expression for `op`. The term must be an expression, not an Instead.
  mlir::Value build(mlir::Operation *op, GradientContext &c) const;

private:
  Builder builder_;
  std::vector<Term> parts_;
  std::optional<double> number_;
  std::optional<Instead> instead_;
};

/// Placeholders for the adjoint of the result, for the result, and for an operand.
Term resultAdjoint();
Term result();
Term operand(unsigned number);

Term operator-(const Term &x);
Term operator+(const Term &x, const Term &y);
Term operator-(const Term &x, const Term &y);
Term operator*(const Term &x, const Term &y);
Term operator/(const Term &x, const Term &y);
Term operator<(const Term &x, const Term &y);

template <typename OpT, size_t... I> Term call(std::vector<Term> parts, std::index_sequence<I...>) {
  return Term([](mlir::Operation *, GradientContext &c,
                 llvm::ArrayRef<mlir::Value> v) -> mlir::Value { return c.b.make<OpT>(v[I]...); },
              std::move(parts));
}
/// Every operator of the table by its NAME: Cos(x), Select(0 < x, y, 0).
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, ...)                                                           \
  template <typename... Terms> Term NAME(const Terms &...parts) {                                                      \
    static_assert(sizeof...(Terms) == OPERANDS, TEXT " has another number of operands");                               \
    return call<graph::NAME##Op>({Term(parts)...}, std::index_sequence_for<Terms...>());                               \
  }
#include "runtime/support/Elementwise.def"

} // namespace tessera::compiler::terms

#endif
