#include "test/conformance/backend/PlanBuilder.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/Kernel.h"
#include "runtime/plan/TimeOrder.h"

#include <stdexcept>

namespace tessera::rt::test {

void setAttributes(google::protobuf::RepeatedPtrField<plan::Attribute> &to, const Attributes &attributes) {
  for (const auto &[name, value] : attributes) {
    plan::Attribute *a = to.Add();
    a->set_name(name);
    if (const int64_t *i = std::get_if<int64_t>(&value))
      a->set_i(*i);
    else if (const double *f = std::get_if<double>(&value))
      a->set_f(*f);
    else
      for (int64_t v : a->mutable_ints() ? std::get<Shape>(value) : Shape())
        a->mutable_ints()->add_values(v);
  }
}

PlanBuilder::PlanBuilder() {
  plan_.set_version(1);
  plan_.add_programs()->set_name("test");
}

uint32_t PlanBuilder::buffer(plan::DType dtype, const Shape &shape) {
  plan::Buffer *b = plan_.add_buffers();
  b->set_name("b" + std::to_string(plan_.buffers_size() - 1));
  b->set_dtype(dtype);
  for (int64_t d : shape)
    b->add_shape(d);
  b->set_offset(plan_.arena_bytes());
  uint64_t bytes = uint64_t(elementCount(shape)) * bytesPerElement(dtype);
  plan_.set_arena_bytes(plan_.arena_bytes() + (bytes + 63) / 64 * 64);
  shapes_.push_back(shape);
  return uint32_t(plan_.buffers_size() - 1);
}

uint32_t PlanBuilder::alias(uint32_t of, const Shape &shape) {
  plan::Buffer b = plan_.buffers(int(of));
  b.clear_shape();
  for (int64_t d : shape)
    b.add_shape(d);
  b.set_alias_of_plus_one(of + 1);
  *plan_.add_buffers() = b;
  shapes_.push_back(shape);
  return uint32_t(plan_.buffers_size() - 1);
}

uint32_t PlanBuilder::rows(uint32_t of, int64_t first, int64_t count) {
  Shape shape = shapes_[of];
  const int64_t row = elementCount(shape) / shape[0];
  shape[0] = count;
  const uint32_t view = alias(of, shape);
  plan::Buffer &b = *plan_.mutable_buffers(int(view));
  b.set_offset(b.offset() + uint64_t(first * row) * bytesPerElement(b.dtype()));
  return view;
}

plan::Kernel &PlanBuilder::kernel(const std::string &name, const std::vector<uint32_t> &inputs,
                                  const std::vector<uint32_t> &outputs, const Attributes &attributes) {
  plan::Step *step = plan_.mutable_programs(0)->add_steps();
  step->set_name(name + std::to_string(plan_.programs(0).steps_size() - 1));
  plan::Kernel *k = step->mutable_kernel();
  k->set_name(name);
  for (uint32_t i : inputs)
    k->add_inputs(i);
  for (uint32_t o : outputs)
    k->add_outputs(o);
  setAttributes(*k->mutable_attributes(), attributes);
  return *k;
}

namespace {
void need(const Status &status) {
  if (!status.ok())
    throw std::runtime_error(status.message());
}
} // namespace

std::vector<Values> PlanBuilder::run(const std::string &backend, const std::map<uint32_t, Values> &inputs,
                                     const std::vector<uint32_t> &wanted, const LoadOptions &options,
                                     std::vector<std::string> *descriptions, bool apart) const {
  Result<std::unique_ptr<Backend>> made = createBackend(backend);
  need(made.status());
  Result<std::unique_ptr<LoadedPlan>> loaded = (*made)->load(plan_, options);
  need(loaded.status());
  LoadedPlan &p = **loaded;
  ProgramRunner *programs = apart ? nullptr : p.capabilities().programs;
  std::vector<uint64_t> host;
  auto sized = [&](uint32_t b) {
    size_t count = size_t(elementCount(shapes_[b]));
    host.assign(count + 1, 0);
    return count;
  };
  for (const auto &[b, values] : inputs) {
    if (sized(b) != values.size())
      throw std::runtime_error("the test gives the wrong number of values");
    encode(p.dtype(b), values, host.data());
    need(p.upload(b, host.data()));
  }
  for (uint32_t s = 0; descriptions && s < uint32_t(plan_.programs(0).steps_size()); ++s)
    descriptions->push_back(p.describe(0, s));
  if (!programs)
    for (const StepInTime at : TimeOrder(plan_.programs(0)))
      need(p.launch(0, at.step, at.index));
  if (programs)
    need(programs->runProgram(0, {}));
  need(p.synchronize());
  std::vector<Values> result;
  for (uint32_t b : wanted) {
    size_t count = sized(b);
    need(p.download(b, host.data()));
    result.push_back(decode(p.dtype(b), host.data(), count));
  }
  return result;
}

std::string PlanBuilder::refusal(const std::string &backend) const {
  Result<std::unique_ptr<Backend>> made = createBackend(backend);
  need(made.status());
  return (*made)->load(plan_, LoadOptions()).status().message();
}

void encode(plan::DType dtype, const Values &values, void *to) {
  for (size_t i = 0; i < values.size(); ++i)
    if (dtype == plan::F16)
      static_cast<Half *>(to)[i] = toHalf(float(values[i]));
    else if (dtype == plan::BF16)
      static_cast<Bfloat16 *>(to)[i] = toBfloat16(float(values[i]));
    else
      dispatchNumber(dtype, [&](auto tag) {
        using T = decltype(tag);
        static_cast<T *>(to)[i] = static_cast<T>(values[i]);
      });
}

Values decode(plan::DType dtype, const void *from, size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i)
    if (dtype == plan::F16)
      values[i] = toFloat(static_cast<const Half *>(from)[i]);
    else if (dtype == plan::BF16)
      values[i] = toFloat(static_cast<const Bfloat16 *>(from)[i]);
    else
      dispatchNumber(dtype, [&](auto tag) { values[i] = double(static_cast<const decltype(tag) *>(from)[i]); });
  return values;
}

} // namespace tessera::rt::test
