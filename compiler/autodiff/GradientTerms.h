//===- GradientTerms.h - what the column GRADIENT of Elementwise.def is written in ----------------===//
//
// A Term is an expression of values that are not there yet: a row's gradient, said once, is built for every operator
// of its kind.
//
//   Term g = resultAdjoint(), y = result();
//   Term tanh = g * (1 - y * y);           // 3 operators where it is built
//   c.give(0, tanh.build(op, c));
//
// Terms are built from the left to the right, the numbers beside a term after it. A number has the element type of g
// and rank 0. Operands may have different shapes: the operators broadcast, and GradientContext::give() sums.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_GRADIENTTERMS_H
#define TESSERA_COMPILER_AUTODIFF_GRADIENTTERMS_H

#include "compiler/autodiff/GradientRules.h"

#include <optional>
#include <vector>

namespace tessera::compiler::terms {

/// What a column of Elementwise.def may say in place of an expression.
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
  /// Builds it for `op`. Not for what stands in place of an expression.
  mlir::Value build(mlir::Operation *op, GradientContext &c) const;

private:
  Builder builder_;
  std::vector<Term> parts_;
  std::optional<double> number_;
  std::optional<Instead> instead_;
};

/// The adjoint of the result, the result, an operand.
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
