#include "strategies/cost/ProgramCost.h"

#include "dialects/dist/ReshardedValues.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Order.h"
#include "dialects/graph/flow/Sections.h"
#include "strategies/cost/LoopCost.h"

#include <map>
#include <optional>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// A step that gets shorter by less than 1 / kLittlePart is not worth another schedule.
constexpr Cost kLittlePart = 50;

/// The chosen program as one rank will run it: graph::DataFlow of operators and collectives, and the price of each.
class Pricing {
public:
  Pricing(const ChosenProgram &chosen, const CostModel &model, const JoinOptions &join)
      : chosen_(chosen), program_(chosen.program), func_(chosen.program.func), model_(model), join_(join),
        resharded_(model.mesh()) {}

  /// Nothing if it takes `than` at least, or sends the same as `other`.
  llvm::Expected<std::optional<ProgramCost>> run(Cost than, const ProgramCost *other = nullptr) {
    cost_.apart = chosen_.apart;
    addArguments();
    const size_t n = program_.operators.size();
    cost_.operators.resize(n);
    before_.resize(n + 1);
    behind_.resize(n);
    reads_.resize(n);
    for (size_t i = 0; i < n; ++i)
      if (llvm::Error e = addOperator(int(i)))
        return e;
    if (llvm::Error e = addOutputs())
      return e;
    if (other && sendsTheSame(*other))
      return std::nullopt;
    layOut();
    priceKernels();
    if (!joinCollectives(than))
      return std::nullopt;
    addMemory();
    return std::move(cost_);
  }

private:
  /// A value in the sharding in which its producer leaves it.
  struct Handed {
    Sharding sharding;
    int id; // in flow_
  };

  int addValue(Value v, const Sharding &s) {
    return flow_.addValue(s.localShape(model_.mesh(), shapeOf(v)),
                          model_.localBytes(shapeOf(v), elementBytes(v.getType()), s));
  }

  void addArguments() {
    for (unsigned a = 0; a < func_.getNumArguments(); ++a) {
      int id = addValue(func_.getArgument(a), chosen_.args[a]);
      handed_[func_.getArgument(a)] = {chosen_.args[a], id};
      llvm::StringRef role = graph::argRole(func_, a);
      if (role == graph::kParameter || role == graph::kState) {
        flow_.values[id].kept = true;
        cost_.persistentBytes += flow_.values[id].bytes;
      }
      if (auto r = graph::updateOf(func_, a))
        updates_[*r] = id;
    }
  }

  llvm::Error addOperator(int i) {
    const OperatorInfo &info = program_.operators[i];
    const Strategy &strategy = chosen_.strategies[i];
    std::vector<PricedCollective> &list = cost_.operators[i].collectives;
    for (auto [o, v] : llvm::enumerate(info.op->getOperands())) {
      Sharding needs = dist::operandSharding(model_.mesh(), info.cls->rule, strategy, int(o));
      if (!dist::canReshard(model_.mesh(), handed_[v].sharding, needs))
        return fail("operator '" + info.name + "' expects operand " + llvm::Twine(o) + " " +
                    dist::notOwed(model_.mesh(), handed_[v].sharding, needs));
      reads_[i].push_back(addReshard(v, needs, i, PricedCollective::Operand, int(o), list));
    }
    llvm::SmallVector<int> made;
    for (auto [r, v] : llvm::enumerate(info.op->getResults())) {
      made.push_back(addValue(v, dist::naturalResult(model_.mesh(), info.cls->rule, strategy, int(r))));
      if (graph::isView(info.op))
        flow_.values[made.back()].viewOf = reads_[i].front();
      flow_.values[made.back()].sum = graph::isAccumulated(v);
    }
    makes_.push_back(made);
    addOwn(i, made);
    for (auto [r, v] : llvm::enumerate(info.op->getResults()))
      handed_[v] = {dist::resultSharding(model_.mesh(), info.cls->rule, strategy, int(r)), made[r]};
    return llvm::Error::success();
  }

  /// Where a price stands: in a list, at a place.
  struct Priced {
    std::vector<PricedCollective> *list;
    size_t index;
  };
  Priced add(const dist::Collective &c, int64_t elementBytes, PricedCollective::Place place, int index, int64_t times,
             std::vector<PricedCollective> &list) {
    list.push_back({place, index, elementBytes, repeated(model_.collective(c, elementBytes), times), c, times});
    cost_.communication += list.back().cost;
    return {&list, list.size() - 1};
  }

  /// A collective as a step of one rank.
  struct Move {
    int from, to; // from -1: an exchange inside the operator
    Priced price;
    Type element;
  };
  int addMove(int from, const dist::Collective &c, int64_t elementBytes, Priced price, Type type,
              std::vector<Move> &moves) {
    int to = flow_.addValue(c.localOut, numElements(c.localOut) * elementBytes);
    moves.push_back({from, to, price, cast<RankedTensorType>(type).getElementType()});
    return to;
  }

  /// The value in the sharding that `reader` needs. The first reader that needs this sharding pays for the reshard.
  int addReshard(Value v, const Sharding &needs, int reader, PricedCollective::Place place, int index,
                 std::vector<PricedCollective> &list) {
    const Handed &have = handed_[v];
    dist::ReshardedValues::Want want = resharded_.want(v.getAsOpaquePointer(), have.sharding, needs);
    if (!want.needed)
      return have.id;
    if (!want.first)
      return copies_[want.copy];
    std::vector<Move> moves;
    int id = have.id;
    int64_t bytes = elementBytes(v.getType());
    for (const dist::Collective &c : model_.planReshard(shapeOf(v), bytes, have.sharding, needs, graph::sentAs(v))) {
      const Priced price = add(c, bytes, place, index, program_.times(v), list);
      if (moves.empty())
        list.back().begins = {shapeOf(v), have.sharding, needs};
      id = addMove(id, c, bytes, price, v.getType(), moves);
    }
    int producer = program_.producer(v);
    if (dist::ReshardedValues::paidWhereMade(have.sharding) && producer >= 0) {
      std::vector<Move> &behind = behind_[producer];
      behind.insert(behind.begin() + own_.lookup(v), moves.begin(), moves.end());
    } else {
      before_[reader].insert(before_[reader].end(), moves.begin(), moves.end());
    }
    copies_.push_back(id);
    return id;
  }

  /// Adds the operator's own collectives. Those of operands run before it, and those of results after it.
  void addOwn(int i, llvm::MutableArrayRef<int> made) {
    for (const OwnCollective &own : model_.ownCollectives(*program_.operators[i].cls, chosen_.strategies[i])) {
      PricedCollective::Place place = own.operand >= 0     ? PricedCollective::Operand
                                      : own.statistic >= 0 ? PricedCollective::Statistic
                                                           : PricedCollective::Result;
      Operation *op = program_.operators[i].op;
      const int64_t times = own.operand >= 0  ? program_.times(op->getOperand(unsigned(own.operand)))
                            : own.result >= 0 ? program_.times(op->getResult(unsigned(own.result)))
                                              : program_.operators[i].times;
      const Priced price =
          add(own.collective, own.elementBytes, place, std::max({own.operand, own.statistic, own.result}), times,
              cost_.operators[i].collectives);
      auto move = [&](int from, Type type, std::vector<Move> &moves) {
        return addMove(from, own.collective, own.elementBytes, price, type, moves);
      };
      if (own.operand >= 0)
        reads_[i][own.operand] = move(reads_[i][own.operand], op->getOperand(own.operand).getType(), before_[i]);
      else if (own.statistic >= 0)
        reads_[i].push_back(move(-1, op->getResult(0).getType(), before_[i]));
      else
        made[own.result] = move(made[own.result], op->getResult(own.result).getType(), behind_[i]);
    }
    for (Value v : program_.operators[i].op->getResults())
      own_[v] = int(behind_[i].size());
  }

  llvm::Error addOutputs() {
    for (OpOperand &use : program_.returnOp()->getOpOperands()) {
      Value v = use.get();
      unsigned r = use.getOperandNumber();
      const Sharding &wanted = chosen_.results[r];
      if (!dist::canReshard(model_.mesh(), handed_[v].sharding, wanted))
        return fail("result '" + graph::resultName(func_, r) + "' is expected " +
                    dist::notOwed(model_.mesh(), handed_[v].sharding, wanted));
      int id = addReshard(v, wanted, int(program_.operators.size()), PricedCollective::Output, int(r), cost_.outputs);
      flow_.results.push_back(id);
      if (auto old = updates_.find(r); old != updates_.end()) { // the new value replaces the old one in its place
        flow_.values[id].kept = true;
        flow_.updates.push_back({old->second, id});
      }
    }
    return llvm::Error::success();
  }

  bool sendsTheSame(const ProgramCost &other) const {
    auto same = [](llvm::ArrayRef<PricedCollective> a, llvm::ArrayRef<PricedCollective> b) {
      return llvm::equal(a, b, [](const PricedCollective &x, const PricedCollective &y) {
        return x.collective.kind == y.collective.kind && x.collective.axes == y.collective.axes;
      });
    };
    return same(cost_.outputs, other.outputs) &&
           llvm::equal(cost_.operators, other.operators, [&](const OperatorPrice &a, const OperatorPrice &b) {
             return same(a.collectives, b.collectives);
           });
  }

  /// Lays out the steps in the order in which they are emitted.
  void layOut() {
    auto add = [&](const std::vector<Move> &moves) {
      for (const Move &move : moves) {
        llvm::SmallVector<int, 1> from;
        if (move.from >= 0)
          from.push_back(move.from);
        moves_[flow_.addStep(graph::LoopPart::None, from, {move.to})] = move;
      }
    };
    for (size_t i = 0; i < program_.operators.size(); ++i) {
      add(before_[i]);
      stepOf_.push_back(
          flow_.addStep(program_.operators[i].cls->part, reads_[i], makes_[i],
                        graph::microBatches(program_.operators[i].op) ? graph::Section::Body : graph::Section::Begin,
                        graph::halfOf(program_.operators[i].op)));
      add(behind_[i]);
    }
    add(before_.back());
    graph::findSections(flow_);
    looped_.emplace(flow_, graph::formLoops(flow_));
  }

  void priceKernels() {
    std::vector<StepKernel> kernels(flow_.steps.size());
    for (size_t i = 0; i < program_.operators.size(); ++i)
      kernels[stepOf_[i]] = {program_.operators[i].cls, &chosen_.strategies[i]};
    costs_ = loopCosts(model_, flow_, *looped_, kernels);
    for (size_t i = 0; i < program_.operators.size(); ++i)
      cost_.compute += cost_.operators[i].compute = repeated(costs_[stepOf_[i]], program_.operators[i].times);
  }

  /// False if the program takes `than` at least.
  bool joinCollectives(Cost than) {
    std::vector<graph::Sender> senders;
    for (const auto &[step, move] : moves_)
      senders.push_back({looped_->stepOf[step], (*move.price.list)[move.price.index].collective, move.element});
    const ProgramToSend whole{*looped_, costs_, senders, program_.parts, cost_.persistentBytes};
    if (join_.overlap != Overlapping::Off)
      cost_.leastTime = leastTime(model_, whole);
    if (cost_.leastTime >= than) // schedules are the most of the work
      return false;
    sent_ = sendProgram(model_, whole, join_);
    llvm::DenseMap<int, const graph::Sender *> senderAt; // by step
    for (const graph::Sender &sender : senders)
      senderAt.try_emplace(sender.step, &sender);
    for (auto [m, message] : llvm::enumerate(sent_.messages)) {
      std::vector<const graph::Sender *> members;
      for (int step : message)
        members.push_back(senderAt.at(step));
      for (auto [step, share] : llvm::zip_equal(message, shareMessage(model_, members))) {
        const Priced &price = moves_.at(looped_->members[step].front()).price;
        PricedCollective &member = (*price.list)[price.index];
        const Cost whole = repeated(share, member.times);
        cost_.communication += whole - member.cost;
        member.cost = whole;
        member.message = int(m);
      }
    }
    return true;
  }

  void addMemory() {
    graph::MessageFlow sent(looped_->flow, sent_.messages);
    graph::DataFlow &running = sent.flow;
    for (size_t i = 0; i < program_.operators.size(); ++i)
      if (program_.operators[i].op->hasTrait<OpTrait::ConstantLike>())
        for (int v : makes_[i])
          running.values[v].kept = true; // constants are in the plan file and in no arena
    cost_.peakBytes = cost_.persistentBytes + peakBytes(running, sent_);
    if (sent_.beside)
      cost_.beside = BesideCost::of(*sent_.beside);
  }

  llvm::Error fail(const llvm::Twine &what) {
    return llvm::createStringError("function '" + func_.getName() + "': " + what);
  }

  const ChosenProgram &chosen_;
  const Program &program_;
  func::FuncOp func_;
  const CostModel &model_;
  const JoinOptions &join_;
  dist::ReshardedValues resharded_;
  llvm::DenseMap<unsigned, int> updates_;             // by result that updates an argument: the old value
  llvm::DenseMap<Value, Handed> handed_;              // looked up only
  llvm::DenseMap<Value, int> own_;                    // moves of the operator's own behind it; looked up only
  std::vector<int> copies_;                           // values, as resharded_ numbers them
  std::vector<std::vector<Move>> before_;             // by operator, and before the end
  std::vector<std::vector<Move>> behind_;             // by operator
  std::vector<llvm::SmallVector<int>> reads_, makes_; // by operator: values
  std::vector<int> stepOf_;                           // by operator
  graph::DataFlow flow_;
  std::map<int, Move> moves_; // by step of flow_
  std::optional<graph::LoopedFlow> looped_;
  std::vector<Cost> costs_; // by step of flow_
  SentProgram sent_;
  ProgramCost cost_;
};

} // namespace

int64_t bufferBytes(const OwnCollective &own) {
  return own.elementBytes * numElements(own.result < 0 ? own.collective.localOut : own.collective.localIn);
}

/// Whether a step may take less time if what is over several axes is sent apart: messages over links of one kind then
/// run beside those over another. In line they would only start more often.
static bool mayPart(const CostModel &model, const JoinOptions &join) {
  return join.joins() && join.overlap != Overlapping::Off && !model.hasOneLink();
}

llvm::Expected<ProgramCost> priceProgram(const ChosenProgram &chosen, const CostModel &model, const JoinOptions &join) {
  llvm::Expected<std::optional<ProgramCost>> cost =
      priceIfShorter(chosen, model, join, std::numeric_limits<Cost>::max());
  if (!cost)
    return cost.takeError();
  return std::move(**cost);
}

llvm::Expected<std::optional<ProgramCost>> priceIfShorter(const ChosenProgram &chosen, const CostModel &model,
                                                          const JoinOptions &join, Cost than) {
  return Pricing(chosen, chosen.apart ? model.apart() : model, join).run(than);
}

llvm::Error takeApartIfShorter(ChosenProgram chosen, const CostModel &model, const JoinOptions &join, Cost than,
                               std::optional<ProgramCost> &cost) {
  if (!mayPart(model, join) || (cost && cost->apart))
    return llvm::Error::success();
  // Whatever is sent when, the kernels take their time.
  if (cost && (cost->predicted() - cost->compute) * kLittlePart < cost->predicted())
    return llvm::Error::success();
  if (cost)
    than = std::min(than, cost->predicted());
  chosen.apart = true;
  std::optional<ProgramCost> apart;
  if (llvm::Error e = Pricing(chosen, model.apart(), join).run(than, cost ? &*cost : nullptr).moveInto(apart))
    return e;
  if (apart && apart->predicted() < than &&
      (!cost || join.memory == 0 || apart->peakBytes <= std::max(cost->peakBytes, join.memory)))
    cost = std::move(apart);
  return llvm::Error::success();
}

} // namespace tessera::strategies
