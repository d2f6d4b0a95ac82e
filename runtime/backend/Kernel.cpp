#include "runtime/backend/Kernel.h"

namespace tessera::rt {

const plan::Attribute *KernelCall::attribute(std::string_view name) const {
  for (const plan::Attribute &a : kernel->attributes())
    if (a.name() == name)
      return &a;
  return nullptr;
}

int64_t KernelCall::intAttribute(std::string_view name, int64_t otherwise) const {
  const plan::Attribute *a = attribute(name);
  return a && a->value_case() == plan::Attribute::kI ? a->i() : otherwise;
}

double KernelCall::floatAttribute(std::string_view name, double otherwise) const {
  const plan::Attribute *a = attribute(name);
  return a && a->value_case() == plan::Attribute::kF ? a->f() : otherwise;
}

Shape KernelCall::intsAttribute(std::string_view name) const {
  const plan::Attribute *a = attribute(name);
  if (!a || a->value_case() != plan::Attribute::kInts)
    return {};
  return Shape(a->ints().values().begin(), a->ints().values().end());
}

namespace {
class FunctionKernel final : public BoundKernel {
public:
  FunctionKernel(std::string description, std::function<void(std::byte *)> run, size_t scratch)
      : description_(std::move(description)), run_(std::move(run)), scratch_(scratch) {}
  Status run(std::byte *scratch) override {
    run_(scratch);
    return Status();
  }
  size_t scratchBytes() const override { return scratch_; }
  std::string describe() const override { return description_; }

private:
  std::string description_;
  std::function<void(std::byte *)> run_;
  size_t scratch_;
};
} // namespace

BindResult bindFunction(std::string description, std::function<void(std::byte *)> run, size_t scratchBytes) {
  return BindResult(std::make_unique<FunctionKernel>(std::move(description), std::move(run), scratchBytes));
}

void KernelRegistry::add(const std::string &kernel, Implementation implementation) {
  table_[kernel].push_back(std::move(implementation));
}

BindResult KernelRegistry::tryBind(const KernelCall &call) const {
  auto it = table_.find(call.name());
  if (it == table_.end())
    return std::unique_ptr<BoundKernel>();
  for (const Implementation &implementation : it->second) {
    if (!implementation.accepts(call))
      continue;
    BindResult bound = implementation.bind(call);
    if (!bound || *bound)
      return bound;
  }
  return std::unique_ptr<BoundKernel>();
}

BindResult KernelRegistry::bind(const KernelCall &call) const {
  if (!knows(call.name()))
    return Status::error("there is no kernel '" + call.name() + "'");
  BindResult bound = tryBind(call);
  if (!bound || *bound)
    return bound;
  std::string types;
  for (const TensorView &t : call.inputs)
    types += (types.empty() ? "" : ", ") + dtypeName(t.dtype) + str(t.shape);
  return Status::error("no implementation of '" + call.name() + "' accepts (" + types + ")");
}

bool acceptsPlain(const KernelCall &call) {
  for (const TensorView &t : call.inputs)
    if (!t.layout.plain())
      return false;
  for (const TensorView &t : call.outputs)
    if (!t.layout.plain())
      return false;
  return true;
}

} // namespace tessera::rt
