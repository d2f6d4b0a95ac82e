#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/cpu/InstructionSet.h"

#include <omp.h>

namespace tessera::rt {

using dnnl::memory;

int channelBlock() { return isNarrow(dnnl::get_effective_cpu_isa()) ? 8 : 16; }

const dnnl::engine &dnnlEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr dnnlAttributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void useThreads(int threads) {
  if (omp_get_max_threads() != threads)
    omp_set_num_threads(threads);
}

memory::desc rowMajor(const memory::dims &dims, memory::data_type type) {
  return memory::desc(dims, type, rowMajorStrides(dims));
}

memory::desc describeView(const TensorView &view, int64_t groups, bool exact) {
  using tag = memory::format_tag;
  const memory::data_type type = dnnlType(view.dtype);
  memory::dims dims(view.shape.begin(), view.shape.end());
  if (view.layout.plain()) {
    if (groups > 0) {
      dims[0] /= groups;
      dims.insert(dims.begin(), groups);
    }
    return rowMajor(dims, type);
  }
  size_t i = view.shape.size() - 3;
  const auto &inner = view.layout.inner;
  if (groups > 0 || i > 2)
    return memory::desc();
  const tag channels[2][3] = {{tag::nCw16c, tag::nChw16c, tag::nCdhw16c}, {tag::nCw8c, tag::nChw8c, tag::nCdhw8c}};
  const tag weights[2][3] = {{tag::OIw16i16o, tag::OIhw16i16o, tag::OIdhw16i16o},
                             {tag::OIw8i8o, tag::OIhw8i8o, tag::OIdhw8i8o}};
  const tag last[3] = {tag::nwc, tag::nhwc, tag::ndhwc};
  const bool isLast = view.layout == channelsLastLayout(view.shape);
  if (isLast && view.dtype == plan::BF16 && !exact && multipliesTiles())
    return memory::desc(dims, type, last[i]);
  for (int block : {16, 8}) {
    size_t row = block == 16 ? 0 : 1;
    if (inner == decltype(view.layout.inner){{1, block}})
      return memory::desc(dims, type, channels[row][i]);
    if (inner == decltype(view.layout.inner){{1, block}, {0, block}})
      return memory::desc(dims, type, weights[row][i]);
  }
  if (isLast)
    return memory::desc(dims, type, last[i]);
  return memory::desc();
}

memory::desc anyLayout(const memory::desc &desc) {
  return memory::desc(dimsOf(desc), typeOf(desc), memory::format_tag::any);
}

memory::data_type dnnlType(plan::DType dtype) {
  return dtype == plan::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

bool isFast(const std::string &implementation) { return !implementation.starts_with("ref"); }

bool acceptsDnnl(const KernelCall &call) {
  for (const auto *list : {&call.inputs, &call.outputs})
    for (const TensorView &t : *list)
      if ((t.dtype != plan::F32 && t.dtype != plan::BF16) || t.elements() == 0)
        return false;
  return true;
}

DnnlKernel::DnnlKernel(int threads) : threads_(threads), stream_(dnnlEngine()) {}

size_t DnnlKernel::take(size_t bytes) {
  size_t offset = scratchBytes_;
  scratchBytes_ += (bytes + 63) / 64 * 64;
  return offset;
}

void DnnlKernel::operand(int argument, const TensorView &view, const memory::desc &user, const memory::desc &wanted,
                         bool output) {
  Operand o;
  o.user = memory(user, dnnlEngine(), view.data);
  o.output = output;
  o.wanted = o.user;
  if (wanted != user) {
    o.reordered = true;
    o.edition = output ? nullptr : view.edition;
    if (o.edition) {
      o.wanted = memory(wanted, dnnlEngine());
      keptBytes_ += wanted.get_size();
    } else {
      o.wanted = memory(wanted, dnnlEngine(), DNNL_MEMORY_NONE);
      o.offset = take(wanted.get_size());
    }
    const memory &from = output ? o.wanted : o.user, &to = output ? o.user : o.wanted;
    const auto describe = [](const memory::desc &from, const memory::desc &to, const dnnl::primitive_attr &attributes,
                             bool mayLack) {
      return dnnl::reorder::primitive_desc(dnnlEngine(), from, dnnlEngine(), to, attributes, mayLack);
    };
    auto pd = describe(from.get_desc(), to.get_desc(), dnnlAttributes(), o.edition != nullptr);
    // oneDNN transforms weights for Winograd's algorithm from row-major ones alone, and needs memory of its own. That
    // is done once.
    if (!pd) {
      o.between = rowMajor(dimsOf(user), typeOf(user));
      o.first = dnnl::reorder(describe(user, o.between, {}, false));
      pd = describe(o.between, wanted, {}, false);
    }
    o.reorder = dnnl::reorder(pd);
  }
  operands_.emplace(argument, std::move(o));
}

void DnnlKernel::temporary(int argument, const memory::desc &desc) {
  Operand o;
  o.wanted = o.user = memory(desc, dnnlEngine(), DNNL_MEMORY_NONE);
  o.offset = take(desc.get_size());
  o.output = true;
  operands_.emplace(argument, std::move(o));
  operands_.at(argument).user = memory();
}

void DnnlKernel::stage(const dnnl::primitive &primitive, const memory::desc &scratchpad,
                       const std::vector<std::pair<int, int>> &arguments) {
  Stage s;
  s.primitive = primitive;
  for (auto [own, given] : arguments)
    s.arguments.emplace(own, operands_.at(given).wanted);
  s.scratchpad = memory(scratchpad, dnnlEngine(), DNNL_MEMORY_NONE);
  s.offset = take(scratchpad.get_size());
  s.arguments.emplace(DNNL_ARG_SCRATCHPAD, s.scratchpad);
  stages_.push_back(std::move(s));
}

void DnnlKernel::finish(std::string description) {
  description_ = "oneDNN " + std::move(description);
  size_t reorders = 0;
  for (const auto &[argument, o] : operands_)
    reorders += o.reordered && !o.edition;
  if (reorders)
    description_ += " with " + std::to_string(reorders) + " reorders";
}

void DnnlKernel::place(std::byte *scratch) {
  if (placedAt_ == scratch)
    return;
  for (auto &[argument, o] : operands_)
    if ((o.reordered && !o.edition) || !o.user)
      o.wanted.set_data_handle(scratch + o.offset);
  for (Stage &s : stages_)
    s.scratchpad.set_data_handle(scratch + s.offset);
  placedAt_ = scratch;
}

Status DnnlKernel::run(std::byte *scratch) {
  useThreads(threads_);
  try {
    place(scratch);
    for (auto &[argument, o] : operands_)
      if (o.reordered && !o.output && (!o.edition || o.held != *o.edition)) {
        if (o.first) {
          memory between(o.between, dnnlEngine());
          o.first.execute(stream_, o.user, between);
          o.reorder.execute(stream_, between, o.wanted);
          stream_.wait();
        } else {
          o.reorder.execute(stream_, o.user, o.wanted);
        }
        if (o.edition)
          o.held = *o.edition;
      }
    for (Stage &s : stages_)
      s.primitive.execute(stream_, s.arguments);
    for (auto &[argument, o] : operands_)
      if (o.reordered && o.output)
        o.reorder.execute(stream_, o.wanted, o.user);
    stream_.wait();
  } catch (const dnnl::error &e) {
    return Status::error(description_ + ": " + e.message);
  }
  return Status();
}

void registerOneDnnKernels(KernelRegistry &registry) {
  registerOneDnnProductGrad(registry); // before the others, of which it takes some
  registerOneDnnConv(registry);
  registerOneDnnMatMul(registry);
  registerOneDnnPool(registry);
}

} // namespace tessera::rt
