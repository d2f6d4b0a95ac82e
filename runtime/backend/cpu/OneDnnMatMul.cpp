// matmul: transposes are strides to oneDNN, broadcast batch dimensions are sizes of 1.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cpu/OneDnn.h"

namespace tessera::rt {
namespace {

using dnnl::memory;

/// `view` as [batch of `rank` dimensions, rows, columns], its last two dimensions swapped if transposed.
memory::desc matrix(const TensorView &view, size_t rank, bool transposed) {
  Shape shape(rank + 2 - view.shape.size(), 1);
  shape.insert(shape.end(), view.shape.begin(), view.shape.end());
  Shape strides = rowMajorStrides(shape);
  if (transposed) {
    std::swap(shape[rank], shape[rank + 1]);
    std::swap(strides[rank], strides[rank + 1]);
  }
  return memory::desc(memory::dims(shape.begin(), shape.end()), dnnlType(view.dtype),
                      memory::dims(strides.begin(), strides.end()));
}

/// Whether an element's terms are added in an order that depends on their number alone. The older code for matrix
/// products, which processors without AVX-512 get, shares terms out over threads and by the number of rows.
bool keepsOrder(const std::string &implementation) { return implementation.starts_with("brg"); }

bool acceptsMatMul(const KernelCall &call) {
  return acceptsDnnl(call) && acceptsPlain(call) && call.outputs[0].shape.size() <= 12;
}

BindResult bindMatMul(const KernelCall &call) {
  MatMulGeometry g = *matmulGeometry(call);
  useThreads(call.threads);
  size_t rank = g.batch.size();
  memory::desc a = matrix(call.inputs[0], rank, g.transposeA);
  memory::desc b = matrix(call.inputs[1], rank, g.transposeB);
  memory::desc y = matrix(call.outputs[0], rank, false);
  try {
    if (g.leaves > 1)
      return BindResult(bindLeafMatMul(call, g, keepsOrder));
    const auto pd = describePrimitive<dnnl::matmul>(a, b, y);
    if (!pd || !isFast(pd.impl_info_str()) || (call.exact && !keepsOrder(pd.impl_info_str())))
      return BindResult(std::unique_ptr<BoundKernel>());
    auto kernel = std::make_unique<DnnlKernel>(call.threads);
    kernel->operand(DNNL_ARG_SRC, call.inputs[0], a, pd.src_desc());
    kernel->operand(DNNL_ARG_WEIGHTS, call.inputs[1], b, pd.weights_desc());
    kernel->operand(DNNL_ARG_DST, call.outputs[0], y, pd.dst_desc(), true);
    kernel->stage(dnnl::matmul(pd), pd.scratchpad_desc(),
                  {{DNNL_ARG_SRC, DNNL_ARG_SRC}, {DNNL_ARG_WEIGHTS, DNNL_ARG_WEIGHTS}, {DNNL_ARG_DST, DNNL_ARG_DST}});
    kernel->finish(pd.impl_info_str());
    return BindResult(std::move(kernel));
  } catch (const dnnl::error &) {
    return BindResult(std::unique_ptr<BoundKernel>());
  }
}

} // namespace

void registerOneDnnMatMul(KernelRegistry &registry) { registry.add("matmul", {"oneDNN", acceptsMatMul, bindMatMul}); }

} // namespace tessera::rt
