//===- Eliminate.h - exact minimisation by variable elimination -------------------------------===//
//
// Minimises a sum of unary and pairwise costs exactly by eliminating one variable after the other
// (bucket elimination; Dechter, "Bucket elimination", 1999). The order is planned once (least table
// first) and may be run many times with other unary costs, as Lagrangian methods and neighbourhood
// searches need it. Time and space are exponential in the width of the plan, so a plan that exceeds
// its limits is refused.
//
// Example: a chain of three variables of two options.
//   EliminationPlan plan({2, 2, 2}, {{0, 1, ab}, {1, 2, bc}}, limits);
//   if (plan.fits())
//     double least = plan.run({ua, ub, uc}, answer);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_REDUCE_ELIMINATE_H
#define TESSERA_STRATEGIES_SEARCH_REDUCE_ELIMINATE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::strategies {

/// The same matrix in both orientations; both must outlive the plan.
struct EliminationEdge {
  int32_t a, b;
  const double *rowsA; // row-major |a| x |b|
  const double *rowsB; // row-major |b| x |a|
};

struct EliminationLimits {
  double table = 1 << 22; // entries of the largest table
  double total = 1 << 24; // entries of all tables
};

class EliminationPlan {
public:
  EliminationPlan(std::vector<int32_t> sizes, const std::vector<EliminationEdge> &edges,
                  const EliminationLimits &limits);
  bool fits() const { return fit_; }
  double entries() const { return total_; }
  /// After run: for every bucket and row of its scope, the least sum of everything that is not below the bucket.
  void outside(std::vector<std::vector<double>> &rest) const;
  /// The variable that is eliminated k-th, and the neighbours that it then has.
  int32_t variable(size_t k) const { return buckets_[k].variable; }
  const std::vector<int32_t> &scope(size_t k) const { return buckets_[k].scope; }

  /// The least sum and one answer that has it; unary[v] points to |v| costs. All costs must be finite.
  double run(const std::vector<const double *> &unary, std::vector<int32_t> &answer);

private:
  struct Factor {
    const double *fixed = nullptr; // an edge's matrix, or
    int32_t message = -1;          // the bucket whose message it is
    std::vector<size_t> strides;   // by dimension of the bucket's scope
  };
  struct Bucket {
    int32_t variable;
    std::vector<int32_t> scope; // neighbours, last eliminated first
    size_t table = 1;           // product of their sizes
    std::vector<Factor> factors;
    std::vector<double> message;
    std::vector<double> alone; // unary costs
    std::vector<double> own;   // unary costs and the factors that depend on this variable alone
  };
  bool fit_ = false;
  double total_ = 0;
  std::vector<int32_t> sizes_;
  std::vector<Bucket> buckets_; // in order of elimination
};

} // namespace tessera::strategies

#endif
