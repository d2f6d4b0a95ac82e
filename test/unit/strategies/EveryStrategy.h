// The least cost of a small program over every sharding of its arguments, every strategy of every operator, and so
// every place where a sum is paid. It shares nothing with the search but the rules and the cost model: no groups, no
// tables of states, no bounds by messages.
//
// Operators are taken in program order. What comes later sees of the choices before it only how the values that are
// read later are handed on, and which copies of them are paid. So of all choices that agree in this the cheapest stays.
// A choice goes if it costs the limit, with the least that every later operator costs by itself.
//
// Kernels are priced one by one, and a value is resharded once to each sharding: programs have no loop of two
// operators, and what they return is no update.
#ifndef TESSERA_TEST_UNIT_STRATEGIES_EVERYSTRATEGY_H
#define TESSERA_TEST_UNIT_STRATEGIES_EVERYSTRATEGY_H

#include "strategies/cost/CostModel.h"

#include <map>

namespace tessera::strategies {

class EveryStrategy {
public:
  EveryStrategy(const Program &program, const CostModel &model);

  /// Below `limit`; the limit if nothing is.
  Cost least(Cost limit);
  /// What the operators do in the answer, a line each.
  std::string answer() const;

private:
  /// What an operator does under strategies that take and hand on alike: the cheapest of them.
  struct Way {
    Cost cost;
    std::vector<int> takes, hands; // shardings of operands and results
  };
  struct Tensor {
    int shape = 0;
    bool isReturned = false;
    int lastRead = -1;              // operator
    std::vector<int> possible = {}; // of an argument
  };
  /// How a value is handed on that is read later, and the copies that are paid, ascending.
  using Have = std::pair<int, std::vector<int>>;
  struct Best {
    Cost cost = 0;
    std::vector<int> ways = {}; // by operator
  };
  using Choices = std::map<std::map<int, Have>, Best>; // by value

  int number(const Sharding &sharding);
  int tensor(mlir::Value value);
  Cost reshard(int tensor, int from, int to);
  Cost pay(int tensor, Have &have, int wanted);
  Cost returned(int tensor, Have &have);
  void addArgument(int tensor, Choices &choices);
  void addOperator(size_t op, Cost most, Choices &choices);

  const Program &program_;
  const CostModel &model_;
  llvm::DenseMap<mlir::Value, int> tensorOf_;
  std::vector<Tensor> tensors_;
  std::map<std::pair<Shape, int64_t>, int> shapeOf_;
  std::vector<std::pair<Shape, int64_t>> shapes_; // with bytes of an element
  std::map<Sharding, int> numbers_;
  std::vector<Sharding> shardings_;
  std::map<std::tuple<int, int, int>, Cost> reshards_;
  std::vector<std::vector<Way>> ways_; // by operator
  std::vector<int> answer_;
};

} // namespace tessera::strategies

#endif
