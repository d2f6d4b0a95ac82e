//===- Kernel.h - one kernel of a plan, and how an implementation is chosen for it ------------===//
//
// A KernelCall is a step of the plan with its buffers resolved. A KernelRegistry maps a kernel's
// name to an ordered list of implementations, best first, reference last: the first that accepts
// the call and binds it wins. Binding happens once, when the plan is loaded; running many times.
//
//   registry.add("matmul", {"onednn", acceptsMatMul, bindMatMul});
//   registry.add("matmul", {"reference", acceptsPlain, bindReferenceMatMul});
//   Result<std::unique_ptr<BoundKernel>> k = registry.bind(call);
//   (*k)->run(scratch);
//
// The idea of the ordered list is oneDNN's (src/cpu/cpu_convolution_list.cpp).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_KERNEL_H
#define TESSERA_RUNTIME_BACKEND_KERNEL_H

#include "runtime/backend/Tensor.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tessera::rt {

/// One step, resolved. `checkKernel` (KernelChecks.h) has passed before an implementation sees it.
struct KernelCall {
  const plan::Kernel *kernel = nullptr;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  int threads = 1;
  bool widen = false; // F32 in the kernel's expression means F64
  // F16 or BF16: the caller narrows the result to this type. A sum inside the kernel is rounded as it would be in memory.
  plan::DType narrowed = plan::DTYPE_INVALID;
  // The plan is reproducible: the bits of a result depend on nothing but the operands that it is made of. Not on
  // `threads`, on what is cut that is not summed over, on layouts, or on what else a loop computes.
  bool exact = false;
  // Where the index of the running call of the step's section stands while a kernel runs (plan.proto); null: it is 0.
  const uint32_t *index = nullptr;

  const std::string &name() const { return kernel->name(); }
  const plan::Attribute *attribute(std::string_view name) const;
  int64_t intAttribute(std::string_view name, int64_t otherwise = 0) const;
  double floatAttribute(std::string_view name, double otherwise = 0) const;
  Shape intsAttribute(std::string_view name) const; // empty where absent
};

class BoundKernel {
public:
  virtual ~BoundKernel() = default;
  /// `scratch` has scratchBytes() bytes, aligned to 64, contents undefined.
  virtual Status run(std::byte *scratch) = 0;
  virtual size_t scratchBytes() const { return 0; }
  /// Bytes that the kernel keeps from one run to the next, of its own.
  virtual size_t keptBytes() const { return 0; }
  virtual std::string describe() const = 0;
  /// From now on run() sets `found` when it writes a NaN or an infinity into an output. It looks while it has the
  /// numbers at hand, since looking later takes as long as reading them. Returns false if this kernel cannot do that.
  virtual bool watch(size_t output, const std::shared_ptr<std::atomic<bool>> &found) { return false; }
};

using BindResult = Result<std::unique_ptr<BoundKernel>>;
using BindCall = std::function<BindResult(const KernelCall &)>;

/// A bound kernel from a function object.
BindResult bindFunction(std::string description, std::function<void(std::byte *)> run, size_t scratchBytes = 0);

struct Implementation {
  std::string name;
  bool (*accepts)(const KernelCall &call);
  /// May return a null pointer where the call was accepted but the library has no such kernel.
  BindResult (*bind)(const KernelCall &call);
};

class KernelRegistry {
public:
  /// Appends to the list of `kernel`.
  void add(const std::string &kernel, Implementation implementation);
  BindResult bind(const KernelCall &call) const;
  /// As bind, but a null pointer where no implementation takes the call.
  BindResult tryBind(const KernelCall &call) const;
  bool knows(const std::string &kernel) const { return table_.count(kernel) != 0; }

private:
  std::map<std::string, std::vector<Implementation>> table_;
};

/// Whether every operand has the plain row-major layout, which reference kernels need.
bool acceptsPlain(const KernelCall &call);

/// Calls f with a value of the C++ type that holds `dtype` in memory (numbers only; BOOL as
/// uint8_t).
template <typename F> auto dispatchNumber(plan::DType dtype, F &&f) {
  switch (dtype) {
  case plan::F64:
    return f(double());
  case plan::I64:
    return f(int64_t());
  case plan::I32:
    return f(int32_t());
  case plan::I8:
    return f(int8_t());
  case plan::U8:
  case plan::BOOL:
    return f(uint8_t());
  default:
    return f(float());
  }
}

} // namespace tessera::rt

#endif
