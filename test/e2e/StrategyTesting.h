//===- StrategyTesting.h - what tests of whole programs share ------------------------------------===//
#ifndef TESSERA_TEST_E2E_STRATEGYTESTING_H
#define TESSERA_TEST_E2E_STRATEGYTESTING_H

#include "dialects/dist/DistInterfaces.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <vector>

namespace tessera::test {

using dist::Mesh;
using dist::ShardingRule;
using dist::Strategy;
using Values = std::vector<double>;

/// Every way to give each axis to one factor, to a linear group's partial sums, or to nothing; each factor that is cut
/// in plain blocks, and one of them at a time in every unit that gives other blocks.
inline std::vector<Strategy> allStrategies(const ShardingRule &rule, const Mesh &mesh, mlir::Operation *op) {
  std::set<Strategy> found;
  int factors = int(rule.factors.size()), places = factors + 2; // factors, partial, none
  std::vector<int> order(mesh.numAxes());
  for (int i = 0; i < mesh.numAxes(); ++i)
    order[i] = i;
  auto operandShapes = dist::operandShapes(op), resultShapes = dist::resultShapes(op);
  auto keep = [&](const Strategy &strategy) {
    if (llvm::Error e = dist::verifyStrategy(rule, strategy, mesh, operandShapes, resultShapes)) {
      llvm::consumeError(std::move(e));
      return;
    }
    found.insert(strategy);
    // The same strategy, with every partial sum reduced at once.
    Strategy now = strategy;
    for (size_t r = 0; r < rule.results.size(); ++r)
      now.results.push_back(dist::naturalResult(mesh, rule, strategy, int(r)).withoutPartial());
    if (!rule.results.empty() && dist::naturalResult(mesh, rule, strategy, 0).isPartial())
      found.insert(now);
  };
  do {
    int64_t cases = 1;
    for (int i = 0; i < mesh.numAxes(); ++i)
      cases *= places;
    for (int64_t code = 0; code < cases; ++code) {
      Strategy strategy;
      strategy.factors.resize(factors);
      int64_t rest = code;
      for (int axis : order) {
        int place = int(rest % places);
        rest /= places;
        if (place < factors)
          strategy.factors[place].push_back(axis);
        else if (place == factors)
          strategy.partial.push_back(axis);
      }
      llvm::sort(strategy.partial);
      auto keepInUnits = [&] {
        keep(strategy);
        for (int f = 0; f < factors; ++f) {
          dist::Cut &cut = strategy.factors[f];
          for (cut.unit = 2; !cut.empty() && cut.unit < rule.factors[f].size; ++cut.unit)
            keep(strategy);
          cut.unit = 1;
        }
      };
      if (strategy.partial.empty()) {
        keepInUnits();
        continue;
      }
      for (int g = 0; g < int(rule.linear.size()); ++g) {
        strategy.linear = g;
        keepInUnits();
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return {found.begin(), found.end()};
}

/// Calls visit(index in the global tensor, index in the buffer) for each element that a rank holds.
template <typename Visit> void eachElement(const plan::Plan &plan, const plan::Binding &binding, Visit visit) {
  const auto &shape = plan.buffers(int(binding.buffer())).shape();
  const std::vector<int64_t> extent = rt::extentOf(plan, binding);
  int64_t count = 1;
  for (int64_t d : shape)
    count *= d;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, global = 0, stride = 1;
    bool held = true;
    for (int d = shape.size() - 1; d >= 0; --d) {
      held &= rest % shape[d] < extent[d];
      global += (rest % shape[d] + binding.offset(d)) * stride;
      rest /= shape[d];
      stride *= binding.global_shape(d);
    }
    if (held)
      visit(size_t(global), size_t(i));
  }
}

inline double read(const std::vector<char> &bytes, plan::DType type, size_t i) {
  auto as = [&](auto zero) {
    decltype(zero) value;
    std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
    return double(value);
  };
  switch (type) {
  case plan::F64:
    return as(double());
  case plan::F32:
    return as(float());
  case plan::I64:
    return as(int64_t());
  case plan::BOOL:
    return as(uint8_t());
  default:
    throw std::runtime_error("type not used here");
  }
}

inline void write(std::vector<char> &bytes, plan::DType type, size_t i, double value) {
  auto as = [&](auto zero) {
    decltype(zero) typed = decltype(zero)(value);
    bytes.resize(std::max(bytes.size(), (i + 1) * sizeof(typed)));
    std::memcpy(bytes.data() + i * sizeof(typed), &typed, sizeof(typed));
  };
  switch (type) {
  case plan::F64:
    return as(double());
  case plan::F32:
    return as(float());
  case plan::I64:
    return as(int64_t());
  case plan::BOOL:
    return as(uint8_t());
  default:
    throw std::runtime_error("type not used here");
  }
}

} // namespace tessera::test

#endif
