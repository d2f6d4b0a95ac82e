#include "EveryStrategy.h"

#include "strategies/space/Enumerate.h"

#include <algorithm>

using namespace mlir;

namespace tessera::strategies {

EveryStrategy::EveryStrategy(const Program &program, const CostModel &model) : program_(program), model_(model) {
  func::FuncOp func = program.func;
  for (Value argument : func.getArguments())
    for (const Sharding &sharding : enumerateShardings(shapeOf(argument), model.mesh()))
      tensors_[size_t(tensor(argument))].possible.push_back(number(sharding));
  for (const OperatorInfo &info : program.operators) {
    std::map<std::pair<std::vector<int>, std::vector<int>>, Cost> cheapest;
    for (Value operand : info.op->getOperands())
      tensors_[size_t(tensor(operand))].lastRead = int(ways_.size());
    for (const Strategy &strategy : enumerateStrategies(*info.cls, model.mesh())) {
      std::vector<int> takes, hands;
      for (size_t o = 0; o < info.op->getNumOperands(); ++o)
        takes.push_back(number(dist::operandSharding(model.mesh(), info.cls->rule, strategy, int(o))));
      for (size_t r = 0; r < info.op->getNumResults(); ++r)
        hands.push_back(number(dist::resultSharding(model.mesh(), info.cls->rule, strategy, int(r))));
      auto none = [](int) { return false; };
      Cost cost = model.computeInLoop(*info.cls, strategy, none, none, true);
      for (const OwnCollective &own : model.ownCollectives(*info.cls, strategy))
        cost += model.collective(own.collective, own.elementBytes);
      auto [it, fresh] = cheapest.try_emplace({std::move(takes), std::move(hands)}, cost);
      it->second = std::min(it->second, cost);
    }
    std::vector<Way> &ways = ways_.emplace_back();
    for (const auto &[shardings, cost] : cheapest)
      ways.push_back({cost, shardings.first, shardings.second});
    for (Value result : info.op->getResults())
      tensor(result);
  }
  for (Value value : program.returnOp()->getOperands())
    tensors_[size_t(tensor(value))].isReturned = true;
}

int EveryStrategy::number(const Sharding &sharding) {
  auto [it, fresh] = numbers_.try_emplace(sharding, int(shardings_.size()));
  if (fresh)
    shardings_.push_back(sharding);
  return it->second;
}

int EveryStrategy::tensor(Value value) {
  auto [it, fresh] = tensorOf_.try_emplace(value, int(tensors_.size()));
  if (fresh) {
    const std::pair<Shape, int64_t> shape = {shapeOf(value), elementBytes(value.getType())};
    auto [at, isNew] = shapeOf_.try_emplace(shape, int(shapes_.size()));
    if (isNew)
      shapes_.push_back(shape);
    tensors_.push_back({at->second});
  }
  return it->second;
}

Cost EveryStrategy::reshard(int tensor, int from, int to) {
  const int shape = tensors_[size_t(tensor)].shape;
  auto [it, fresh] = reshards_.try_emplace({shape, from, to}, kForbidden);
  const Sharding &have = shardings_[size_t(from)], &wanted = shardings_[size_t(to)];
  if (fresh && dist::canReshard(model_.mesh(), have, wanted))
    it->second = model_.reshard(shapes_[size_t(shape)].first, shapes_[size_t(shape)].second, have, wanted);
  return it->second;
}

/// What a copy costs that is not paid yet; from now on it is.
Cost EveryStrategy::pay(int tensor, Have &have, int wanted) {
  auto &[handed, copies] = have;
  auto at = std::lower_bound(copies.begin(), copies.end(), wanted);
  if (handed == wanted || (at != copies.end() && *at == wanted))
    return 0;
  copies.insert(at, wanted);
  return reshard(tensor, handed, wanted);
}

Cost EveryStrategy::returned(int tensor, Have &have) {
  return tensors_[size_t(tensor)].isReturned
             ? pay(tensor, have, number(shardings_[size_t(have.first)].withoutPartial()))
             : 0;
}

void EveryStrategy::addArgument(int tensor, Choices &choices) {
  Choices next;
  for (const auto &[choice, best] : choices)
    for (int sharding : tensors_[size_t(tensor)].possible) {
      std::map<int, Have> with = choice;
      with[tensor] = {sharding, {}};
      next.emplace(std::move(with), best);
    }
  choices = std::move(next);
}

/// Keeps what costs less than `most`.
void EveryStrategy::addOperator(size_t op, Cost most, Choices &choices) {
  Operation *operation = program_.operators[op].op;
  std::vector<int> reads;
  for (Value operand : operation->getOperands())
    reads.push_back(tensor(operand));
  Choices next;
  for (const auto &[choice, best] : choices)
    for (size_t w = 0; w < ways_[op].size(); ++w) {
      const Way &way = ways_[op][w];
      Cost sum = best.cost + way.cost, dearest = 0; // of the copies that it takes
      for (size_t o = 0; o < way.takes.size() && sum < most; ++o) {
        const auto &[handed, copies] = choice.at(reads[o]);
        if (handed != way.takes[o] && !std::binary_search(copies.begin(), copies.end(), way.takes[o]))
          dearest = std::max(dearest, reshard(reads[o], handed, way.takes[o]));
      }
      if (sum + dearest >= most)
        continue;
      std::map<int, Have> with = choice;
      for (size_t o = 0; o < way.takes.size() && sum < most; ++o) {
        sum += pay(reads[o], with.at(reads[o]), way.takes[o]);
      }
      for (size_t r = 0; r < way.hands.size() && sum < most; ++r) {
        const int made = tensor(operation->getResult(unsigned(r)));
        with[made] = {way.hands[r], {}};
        sum += returned(made, with[made]);
      }
      if (sum >= most)
        continue;
      std::erase_if(with, [&](const auto &have) { return tensors_[size_t(have.first)].lastRead <= int(op); });
      Best &now = next.try_emplace(std::move(with), Best{most}).first->second;
      if (sum < now.cost) {
        now = {sum, best.ways};
        now.ways.push_back(int(w));
      }
    }
  choices = std::move(next);
}

Cost EveryStrategy::least(Cost limit) {
  std::vector<Cost> rest(ways_.size() + 1, 0); // of the operators from here on, at least
  for (size_t op = ways_.size(); op-- > 0;)
    rest[op] = rest[op + 1] + std::min_element(ways_[op].begin(), ways_[op].end(), [](const Way &a, const Way &b) {
                                return a.cost < b.cost;
                              })->cost;
  Choices choices = {{{}, {}}};
  for (size_t op = 0; op < ways_.size(); ++op) {
    for (Value operand : program_.operators[op].op->getOperands())
      if (const int read = tensor(operand); !tensors_[size_t(read)].possible.empty())
        for (bool isNew = !choices.empty() && !choices.begin()->first.contains(read); isNew; isNew = false)
          addArgument(read, choices);
    addOperator(op, limit - rest[op + 1], choices);
  }
  if (choices.empty())
    return limit;
  answer_ = choices.begin()->second.ways;
  return choices.begin()->second.cost;
}

std::string EveryStrategy::answer() const {
  std::string text;
  for (size_t op = 0; op < answer_.size(); ++op) {
    const Way &way = ways_[op][size_t(answer_[op])];
    text += program_.operators[op].name + ":";
    for (int sharding : way.takes)
      text += " " + shardings_[size_t(sharding)].str(model_.mesh());
    text += " ->";
    for (int sharding : way.hands)
      text += " " + shardings_[size_t(sharding)].str(model_.mesh());
    text += ", " + std::to_string(way.cost) + " ns\n";
  }
  return text;
}

} // namespace tessera::strategies
