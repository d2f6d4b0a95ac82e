//===- CutStages.cpp - one module per stage ----------------------------------------------------------===//
//
// A stage's function has the operators of that stage in the order of the whole program, in which nothing waits for
// anything behind it. A value is sent as soon as it is made, and received before it is first read. So nobody waits
// forever: sends do not wait, and who receives waits for an operator that stands before it in that order.
//
// Between micro-batches the calls decide (Calls.h). A section's messages come from the same section of another stage or
// from one that ran before it:
//
//   forward    from forward passes of stages before it
//   input      from stages behind it, and from forward passes
//   weight     the same
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/pipeline/Passes.h"

#include "compiler/pipeline/ProgramParts.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/PassBases.h"
#include "dialects/graph/Sections.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_CUTSTAGESPASS
#include "compiler/pipeline/Passes.h.inc"

using graph::Section;

namespace {

std::optional<int> numberIn(Attribute attribute) {
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number ? std::optional(int(number.getInt())) : std::nullopt;
}

/// The most channels that every transport has: MPI promises so many tags.
constexpr int64_t kMostChannels = 32768;

/// What crosses from the stage that has a value to another one.
struct Crossing {
  int channel = 0;
  Section sends = Section::Begin, receives = Section::Begin;
};

class FunctionCutter {
public:
  FunctionCutter(func::FuncOp func, llvm::ArrayRef<ModuleOp> modules)
      : func_(func), modules_(modules), parts_(func), end_(func.getBody().front().getTerminator()) {}

  llvm::Error run() {
    for (auto read : {&FunctionCutter::readStages, &FunctionCutter::findNeeds, &FunctionCutter::findSections,
                      &FunctionCutter::findCrossings})
      if (llvm::Error e = (this->*read)())
        return e;
    for (size_t stage = 0; stage < modules_.size(); ++stage)
      begin(int(stage));
    for (int s : parts_.order)
      for (size_t stage = 0; stage < modules_.size(); ++stage)
        if (isIn(s, int(stage)))
          write(s, int(stage));
    for (size_t stage = 0; stage < modules_.size(); ++stage)
      finish(int(stage));
    return llvm::Error::success();
  }

private:
  /// A function that is being written.
  struct StageFunction {
    func::FuncOp func;
    OpBuilder builder;
    IRMapping mapping;
    std::set<unsigned> arguments;
  };

  int numStages() const { return int(modules_.size()); }
  Operation *operatorOf(int s) const { return parts_.program.operators[size_t(s)]; }
  bool isFree(int s) const { return stage_[size_t(s)] < 0; }
  bool isIn(int s, int stage) const { return isFree(s) ? needed_[size_t(s)].count(stage) : stage_[size_t(s)] == stage; }
  llvm::Error fail(const Twine &what) const { return llvm::createStringError("'" + func_.getName() + "': " + what); }

  /// The stage that has the value; -1: every stage that reads it.
  int homeOf(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? owner_[argument.getArgNumber()] : stage_[size_t(parts_.makerOf(value))];
  }

  llvm::Error readStages() {
    auto valid = [&](int stage) { return stage >= 0 && stage < numStages(); };
    for (Operation *op : parts_.program.operators) {
      stage_.push_back(numberIn(op->getAttr(dist::kStageAttr)).value_or(-1));
      if (stage_.back() != -1 && !valid(stage_.back()))
        return fail("operator '" + graph::nameOf(op) + "' has the stage " + Twine(stage_.back()) + " of " +
                    Twine(numStages()));
    }
    for (unsigned a = 0; a < func_.getNumArguments(); ++a) {
      owner_.push_back(isOwned(func_, a) ? numberIn(func_.getArgAttr(a, dist::kStageAttr)).value_or(-1) : -1);
      if (isOwned(func_, a) && !valid(owner_.back()))
        return fail("'" + graph::argName(func_, a) + "' has no stage that has it");
      if (std::optional<unsigned> result = graph::updateOf(func_, a))
        updatedIn_[*result] = owner_[a];
    }
    for (size_t s = 0; s < stage_.size(); ++s)
      if (isFree(int(s)))
        for (Value operand : operatorOf(int(s))->getOperands())
          if (homeOf(operand) >= 0)
            return fail("operator '" + graph::nameOf(operatorOf(int(s))) +
                        "' has no stage, but reads what only stage " + Twine(homeOf(operand)) + " has");
    return llvm::Error::success();
  }

  /// The stages that return a result.
  llvm::SmallVector<int> stagesOfResult(unsigned r) const {
    if (auto it = updatedIn_.find(r); it != updatedIn_.end())
      return {it->second};
    if (!isTold(func_, r))
      return {std::max(0, homeOf(end_->getOperand(r)))};
    llvm::SmallVector<int> all;
    for (int stage = 0; stage < numStages(); ++stage)
      all.push_back(stage);
    return all;
  }

  /// Which stages compute an operator that each may compute for itself, and which read each value.
  llvm::Error findNeeds() {
    needed_.resize(stage_.size());
    auto read = [&](Value value, int stage) {
      readIn_[value].insert(stage);
      if (const int maker = parts_.makerOf(value); maker >= 0 && isFree(maker))
        needed_[size_t(maker)].insert(stage);
    };
    for (unsigned r = 0; r < end_->getNumOperands(); ++r)
      for (int stage : stagesOfResult(r))
        read(end_->getOperand(r), stage);
    for (int s : llvm::reverse(parts_.order)) {
      std::set<int> stages = needed_[size_t(s)];
      if (!isFree(s))
        stages = {stage_[size_t(s)]};
      for (Value operand : operatorOf(s)->getOperands())
        for (int stage : stages)
          read(operand, stage);
    }
    return llvm::Error::success();
  }

  /// Divides the backward pass, and gives what every stage computes for itself the section of its first reader.
  llvm::Error findSections() {
    sections_.resize(stage_.size());
    for (size_t s = 0; s < stage_.size(); ++s) {
      const Section section = parts_.program.flow.steps[s].section;
      sections_[s] = parts_.inBackwardBody(int(s)) ? Section::Weight : section;
    }
    for (int s : llvm::reverse(parts_.order)) {
      if (isFree(s) || !parts_.inBackwardBody(s))
        continue;
      for (Value result : operatorOf(s)->getResults())
        if (!parts_.program.flow.values[size_t(parts_.program.index.lookup(result))].sum)
          for (int stage : readIn_[result])
            if (stage != stage_[size_t(s)])
              sections_[size_t(s)] = Section::Input;
      if (sections_[size_t(s)] != Section::Input)
        continue;
      for (Value operand : operatorOf(s)->getOperands())
        if (const int maker = parts_.makerOf(operand);
            maker >= 0 && stage_[size_t(maker)] == stage_[size_t(s)] && parts_.inBackwardBody(maker))
          sections_[size_t(maker)] = Section::Input;
    }
    return llvm::Error::success();
  }

  /// The section in which a stage runs the operator.
  Section sectionIn(int s, int stage) const {
    if (!isFree(s) || !parts_.inBody(s))
      return sections_[size_t(s)];
    Section first = Section::End;
    for (Value result : operatorOf(s)->getResults())
      first = std::min(first, firstReader(result, stage));
    return graph::inBody(first) ? first : Section::Body;
  }

  /// The section of a stage that reads the value first.
  Section firstReader(Value value, int stage) const {
    auto known = firstRead_.find({value.getAsOpaquePointer(), stage});
    if (known != firstRead_.end())
      return known->second;
    Section first = Section::End;
    for (OpOperand &use : value.getUses())
      if (use.getOwner() == end_)
        first = std::min(first, parts_.hasBody ? Section::End : Section::Begin);
      else if (const int reader = parts_.makerOf(use.getOwner()->getResult(0)); isIn(reader, stage))
        first = std::min(first, sectionIn(reader, stage));
    return firstRead_[{value.getAsOpaquePointer(), stage}] = first;
  }

  llvm::Error findCrossings() {
    for (BlockArgument argument : func_.getArguments())
      if (llvm::Error e = cross(argument))
        return e;
    for (int s : parts_.order)
      for (Value result : operatorOf(s)->getResults())
        if (llvm::Error e = cross(result))
          return e;
    return llvm::Error::success();
  }

  llvm::Error cross(Value value) {
    const int home = homeOf(value);
    if (home < 0)
      return llvm::Error::success();
    const int maker = parts_.makerOf(value), index = parts_.program.index.lookup(value);
    const bool varies = parts_.program.flow.variesInBody(index);
    if (maker < 0 && varies)
      for (int stage : readIn_[value])
        if (stage != home || (parts_.hasBody && lastBodyReader(value, stage) > Section::Body))
          return fail("the state '" + graph::argName(func_, cast<BlockArgument>(value).getArgNumber()) +
                      "', which every micro-batch changes, is read in another stage or in the backward pass");
    for (int stage : readIn_[value]) {
      if (stage == home)
        continue;
      if (channels_ == kMostChannels)
        return fail("more than " + Twine(kMostChannels) + " values cross stages; use fewer stages");
      Crossing crossing{int(channels_++), Section::Begin, firstReader(value, stage)};
      if (varies)
        crossing.sends = sections_[size_t(maker)];
      else if (maker >= 0 &&
               (parts_.program.flow.values[size_t(index)].sum || sections_[size_t(maker)] == Section::End))
        crossing.sends = crossing.receives = Section::End;
      else
        crossing.sends = crossing.receives = crossing.receives == Section::End ? Section::End : Section::Begin;
      const bool back = crossing.sends != Section::Body;
      if (varies && (!graph::inBody(crossing.receives) || crossing.receives < crossing.sends ||
                     (crossing.receives == crossing.sends && back != (stage < home)) || (back && stage > home)))
        return fail("operator '" + graph::nameOf(operatorOf(maker)) + "' of stage " + Twine(home) +
                    " makes for each micro-batch what stage " + Twine(stage) + " reads before");
      crossings_[value.getAsOpaquePointer()].emplace_back(stage, crossing);
    }
    return llvm::Error::success();
  }

  Section lastBodyReader(Value value, int stage) const {
    Section last = Section::Begin;
    for (OpOperand &use : value.getUses())
      if (use.getOwner() != end_)
        if (const int reader = parts_.makerOf(use.getOwner()->getResult(0)); isIn(reader, stage))
          if (const Section section = sectionIn(reader, stage); graph::inBody(section))
            last = std::max(last, section);
    return last;
  }

  // ---- writing ----

  void begin(int stage) {
    ModuleOp module = modules_[size_t(stage)];
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    StageFunction &out = functions_.emplace_back(StageFunction{nullptr, builder, {}, {}});
    llvm::SmallVector<Type> types;
    llvm::SmallVector<DictionaryAttr> attributes;
    unsigned inputs = 0;
    for (BlockArgument argument : func_.getArguments()) {
      const unsigned a = argument.getArgNumber();
      const unsigned ordinal = graph::argRole(func_, a) == graph::kInput ? inputs++ : 0;
      auto reads = readIn_.find(argument);
      const bool unread = reads == readIn_.end(); // then the first stage has it
      if (isOwned(func_, a) ? owner_[a] != stage : unread ? stage > 0 : !reads->second.count(stage))
        continue;
      NamedAttrList list(func_.getArgAttrDict(a));
      list.erase(dist::kStageAttr);
      if (graph::argRole(func_, a) == graph::kInput)
        list.set(graph::kOrdinalAttr, builder.getI64IntegerAttr(ordinal));
      out.arguments.insert(a);
      types.push_back(argument.getType());
      attributes.push_back(list.getDictionary(func_.getContext()));
    }
    out.func = func::FuncOp::create(builder, func_.getLoc(), func_.getName(), builder.getFunctionType(types, {}));
    Block *block = out.func.addEntryBlock();
    for (auto [a, argument] : llvm::zip_equal(out.arguments, block->getArguments()))
      out.mapping.map(func_.getArgument(a), argument);
    out.func.setAllArgAttrs(attributes);
    if (parts_.hasBody)
      out.func->setAttr(graph::kMicroBatchesAttr, builder.getI64IntegerAttr(parts_.program.parts));
    out.builder = OpBuilder::atBlockEnd(block);
    for (unsigned a : out.arguments)
      send(func_.getArgument(a), stage);
  }

  void place(Operation *op, Section section) const {
    if (parts_.hasBody)
      graph::setSection(op, section);
  }

  /// Sends the value of this stage to those that read it.
  void send(Value value, int stage) {
    auto it = crossings_.find(value.getAsOpaquePointer());
    if (it == crossings_.end())
      return;
    StageFunction &from = functions_[size_t(stage)];
    for (auto &[to, crossing] : it->second)
      describe(dist::SendOp::create(from.builder, value.getLoc(), from.mapping.lookup(value), uint64_t(to),
                                    uint64_t(crossing.channel)),
               value, crossing.sends);
  }

  void describe(Operation *message, Value value, Section section) const {
    Operation *op = value.getDefiningOp();
    const std::string name =
        op ? graph::nameOf(op) : graph::argName(func_, cast<BlockArgument>(value).getArgNumber()).str();
    message->setAttr(graph::kNameAttr, StringAttr::get(message->getContext(), name));
    place(message, section);
  }

  /// The value in this stage, which receives it if it has not yet.
  Value valueIn(Value value, int stage) {
    StageFunction &out = functions_[size_t(stage)];
    if (Value known = out.mapping.lookupOrNull(value))
      return known;
    const auto &list = crossings_.find(value.getAsOpaquePointer())->second;
    const auto *it = llvm::find_if(list, [&](const auto &entry) { return entry.first == stage; });
    auto received = dist::ReceiveOp::create(out.builder, value.getLoc(), value.getType(), uint64_t(homeOf(value)),
                                            uint64_t(it->second.channel));
    describe(received, value, it->second.receives);
    out.mapping.map(value, received.getY());
    return received.getY();
  }

  void write(int s, int stage) {
    StageFunction &out = functions_[size_t(stage)];
    Operation *op = operatorOf(s);
    for (Value operand : op->getOperands())
      valueIn(operand, stage);
    Operation *copy = out.builder.clone(*op, out.mapping);
    copy->removeAttr(dist::kStageAttr);
    place(copy, sectionIn(s, stage));
    for (Value result : op->getResults())
      if (stage == homeOf(result))
        send(result, stage);
  }

  void finish(int stage) {
    StageFunction &out = functions_[size_t(stage)];
    llvm::SmallVector<Value> values;
    llvm::SmallVector<Type> results;
    llvm::SmallVector<DictionaryAttr> attributes;
    std::map<unsigned, unsigned> place; // of the whole program's results
    std::map<std::string, unsigned> ordinals;
    for (unsigned r = 0; r < end_->getNumOperands(); ++r) {
      const unsigned ordinal = ordinals[graph::resultRole(func_, r).str()]++;
      if (!llvm::is_contained(stagesOfResult(r), stage))
        continue;
      place[r] = unsigned(values.size());
      values.push_back(valueIn(end_->getOperand(r), stage));
      results.push_back(values.back().getType());
      NamedAttrList list(func_.getResultAttrDict(r));
      if (graph::resultRole(func_, r) == graph::kOutput)
        list.set(graph::kOrdinalAttr, out.builder.getI64IntegerAttr(ordinal));
      attributes.push_back(list.getDictionary(func_.getContext()));
    }
    func::ReturnOp::create(out.builder, end_->getLoc(), values);
    llvm::SmallVector<Type> types;
    for (auto [at, a] : llvm::enumerate(out.arguments)) {
      types.push_back(func_.getArgument(a).getType());
      if (std::optional<unsigned> result = graph::updateOf(func_, a))
        out.func.setArgAttr(unsigned(at), graph::kUpdateAttr, out.builder.getI64IntegerAttr(place.at(*result)));
    }
    out.func.setFunctionType(out.builder.getFunctionType(types, results));
    out.func.setAllResultAttrs(attributes);
  }

  mutable func::FuncOp func_; // a handle, whose functions are not const
  llvm::ArrayRef<ModuleOp> modules_;
  const ProgramParts parts_;
  Operation *end_;
  std::vector<int> stage_, owner_;              // by step, by argument; -1: every stage that reads it
  std::map<unsigned, int> updatedIn_;           // by result that is a new value: the stage that has the old one
  std::vector<std::set<int>> needed_;           // by step that is free: the stages that compute it
  llvm::DenseMap<Value, std::set<int>> readIn_; // looked up only
  std::vector<Section> sections_;               // by step
  mutable std::map<std::pair<const void *, int>, Section> firstRead_;                      // looked up only
  llvm::DenseMap<const void *, llvm::SmallVector<std::pair<int, Crossing>, 1>> crossings_; // looked up only
  int64_t channels_ = 0;
  std::vector<StageFunction> functions_; // by stage
};

struct CutStagesPass : graph::FalliblePass<impl::CutStagesPassBase<CutStagesPass>> {
  using FalliblePass::FalliblePass;

  llvm::Error run() override {
    ModuleOp module = getOperation();
    int64_t count = stages;
    if (count == 0)
      module.walk([&](Operation *op) {
        count = std::max<int64_t>(count, numberIn(op->getAttr(dist::kStageAttr)).value_or(-1) + 1);
      });
    if (count < 2)
      return llvm::createStringError("a pipeline has 2 stages or more");
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    llvm::SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    llvm::SmallVector<ModuleOp> modules;
    for (int64_t s = 0; s < count; ++s) {
      modules.push_back(ModuleOp::create(builder, module.getLoc(), "stage" + std::to_string(s)));
      dist::setMesh(modules.back(), dist::getMesh(module));
      modules.back()->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(s));
      modules.back()->setAttr(dist::kStagesAttr, builder.getI64IntegerAttr(count));
    }
    for (func::FuncOp func : functions) {
      if (llvm::Error e = FunctionCutter(func, modules).run())
        return e;
      func.erase();
    }
    return llvm::Error::success();
  }
};

} // namespace

} // namespace tessera::compiler
