//===- CutStages.cpp - one module per device ---------------------------------------------------------===//
//
// A device's function has the operators of its stages in the order of the whole program, in which nothing waits for
// anything behind it. A value is sent as soon as it is made, and received before it is first read. So nobody waits
// forever: sends do not wait, and who receives waits for an operator that stands before it in that order.
//
// Between micro-batches the calls decide (Calls.h). What a section reads of another stage comes from a section that ran
// before it, on this device or another:
//
//   forward    from forward passes of stages before it
//   input      from stages behind it, and from forward passes
//   weight     the same
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/pipeline/Passes.h"

#include "compiler/pipeline/ProgramParts.h"
#include "compiler/pipeline/Versions.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/PassBases.h"
#include "dialects/graph/flow/Sections.h"
#include "strategies/pipeline/Pipeline.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

#include <map>
#include <set>
#include <tuple>

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_CUTSTAGESPASS
#include "compiler/pipeline/Passes.h.inc"

using graph::Section;

namespace {

/// The most channels that every transport has: MPI promises so many tags.
constexpr int64_t kMostChannels = 32768;

/// What crosses from the device that has a value to another one.
struct Crossing {
  int to = 0; // a stage that reads it, or of what is the same for all micro-batches the first of all on that device
  int channel = 0;
  Section sends = Section::Begin, receives = Section::Begin;
};

/// A section that runs before both, or is one of them.
Section beforeBoth(Section a, Section b) {
  const Section first = std::min(a, b), last = std::max(a, b);
  return first == last || graph::surelyBefore(first, last) ? first : graph::inputOf(graph::chunkOf(first));
}

class FunctionCutter {
public:
  FunctionCutter(func::FuncOp func, llvm::ArrayRef<ModuleOp> modules, const strategies::StagePlaces &places)
      : func_(func), modules_(modules), places_(places), parts_(func), end_(func.getBody().front().getTerminator()) {}

  llvm::Error run() {
    for (auto read : {&FunctionCutter::readStages, &FunctionCutter::findNeeds, &FunctionCutter::findSections,
                      &FunctionCutter::findCrossings})
      if (llvm::Error e = (this->*read)())
        return e;
    for (int device = 0; device < places_.devices; ++device)
      begin(device);
    for (int s : parts_.order)
      for (int device = 0; device < places_.devices; ++device)
        if (isOn(s, device))
          write(s, device);
    for (int device = 0; device < places_.devices; ++device)
      finish(device);
    return llvm::Error::success();
  }

private:
  /// A function that is being written.
  struct DeviceFunction {
    func::FuncOp func;
    OpBuilder builder;
    IRMapping mapping;
    std::set<unsigned> arguments;
  };

  int numStages() const { return places_.stages(); }
  /// The first stage of a device, which stands for what all of them share.
  static int firstOn(int device) { return device; }
  Operation *operatorOf(int s) const { return parts_.program.operators[size_t(s)]; }
  bool isFree(int s) const { return stage_[size_t(s)] < 0; }
  bool isOn(int s, int device) const {
    return isFree(s) ? needed_[size_t(s)].count(device) : places_.deviceOf(stage_[size_t(s)]) == device;
  }
  llvm::Error fail(const Twine &what) const { return llvm::createStringError("'" + func_.getName() + "': " + what); }

  /// The stage that has the value; -1: every stage that reads it.
  int homeOf(Value value) const {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? owner_[argument.getArgNumber()] : stage_[size_t(parts_.makerOf(value))];
  }

  llvm::Error readStages() {
    auto valid = [&](int stage) { return stage >= 0 && stage < numStages(); };
    for (Operation *op : parts_.program.operators) {
      stage_.push_back(stageIn(op));
      if (stage_.back() != -1 && !valid(stage_.back()))
        return fail("operator '" + graph::nameOf(op) + "' has the stage " + Twine(stage_.back()) + " of " +
                    Twine(numStages()));
    }
    for (unsigned a = 0; a < func_.getNumArguments(); ++a) {
      owner_.push_back(isOwned(func_, a) ? stageIn(func_.getArgument(a)) : kNoStage);
      if (isOwned(func_, a) && !valid(owner_.back()))
        return fail("'" + graph::argName(func_, a) + "' has no stage that has it");
      if (std::optional<unsigned> result = graph::updateOf(func_, a))
        updatedIn_[*result] = owner_[a];
    }
    for (size_t s = 0; s < stage_.size(); ++s)
      if (isFree(int(s)))
        for (Value operand : operatorOf(int(s))->getOperands())
          if (homeOf(operand) >= 0 && (!parts_.inBody(int(s)) || varies(operand)))
            return fail("operator '" + graph::nameOf(operatorOf(int(s))) +
                        "' has no stage, but reads what only stage " + Twine(homeOf(operand)) + " has");
    return llvm::Error::success();
  }

  /// The stages that return a result, at most one of a device.
  llvm::SmallVector<int> stagesOfResult(unsigned r) const {
    if (auto it = updatedIn_.find(r); it != updatedIn_.end())
      return {it->second};
    if (!isTold(func_, r))
      return {std::max(0, homeOf(end_->getOperand(r)))};
    llvm::SmallVector<int> all;
    for (int device = 0; device < places_.devices; ++device)
      all.push_back(firstOn(device));
    return all;
  }

  /// Which devices compute an operator that each may compute for itself, and which stages read each value.
  llvm::Error findNeeds() {
    needed_.resize(stage_.size());
    auto read = [&](Value value, int stage) {
      readIn_[value].insert(stage);
      if (const int maker = parts_.makerOf(value); maker >= 0 && isFree(maker))
        needed_[size_t(maker)].insert(places_.deviceOf(stage));
    };
    for (unsigned r = 0; r < end_->getNumOperands(); ++r)
      for (int stage : stagesOfResult(r))
        read(end_->getOperand(r), stage);
    for (int s : llvm::reverse(parts_.order))
      for (Value operand : operatorOf(s)->getOperands())
        if (!isFree(s))
          read(operand, stage_[size_t(s)]);
        else
          for (int device : needed_[size_t(s)])
            read(operand, firstOn(device));
    return llvm::Error::success();
  }

  int chunkOf(int s) const { return places_.chunkOf(stage_[size_t(s)]); }

  /// Divides the forward pass by chunks, and the backward pass into what other stages wait for and the rest.
  llvm::Error findSections() {
    sections_.resize(stage_.size());
    for (size_t s = 0; s < stage_.size(); ++s) {
      sections_[s] = parts_.program.flow.steps[s].section;
      if (parts_.inBody(int(s)) && !isFree(int(s)))
        sections_[s] = parts_.forward[s] ? graph::forwardOf(chunkOf(int(s))) : graph::weightOf(chunkOf(int(s)));
    }
    for (int s : llvm::reverse(parts_.order)) {
      if (isFree(s) || !parts_.inBackwardBody(s))
        continue;
      for (Value result : operatorOf(s)->getResults())
        if (!parts_.program.flow.values[size_t(parts_.program.index.lookup(result))].sum)
          for (int stage : readIn_[result])
            if (stage != stage_[size_t(s)])
              sections_[size_t(s)] = graph::inputOf(chunkOf(s));
      if (graph::isWeight(sections_[size_t(s)]))
        continue;
      for (Value operand : operatorOf(s)->getOperands())
        if (const int maker = parts_.makerOf(operand);
            maker >= 0 && stage_[size_t(maker)] == stage_[size_t(s)] && parts_.inBackwardBody(maker))
          sections_[size_t(maker)] = graph::inputOf(chunkOf(maker));
    }
    return llvm::Error::success();
  }

  /// The section in which a device runs the operator.
  Section sectionOn(int s, int device) const {
    if (!isFree(s) || !parts_.inBody(s))
      return sections_[size_t(s)];
    Section first = Section::End;
    for (Value result : operatorOf(s)->getResults())
      first = beforeBoth(first, firstReader(result, device));
    return graph::inBody(first) ? first : Section::Body;
  }

  /// A section of a device that reads the value, or runs before all that do. Of one stage's readers, if it is given.
  Section firstReader(Value value, int device, int stage = -1) const {
    const auto key = std::tuple(value.getAsOpaquePointer(), device, stage);
    auto known = firstRead_.find(key);
    if (known != firstRead_.end())
      return known->second;
    Section first = Section::End;
    for (OpOperand &use : value.getUses())
      if (use.getOwner() == end_)
        first = std::min(first, parts_.hasBody ? Section::End : Section::Begin);
      else if (const int reader = parts_.makerOf(use.getOwner()->getResult(0));
               isOn(reader, device) && (stage < 0 || stage_[size_t(reader)] == stage))
        first = beforeBoth(first, sectionOn(reader, device));
    return firstRead_[key] = first;
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

  /// Whether the value is made for each micro-batch.
  bool varies(Value value) const { return parts_.program.flow.variesInBody(parts_.program.index.lookup(value)); }

  llvm::Error cross(Value value) {
    const int home = homeOf(value);
    if (home < 0)
      return llvm::Error::success();
    const int maker = parts_.makerOf(value);
    if (varies(value)) {
      if (maker < 0)
        return checkCarried(cast<BlockArgument>(value), home);
      for (int stage : readIn_[value])
        if (stage != home)
          if (llvm::Error e = crossInBody(value, home, stage))
            return e;
      return llvm::Error::success();
    }
    const bool atEnd = maker >= 0 && (parts_.program.flow.values[size_t(parts_.program.index.lookup(value))].sum ||
                                      sections_[size_t(maker)] == Section::End);
    std::set<int> devices;
    for (int stage : readIn_[value])
      devices.insert(places_.deviceOf(stage));
    devices.erase(places_.deviceOf(home));
    for (int device : devices) {
      const Section section = atEnd || firstReader(value, device) == Section::End ? Section::End : Section::Begin;
      if (llvm::Error e = addCrossing(value, {firstOn(device), 0, section, section}))
        return e;
    }
    return llvm::Error::success();
  }

  /// A state that micro-batches carry on is read in one forward pass alone.
  llvm::Error checkCarried(BlockArgument state, int home) {
    for (int stage : readIn_[state])
      if (stage != home || (parts_.hasBody && lastBodyReader(state) > graph::forwardOf(places_.chunkOf(home))))
        return fail("the state '" + graph::argName(func_, state.getArgNumber()) +
                    "', which every micro-batch changes, is read in another stage or in the backward pass");
    return llvm::Error::success();
  }

  llvm::Error crossInBody(Value value, int home, int stage) {
    const int maker = parts_.makerOf(value);
    const Section sends = sections_[size_t(maker)], receives = firstReader(value, places_.deviceOf(stage), stage);
    const bool back = !graph::isForward(sends);
    if (!graph::inBody(receives) || (back && graph::isForward(receives)) ||
        (back ? stage > home : graph::isForward(receives) && stage < home))
      return fail("operator '" + graph::nameOf(operatorOf(maker)) + "' of stage " + Twine(home) +
                  " makes for each micro-batch what stage " + Twine(stage) + " reads before");
    if (places_.deviceOf(stage) == places_.deviceOf(home))
      return llvm::Error::success();
    return addCrossing(value, {stage, 0, sends, receives});
  }

  llvm::Error addCrossing(Value value, Crossing crossing) {
    if (channels_ == kMostChannels)
      return fail("more than " + Twine(kMostChannels) + " values cross stages; use fewer stages");
    crossing.channel = int(channels_++);
    crossings_[value.getAsOpaquePointer()].push_back(crossing);
    return llvm::Error::success();
  }

  /// The last section of the body, of those of its stage, that reads the value.
  Section lastBodyReader(Value value) const {
    Section last = Section::Begin;
    for (OpOperand &use : value.getUses())
      if (use.getOwner() != end_)
        if (const int reader = parts_.makerOf(use.getOwner()->getResult(0)); graph::inBody(sections_[size_t(reader)]))
          last = std::max(last, sections_[size_t(reader)]);
    return last;
  }

  // ---- writing ----

  void begin(int device) {
    ModuleOp module = modules_[size_t(device)];
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    DeviceFunction &out = functions_.emplace_back(DeviceFunction{nullptr, builder, {}, {}});
    llvm::SmallVector<Type> types;
    llvm::SmallVector<DictionaryAttr> attributes;
    unsigned inputs = 0;
    for (BlockArgument argument : func_.getArguments()) {
      const unsigned a = argument.getArgNumber();
      const unsigned ordinal = graph::argRole(func_, a) == graph::kInput ? inputs++ : 0;
      if (!hasArgument(argument, device))
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
    if (parts_.hasBody) {
      out.func->setAttr(graph::kMicroBatchesAttr, builder.getI64IntegerAttr(parts_.program.parts));
      if (places_.chunks > 1)
        out.func->setAttr(graph::kChunksAttr, builder.getI64IntegerAttr(places_.chunks));
    }
    out.builder = OpBuilder::atBlockEnd(block);
    for (unsigned a : out.arguments)
      send(func_.getArgument(a), device);
  }

  /// What nobody reads the first device has.
  bool hasArgument(BlockArgument argument, int device) const {
    if (isOwned(func_, argument.getArgNumber()))
      return places_.deviceOf(owner_[argument.getArgNumber()]) == device;
    auto reads = readIn_.find(argument);
    return reads == readIn_.end()
               ? device == 0
               : llvm::any_of(reads->second, [&](int stage) { return places_.deviceOf(stage) == device; });
  }

  void place(Operation *op, Section section) const {
    if (parts_.hasBody)
      graph::setSection(op, section);
  }

  /// Sends the value of this device to those that read it.
  void send(Value value, int device) {
    auto it = crossings_.find(value.getAsOpaquePointer());
    if (it == crossings_.end())
      return;
    DeviceFunction &from = functions_[size_t(device)];
    for (const Crossing &crossing : it->second)
      describe(dist::SendOp::create(from.builder, value.getLoc(), from.mapping.lookup(value),
                                    uint64_t(places_.deviceOf(crossing.to)), uint64_t(crossing.channel)),
               value, crossing.sends);
  }

  void describe(Operation *message, Value value, Section section) const {
    Operation *op = value.getDefiningOp();
    const std::string name =
        op ? graph::nameOf(op) : graph::argName(func_, cast<BlockArgument>(value).getArgNumber()).str();
    message->setAttr(graph::kNameAttr, StringAttr::get(message->getContext(), name));
    if (Attribute border = op ? op->getAttr(kBorderAttr) : Attribute())
      message->setAttr(kBorderAttr, border);
    place(message, section);
  }

  /// Maps the value to what a stage of this device reads, which receives it if it has not yet. Each stage receives what
  /// is made for each micro-batch by itself.
  Value valueIn(Value value, int stage) {
    const int device = places_.deviceOf(stage), home = homeOf(value);
    DeviceFunction &out = functions_[size_t(device)];
    if (home < 0 || places_.deviceOf(home) == device)
      return out.mapping.lookup(value);
    const int to = varies(value) ? stage : firstOn(device);
    Value &received = received_[{value.getAsOpaquePointer(), to}];
    if (!received) {
      const Crossing &crossing = *llvm::find_if(crossings_.find(value.getAsOpaquePointer())->second,
                                                [&](const Crossing &one) { return one.to == to; });
      auto receive = dist::ReceiveOp::create(out.builder, value.getLoc(), value.getType(),
                                             uint64_t(places_.deviceOf(home)), uint64_t(crossing.channel));
      describe(receive, value, crossing.receives);
      received = receive.getY();
    }
    out.mapping.map(value, received);
    return received;
  }

  void write(int s, int device) {
    DeviceFunction &out = functions_[size_t(device)];
    Operation *op = operatorOf(s);
    for (Value operand : op->getOperands())
      valueIn(operand, isFree(s) ? firstOn(device) : stage_[size_t(s)]);
    Operation *copy = out.builder.clone(*op, out.mapping);
    copy->removeAttr(dist::kStageAttr);
    place(copy, sectionOn(s, device));
    for (Value result : op->getResults())
      if (homeOf(result) >= 0)
        send(result, device);
  }

  void finish(int device) {
    DeviceFunction &out = functions_[size_t(device)];
    llvm::SmallVector<Value> values;
    llvm::SmallVector<Type> results;
    llvm::SmallVector<DictionaryAttr> attributes;
    std::map<unsigned, unsigned> place; // of the whole program's results
    std::map<std::string, unsigned> ordinals;
    for (unsigned r = 0; r < end_->getNumOperands(); ++r) {
      const unsigned ordinal = ordinals[graph::resultRole(func_, r).str()]++;
      const llvm::SmallVector<int> stages = stagesOfResult(r);
      const auto *stage = llvm::find_if(stages, [&](int one) { return places_.deviceOf(one) == device; });
      if (stage == stages.end())
        continue;
      place[r] = unsigned(values.size());
      values.push_back(valueIn(end_->getOperand(r), *stage));
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

  mutable func::FuncOp func_;        // a handle, whose functions are not const
  llvm::ArrayRef<ModuleOp> modules_; // by device
  const strategies::StagePlaces &places_;
  const ProgramParts parts_;
  Operation *end_;
  std::vector<int> stage_, owner_;              // by step, by argument; -1: wherever it is read
  std::map<unsigned, int> updatedIn_;           // by result that is a new value: the stage that has the old one
  std::vector<std::set<int>> needed_;           // by step that is free: the devices that compute it
  llvm::DenseMap<Value, std::set<int>> readIn_; // the stages that read it; looked up only
  std::vector<Section> sections_;               // by step that is not free
  mutable std::map<std::tuple<const void *, int, int>, Section> firstRead_; // looked up only
  llvm::DenseMap<const void *, llvm::SmallVector<Crossing, 1>> crossings_;  // looked up only
  std::map<std::pair<const void *, int>, Value> received_;                  // by stage; looked up only
  int64_t channels_ = 0;
  std::vector<DeviceFunction> functions_; // by device
};

struct CutStagesPass : graph::FalliblePass<impl::CutStagesPassBase<CutStagesPass>> {
  using FalliblePass::FalliblePass;

  llvm::Error run() override {
    ModuleOp module = getOperation();
    int64_t count = stages;
    if (count == 0)
      module.walk([&](Operation *op) { count = std::max<int64_t>(count, stageIn(op) + 1); });
    if (count < 2)
      return llvm::createStringError("a pipeline has 2 stages or more");
    const int64_t on = devices == 0 ? count : int64_t(devices);
    if (on < 2 || count % on != 0 || count / on > graph::kMostChunks || (returns && count != 2 * on))
      return llvm::createStringError("%lld stages cannot lie on %lld devices%s", (long long)count, (long long)on,
                                     returns ? " there and back" : "");
    const strategies::StagePlaces places{int(on), int(count / on), returns};
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    llvm::SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    llvm::SmallVector<ModuleOp> modules;
    for (int64_t s = 0; s < on; ++s) {
      modules.push_back(ModuleOp::create(builder, module.getLoc(), "stage" + std::to_string(s)));
      dist::setMesh(modules.back(), dist::getMesh(module));
      modules.back()->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(s));
      modules.back()->setAttr(dist::kStagesAttr, builder.getI64IntegerAttr(on));
    }
    for (func::FuncOp func : functions) {
      if (llvm::Error e = FunctionCutter(func, modules, places).run())
        return e;
      func.erase();
    }
    return llvm::Error::success();
  }
};

} // namespace

} // namespace tessera::compiler
