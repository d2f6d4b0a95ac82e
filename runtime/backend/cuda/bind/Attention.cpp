// Attention and its gradient as library products with generated kernels between them that work on lines of scores; and
// the choice between that, the library's attention and tiles.
#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/backend/cuda/kernels/Kernels.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::rt::cuda {
namespace {

class Composition {
public:
  Composition(const KernelCall &call, const BindOptions &options)
      : call_(call), options_(options), g_(*attentionGeometry(call)) {}

  CudaKernel forward() {
    const TensorView q = rows(0, g_.q), k = rows(1, g_.k), v = rows(2, g_.v);
    const TensorView p = probabilities(q, k);
    product(p, v, false, false, result(0, g_.y));
    return finish();
  }

  CudaKernel backward() {
    const TensorView dy = rows(0, g_.y), q = rows(1, g_.q), k = rows(2, g_.k), v = rows(3, g_.v);
    const TensorView p = probabilities(q, k), ds = scores();
    product(dy, v, false, true, ds);
    lines(kernels::kAttentionScoreGradient, {at(p.data), at(ds.data), at(keepOrNothing(p).data)}, {});
    product(p, dy, true, false, result(2, g_.dv)); // now with what dropout makes of p
    product(ds, k, false, false, result(0, g_.dq));
    product(ds, q, true, false, result(1, g_.dk));
    return finish();
  }

private:
  using Rows = AttentionGeometry::Rows;

  TensorView temporary(const Shape &shape) {
    TensorView view;
    view.dtype = call_.outputs[0].dtype;
    view.shape = shape;
    view.data = reinterpret_cast<void *>(kScratchBase + kernel_.reserve(view.bytes()).value);
    return view;
  }

  /// [batches, heads of k, rows of all heads that meet it, depth].
  Shape grouped(const Rows &r) const { return {g_.batches, g_.k.heads, r.heads / g_.k.heads * r.rows, r.depth}; }
  TensorView scores() {
    Shape shape = grouped(g_.q);
    shape.back() = g_.keys();
    return temporary(shape);
  }

  void add(const CudaKernel &part) { // a part that needs no scratch of its own
    kernel_.actions.insert(kernel_.actions.end(), part.actions.begin(), part.actions.end());
  }

  /// Rows and heads change places: [batches, a, b, depth] -> [batches, b, a, depth].
  void transpose(TensorView from, TensorView to, const Rows &r, bool toHeads) {
    from.shape = {g_.batches, toHeads ? r.rows : r.heads, toHeads ? r.heads : r.rows, r.depth};
    to.shape = {g_.batches, from.shape[2], from.shape[1], r.depth};
    plan::Kernel kernel;
    kernel.set_name("transpose");
    plan::Attribute *perm = kernel.add_attributes();
    perm->set_name("perm");
    for (int64_t d : {0, 2, 1, 3})
      perm->mutable_ints()->add_values(d);
    add(bindMovement(make(kernel, {from}, to)));
  }

  /// Heads first.
  void copyPart(const TensorView &from, const TensorView &to, const Rows &r) {
    StridedCopy copy;
    copy.sizes = {g_.batches, r.heads, r.rows, r.depth};
    copy.toStrides = rowMajorStrides(copy.sizes);
    copy.fromStrides = {r.batchStride(), r.headStride(), r.stride(), 1};
    copy.elementBytes = bytesPerElement(to.dtype);
    Place first = at(from.data);
    first.value += uint64_t(r.base(0, 0)) * copy.elementBytes;
    kernel_.actions.push_back(launchLoop(stridedCopy(copy), to.elements(), {first, at(to.data)}));
  }

  TensorView rows(size_t operand, const Rows &r) {
    TensorView view = call_.inputs[operand];
    if (r.isPart()) {
      TensorView copy = temporary(grouped(r));
      copyPart(view, copy, r);
      return copy;
    }
    view.shape = grouped(r);
    if (!r.rowsFirst)
      return view;
    TensorView copy = temporary(view.shape);
    transpose(view, copy, r, true);
    return copy;
  }

  /// Where a result is made, heads first.
  TensorView result(size_t index, const Rows &r) {
    TensorView view = call_.outputs[index];
    view.shape = grouped(r);
    if (!r.rowsFirst)
      return view;
    TensorView made = temporary(view.shape);
    pending_.push_back({made, view, r});
    return made;
  }

  CudaKernel finish() {
    for (const auto &[from, to, r] : pending_)
      transpose(from, to, r, false);
    kernel_.description = "cuBLASLt, generated";
    return std::move(kernel_);
  }

  static KernelCall make(const plan::Kernel &kernel, std::vector<TensorView> inputs, const TensorView &output) {
    KernelCall call;
    call.kernel = &kernel;
    call.inputs = std::move(inputs);
    call.outputs = {output};
    return call;
  }

  void product(const TensorView &a, const TensorView &b, bool transposeA, bool transposeB, const TensorView &y) {
    plan::Kernel kernel;
    kernel.set_name("matmul");
    for (auto [name, value] : {std::pair("transpose_a", transposeA), std::pair("transpose_b", transposeB)}) {
      plan::Attribute *flag = kernel.add_attributes();
      flag->set_name(name);
      flag->set_i(value);
    }
    add(bindMatMul(make(kernel, {a, b}, y), options_).front());
  }

  void lines(const char *text, std::vector<Place> arguments, const Constants &more) {
    const int64_t lines = g_.batches * g_.heads() * g_.rows();
    uint32_t block = 32;
    while (block < 256 && block < g_.keys())
      block *= 2;
    Constants constants = {{"T", memoryType(call_.outputs[0].dtype)},
                           {"LINES", wide(lines)},
                           {"ROWS", wide(g_.rows())},
                           {"KEYS", wide(g_.keys())},
                           {"BLOCK", std::to_string(block)},
                           {"INSIDE", insideCode(g_)},
                           {"SCALE", exactNumber(g_.scale)}};
    for (const auto &constant : keepConstants(call_, g_))
      constants.push_back(constant);
    constants.insert(constants.end(), more.begin(), more.end());
    if (lines > 0)
      kernel_.actions.push_back(Launch{withConstants(constants, (std::string(kernels::kTotal) + text).c_str()),
                                       {uint32_t(std::min<int64_t>(lines, 1 << 20)), 1, 1},
                                       block,
                                       std::move(arguments)});
  }

  TensorView probabilities(const TensorView &q, const TensorView &k) {
    const TensorView p = scores();
    product(q, k, false, true, p);
    Constants more = biasConstants(g_, call_.outputs[0].dtype);
    more.push_back({"HEADS", wide(g_.heads())});
    more.push_back({"LOWEST", exactNumber(-std::numeric_limits<double>::infinity())});
    more.push_back({"OUTSIDE", exactNumber(g_.outside)});
    more.push_back({"LARGEST", exactNumber(kLargestStatistic)});
    const bool gradient = call_.name() == "attention_grad";
    more.push_back({"KEEPS", g_.hasStatistics && !gradient ? "1" : "0"});
    more.push_back({"KNOWN", g_.hasStatistics && gradient ? "1" : "0"});
    more.push_back({"DROPS", g_.hasKeep && !gradient ? "1" : "0"});
    const TensorView *kept = statisticsOf(call_), *bias = biasOf(call_);
    lines(kernels::kAttentionProbabilities,
          {at(p.data), at((bias ? *bias : p).data), at((kept ? *kept : p).data), at(keepOrNothing(p).data)}, more);
    return p;
  }
  /// What dropout keeps, or what is never read as that.
  const TensorView &keepOrNothing(const TensorView &nothing) const {
    const TensorView *keep = keepOf(call_);
    return keep ? *keep : nothing;
  }

  struct Pending {
    TensorView from, to;
    Rows rows;
  };
  const KernelCall &call_;
  const BindOptions &options_;
  AttentionGeometry g_;
  CudaKernel kernel_;
  std::vector<Pending> pending_;
};

} // namespace

std::string exactNumber(double v) {
  return "__longlong_as_double((i64)" + std::to_string(std::bit_cast<uint64_t>(v)) + "ull)";
}

std::string insideCode(const AttentionGeometry &g) {
  if (!g.causal)
    return wide(g.keys());
  const std::string n = "row + " + wide(std::clamp(g.start, -g.rows() - 1, g.keys()) + 1);
  return "(" + n + " < 0 ? 0 : " + n + " < " + wide(g.keys()) + " ? " + n + " : " + wide(g.keys()) + ")";
}

Constants biasConstants(const AttentionGeometry &g, plan::DType type) {
  const size_t rank = g.batch.size();
  auto stride = [&](size_t d) { return wide(g.hasBias ? g.biasStrides[d] : 0); };
  std::string base;
  const Shape outer = rowMajorStrides(g.batch);
  for (size_t d = 0; g.hasBias && d < rank; ++d)
    base += "at += batch / " + wide(outer[d]) + " % " + wide(g.batch[d]) + " * " + stride(d) + "; ";
  return {{"HAS_BIAS", g.hasBias ? "1" : "0"},
          {"BIAS_HEAD", stride(rank)},
          {"BIAS_ROW", stride(rank + 1)},
          {"BIAS_KEY", stride(rank + 2)},
          {"BIAS_BASE", base},
          {"BIAS(i)", g.hasBias ? loadCode(type, "bias[i]") : "0.0"}};
}

Constants keepConstants(const KernelCall &call, const AttentionGeometry &g) {
  const TensorView *keep = keepOf(call);
  return {{"HAS_KEEP", keep ? "1" : "0"},
          {"M", memoryType(keep ? keep->dtype : plan::BOOL)},
          {"KEEP(i)", keep ? loadCode(keep->dtype, "keep[i]") : "1"},
          {"KEEP_SCALE", exactNumber(g.keepScale)}};
}

CudaKernel bindComposedAttention(const KernelCall &call, const BindOptions &options) {
  Composition composition(call, options);
  return call.name() == "attention" ? composition.forward() : composition.backward();
}

/// The most memory that scores may take.
constexpr int64_t kMostScoreBytes = int64_t(4) << 30;

bool composesAttention(const KernelCall &call, const BindOptions &options) {
  const AttentionGeometry g = *attentionGeometry(call);
  // With TF32 the library's products run on tensor cores, which gains more than holding the scores costs. The numbers
  // are doubles, since products of extents may overflow integers.
  const double scores = 4.0 * double(g.batches * g.heads() * g.rows()) * double(g.keys());
  const bool empty = g.batches * g.heads() * g.rows() == 0 || g.v.depth == 0;
  return options.tf32 && call.inputs[0].dtype == plan::F32 && !empty && scores <= kMostScoreBytes;
}

std::vector<CudaKernel> bindAttention(const KernelCall &call, const BindOptions &options) {
  const AttentionPlaces places = attentionPlaces(call);
  if (call.exact) // tiles of keys, which no rank has fewer of, are added one after the other
    return {bindTiledAttention(call, places)};
  std::vector<CudaKernel> choices = bindLibraryAttention(call, places, options);
  if (composesAttention(call, options))
    choices.push_back(bindComposedAttention(call, options));
  choices.push_back(bindTiledAttention(call, places));
  return choices;
}

} // namespace tessera::rt::cuda
