//===- ShardingRule.h - how an operator may be sharded ---------------------------------------===//
//
// An operator is described by its iteration factors, as einsum describes a contraction. Every dimension of every
// operand and result is a list of factors, major to minor; a factor that several tensors share must be cut alike in
// all of them. Enumeration, propagation, cost, partition and tests derive from this object and never ask which
// operator it is. The idea is that of OpShardingRule in Shardy (OpenXLA).
//
// Text form (on the operator's ODS line):
//
//   rule    ::= tensors "->" tensors ("|" clause)*
//   tensors ::= tensor ("," tensor)*             (empty before "->": no operands)
//   tensor  ::= dim*  |  "()"                    ("()": rank 0)
//   dim     ::= factor | "(" factor factor+ ")" | "..." | run
//   factor  ::= name ["=" attribute]             the attribute holds its size, where no shape tells it
//   run     ::= letters ".." ["/" attribute | "-" attribute | "[" attribute "]"]
//   clause  ::= ("sum" | "max" | "min") word+    a reduction: cutting it leaves the results that do not have the factor
//                                                partial (and cuts those that do)
//             | "stat(" reduction, ... ")" word+ a reduction whose result is used inside the operator: where it is cut,
//                                                every one named is one reduction over the ranks
//             | "whole" word+                    never cut
//             | "window" [options] (word:kernel)+
//                                                the factor slides over the first operand that has it: needs a halo
//             | "linear" group+                  group ::= i ("+" i)*: if exactly the operands of one group are partial
//                                                sums (each of them), the results are
//   word    ::= name | "..." | letters ".." ["[" attribute "]"]
//
// "..." stands for any number of dimensions, aligned at the last one as NumPy broadcasts: an extent of 1 where another
// tensor has more takes part in no factor.
//
// A run stands for any number of dimensions as well, but without broadcasting, and its dimensions can be named one by
// one. "d.." are the factors d0 d1 d2 ...; "hwz.." are h, h w or h w z. An attribute selects dimensions by their
// number:
//
//   d../dims   those in `dims` are cut by nothing (in a result: they have the extent 1)
//   d..-dims   without those in `dims`
//   d..[perm]  in the order of `perm`; in a clause: those in `dims`
//
// In a clause, "..." and "d.." mean all of their factors.
//
// The kernel of a window is a factor (h:r, hwz..:rst..) or an attribute (hwz..:kernel). Stride, dilation and padding
// come from the attributes `strides`, `dilations` and `pads`, as far as the operator has them; their numbers are those
// of the operand's last dimensions. Options are "transposed" and what stands beyond the border, a number:
// "window(transposed)", "window(-inf)".
//
// Alternatives by attribute may stand anywhere and are chosen before anything else is read:
//
//   "{" test ("or" test)* "?" text [" : " text] "}"     test ::= attribute | attribute "=" number
//
// "transpose_a" holds if the attribute is not 0, "pads=0" if each of its numbers is 0. "floats" is no attribute. It
// holds if operand and result are floating point and the result has no fewer digits, so that summing before the
// operator gives what summing after it gives.
//
// Example: "... {transpose_a ? k m : m k}, ... k n -> ... m n | sum k | linear 0 1", without the flag on [8, 4, 6],
// [6, 10] -> [8, 4, 10], gives the factors b0 = 8 (the second operand lacks it), m = 4, k = 6 (a sum), n = 10.
//
// Example: "d.. -> {keepdims ? d../dims : d..-dims} | sum d..[dims]" with dims = 1, on [4, 8, 2] -> [4, 2], is
// "d0 d1 d2 -> d0 d2 | sum d1".
//
// An error names the spot: "sharding rule 'm k -> m | sum q', column 16: unknown factor 'q'".
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_SHARDINGRULE_H
#define TESSERA_DIALECTS_DIST_SHARDINGRULE_H

#include "dialects/dist/Sharding.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <optional>
#include <utility>

namespace tessera::dist {

using Shape = llvm::SmallVector<int64_t>;

/// Reads an operator's attribute by name, as one number or a list; a flag is 0 or 1. nullopt: the operator has no such
/// attribute.
using RuleAttributes = llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(llvm::StringRef)>;
inline std::optional<llvm::SmallVector<int64_t>> noAttributes(llvm::StringRef) { return std::nullopt; }

enum class FactorKind {
  PassThrough, // occurs in results; cutting it cuts them
  Reduce,      // missing in some results; cutting it makes these partial, and cuts the results that have it
  Stat,        // occurs in results; where it is cut, the operator's statistics are reduced over the ranks
  Whole,       // never cut
};

struct Factor {
  std::string name;
  int64_t size = 1; // extent; of a window factor: the results' extent
  FactorKind kind = FactorKind::PassThrough;
  Reduction reduction = Reduction::None; // of a Reduce factor
  /// For a Stat factor the reductions inside the operator, in order. Each of them is over all Stat factors, and keeps
  /// their dimensions with an extent of 1.
  llvm::SmallVector<Reduction, 2> statistics;
  /// What happens if the factor is cut into padded blocks (Sharding.h):
  enum class Padding {
    Masked,   // partition overwrites the padding with the reduction's neutral element before a reduction
              // over the factor; elsewhere the operator computes padding from padding
    Excluded, // the operator itself skips the padding (its rankAttributes say where it begins)
    Refused,  // the factor must not be cut into padded blocks
  } padding = Padding::Masked;
};

/// A dimension of an operand over which a kernel slides, and whose factor also cuts another tensor. Block i of the
/// other tensor (extent `outer` in total) needs the operand's block i and rows of the neighbours' blocks, the halo.
struct Window {
  int operand = 0, dim = 0; // the operand's dimension that needs the halo
  int factor = 0;
  int64_t kernel = 1, stride = 1, dilation = 1, padLo = 0, padHi = 0;
  /// false: reads x at j * stride - padLo + r * dilation for output j (conv, pooling,
  /// conv_weight_grad). true: reads dy at the j for which y = j * stride - padLo + r * dilation
  /// (conv_input_grad).
  bool transposed = false;
  double fill = 0; // the value of elements beyond the tensor's border
  /// Global extents: of the operand's dimension, and of the other tensor's dimension with the same factor.
  int64_t extent = 0, outer = 0;

  struct Halo {
    int64_t lo = 0, hi = 0;
    bool operator==(const Halo &) const = default;
  };
  /// The rows needed from the neighbours if the dimension is cut into `shards` blocks. nullopt: it must not be cut into
  /// so many, because an extent is not divisible, the two extents do not differ by the stride, or the halo is wider
  /// than a block.
  std::optional<Halo> halo(int64_t shards) const;
};

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  /// [tensor][dimension] = factor indices, major to minor. A dimension without factors is never cut.
  using TensorFactors = llvm::SmallVector<llvm::SmallVector<int, 2>, 4>;
  llvm::SmallVector<TensorFactors> operands, results;
  llvm::SmallVector<Window> windows;
  /// Groups of operands through which partial sums pass.
  llvm::SmallVector<llvm::SmallVector<int, 2>> linear;

  int findFactor(llvm::StringRef name) const; // -1: there is none
  int addFactor(llvm::StringRef name, int64_t size, FactorKind kind = FactorKind::PassThrough,
                Reduction reduction = Reduction::None);
  std::string str() const; // the text form, with sizes: "m k, k n -> m n | sum k {m=4, k=6, n=10}"

  /// Reads `text` and binds it to shapes and attributes.
  static llvm::Expected<ShardingRule> parse(llvm::StringRef text, llvm::ArrayRef<Shape> operandShapes,
                                            llvm::ArrayRef<Shape> resultShapes,
                                            RuleAttributes attributes = noAttributes);
};

/// A strategy of one operator says which axes cut which factor and in which units, whether partial sums pass through
/// the operator, and with which shardings it hands on its results. These are the natural ones, or those after a reshard
/// that belongs to the operator, for example a reduction of partial sums at once.
///
/// Units come from dimensions of several factors. A dimension (h d) whose h = 12 is cut in 8 has blocks of 2 h, so it
/// is cut in units of d. A factor that has such a dimension for itself in another operator is cut in these units:
/// "n=model/64" for n = 12 * 64.
struct Strategy {
  llvm::SmallVector<Cut> factors;      // by factor index of the rule
  int linear = -1;                     // index into rule.linear of the group that arrives partial; -1: none
  AxisList partial;                    // the axes over which that group is a partial sum; empty when linear < 0
  llvm::SmallVector<Sharding> results; // one per result; empty: the natural ones

  bool operator==(const Strategy &o) const {
    return factors == o.factors && linear == o.linear && partial == o.partial && results == o.results;
  }
  bool operator<(const Strategy &o) const;
};

/// The sharding that an operand needs, and the natural one of a result, before any reshard that belongs to the
/// operator. Reduce factors that are cut make results partial.
Sharding operandSharding(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int operand);
Sharding naturalResult(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int result);
/// strategy.results[i], or the natural one.
Sharding resultSharding(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, int result);
/// How the factors cut a dimension that consists of `dim`, which are factors of the rule, major to minor.
Cut dimensionCut(const Mesh &mesh, const ShardingRule &rule, const Strategy &strategy, llvm::ArrayRef<int> dim);

/// The axes that cut Stat factors, ascending. The operator's statistics are reduced over them, and partition replaces
/// the operator by reductions and elementwise operators. Empty: the operator stays one kernel.
AxisList statisticsAxes(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh);

/// Fails with one sentence if the strategy is impossible: an axis is used twice, a factor must not be cut into so many
/// blocks (canShard), factors of different reductions are cut, or a result's sharding does not follow from the factors.
llvm::Error verifyStrategy(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh,
                           llvm::ArrayRef<Shape> operandShapes, llvm::ArrayRef<Shape> resultShapes);

/// A dimension of an operand whose padding must be overwritten before the operator reduces over it: by 0 for a sum, by
/// -infinity for a maximum, by infinity for a minimum.
struct PaddingMask {
  int operand;
  int64_t dim;
  Reduction reduction;
};
llvm::SmallVector<PaddingMask> paddingMasks(const ShardingRule &rule, const Strategy &strategy, const Mesh &mesh);

/// Whether `factor` may be cut into `shards` blocks of whole units: its kind is not Whole, and the halos of its windows
/// fit. Where blocks would be padded, mayPad must hold, and the factor must have more units than blocks.
bool canShard(const ShardingRule &rule, int factor, int64_t shards, llvm::ArrayRef<Shape> operandShapes,
              llvm::ArrayRef<Shape> resultShapes, int64_t unit = 1);
/// Whether `factor` may be cut into padded blocks at all: it does not refuse padding, nothing slides over it, and it is
/// the major factor of its dimensions, which are nothing but their factors. So padding stands at the end of a block.
bool mayPad(const ShardingRule &rule, int factor, llvm::ArrayRef<Shape> operandShapes,
            llvm::ArrayRef<Shape> resultShapes);

} // namespace tessera::dist

#endif
