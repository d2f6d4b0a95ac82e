#include "compiler/pipeline/ForwardPass.h"

#include "dialects/graph/GivenStages.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/EquivalenceClasses.h"

#include <map>
#include <set>

using namespace mlir;
using tessera::strategies::Cost;

namespace tessera::compiler {

ForwardPass::ForwardPass(func::FuncOp func) : parts(func), func_(func), readers_(parts.program.flow.readers()) {
  findHomes();
}

void ForwardPass::findHomes() {
  std::map<std::string, int> named; // the last of that name
  for (int s : parts.order)
    if (isForward(s))
      named[graph::nameOf(operatorOf(s))] = s;
  homes_.assign(parts.program.operators.size(), kNone);
  for (int s : parts.order) {
    if (parts.free[size_t(s)] || parts.forward[size_t(s)] || !graph::parameterUpdatedBy(operatorOf(s)).empty())
      continue;
    if (auto it = named.find(graph::gradientOf(operatorOf(s)).str()); it != named.end()) {
      homes_[size_t(s)] = it->second;
      continue;
    }
    if (parts.hasBody && !parts.inBody(s))
      continue;
    int64_t largest = -1;
    for (Value operand : operatorOf(s)->getOperands())
      if (const int maker = parts.makerOf(operand); maker >= 0 && parts.bytesOf(operand) > largest)
        if (const int home = isForward(maker) ? maker : homes_[size_t(maker)]; home != kNone) {
          homes_[size_t(s)] = home;
          largest = parts.bytesOf(operand);
        }
  }
}

void ForwardPass::collectReaders(int value, llvm::SmallVectorImpl<int> &found) const {
  for (int reader : readersOf(value)) {
    if (size_t(reader) >= homes_.size())
      continue;
    if (isForward(reader))
      found.push_back(reader);
    else if (parts.hasBody && (parts.program.flow.steps[size_t(reader)].section == graph::Section::Begin ||
                               (parts.free[size_t(reader)] && parts.forward[size_t(reader)])))
      for (int made : parts.program.flow.steps[size_t(reader)].makes)
        collectReaders(made, found);
  }
}

std::string ForwardPass::parameterOf(unsigned argument) const {
  if (graph::argRole(func_, argument) == graph::kParameter)
    return graph::argName(func_, argument).str();
  for (Operation *user : func_.getArgument(argument).getUsers())
    if (llvm::StringRef name = graph::parameterUpdatedBy(user); !name.empty())
      return name.str();
  return "";
}

/// By step, what of the backward pass no other node waits for: the gradients of weights, where every node is a stage.
std::vector<bool> ForwardPass::findWeights() const {
  std::vector<bool> weights(homes_.size(), false);
  for (int s : llvm::reverse(parts.order)) {
    if (parts.free[size_t(s)] || !parts.inBackwardBody(s))
      continue;
    bool awaited = false;
    for (int value : parts.program.flow.steps[size_t(s)].makes)
      for (int reader : readersOf(value))
        if (size_t(reader) < homes_.size() && parts.inBackwardBody(reader) &&
            !parts.program.flow.values[size_t(value)].sum)
          awaited |= homes_[size_t(reader)] != homes_[size_t(s)] || !weights[size_t(reader)];
    weights[size_t(s)] = !awaited;
  }
  return weights;
}

void ForwardPass::addValues(strategies::StageProblem &problem, llvm::ArrayRef<int> node, int s) const {
  strategies::StageVariant &variant = problem.nodes[size_t(node[size_t(s)])].ways[0].variants[0];
  const graph::DataFlow &flow = parts.program.flow;
  for (int value : flow.steps[size_t(s)].makes) {
    strategies::StageValue forward{node[size_t(s)], {}, flow.values[size_t(value)].bytes, {}, {}, {}};
    bool held = false;
    for (int reader : readersOf(value)) {
      if (size_t(reader) >= homes_.size())
        continue;
      if (isForward(reader))
        forward.to.push_back(node[size_t(reader)]);
      else
        held |= parts.inBackwardBody(reader) || !parts.hasBody;
    }
    if (held && flow.values[size_t(value)].viewOf < 0)
      variant.held += flow.values[size_t(value)].bytes;
    if (forward.to.empty())
      continue;
    problem.values.push_back(forward);
    if (variant.input + variant.weight > 0) { // its gradient
      forward.order = strategies::ValueOrder::Backward;
      for (int to : forward.to)
        problem.values.push_back({to, {forward.from}, forward.bytes, forward.order, {}, {}});
    }
  }
}

/// What a step of the backward pass reads of another one must come from its own stage or one behind it: a gradient, or
/// what is computed again. So the operators of a segment that is computed again share a stage.
void ForwardPass::addBackward(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const {
  std::set<std::pair<int, int>> known;
  for (int s : parts.order) {
    if (parts.free[size_t(s)] || !parts.inBackwardBody(s) || homes_[size_t(s)] == kNone)
      continue;
    for (Value operand : operatorOf(s)->getOperands()) {
      const int maker = parts.makerOf(operand);
      if (maker < 0 || !parts.inBackwardBody(maker) || homes_[size_t(maker)] == kNone)
        continue;
      const int from = node[size_t(homes_[size_t(maker)])], to = node[size_t(homes_[size_t(s)])];
      if (from != to && known.insert({from, to}).second)
        problem.values.push_back({from, {to}, 0, strategies::ValueOrder::Backward, {}, {}});
    }
  }
}

/// Parameters and their states count where they are read first. What reads a state that micro-batches carry on shares
/// the stage of its new value.
void ForwardPass::addArguments(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const {
  std::map<std::string, int> place; // node by parameter
  auto each = [&](auto visit) {
    for (unsigned a = 0; a < func_.getNumArguments(); ++a)
      if (isOwned(func_, a)) {
        llvm::SmallVector<int> found;
        const int value = parts.program.index.lookup(func_.getArgument(a));
        collectReaders(value, found);
        visit(a, value, found);
      }
  };
  each([&](unsigned a, int, llvm::ArrayRef<int> found) {
    if (!found.empty() && graph::argRole(func_, a) == graph::kParameter)
      place[graph::argName(func_, a).str()] = node[size_t(*std::min_element(found.begin(), found.end()))];
  });
  each([&](unsigned a, int value, llvm::ArrayRef<int> found) {
    int at = found.empty() ? kNone : node[size_t(found.front())];
    if (auto it = place.find(parameterOf(a)); it != place.end())
      at = it->second;
    if (at == kNone)
      return;
    const bool summed = graph::argRole(func_, a) == graph::kParameter && graph::updateOf(func_, a);
    problem.nodes[size_t(at)].ways[0].variants[0].fixed +=
        parts.program.flow.values[size_t(value)].bytes * (summed ? 2 : 1); // and its gradient's sum
    for (auto [old, next] : parts.program.flow.updates) {
      const int maker = parts.program.flow.values[size_t(next)].maker;
      if (old != value || maker < 0 || node[size_t(maker)] == kNone)
        continue;
      for (int reader : found)
        if (const int from = node[size_t(maker)], to = node[size_t(reader)]; from != to) {
          problem.values.push_back({from, {to}, 0, strategies::ValueOrder::Forward, {}, {}});
          problem.values.push_back({to, {from}, 0, strategies::ValueOrder::Forward, {}, {}});
        }
    }
  });
}

/// What a new state alone depends on shares the stage of the last that it reads of the rest, as a running mean does
/// that of its layer. It is nearly no work, so that the cut could put it anywhere; but then every function that reads
/// the state would have the layers behind it in that stage.
void ForwardPass::addAverages(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const {
  llvm::EquivalenceClasses<int> groups; // of steps
  llvm::DenseMap<int, int> last;        // by step, the last step of the rest that it reads
  std::vector<int> rank(homes_.size());
  for (auto [i, s] : llvm::enumerate(parts.order))
    rank[size_t(s)] = int(i);
  const auto isAverage = [&](int s) { return isForward(s) && parts.averages[size_t(s)]; };
  for (int s : parts.order) {
    if (!isAverage(s))
      continue;
    groups.insert(s);
    for (Value operand : operatorOf(s)->getOperands()) {
      const int maker = parts.makerOf(operand);
      if (maker < 0 || !isForward(maker))
        continue;
      if (isAverage(maker))
        groups.unionSets(s, maker);
      else if (auto [it, isNew] = last.try_emplace(s, maker); !isNew && rank[size_t(maker)] > rank[size_t(it->second)])
        it->second = maker;
    }
  }
  const auto tie = [&](int a, int b) {
    const int given[] = {problem.nodes[size_t(node[size_t(a)])].stage, problem.nodes[size_t(node[size_t(b)])].stage};
    if (given[0] != given[1] && given[0] != kNone && given[1] != kNone)
      return; // as someone wants it
    for (auto [from, to] : {std::pair(a, b), std::pair(b, a)})
      problem.values.push_back({node[size_t(from)], {node[size_t(to)]}, 0, strategies::ValueOrder::Forward, {}, {}});
  };
  for (const auto &group : groups) {
    if (!group->isLeader())
      continue;
    int anchor = kNone;
    for (int s : groups.members(*group))
      if (auto it = last.find(s); it != last.end())
        if (anchor == kNone || rank[size_t(it->second)] > rank[size_t(anchor)])
          anchor = it->second;
    if (anchor != kNone)
      for (int s : groups.members(*group))
        tie(anchor, s);
  }
}

int ForwardPass::givenTo(int s, const PipelineCosts &costs) const {
  if (const std::optional<int64_t> stage = graph::stageIn(operatorOf(s), graph::kGivenStageAttr))
    return int(*stage);
  if (costs.given.empty() || !operatorOf(s)->hasAttr(graph::kNameAttr))
    return kNone;
  auto it = costs.given.find(graph::nameOf(operatorOf(s)));
  return it == costs.given.end() ? kNone : it->second;
}

strategies::StageProblem ForwardPass::problem(llvm::ArrayRef<Cost> times, const PipelineCosts &costs,
                                              std::vector<int> &steps, bool anywhere) const {
  strategies::StageProblem problem;
  std::vector<int> node(homes_.size(), kNone);
  steps.clear();
  for (int s : parts.order)
    if (isForward(s)) {
      node[size_t(s)] = int(steps.size());
      steps.push_back(s);
      problem.nodes.push_back({{{{{}}, 0}}, givenTo(s, costs)});
    }
  const std::vector<bool> weights = findWeights();
  for (size_t s = 0; s < homes_.size(); ++s) {
    const bool forward = isForward(int(s));
    if (!forward && homes_[s] == kNone)
      continue;
    strategies::StageVariant &variant =
        problem.nodes[size_t(node[forward ? s : size_t(homes_[s])])].ways[0].variants[0];
    (forward ? variant.forward : weights[s] ? variant.weight : variant.input) += times[s];
  }
  for (int s : steps)
    addValues(problem, node, s);
  if (!anywhere)
    addBackward(problem, node);
  addArguments(problem, node);
  addAverages(problem, node);
  const strategies::Link link = costs.all.topology().link(costs.all.mesh(), {0});
  problem.devices = {{int(costs.stages()), costs.limit, link.bandwidth / 1e9}};
  problem.ways = {{0, 1}};
  problem.microBatches = int(parts.program.parts);
  problem.stages = int(costs.stages());
  problem.inFlight = costs.inFlight;
  if (parts.program.parts > 1)
    problem.places = costs.shared;
  // One micro-batch takes as long in any stages: what counts is that no stage has much of the work and memory.
  problem.goal = parts.program.parts > 1 ? strategies::StageGoal::Batch : strategies::StageGoal::Bottleneck;
  return problem;
}

} // namespace tessera::compiler
