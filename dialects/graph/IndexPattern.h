//===- IndexPattern.h - tensors that are a function of their indices ------------------------------===//
//
// Exporters compute causal masks in many ways: a constant triangle, a comparison of two ranges of positions, Trilu of
// ones compared with 0, each moved and cast on its way. indexPattern() looks through all of it, at a cost that does not
// depend on the size of the tensor unless a dense constant has to be read.
//
//   %rows = iota dim 0, %keys = iota dim 1            8192x8192
//   %seen = le %keys, %rows
//   %mask = select %seen, 0, -inf       ->    0 where rows - keys >= 0, else -inf
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_INDEXPATTERN_H
#define TESSERA_DIALECTS_GRAPH_INDEXPATTERN_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace tessera::graph {

/// A tensor whose element at the index i is, with s = offset + sum over d of weights[d] * i[d],
///   s itself                                  where it has no values,
///   `met` where s >= 0, and `unmet` elsewhere  where it has.
/// A number is a pattern with values and without weights: met == unmet. Booleans are 0 and 1. Dimensions of extent 1
/// have weight 0. With values, the last weight that is not 0 is negative: a condition and its opposite look alike.
struct IndexPattern {
  llvm::SmallVector<int64_t> weights; // one per dimension of the tensor
  int64_t offset = 0;
  bool hasValues = false;
  double met = 0, unmet = 0;

  bool isNumber() const {
    return hasValues && llvm::all_of(weights, [](int64_t w) { return w == 0; });
  }
  bool sameCondition(const IndexPattern &other) const { return weights == other.weights && offset == other.offset; }
};

/// Finds patterns; remembers what it found as long as the program does not change.
class IndexPatterns {
public:
  /// nullopt: none was found. Elements must be float32, float64, integers or booleans. Looks at some dozens of operators
  /// in a row, so that no program can exhaust the stack.
  std::optional<IndexPattern> of(mlir::Value v);

private:
  std::optional<IndexPattern> find(mlir::Value v);
  std::optional<IndexPattern> elementwise(mlir::Operation *op);
  llvm::DenseMap<mlir::Value, std::optional<IndexPattern>> found_;
  int depth_ = 0;
};

/// The pattern of the elements at(i), i in row-major order, of a tensor of this shape: a number, equally spaced whole
/// numbers along one dimension, or a matrix that a diagonal divides into two numbers.
std::optional<IndexPattern> patternOfElements(llvm::function_ref<double(int64_t)> at, llvm::ArrayRef<int64_t> shape);

/// A triangle over the last two dimensions [m, n]: the element is `inside` where j <= i + start, else `outside`.
struct Triangle {
  int64_t start;
  double inside, outside;
};
std::optional<Triangle> triangle(const IndexPattern &pattern, int64_t rows, int64_t keys);

} // namespace tessera::graph

#endif
