//===- ReshardPrices.h - what reshards cost, by numbers --------------------------------------------===//
//
// The tables of a search problem ask for the same reshards again and again: equal layers have equal tensors, and many
// options hand a value on alike. So shardings and tensors are numbered, and every reshard is planned once.
//
//   ReshardPrices prices(mesh);
//   int from = prices.number(cut), to = prices.number(whole);
//   ReshardPrices::Row row = prices.row(prices.tensor(value), from, model);
//   row.cost(to);                              // ns; 0 where from == to
//
// Once all are numbered, threads may ask for reshards of different tensors, each with a model of its own.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_GRAPH_RESHARDPRICES_H
#define TESSERA_STRATEGIES_GRAPH_RESHARDPRICES_H

#include "strategies/cost/CostModel.h"

#include <deque>
#include <map>

namespace tessera::strategies {

class ReshardPrices {
  using Rows = std::vector<std::vector<Cost>>; // by sharding from which, and sharding
  struct Tensor {
    Shape shape;
    int64_t elementBytes;
    dist::Wire wire;
    Rows costs, leasts;
  };

public:
  explicit ReshardPrices(const Mesh &mesh);

  /// Shardings that differ by axes of size 1 only have the same number.
  int number(const Sharding &s);
  const Sharding &sharding(int number) const { return shardings_[size_t(number)]; }

  /// Tensors that are resharded at the same prices have the same number.
  int tensor(mlir::Value value);

  /// The reshards of one tensor from one sharding. It is valid until another sharding is numbered.
  class Row {
  public:
    Cost cost(int to) { return known(costs_, to, &CostModel::reshard); }
    /// CostModel::leastReshard.
    Cost least(int to) { return known(leasts_, to, &CostModel::leastReshard); }

  private:
    friend class ReshardPrices;
    using Price = Cost (CostModel::*)(llvm::ArrayRef<int64_t>, int64_t, const Sharding &, const Sharding &,
                                      const dist::Wire &) const;
    Row(const ReshardPrices &prices, const CostModel &model, const Tensor &tensor, int from, std::vector<Cost> &costs,
        std::vector<Cost> &leasts)
        : prices_(prices), model_(model), tensor_(tensor), from_(from), costs_(costs), leasts_(leasts) {}

    Cost known(std::vector<Cost> &list, int to, Price price) const {
      if (to == from_)
        return 0;
      Cost &cost = list[size_t(to)];
      if (cost == kUnknown)
        cost = find(to, price);
      return cost;
    }
    Cost find(int to, Price price) const;

    const ReshardPrices &prices_;
    const CostModel &model_;
    const Tensor &tensor_;
    const int from_;
    std::vector<Cost> &costs_, &leasts_; // by sharding
  };
  Row row(int tensor, int from, const CostModel &model);

private:
  static constexpr Cost kUnknown = -1;
  const Mesh &mesh_;
  const bool hasSingle_; // the mesh has axes of size 1
  std::map<Sharding, int> numbers_;
  std::vector<Sharding> shardings_;
  std::map<std::vector<int64_t>, int> tensorNumbers_;
  std::deque<Tensor> tensors_; // rows refer to them
};

} // namespace tessera::strategies

#endif
