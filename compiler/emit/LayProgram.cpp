//===- LayProgram.cpp - buffers, steps and bindings of a program ----------------------------------===//
//
// The steps are those of the sections (dialects/graph/flow/Sections.h), one section after the other. A sum over
// micro-batches has one buffer, which a step before the body fills with zeros, and to which the body adds in place.
//
// Every value gets a buffer, with three exceptions. A view shares the bytes of its operand. Equal constants are stored
// once. The new value of a parameter or state is written into its buffer directly, if no later step reads the old
// value; otherwise the new value is copied at the program's end.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/emit/LayProgram.h"

#include "compiler/emit/FusedLoop.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/InPlace.h"
#include "dialects/graph/OperandParts.h"
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Sections.h"
#include "runtime/plan/Alignment.h"

#include "llvm/ADT/DenseMap.h"

#include <array>
#include <set>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

/// The most bytes of a splat that the plan stores. A step of the program fills larger ones, and those whose number the
/// element type rounded, since a step holds the number itself.
static constexpr uint64_t kMaxStoredSplat = 4096;

namespace {

using graph::Section;

class ProgramBuilder {
public:
  ProgramBuilder(PlanLayout &layout, SharedBuffers &shared, func::FuncOp func)
      : layout_(layout), shared_(shared), func_(func), flow_(func) {
    program_.name = func.getName().str();
    for (auto [i, op] : llvm::enumerate(flow_.operators)) {
      section_[op] = flow_.flow.steps[i].section;
      hasBody_ |= graph::inBody(section_[op]);
    }
    isStage_ = func->hasAttr(graph::kMicroBatchesAttr);
    hasBody_ |= isStage_;
    if (isStage_)
      program_.chunks = graph::chunksOf(func);
  }

  Error run() {
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (Error e = argument(i))
        return e;
    Block &block = func_.getBody().front();
    for (Operation &op : block.without_terminator())
      if (Error e = operation(&op))
        return e;
    if (Error e = results(block.getTerminator()))
      return e;
    layout_.programs.push_back(std::move(program_));
    return Error::success();
  }

private:
  Error fail(const Twine &what) { return createStringError("program '" + program_.name + "': " + what); }

  Expected<int> newBuffer(const Twine &name, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || elementBytes(tensor.getElementType()) == 0) {
      std::string text;
      raw_string_ostream(text) << type;
      return fail("'" + name + "' has the type " + text + ", which plans do not have");
    }
    LayoutBuffer buffer;
    buffer.name = name.str();
    buffer.type = tensor;
    layout_.buffers.push_back(std::move(buffer));
    return int(layout_.buffers.size() - 1);
  }

  Expected<dist::Sharding> sharding(Attribute attr, Type type, const Twine &what) {
    auto tensor = cast<RankedTensorType>(type);
    auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attr);
    if (!sharding) {
      if (layout_.mesh.numRanks() == 1)
        return dist::Sharding::replicated(tensor.getRank());
      return fail(what + " has no sharding");
    }
    Expected<dist::Sharding> resolved = sharding.resolve(layout_.mesh);
    if (resolved && resolved->rank() != tensor.getRank())
      return fail(what + " has a sharding of another rank");
    return resolved;
  }

  Error argument(unsigned i) {
    StringRef role = graph::argRole(func_, i);
    std::string name = graph::argName(func_, i).str();
    Value value = func_.getArgument(i);
    Expected<dist::Sharding> cut =
        sharding(func_.getArgAttr(i, dist::kShardingAttr), value.getType(), "argument '" + name + "'");
    if (!cut)
      return cut.takeError();
    bool lasting = role == graph::kParameter || role == graph::kState;
    if (!lasting && role != graph::kInput && role != graph::kTarget && role != graph::kStep)
      return fail("argument '" + name + "' has the unknown role '" + role + "'");
    LayoutBinding binding{role.str(),
                          name,
                          lasting ? "" : program_.name,
                          0,
                          0,
                          *cut,
                          globalShape(func_.getArgAttrDict(i), value.getType()),
                          0};
    if (lasting) {
      auto it = shared_.persistent.find((role + "/" + name).str());
      if (it != shared_.persistent.end()) {
        const LayoutBinding &known = layout_.bindings[it->second];
        if (layout_.buffers[known.buffer].type != value.getType() || !(known.sharding == *cut))
          return fail(role + " '" + name + "' is " + cut->str(layout_.mesh) + " here and " +
                      known.sharding.str(layout_.mesh) +
                      " in another program; give it one sharding, since its memory is shared");
        buffers_[value] = known.buffer;
        return Error::success();
      }
      if (auto fill = func_.getArgAttrOfType<FloatAttr>(i, graph::kFillAttr))
        binding.fill = fill.getValueAsDouble();
    }
    if (auto limit = func_.getArgAttrOfType<IntegerAttr>(i, graph::kIdLimitAttr))
      binding.idLimit = limit.getInt();
    if (auto name = func_.getArgAttrOfType<StringAttr>(i, graph::kLogAsAttr))
      binding.logAs = name.str();
    Expected<int> buffer = newBuffer(name, value.getType());
    if (!buffer)
      return buffer.takeError();
    layout_.buffers[*buffer].persistent = lasting;
    layout_.buffers[*buffer].kind = lasting ? role.str() : "input";
    binding.buffer = *buffer;
    buffers_[value] = *buffer;
    if (role == graph::kInput) {
      auto ordinal = func_.getArgAttrOfType<IntegerAttr>(i, graph::kOrdinalAttr);
      binding.ordinal = ordinal ? unsigned(ordinal.getInt()) : inputs_++;
    }
    if (lasting)
      shared_.persistent[(role + "/" + name).str()] = int(layout_.bindings.size());
    layout_.bindings.push_back(std::move(binding));
    return Error::success();
  }

  /// The global shape that localisation has stored. A program without it was never partitioned, so its shapes are
  /// global.
  static dist::Shape globalShape(DictionaryAttr attributes, Type local) {
    if (attributes)
      if (auto shape = attributes.getAs<DenseI64ArrayAttr>(dist::kGlobalShapeAttr))
        return dist::Shape(shape.asArrayRef());
    return dist::Shape(cast<RankedTensorType>(local).getShape());
  }

  /// The value's buffer. The first call for a constant makes its buffer.
  Expected<int> bufferOf(Value value) {
    if (auto it = buffers_.find(value); it != buffers_.end())
      return it->second;
    Operation *op = value.getDefiningOp();
    auto attr = op ? op->getAttrOfType<DenseElementsAttr>("value") : DenseElementsAttr();
    if (!attr)
      return fail("operator '" + (op ? graph::nameOf(op) : std::string("?")) + "' is a constant without contents");
    auto constant = dyn_cast<graph::ConstantOp>(op);
    const bool rounded = constant && constant.getExact();
    auto key = std::pair(attr.getAsOpaquePointer(), value.getType().getAsOpaquePointer());
    if (auto it = shared_.constants.find(key); it != shared_.constants.end() && !rounded)
      return buffers_[value] = it->second;
    Expected<int> buffer = newBuffer(graph::nameOf(op), value.getType());
    if (!buffer)
      return buffer;
    buffers_[value] = *buffer;
    LayoutBuffer &made = layout_.buffers[*buffer];
    if (attr.isSplat() && (rounded || made.bytes() > kMaxStoredSplat)) {
      addStep({LayoutStep::Fill, stepName(op), op, {}, {*buffer}}, section_.lookup(op));
      return *buffer;
    }
    made.persistent = true;
    made.constant = attr;
    made.kind = "constant";
    shared_.constants[key] = *buffer;
    return *buffer;
  }

  static std::string stepName(Operation *op) {
    std::string name = graph::nameOf(op), what = graph::kernelOf(op).str();
    if (auto collective = dyn_cast<dist::CollectiveOp>(op))
      what = collective.getKind().str();
    return name == what ? name : name + "." + what;
  }

  void addStep(LayoutStep step, Section section) { sections_[size_t(section)].push_back(std::move(step)); }

  /// Where the program has the section. Only in a pipeline is the backward pass apart from the forward pass.
  size_t placeOf(Section section) const {
    return isStage_ ? graph::placeOf(section, program_.chunks) : section == Section::End ? 2 : size_t(section);
  }
  bool hasSection(Section section) const {
    return !graph::inBody(section) || (isStage_ ? graph::chunkOf(section) < program_.chunks : section == Section::Body);
  }

  /// The number of the section's first step behind it, once the steps stand one after the other.
  size_t endOf(Section section) const {
    return hasBody_ ? program_.sectionEnds[placeOf(section)] : program_.steps.size();
  }

  /// Puts the sections one after the other.
  void joinSections() {
    for (auto [section, steps] : llvm::enumerate(sections_)) {
      std::move(steps.begin(), steps.end(), std::back_inserter(program_.steps));
      if (hasBody_ && hasSection(Section(section)))
        program_.sectionEnds.push_back(uint32_t(program_.steps.size()));
    }
    if (!hasBody_ || isStage_)
      return;
    program_.calls.push_back({0, 0});
    for (int64_t i = 0; i < flow_.parts; ++i)
      program_.calls.push_back({1, uint32_t(i)});
    program_.calls.push_back({2, 0});
  }

  /// The calls of a stage, of the sections that have steps.
  Error takeCalls() {
    auto calls = func_->getAttrOfType<DenseI64ArrayAttr>(dist::kCallsAttr);
    if (!calls || calls.size() % 2 != 0)
      return fail("a stage with micro-batches must say when it does what: '" + dist::kCallsAttr + "' is missing");
    auto times = func_->getAttrOfType<DenseI64ArrayAttr>(graph::kPredictedAttr);
    if (times && times.size() != calls.size() / 2)
      return fail("'" + graph::kPredictedAttr + "' must have a time for each call");
    for (size_t i = 0; i + 1 < size_t(calls.size()); i += 2) {
      const int64_t section = calls[int64_t(i)], index = calls[int64_t(i) + 1];
      if (section < 0 || section >= int64_t(program_.sectionEnds.size()) || index < 0 || index >= flow_.parts)
        return fail("'" + dist::kCallsAttr + "' calls section " + Twine(section) + " with index " + Twine(index));
      const uint32_t begin = section == 0 ? 0 : program_.sectionEnds[size_t(section) - 1];
      if (program_.sectionEnds[size_t(section)] > begin) {
        program_.calls.push_back({uint32_t(section), uint32_t(index)});
        if (times)
          program_.callTimes.push_back(times[int64_t(i / 2)]);
      }
    }
    return Error::success();
  }

  /// Adds steps at the end of a section that stands among the others.
  void append(std::vector<LayoutStep> steps, Section section) {
    const size_t end = endOf(section), count = steps.size();
    program_.steps.insert(program_.steps.begin() + int64_t(end), std::make_move_iterator(steps.begin()),
                          std::make_move_iterator(steps.end()));
    for (size_t s = placeOf(section); hasBody_ && s < program_.sectionEnds.size(); ++s)
      program_.sectionEnds[s] += uint32_t(count);
  }

  Error operation(Operation *op) {
    if (op->hasTrait<OpTrait::ConstantLike>())
      return Error::success();
    LayoutStep step;
    for (Value operand : op->getOperands()) {
      Expected<int> buffer = bufferOf(operand);
      if (!buffer)
        return buffer.takeError();
      step.inputs.push_back(*buffer);
    }
    for (OpResult result : op->getResults()) {
      std::string name = graph::nameOf(op);
      if (op->getNumResults() > 1)
        name += "#" + std::to_string(result.getResultNumber());
      Expected<int> buffer = newBuffer(name, result.getType());
      if (!buffer)
        return buffer.takeError();
      buffers_[result] = *buffer;
      step.outputs.push_back(*buffer);
      if (graph::isAccumulated(result)) {
        addStep({LayoutStep::Fill, "zeros for " + name, nullptr, {}, {*buffer}}, Section::Begin);
        // A loop reads the sum so far behind its own inputs, an addition before its operand.
        step.inputs.insert(isa<graph::FusedOp>(op) ? step.inputs.end() : step.inputs.begin(), *buffer);
      }
    }
    if (op->hasAttr(graph::kReadAsPartAttr)) { // its readers are told which part
      layout_.buffers.pop_back();
      buffers_[op->getResult(0)] = step.inputs[0];
      return Error::success();
    }
    if (graph::isView(op)) {
      const LayoutBuffer &whole = layout_.buffers[step.inputs[0]];
      LayoutBuffer &view = layout_.buffers[step.outputs[0]];
      const uint64_t shift = whole.shift + uint64_t(graph::viewStart(op)) * elementBytes(view.type.getElementType());
      if (shift % rt::kAlignment == 0) { // else it is copied
        view.alias = layout_.root(step.inputs[0]);
        view.shift = shift;
        return Error::success();
      }
    }
    step.kind = isa<dist::CollectiveOp>(op) ? LayoutStep::Collective
                : isa<dist::SendOp>(op)     ? LayoutStep::Send
                : isa<dist::ReceiveOp>(op)  ? LayoutStep::Receive
                                            : LayoutStep::Kernel;
    step.name = stepName(op);
    step.op = op;
    if (auto message = op->getAttrOfType<IntegerAttr>(graph::kMessageAttr))
      step.message = int(message.getInt());
    if (auto predicted = op->getAttrOfType<IntegerAttr>(graph::kPredictedAttr))
      step.predicted = predicted.getInt();
    if (auto collective = dyn_cast<dist::CollectiveOp>(op); collective && op->hasAttr(graph::kBesideAttr))
      step.beside = dist::communicates(collective.getCollectiveKind());
    if (graph::isLoop(op))
      if (Expected<FusedLoop> loop = FusedLoop::get(op); !loop)
        return loop.takeError();
    addStep(std::move(step), section_.lookup(op));
    return Error::success();
  }

  Error results(Operation *ret) {
    // Outputs are read after the last step. If an update overwrites the buffer of an output, the output gets a copy.
    std::map<unsigned, unsigned> updates; // argument by result
    for (unsigned i = 0; i < func_.getNumArguments(); ++i)
      if (std::optional<unsigned> result = graph::updateOf(func_, i)) {
        if (*result >= ret->getNumOperands())
          return fail("'" + graph::argName(func_, i) + "' is updated by a result that does not exist");
        if (!updates.try_emplace(*result, i).second)
          return fail("one result updates two arguments, one of them '" + graph::argName(func_, i) + "'");
      }
    std::vector<LayoutBinding> outputs;
    std::map<std::string, unsigned> ordinals;
    for (unsigned r = 0; r < ret->getNumOperands(); ++r) {
      Expected<int> buffer = bufferOf(ret->getOperand(r));
      if (!buffer)
        return buffer.takeError();
      StringRef role = graph::resultRole(func_, r);
      std::string name = graph::resultName(func_, r).str();
      Expected<dist::Sharding> cut =
          sharding(func_.getResultAttr(r, dist::kShardingAttr), ret->getOperand(r).getType(), "result '" + name + "'");
      if (!cut)
        return cut.takeError();
      if (updates.count(r)) {
        unsigned arg = updates[r];
        Expected<dist::Sharding> old =
            sharding(func_.getArgAttr(arg, dist::kShardingAttr), func_.getArgument(arg).getType(), "argument");
        if (!old)
          return old.takeError();
        if (!(*old == *cut) || func_.getArgument(arg).getType() != ret->getOperand(r).getType())
          return fail("the new value of '" + graph::argName(func_, arg) + "' is " + cut->str(layout_.mesh) +
                      ", the old one " + old->str(layout_.mesh));
        continue;
      }
      if (role == graph::kUpdate)
        return fail("result " + Twine(r) + " updates no argument");
      if (role != graph::kOutput && role != graph::kLoss && role != graph::kCorrect && role != graph::kPredictions &&
          role != graph::kLearningRate && role != graph::kGradientNorm)
        return fail("result " + Twine(r) + " has the unknown role '" + role + "'");
      unsigned ordinal = ordinals[role.str()]++;
      if (auto whole = func_.getResultAttrOfType<IntegerAttr>(r, graph::kOrdinalAttr))
        ordinal = unsigned(whole.getInt());
      outputs.push_back({role.str(), name, program_.name, ordinal, *buffer, *cut,
                         globalShape(func_.getResultAttrDict(r), ret->getOperand(r).getType()), 0});
    }
    return writeBack(ret, updates, outputs);
  }

  Error writeBack(Operation *ret, const std::map<unsigned, unsigned> &updates, std::vector<LayoutBinding> &outputs) {
    joinSections();
    indexSteps();
    auto &buffers = layout_.buffers;
    std::set<int> overwritten; // roots
    for (auto [result, arg] : updates)
      if (buffers_[ret->getOperand(result)] != buffers_[func_.getArgument(arg)])
        overwritten.insert(buffers_[func_.getArgument(arg)]);
    // Old values are saved, and new ones written, at the end of the program, or of the part of the body that makes them
    // where they are carried to the next micro-batch.
    std::map<Section, std::vector<LayoutStep>> saves, writes;
    auto sectionOf = [&](unsigned result) {
      const int value = flow_.flow.results[result], maker = flow_.flow.values[size_t(value)].maker;
      return !hasBody_ || !flow_.flow.variesInBody(value) ? Section::End
             : maker < 0                                  ? Section::Body
                                                          : flow_.flow.steps[size_t(maker)].section;
    };
    auto save = [&](int buffer, Section section) -> Expected<int> {
      Expected<int> copy = newBuffer(buffers[buffer].name + ".old", buffers[buffer].type);
      if (copy)
        saves[section].push_back({LayoutStep::Copy, "save " + buffers[buffer].name, nullptr, {buffer}, {*copy}});
      return copy;
    };
    std::set<int> readAtEnd; // roots
    for (LayoutBinding &output : outputs) {
      if (overwritten.count(layout_.root(output.buffer))) {
        readAtEnd.insert(layout_.root(output.buffer));
        Expected<int> copy = save(output.buffer, Section::End);
        if (!copy)
          return copy.takeError();
        output.buffer = *copy;
      }
    }
    std::map<int, int> timesUpdate;
    for (auto [result, arg] : updates) {
      int from = buffers_[ret->getOperand(result)];
      ++timesUpdate[layout_.root(from)];
      if (overwritten.count(layout_.root(from)) && from != buffers_[func_.getArgument(arg)])
        readAtEnd.insert(layout_.root(from));
    }
    for (auto [result, arg] : updates) {
      int from = buffers_[ret->getOperand(result)], to = buffers_[func_.getArgument(arg)];
      if (from == to)
        continue;
      if (timesUpdate[layout_.root(from)] == 1 && !readAtEnd.count(to) && writeInPlace(from, to)) {
        for (LayoutBinding &output : outputs)
          if (output.buffer == from)
            output.buffer = to;
        continue;
      }
      if (overwritten.count(layout_.root(from))) {
        Expected<int> copy = save(from, sectionOf(result));
        if (!copy)
          return copy.takeError();
        from = *copy;
      }
      writes[sectionOf(result)].push_back({LayoutStep::Copy, "update " + buffers[to].name, nullptr, {from}, {to}});
    }
    for (auto *lists : {&saves, &writes})
      for (auto &[section, steps] : *lists)
        append(std::move(steps), section);
    for (LayoutBinding &output : outputs)
      layout_.bindings.push_back(std::move(output));
    return isStage_ ? takeCalls() : Error::success();
  }

  /// Indexes which steps write and read each buffer, because there are many updates and many steps.
  void indexSteps() {
    for (auto [s, step] : llvm::enumerate(program_.steps)) {
      for (int output : step.outputs)
        if (!makers_.try_emplace(output, int(s)).second)
          makers_[output] = -1; // a sum, which several steps write
      for (int input : step.inputs)
        readers_[layout_.root(input)].push_back(int(s));
    }
    for (auto [b, buffer] : llvm::enumerate(layout_.buffers))
      if (buffer.alias >= 0)
        views_[buffer.alias].push_back(int(b));
  }

  /// Lets the step that makes `from` write into `to` instead, if no later step reads `to`. Returns whether it does.
  bool writeInPlace(int from, int to) {
    auto &buffers = layout_.buffers;
    if (buffers[from].alias >= 0 || buffers[from].persistent || buffers[from].kind == "input")
      return false;
    auto made = makers_.find(from);
    if (made == makers_.end() || made->second < 0)
      return false;
    const int s = made->second;
    LayoutStep &maker = program_.steps[s];
    const int o = int(llvm::find(maker.outputs, from) - maker.outputs.begin());
    for (size_t i = 0; i < maker.inputs.size(); ++i)
      if (layout_.root(maker.inputs[i]) == to && !mayShare(layout_, maker, int(i), o))
        return false;
    std::vector<int> &readers = readers_[to];
    if (!readers.empty() && *std::max_element(readers.begin(), readers.end()) > s)
      return false;
    // No other result of this step writes to `to`, since an argument has only one update.
    maker.outputs[o] = to;
    for (int later : readers_[from])
      for (int &input : program_.steps[later].inputs)
        if (input == from)
          input = to;
    for (int view : views_[from])
      buffers[view].alias = to;
    readers.insert(readers.end(), readers_[from].begin(), readers_[from].end());
    views_[to].insert(views_[to].end(), views_[from].begin(), views_[from].end());
    makers_.erase(from);
    makers_[to] = s;
    return true;
  }

  PlanLayout &layout_;
  SharedBuffers &shared_;
  func::FuncOp func_;
  const graph::FunctionFlow flow_;
  llvm::DenseMap<Operation *, Section> section_; // looked up only
  bool hasBody_ = false;
  bool isStage_ = false;                                           // of a pipeline, with micro-batches
  std::array<std::vector<LayoutStep>, graph::kSections> sections_; // until they are joined
  LayoutProgram program_;
  llvm::DenseMap<Value, int> buffers_;
  std::map<int, int> makers_;                       // buffer to step
  std::map<int, std::vector<int>> readers_, views_; // by root: steps; buffers that show it
  unsigned inputs_ = 0;
};

} // namespace

Error layProgram(PlanLayout &layout, SharedBuffers &shared, func::FuncOp func) {
  return ProgramBuilder(layout, shared, func).run();
}

} // namespace tessera::compiler
