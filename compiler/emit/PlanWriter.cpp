//===- PlanWriter.cpp - a layout as one rank's message -----------------------------------------===//
#include "compiler/emit/PlanWriter.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/exchange/Exchange.h"
#include "dialects/dist/exchange/MeshBoxes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/OperandParts.h"
#include "dialects/graph/flow/Messages.h"
#include "runtime/plan/OperandParts.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/lanes/RunBeside.h"

#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::AxisList;
using dist::CollectiveKind;
using dist::Mesh;

plan::DType planTypeOf(Type element) {
  if (auto integer = dyn_cast<IntegerType>(element)) {
    switch (integer.getWidth()) {
    case 1:
      return plan::BOOL;
    case 8:
      return integer.isUnsigned() ? plan::U8 : plan::I8;
    case 32:
      return plan::I32;
    case 64:
      return plan::I64;
    default:
      return plan::DTYPE_INVALID;
    }
  }
  return element.isF64()    ? plan::F64
         : element.isF32()  ? plan::F32
         : element.isF16()  ? plan::F16
         : element.isBF16() ? plan::BF16
                            : plan::DTYPE_INVALID;
}

namespace {

template <typename Range, typename Repeated> void assign(const Range &range, Repeated *out) {
  for (int64_t value : range)
    out->Add(value);
}

/// The elements as little-endian bytes in row-major order.
std::string contents(DenseElementsAttr attr) {
  std::string bytes;
  uint64_t width = elementBytes(attr.getElementType());
  auto put = [&](const APInt &bits) {
    uint64_t word = bits.getZExtValue();
    for (uint64_t b = 0; b < width; ++b)
      bytes.push_back(char(word >> (8 * b)));
  };
  if (isa<FloatType>(attr.getElementType()))
    for (const APFloat &value : attr.getValues<APFloat>())
      put(value.bitcastToAPInt());
  else
    for (const APInt &value : attr.getValues<APInt>())
      put(value);
  return bytes;
}

plan::Role roleOf(StringRef role) {
  return llvm::StringSwitch<plan::Role>(role)
      .Case(graph::kInput, plan::INPUT)
      .Case(graph::kTarget, plan::TARGET)
      .Case(graph::kStep, plan::STEP)
      .Case(graph::kParameter, plan::PARAMETER)
      .Case(graph::kState, plan::STATE)
      .Case(graph::kOutput, plan::OUTPUT)
      .Case(graph::kLoss, plan::LOSS)
      .Case(graph::kCorrect, plan::CORRECT)
      .Case(graph::kPredictions, plan::PREDICTIONS)
      .Case(graph::kLearningRate, plan::LEARNING_RATE)
      .Case(graph::kGradientNorm, plan::GRADIENT_NORM)
      .Default(plan::ROLE_INVALID);
}

plan::Reduction reductionOf(dist::Reduction reduction) {
  switch (reduction) {
  case dist::Reduction::Sum:
    return plan::SUM;
  case dist::Reduction::Max:
    return plan::MAX;
  case dist::Reduction::Min:
    return plan::MIN;
  case dist::Reduction::None:
    break;
  }
  return plan::NONE;
}

} // namespace

class PlanWriter::Impl {
public:
  Impl(const PlanLayout &layout, const EmitOptions &options)
      : layout_(layout), mesh_(layout.mesh), generated_(options.generated), run_(options.run) {
    plan_.set_producer(options.producer);
    plan_.set_model(options.model);
    plan_.set_weights_file(options.weightsFile);
    plan_.set_arena_bytes(layout.arenaBytes);
    plan_.set_global_batch(layout.globalBatch);
    plan_.set_leaves(uint32_t(layout.leaves));
    auto addAxis = [&](StringRef name, int64_t size) {
      plan::MeshAxis *out = plan_.add_mesh();
      out->set_name(name.str());
      out->set_size(uint32_t(size));
    };
    if (layout.stages > 1) {
      plan_.set_stages(uint32_t(layout.stages));
      if (layout.stageRanks.empty())
        addAxis(dist::kStageAxis, layout.stages);
      for (int64_t ranks : layout.stageRanks)
        plan_.add_stage_ranks(uint32_t(ranks));
    }
    for (const dist::MeshAxis &axis : mesh_.axes())
      addAxis(axis.name, axis.size);
    for (const LayoutFrame &frame : layout_.frames) {
      plan::Frame *out = plan_.add_frames();
      out->set_offset(frame.offset);
      out->set_bytes(frame.bytes);
      out->set_slots(frame.slots);
    }
    for (const LayoutBuffer &buffer : layout_.buffers)
      writeBuffer(buffer);
    for (const LayoutBinding &binding : layout_.bindings)
      writeBinding(binding);
    for (const AxisList &axes : layout_.groups)
      group(axes);
    while (groups_.size() < layout_.numGroups)
      addGroup({});
  }

  Expected<const plan::Plan *> write(int64_t rank) {
    rank_ = rank;
    plan_.set_rank(uint32_t(rankIn(layout_.stage)));
    for (auto [binding, out] : llvm::zip_equal(layout_.bindings, *plan_.mutable_bindings()))
      placeBinding(binding, out);
    for (auto [axes, out] : llvm::zip_equal(groups_, *plan_.mutable_groups()))
      placeGroup(axes, out);
    if (Error e = plan_.programs_size() == 0 ? writeAll() : writeAgain())
      return e;
    return &plan_;
  }

private:
  Error writeAll() {
    for (const LayoutProgram &program : layout_.programs) {
      plan::Program *out = plan_.add_programs();
      out->set_name(program.name);
      for (uint32_t end : program.sectionEnds)
        out->add_section_ends(end);
      for (auto [section, index] : program.calls) {
        plan::Call *call = out->add_calls();
        call->set_section(section);
        call->set_index(index);
      }
      for (const LayoutStep &step : program.steps) {
        asked_ = false;
        if (Error e = writeStep(step, out->add_steps()))
          return e;
        if (asked_)
          ranksOwn_.push_back({&step, out->mutable_steps(out->steps_size() - 1)});
      }
    }
    plan_.set_version(rt::neededVersion(plan_));
    runBeside();
    return Error::success();
  }

  /// Which resource runs a step and for which steps it waits is the same on every rank, as places in the arena are.
  void runBeside() {
    auto isBeside = [](const LayoutStep &step) { return step.beside; };
    if (llvm::none_of(layout_.programs, [&](const auto &program) { return llvm::any_of(program.steps, isBeside); }))
      return;
    rt::runBeside(plan_, [&](const plan::Program &program, int step) {
      return llvm::find_if(layout_.programs, [&](const auto &of) { return of.name == program.name(); })
          ->steps[size_t(step)]
          .beside;
    });
  }

  Error writeAgain() {
    for (auto [step, out] : ranksOwn_) {
      const plan::Resource resource = out->resource();
      google::protobuf::RepeatedField<uint32_t> waits;
      waits.Swap(out->mutable_waits());
      out->Clear();
      if (Error e = writeStep(*step, out))
        return e;
      out->set_resource(resource);
      waits.Swap(out->mutable_waits());
    }
    return Error::success();
  }

  /// In the mesh of the stage.
  int64_t rank() {
    asked_ = true;
    return rank_;
  }

  /// The rank at the same place of a stage's mesh, among the ranks of all stages.
  int64_t rankIn(int64_t stage) const { return layout_.firstRank(stage) + rank_; }

  void writeBuffer(const LayoutBuffer &buffer) {
    plan::Buffer *out = plan_.add_buffers();
    out->set_name(buffer.name);
    out->set_dtype(planTypeOf(buffer.type.getElementType()));
    assign(buffer.type.getShape(), out->mutable_shape());
    out->set_offset(buffer.offset);
    out->set_alias_of_plus_one(uint32_t(buffer.alias + 1));
    out->set_persistent(buffer.persistent);
    if (buffer.constant)
      out->set_constant(contents(buffer.constant));
  }

  void writeBinding(const LayoutBinding &binding) {
    plan::Binding *out = plan_.add_bindings();
    out->set_role(roleOf(binding.role));
    out->set_name(binding.name);
    out->set_ordinal(binding.ordinal);
    out->set_buffer(uint32_t(binding.buffer));
    assign(binding.globalShape, out->mutable_global_shape());
    out->set_fill(binding.fill);
    if (binding.role == graph::kParameter || binding.role == graph::kState)
      writeInitial(binding.name, out);
    out->set_program(binding.program);
    out->set_id_limit(binding.idLimit);
    out->set_log_as(binding.logAs);
  }

  /// Writes which block this rank holds, and whether it is the first rank that holds it.
  void placeBinding(const LayoutBinding &binding, plan::Binding &out) {
    const dist::Shape &global = binding.globalShape;
    out.clear_offset();
    assign(binding.sharding.offset(mesh_, global, rank_), out.mutable_offset());
    bool padded = false;
    for (size_t d = 0; d < global.size(); ++d)
      padded |= binding.sharding.isPadded(mesh_, global, int64_t(d));
    out.clear_extent();
    if (padded)
      assign(binding.sharding.extent(mesh_, global, rank_), out.mutable_extent());
    bool primary = !binding.again;
    if (!binding.before.empty()) {
      dist::Shape block = binding.sharding.offset(mesh_, global, rank_);
      block.append(binding.sharding.extent(mesh_, global, rank_));
      primary = !llvm::is_contained(binding.before, block);
    }
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      primary &= binding.sharding.uses(axis) || mesh_.coordinate(rank_, axis) == 0;
    out.set_primary(primary);
  }

  void writeInitial(StringRef name, plan::Binding *out) {
    const Weight *weight = generated_ ? generated_->find(name) : nullptr;
    if (!weight || !weight->isGenerated())
      return;
    const InitRule &rule = std::get<InitRule>(weight->source);
    plan::Initial *initial = out->mutable_initial();
    initial->set_kind(rule.kind == InitRule::Constant  ? plan::Initial::CONSTANT
                      : rule.kind == InitRule::Uniform ? plan::Initial::UNIFORM
                                                       : plan::Initial::NORMAL);
    initial->set_value(rule.value);
    initial->set_seed(rule.seed);
  }

  /// Groups are numbered as they first occur, which is the same on every rank.
  uint32_t group(const AxisList &axes) {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (groups_[g] == axes)
        return uint32_t(g);
    return addGroup(axes);
  }

  uint32_t addGroup(const AxisList &axes) {
    groups_.push_back(axes);
    plan::Group *out = plan_.add_groups();
    std::string name;
    for (int axis : axes)
      name += (name.empty() ? "" : ",") + mesh_.axisName(axis).str();
    out->set_name(name);
    if (const int64_t run = run_ ? run_(mesh_, axes) : 1; run > 1)
      out->set_run(uint32_t(run));
    placeGroup(axes, *out);
    return uint32_t(groups_.size() - 1);
  }

  void placeGroup(const AxisList &axes, plan::Group &out) {
    out.clear_ranks();
    for (int64_t member : mesh_.group(rank_, axes))
      out.add_ranks(uint32_t(layout_.firstRank(layout_.stage) + member));
  }

  /// The rank of another stage with which this one exchanges messages.
  uint32_t peer(uint64_t stage) {
    rank();
    return uint32_t(rankIn(int64_t(stage)));
  }

  /// Writes who gets a message from this rank, or of whom it gets one. `of` is a dist.send or a dist.receive.
  template <typename Op, typename Message> Error connect(Op of, Value tensor, Message *message) {
    message->set_channel(uint32_t(of.getChannel()));
    if (layout_.stageRanks.empty()) {
      message->set_peer(peer(of.getPeer()));
      return Error::success();
    }
    constexpr bool sends = std::is_same_v<Op, dist::SendOp>;
    const int64_t me = rank(), first = layout_.firstRank(int64_t(of.getPeer()));
    auto numbers = of->template getAttrOfType<DenseI64ArrayAttr>(dist::kBoxesAttr);
    if (!numbers)
      return createStringError("'" + graph::nameOf(of) + "' goes to a stage with another mesh, but has no boxes");
    for (const dist::MeshBox &box :
         dist::boxesIn(numbers.asArrayRef(), size_t(cast<RankedTensorType>(tensor.getType()).getRank()))) {
      if ((sends ? box.from : box.to) != me)
        continue;
      plan::PeerBox *out = message->add_boxes();
      out->set_peer(uint32_t(first + (sends ? box.to : box.from)));
      assign(sends ? box.source : box.target, out->mutable_offset());
      assign(box.shape, out->mutable_shape());
    }
    return Error::success();
  }

  Error writeStep(const LayoutStep &step, plan::Step *out) {
    out->set_name(step.name);
    out->set_makes_infinity(step.op && graph::holdsInfinity(step.op));
    if (step.kind == LayoutStep::Collective) {
      auto op = cast<dist::CollectiveOp>(step.op);
      if (dist::communicates(op.getCollectiveKind()))
        writeCollective(op.getCollective(mesh_), step, out->mutable_collective());
      else
        writeLocal(op.getCollective(mesh_), step, out->mutable_kernel());
      return Error::success();
    }
    if (step.kind == LayoutStep::Send) {
      auto op = cast<dist::SendOp>(step.op);
      plan::Send *send = out->mutable_send();
      send->set_input(uint32_t(step.inputs[0]));
      return connect(op, op.getX(), send);
    }
    if (step.kind == LayoutStep::Receive) {
      auto op = cast<dist::ReceiveOp>(step.op);
      plan::Receive *receive = out->mutable_receive();
      receive->set_output(uint32_t(step.outputs[0]));
      return connect(op, op.getY(), receive);
    }
    plan::Kernel *kernel = out->mutable_kernel();
    for (int b : step.inputs)
      kernel->add_inputs(uint32_t(b));
    for (int b : step.outputs)
      kernel->add_outputs(uint32_t(b));
    switch (step.kind) {
    case LayoutStep::Copy:
      writeCopy(step, kernel);
      return Error::success();
    case LayoutStep::Fill:
      return writeFill(step, kernel);
    default:
      break;
    }
    kernel->set_name(graph::kernelOf(step.op).str());
    if (graph::isAccumulation(step.op))
      return Error::success(); // the kernel is an addition, which has no attributes
    if (graph::isLoop(step.op))
      return writeExpression(
          step.op, [&] { return rank(); }, kernel->mutable_expression());
    return writeAttributes(
        step.op, [&] { return rank(); }, kernel->mutable_attributes());
  }

  /// Where a sum starts. -0 + x is x for every x, also for -0.
  static double nothing(RankedTensorType type) { return isa<FloatType>(type.getElementType()) ? -0.0 : 0; }

  /// An expression without code: the result is the input.
  void writeCopy(const LayoutStep &step, plan::Kernel *kernel) {
    kernel->set_name("fused");
    ArrayRef<int64_t> shape = layout_.buffers[step.outputs[0]].type.getShape();
    plan::Expression *expression = kernel->mutable_expression();
    assign(shape, expression->mutable_domain());
    assign(shape, expression->add_input_views()->mutable_shape());
    assign(shape, expression->add_results()->mutable_shape());
  }

  Error writeFill(const LayoutStep &step, plan::Kernel *kernel) {
    kernel->set_name("fused");
    RankedTensorType type = layout_.buffers[step.outputs[0]].type;
    plan::Expression *expression = kernel->mutable_expression();
    assign(type.getShape(), expression->mutable_domain());
    plan::Instruction *code = expression->add_code();
    code->set_op("constant");
    code->set_type(planTypeOf(type.getElementType()));
    std::optional<double> number = step.op ? splatNumber(cast<graph::ConstantOp>(step.op)) : nothing(type);
    if (!number)
      return createStringError("constant '" + step.name + "' is too large an integer for a plan");
    code->set_immediate(*number);
    assign(type.getShape(), expression->add_results()->mutable_shape());
    return Error::success();
  }

  /// Writes the collectives that send nothing as kernels of the graph dialect: a Slice and a Fit that drops the tail
  /// are a `slice`, a Fit that appends zeros is a `pad`, and a Fold is a loop.
  void writeLocal(const dist::Collective &c, const LayoutStep &step, plan::Kernel *kernel) {
    kernel->add_inputs(uint32_t(step.inputs[0]));
    kernel->add_outputs(uint32_t(step.outputs[0]));
    if (c.kind == CollectiveKind::Fold)
      return writeFold(c, kernel);
    auto add = [&](const char *name, const dist::Shape &values) {
      plan::Attribute *attribute = kernel->add_attributes();
      attribute->set_name(name);
      assign(values, attribute->mutable_ints()->mutable_values());
    };
    const dist::Shape zeros(c.localIn.size(), 0);
    if (c.localOut[c.dim] > c.localIn[c.dim]) {
      kernel->set_name("pad");
      dist::Shape hi = zeros;
      hi[c.dim] = c.localOut[c.dim] - c.localIn[c.dim];
      add("hi", hi);
      add("inner", zeros);
      add("lo", zeros);
      plan::Attribute *value = kernel->add_attributes();
      value->set_name("value");
      value->set_f(0);
      return;
    }
    kernel->set_name("slice");
    dist::Shape starts = zeros, limits = c.localIn;
    if (!c.axes.empty()) // a fit has none
      starts[c.dim] = mesh_.coordinate(rank(), c.axes) * c.localOut[c.dim];
    limits[c.dim] = starts[c.dim] + c.localOut[c.dim];
    add("limits", limits);
    add("starts", starts);
    add("strides", dist::Shape(c.localIn.size(), 1));
  }

  void writeCollective(const dist::Collective &c, const LayoutStep &step, plan::Collective *out) {
    static const std::pair<CollectiveKind, plan::CollectiveKind> kinds[] = {
        {CollectiveKind::AllGather, plan::ALL_GATHER},
        {CollectiveKind::AllReduce, plan::ALL_REDUCE},
        {CollectiveKind::ReduceScatter, plan::REDUCE_SCATTER},
        {CollectiveKind::AllToAll, plan::ALL_TO_ALL},
        {CollectiveKind::Permute, plan::PERMUTE},
        {CollectiveKind::Halo, plan::HALO},
        {CollectiveKind::Broadcast, plan::BROADCAST},
        {CollectiveKind::Exchange, plan::EXCHANGE}};
    for (auto [from, to] : kinds)
      if (from == c.kind)
        out->set_kind(to);
    out->set_group(group(c.axes));
    out->set_input(uint32_t(step.inputs[0]));
    out->set_output(uint32_t(step.outputs[0]));
    out->set_reduction(reductionOf(c.reduction));
    out->set_dim(uint32_t(std::max<int64_t>(0, c.dim)));
    out->set_split_dim(uint32_t(std::max<int64_t>(0, c.splitDim)));
    out->set_halo_lo(c.haloLo);
    out->set_halo_hi(c.haloHi);
    out->set_fill(c.fill);
    for (int64_t source : c.sources)
      out->add_sources(uint32_t(source));
    out->set_root(uint32_t(c.root));
    if (graph::membershipOf(c.kind) == graph::Membership::SideBySide)
      out->set_joined(uint32_t(step.joined));
    else
      out->set_along(uint32_t(step.joined));
    out->set_tree(layout_.leaves > 0 && c.reduction == dist::Reduction::Sum);
    if (c.kind == CollectiveKind::Exchange)
      writeBoxes(c, out);
  }

  /// Writes what this rank sends and receives, in the order in which all ranks list their messages.
  void writeBoxes(const dist::Collective &c, plan::Collective *out) {
    const int64_t me = rank();
    auto add = [&](int64_t peer, ArrayRef<int64_t> offset, ArrayRef<int64_t> shape, plan::PeerBox *box) {
      box->set_peer(uint32_t(mesh_.coordinate(peer, c.axes)));
      assign(offset, box->mutable_offset());
      assign(shape, box->mutable_shape());
    };
    dist::forEachBox(c, [&](const dist::ExchangeBox &box) {
      if (box.from == me)
        add(box.to, box.source, box.shape, out->add_sends());
      if (box.to == me)
        add(box.from, box.target, box.shape, out->add_receives());
    });
  }

  /// Writes the sum over terms that lie one behind the other along dim 0: a loop over [terms, elements of one].
  void writeFold(const dist::Collective &c, plan::Kernel *kernel) {
    kernel->set_name("fused");
    const int64_t terms = c.localIn[0] / c.localOut[0], each = ShapedType::getNumElements(c.localOut);
    plan::Expression *expression = kernel->mutable_expression();
    const int64_t domain[] = {terms, each}, one[] = {1, each};
    assign(domain, expression->mutable_domain());
    assign(domain, expression->add_input_views()->mutable_shape());
    plan::Result *result = expression->add_results();
    result->set_reduction(reductionOf(c.reduction));
    assign(one, result->mutable_shape());
  }

  const PlanLayout &layout_;
  const Mesh &mesh_;
  const WeightStore *generated_;
  const std::function<int64_t(const dist::Mesh &, llvm::ArrayRef<int>)> run_;
  int64_t rank_ = 0;
  bool asked_ = false; // whether the step being written depends on the rank
  plan::Plan plan_;
  std::vector<AxisList> groups_;
  std::vector<std::pair<const LayoutStep *, plan::Step *>> ranksOwn_; // steps that depend on it
};

std::optional<double> splatNumber(graph::ConstantOp constant) {
  if (std::optional<double> number = constant.getNumber())
    return number;
  auto attr = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!attr || !attr.isSplat() || isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  APInt bits = attr.getSplatValue<APInt>();
  bool plain = attr.getElementType().isUnsignedInteger() || bits.getBitWidth() == 1;
  int64_t value = plain ? int64_t(bits.getZExtValue()) : bits.getSExtValue();
  if (value > (int64_t(1) << 53) || value < -(int64_t(1) << 53))
    return std::nullopt;
  return double(value);
}

Error writeAttributes(Operation *op, RankFunction rankOf,
                      google::protobuf::RepeatedPtrField<plan::Attribute> *attributes) {
  NamedAttrList list;
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (!attribute.getName().strref().contains('.'))
      list.set(attribute.getName(), attribute.getValue());
  if (std::optional<SmallVector<int64_t>> parts = graph::operandParts(op))
    list.set(rt::kOperandParts, DenseI64ArrayAttr::get(op->getContext(), *parts));
  if (auto perRank = op->getAttrOfType<ArrayAttr>(dist::kPerRankAttr)) {
    const int64_t rank = rankOf();
    if (rank >= int64_t(perRank.size()) || !isa<DictionaryAttr>(perRank[rank]))
      return createStringError("operator '" + graph::nameOf(op) + "' has no attributes for rank " + Twine(rank));
    for (NamedAttribute attribute : cast<DictionaryAttr>(perRank[rank]))
      list.set(attribute.getName(), attribute.getValue());
  }
  for (NamedAttribute attribute : list.getDictionary(op->getContext())) { // sorted by name
    plan::Attribute *out = attributes->Add();
    out->set_name(attribute.getName().str());
    Attribute value = attribute.getValue();
    if (auto integer = dyn_cast<IntegerAttr>(value))
      out->set_i(integer.getType().isInteger(1) ? int64_t(integer.getValue().getZExtValue())
                                                : integer.getValue().getSExtValue());
    else if (auto number = dyn_cast<FloatAttr>(value))
      out->set_f(number.getValueAsDouble());
    else if (auto text = dyn_cast<StringAttr>(value))
      out->set_s(text.str());
    else if (isa<UnitAttr>(value))
      out->set_i(1);
    else if (auto ints = dyn_cast<DenseI64ArrayAttr>(value))
      assign(ints.asArrayRef(), out->mutable_ints()->mutable_values());
    else
      return createStringError("operator '" + graph::nameOf(op) + "' has the attribute '" +
                               attribute.getName().strref() + "' of a type that plans do not have");
  }
  return Error::success();
}

PlanWriter::PlanWriter(const PlanLayout &layout, const EmitOptions &options)
    : impl_(std::make_unique<Impl>(layout, options)) {}
PlanWriter::~PlanWriter() = default;

Expected<const plan::Plan *> PlanWriter::write(int64_t rank) { return impl_->write(rank); }

} // namespace tessera::compiler
