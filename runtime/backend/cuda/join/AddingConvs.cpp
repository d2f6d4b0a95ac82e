#include "runtime/backend/cuda/join/AddingConvs.h"

#include "runtime/backend/ExpressionValues.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

/// Who reads what in an expression. Conversions that round nothing are the value that they convert.
class Readers : public ExpressionValues {
public:
  explicit Readers(const ExpressionCode &code) : ExpressionValues(code), code_(code) {}

  /// The only value that is made of `v`; nothing if there are others, or a result is `v`.
  std::optional<uint32_t> onlyReader(uint32_t v) const {
    for (const ExpressionResult &r : code_.results)
      if (through(r.value) == v)
        return std::nullopt;
    std::optional<uint32_t> found;
    for (uint32_t reader = uint32_t(code_.inputs.size()); reader < code_.valueCount(); ++reader) {
      const Instr &i = *instr(reader);
      if (through(reader) != reader ||
          std::none_of(i.operands.begin(), i.operands.begin() + i.arity, [&](uint32_t o) { return through(o) == v; }))
        continue;
      if (found)
        return std::nullopt;
      found = reader;
    }
    return found;
  }

private:
  const ExpressionCode &code_;
};

bool is16Bits(plan::DType type) { return type == plan::F16 || type == plan::BF16; }

/// The only step that writes the buffer.
std::optional<size_t> writerOf(const plan::Program &program, const BufferUses &uses, uint32_t buffer) {
  if (uses.writes(buffer) != 1)
    return std::nullopt;
  for (int s = 0; s < program.steps_size(); ++s)
    for (uint32_t out : program.steps(s).kernel().outputs())
      if (uses.root(out) == uses.root(buffer))
        return size_t(s);
  return std::nullopt;
}

int readsAt(const plan::Step &step, const BufferUses &uses, uint32_t buffer) {
  const std::vector<uint32_t> reads = readsOf(step);
  return int(std::ranges::count_if(reads, [&](uint32_t b) { return uses.root(b) == uses.root(buffer); }));
}

/// Whether the convolution at `first` may write over the addend: it is made in the same section, and after that only
/// the loop reads it, once.
bool mayWriteOver(const plan::Program &program, const BufferUses &uses, uint32_t addend, size_t first, size_t loop) {
  const std::optional<size_t> writer = writerOf(program, uses, addend);
  const TimeOrder order(program);
  if (!writer || uses.kept(addend) || *writer >= first ||
      order.sectionOf(uint32_t(*writer)).end != order.sectionOf(uint32_t(loop)).end ||
      readsAt(program.steps(int(loop)), uses, addend) != 1)
    return false;
  for (size_t s = first; s < size_t(program.steps_size()); ++s)
    if (s != loop && readsAt(program.steps(int(s)), uses, addend) > 0)
      return false;
  return true;
}

} // namespace

std::optional<RoundedAddition> roundedAdditionOf(const ExpressionCode &code, uint32_t sum) {
  const Readers values(code);
  const std::optional<uint32_t> added = values.onlyReader(sum);
  if (!added || !values.is(*added, Op::Add) || valueClass(code.typeOf(*added)) != ValueClass::F32 ||
      code.inputs[sum].view != code.domain)
    return std::nullopt;
  const uint32_t a = values.operand(*added, 0), b = values.operand(*added, 1), addend = a == sum ? b : a;
  if (addend == sum || addend >= code.inputs.size() || code.inputs[addend].view != code.domain ||
      !is16Bits(code.inputs[addend].type) || values.onlyReader(addend) != *added)
    return std::nullopt;
  const std::optional<uint32_t> rounded = values.onlyReader(*added);
  if (!rounded || !values.is(*rounded, Op::Cast) || code.typeOf(*rounded) != code.inputs[addend].type)
    return std::nullopt;
  return RoundedAddition{sum, addend, *rounded};
}

plan::Kernel withoutSum(const plan::Kernel &loop, const RoundedAddition &addition) {
  const plan::Expression &before = loop.expression();
  const auto inputs = uint32_t(before.input_views_size());
  auto source = [&](uint32_t v) { return v == addition.rounded ? addition.addend : v; };
  std::vector<bool> needed(inputs + size_t(before.code_size()), false);
  for (const plan::Result &r : before.results())
    needed[source(r.value())] = true;
  for (int i = before.code_size(); i-- > 0;)
    if (needed[inputs + size_t(i)])
      for (uint32_t o : before.code(i).operands())
        needed[source(o)] = true;
  plan::Kernel kernel = loop;
  plan::Expression &after = *kernel.mutable_expression();
  kernel.clear_inputs();
  after.clear_input_views();
  after.clear_code();
  std::vector<uint32_t> number(needed.size(), 0);
  uint32_t next = 0;
  for (uint32_t i = 0; i < inputs; ++i)
    if (i != addition.sum) {
      number[i] = next++;
      kernel.add_inputs(loop.inputs(int(i)));
      *after.add_input_views() = before.input_views(int(i));
    }
  for (int i = 0; i < before.code_size(); ++i)
    if (needed[inputs + size_t(i)]) {
      number[inputs + size_t(i)] = next++;
      plan::Instruction &instruction = *after.add_code();
      instruction = before.code(i);
      for (uint32_t &o : *instruction.mutable_operands())
        o = number[source(o)];
    }
  for (plan::Result &r : *after.mutable_results())
    r.set_value(number[source(r.value())]);
  return kernel;
}

std::optional<AddingConv> addingConvFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                         size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                         const BindOptions &options) {
  const KernelCall &conv = calls[first];
  if (!conv.kernel || !conv.name().starts_with("conv") || joined.taken(first))
    return std::nullopt;
  AddingConv found;
  found.conv = first;
  found.sum = conv.kernel->outputs(0);
  if (uses.kept(found.sum) || uses.reads(found.sum) != 1 || uses.writes(found.sum) != 1)
    return std::nullopt;
  for (found.loop = first + 1; found.loop < calls.size(); ++found.loop)
    if (readsAt(program.steps(int(found.loop)), uses, found.sum) > 0)
      break;
  if (found.loop == calls.size() || !calls[found.loop].kernel || calls[found.loop].name() != "fused" ||
      joined.taken(found.loop))
    return std::nullopt;
  const KernelCall &loop = calls[found.loop];
  const auto &inputs = loop.kernel->inputs();
  const auto sum = std::find(inputs.begin(), inputs.end(), found.sum);
  Result<ExpressionCode> code = lowerExpression(loop);
  if (sum == inputs.end() || !code)
    return std::nullopt;
  const std::optional<RoundedAddition> addition = roundedAdditionOf(*code, uint32_t(sum - inputs.begin()));
  if (!addition)
    return std::nullopt;
  found.addend = inputs[int(addition->addend)];
  const TensorView &t = conv.outputs[0], &z = loop.inputs[addition->addend];
  if (z.dtype != conv.inputs[0].dtype || z.shape != t.shape || z.layout != t.layout ||
      !mayWriteOver(program, uses, found.addend, first, found.loop))
    return std::nullopt;
  plan::Kernel narrow = *conv.kernel;
  narrow.clear_attributes();
  for (const plan::Attribute &a : conv.kernel->attributes())
    if (a.name() != "wide")
      *narrow.add_attributes() = a;
  KernelCall adding = conv;
  adding.kernel = &narrow;
  adding.outputs[0] = z;
  Result<std::vector<CudaKernel>> choices = bindCuda(adding, options);
  if (!choices || choices->empty() || choices->front().actions.empty())
    return std::nullopt;
  // Its operands may be copies, but the result has to be in place.
  found.kernel = std::move(choices->front());
  auto *action = std::get_if<LibraryConv>(&found.kernel.actions.back());
  if (!action || action->what.resultType != z.dtype || action->y.scratch || action->y.value != at(z.data).value)
    return std::nullopt;
  action->what.accumulate = 1;
  found.kernel.description += ", added to what is there";
  const ByteRange place = joined.accesses()[found.loop].reads[addition->addend];
  found.access.reads = joined.accesses()[first].reads;
  found.access.reads.push_back(place);
  found.access.writes = {place};
  found.rest = withoutSum(*loop.kernel, *addition);
  return found;
}

} // namespace tessera::rt::cuda
