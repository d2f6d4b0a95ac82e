//===- OneDnn.h - kernels by oneDNN ---------------------------------------------------------------------===//
//
// A DnnlKernel is one primitive created when the plan is loaded, with its operands as they lie in the
// arena and its scratchpad in the backend's scratch. An operand whose layout the primitive does not take
// is reordered through scratch by a primitive of its own.
//
//   DnnlKernel k(call.threads);
//   k.operand(DNNL_ARG_SRC, call.inputs[0], describe(call.inputs[0]), pd.src_desc());
//   k.operand(DNNL_ARG_DST, call.outputs[0], describe(call.outputs[0]), pd.dst_desc(), true);
//   k.finish(dnnl::matmul(pd), pd.scratchpad_desc(), pd.impl_info_str());
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ONEDNN_H
#define TESSERA_RUNTIME_BACKEND_CPU_ONEDNN_H

#include "runtime/backend/Kernel.h"
#include "runtime/backend/cpu/OneDnnVersion.h"

#include <optional>
#include <unordered_map>

namespace tessera::rt {

/// Channels per block of blocked layouts on this machine: 16 with AVX-512, else 8.
int channelBlock();

/// Sets the number of threads of the calling thread's parallel regions. A primitive is tuned for the number at its
/// creation and must run with the same.
void useThreads(int threads);

/// The view as oneDNN sees it; a zero descriptor where it has no name for the layout. `groups` > 0 splits
/// dimension 0 of a weight. A block of BF16 that is all channels counts as channels last where tiles are multiplied;
/// not in an `exact` call, whose bits may not depend on how many channels a rank has.
dnnl::memory::desc describeView(const TensorView &view, int64_t groups = 0, bool exact = false);
dnnl::memory::desc rowMajor(const dnnl::memory::dims &dims, dnnl::memory::data_type type);
dnnl::memory::desc anyLayout(const dnnl::memory::desc &desc);
/// False for oneDNN's own reference loops, which are slower than the reference kernels here.
bool isFast(const std::string &implementation);

class DnnlKernel final : public BoundKernel {
public:
  explicit DnnlKernel(int threads);

  /// An argument in memory as `user`, given to the primitive as `wanted`. What no step writes is reordered once.
  void operand(int argument, const TensorView &view, const dnnl::memory::desc &user, const dnnl::memory::desc &wanted,
               bool output = false);
  /// An argument that exists only in scratch memory.
  void temporary(int argument, const dnnl::memory::desc &desc);
  /// Adds a primitive that runs on the operands named by `arguments` (argument of this primitive ->
  /// argument given to `operand` or `temporary`).
  void stage(const dnnl::primitive &primitive, const dnnl::memory::desc &scratchpad,
             const std::vector<std::pair<int, int>> &arguments);
  void finish(std::string description);

  Status run(std::byte *scratch) override;
  size_t scratchBytes() const override { return scratchBytes_; }
  size_t keptBytes() const override { return keptBytes_; }
  std::string describe() const override { return description_; }

private:
  struct Operand {
    dnnl::memory user, wanted; // the same object where no reorder is needed
    dnnl::reorder reorder;
    dnnl::reorder first; // with `reorder`, where that takes only what is in `between`; else empty
    dnnl::memory::desc between;
    bool reordered = false, output = false;
    size_t offset = 0;                 // of `wanted` in scratch
    const uint64_t *edition = nullptr; // `wanted` has memory of its own, and holds the contents of edition `held`
    std::optional<uint64_t> held;
  };
  struct Stage {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    dnnl::memory scratchpad;
    size_t offset = 0;
  };
  size_t take(size_t bytes);
  void place(std::byte *scratch);

  int threads_;
  dnnl::stream stream_;
  std::map<int, Operand> operands_;
  std::vector<Stage> stages_;
  size_t scratchBytes_ = 0, keptBytes_ = 0;
  std::byte *placedAt_ = nullptr;
  std::string description_;
};

/// matmul in leaves (OneDnnLeaves.cpp). Null where oneDNN has no product for a tile whose implementation `keepsOrder`.
std::unique_ptr<BoundKernel> bindLeafMatMul(const KernelCall &call, const MatMulGeometry &geometry,
                                            bool (*keepsOrder)(const std::string &implementation));

/// oneDNN's gradient of a convolution's weights for the calling thread's number of threads; empty where it has none
/// that is fast. The call has one leaf.
dnnl::convolution_backward_weights::primitive_desc describeWeightGrad(const KernelCall &call);
/// conv_weight_grad in leaves, and with bits that depend on no number of threads (OneDnnWeightGrad.cpp). Null where
/// oneDNN has no primitive for a leaf.
std::unique_ptr<BoundKernel> bindLeafWeightGrad(const KernelCall &call);

/// A convolution and the loop that reads its result as input number `input`, as one call, which writes the loop's
/// result. Null where oneDNN cannot do both, or does it by slower code. oneDNN's max(x, 0) makes 0 of a NaN.
BindResult bindConvWithLoop(const KernelCall &conv, const KernelCall &loop, size_t input);

void registerOneDnnKernels(KernelRegistry &registry);
void registerOneDnnProductGrad(KernelRegistry &registry);
void registerOneDnnConv(KernelRegistry &registry);
void registerOneDnnMatMul(KernelRegistry &registry);
void registerOneDnnPool(KernelRegistry &registry);

/// Every operand is F32 or BF16 with at least one element.
bool acceptsDnnl(const KernelCall &call);
/// oneDNN's type for an operand of a call that acceptsDnnl accepts.
dnnl::memory::data_type dnnlType(plan::DType dtype);

} // namespace tessera::rt

#endif
