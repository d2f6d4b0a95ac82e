#include "runtime/backend/cpu/Attention.h"
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/attention/Products.h"
#include "runtime/backend/cpu/fused/VectorOps.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::rt {
namespace {

/// The number of scores in a block. Two blocks (probabilities and their gradient) fit in a second-level cache of 1 MiB.
constexpr int64_t kBlockScores = 96 << 10;
constexpr int64_t kFewestRows = 16, kMostRows = 128;
/// e^x is 0 in F32 below this.
constexpr float kUnderflow = -104;

int64_t roundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

class Attention {
public:
  explicit Attention(const KernelCall &call)
      : g_(*attentionGeometry(call)), threads_(call.threads), grad_(call.name() == "attention_grad") {
    const TensorView *bias = biasOf(call), *keep = keepOf(call);
    bias_ = bias ? bias->as<float>() : nullptr;
    keeps_ = keep && keep->dtype == plan::BOOL ? keep->as<uint8_t>() : nullptr;
    keepNumbers_ = keep && !keeps_ ? keep : nullptr;
    const TensorView *const statistics = g_.hasStatistics ? statisticsOf(call) : nullptr;
    statistics_ = statistics ? statistics->as<float>() : nullptr;
    line_ = roundUp(g_.keys());
    block_ = std::clamp(kBlockScores / line_, kFewestRows, std::min(kMostRows, roundUp(g_.rows())));
    blocks_ = (g_.rows() + block_ - 1) / block_;
    tasks_ = grad_ ? g_.batches * g_.k.heads : g_.batches * g_.heads() * blocks_;
    products_ =
        call.inputs[0].dtype == plan::F32 ? singleProducts(call, g_, line_) : pairProducts(call, g_, line_, block_);
    if (!products_)
      return;
    // Room for the scores, their gradient, and one line.
    lines_ = (grad_ ? 2 * block_ + 1 : block_) * line_;
    floats_ = lines_ + roundUp(products_->floats());
  }

  /// Null: there are none for these operands.
  const AttentionProducts *products() const { return products_.get(); }
  size_t scratchBytes() const { return size_t(std::min<int64_t>(threads_, tasks_) * floats_) * sizeof(float); }

  void run(std::byte *scratch) {
    useThreads(threads_);
    int64_t parts = std::min<int64_t>(threads_, tasks_);
    parallelFor(threads_, parts, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        runPart(reinterpret_cast<float *>(scratch) + p * floats_, tasks_ * p / parts, tasks_ * (p + 1) / parts);
    });
  }

private:
  void runPart(float *s, int64_t firstTask, int64_t lastTask) {
    float *const own = s + lines_;
    if (grad_) {
      for (int64_t task = firstTask; task < lastTask; ++task)
        backward(task / g_.k.heads, task % g_.k.heads, s, own);
      return;
    }
    int64_t begun = -1; // the head of k and v
    for (int64_t task = firstTask; task < lastTask; ++task) {
      const int64_t batch = task / blocks_ / g_.heads(), head = task / blocks_ % g_.heads();
      const int64_t keyHead = head / g_.group();
      if (std::exchange(begun, batch * g_.k.heads + keyHead) != batch * g_.k.heads + keyHead)
        products_->begin(batch, keyHead, own);
      forward(batch, head, task % blocks_ * block_, s, own);
    }
  }

  /// Whether the statistic of a row of this number tells its probabilities.
  static bool tells(const float *statistic) { return statistic && std::fabs(*statistic) < kLargestStatistic; }

  /// Fills `s` with the probabilities of the rows from `first` on; those of keys beyond the returned count are 0. Reads
  /// the rows' statistics where they are `known`, and writes them to `made`, if these are not null.
  int64_t probabilities(int64_t batch, int64_t head, int64_t first, int64_t rows, float *s, float *own,
                        const float *known, float *made) {
    int64_t used = bias_ ? g_.keys() : g_.inside(first + rows - 1);
    products_->scores({batch, head, first, rows, used}, s, own);
    float outside = float(g_.outside);
    bool skips = used < g_.keys();
    for (int64_t i = 0; i < rows; ++i) {
      int64_t inside = std::min(used, g_.inside(first + i));
      std::fill(s + i * line_ + inside, s + i * line_ + used, outside);
      if (bias_)
        addBias(bias_ + g_.biasBase(batch, head) + (first + i) * g_.rowStride(), s + i * line_);
      const bool isKnown = tells(known ? known + i : nullptr);
      if (skips &&
          !(isKnown ? underflows(nullptr, 0, known + i) : inside > 0 && underflows(s + i * line_, inside, nullptr)))
        skips = false;
    }
    if (!skips) {
      for (int64_t i = 0; i < rows; ++i)
        std::fill(s + i * line_ + used, s + i * line_ + g_.keys(), outside);
      used = g_.keys();
    }
    for (int64_t i = 0; i < rows; ++i) {
      float *line = s + i * line_;
      const float *statistic = tells(known ? known + i : nullptr) ? known + i : nullptr;
      // Exponentials that underflow take many times as long as others, so those beyond the diagonal are left out.
      int64_t computed = std::min(used, g_.inside(first + i));
      if (bias_ || computed == 0 || !underflows(line, computed, statistic))
        computed = used;
      if (statistic) {
        exponentialLine(line, *statistic, line, computed);
      } else {
        const LineTotals totals = softmaxLine(line, line, computed);
        if (made)
          made[i] = float(double(totals.maximum) + std::log(totals.sum));
      }
      std::fill(line + computed, line + used, 0.0f);
    }
    return used;
  }

  /// Whether the probability of keys beyond the diagonal is 0 in F32, in a row whose scores up to it are given, and its
  /// statistic if that is known. Not where a score is NaN.
  bool underflows(const float *scores, int64_t inside, const float *statistic) const {
    return float(g_.outside) - (statistic ? *statistic : lineMaximum(scores, inside)) < kUnderflow;
  }

  void addBias(const float *bias, float *s) const {
    if (g_.keyStride() != 0) {
      add_(s, s, bias, nullptr, g_.keys());
      return;
    }
    alignas(64) float lanes[kLanes];
    std::fill_n(lanes, kLanes, *bias);
    addLanes_(s, s, lanes, nullptr, g_.keys());
  }

  /// Multiplies lines of probabilities, or of their gradient, by what dropout keeps of the rows from `first` on.
  void drop(int64_t batch, int64_t head, int64_t first, int64_t rows, float *s, int64_t used) const {
    if (!g_.hasKeep)
      return;
    const float scale = float(g_.keepScale);
    for (int64_t i = 0; i < rows; ++i) {
      float *line = s + i * line_;
      const int64_t at = g_.keepBase(batch, head) + (first + i) * g_.keys();
      if (keeps_)
        for (int64_t j = 0; j < used; ++j)
          line[j] *= keeps_[at + j] ? scale : 0.0f;
      else if (keepNumbers_->dtype == plan::F32)
        for (int64_t j = 0; j < used; ++j)
          line[j] *= keepNumbers_->as<float>()[at + j] * scale;
      else
        for (int64_t j = 0; j < used; ++j)
          line[j] *= toFloat(keepNumbers_->as<Bfloat16>()[at + j]) * scale;
    }
  }

  void forward(int64_t batch, int64_t head, int64_t first, float *s, float *own) {
    int64_t rows = std::min(block_, g_.rows() - first);
    float *made = statistics_ ? statistics_ + g_.lineBase(batch, head) + first : nullptr;
    int64_t used = probabilities(batch, head, first, rows, s, own, nullptr, made);
    drop(batch, head, first, rows, s, used);
    products_->mix({batch, head, first, rows, used}, s, own);
  }

  /// The gradient for one head of k and v and all heads of q that use it. No other call adds to this head's dk and dv.
  void backward(int64_t batch, int64_t keyHead, float *scratch, float *own) {
    float *p = scratch, *ds = p + block_ * line_, *t = ds + block_ * line_;
    products_->begin(batch, keyHead, own);
    for (int64_t head = keyHead * g_.group(); head < (keyHead + 1) * g_.group(); ++head)
      for (int64_t first = 0; first < g_.rows(); first += block_) {
        int64_t rows = std::min(block_, g_.rows() - first);
        const float *known = statistics_ ? statistics_ + g_.lineBase(batch, head) + first : nullptr;
        int64_t used = probabilities(batch, head, first, rows, p, own, known, nullptr);
        const AttentionBlock block{batch, head, first, rows, used};
        products_->mixGradient(block, ds, own);
        drop(batch, head, first, rows, ds, used);
        for (int64_t i = 0; i < rows; ++i) {
          float *line = ds + i * line_;
          if (statistics_)
            softmaxGradLine(line, p + i * line_, products_->dot(block, i), line, used);
          else
            softmaxGradLine(line, p + i * line_, line, t, used);
          int64_t inside = std::min(used, g_.inside(first + i));
          std::fill(line + inside, line + used, 0.0f);
        }
        products_->scoreGradients(block, ds, own);
        drop(batch, head, first, rows, p, used);
        products_->valueGradients(block, p, own);
      }
    products_->end(batch, keyHead, own);
  }

  AttentionGeometry g_;
  int threads_;
  bool grad_;
  const float *bias_;
  float *statistics_;    // read by a gradient, else written; may be null
  const uint8_t *keeps_; // what dropout keeps; null: it is numbers, or there is none
  const TensorView *keepNumbers_;
  std::unique_ptr<AttentionProducts> products_;
  int64_t line_, block_, blocks_, tasks_, lines_ = 0, floats_ = 0;
  VectorFn add_ = vectorOps().find(VectorOp::Add, 0), addLanes_ = vectorOps().find(VectorOp::Add, 2);
};

class AttentionKernel final : public BoundKernel {
public:
  explicit AttentionKernel(const KernelCall &call) : call_(call), attention_(call_) {}
  const AttentionProducts *products() const { return attention_.products(); }
  Status run(std::byte *scratch) override {
    attention_.run(scratch);
    return products()->failed() ? Status::error("attention: oneDNN's matrix product failed") : Status();
  }
  size_t scratchBytes() const override { return attention_.scratchBytes(); }
  std::string describe() const override { return "tiled, " + products()->describe() + ", lines " + vectorOps().isa; }

private:
  KernelCall call_;
  Attention attention_;
};

/// Whether all operands and results but what dropout keeps are F32, or some have 16 bits, with elements and without a
/// layout.
bool accepts(const KernelCall &call, bool half) {
  if (!acceptsPlain(call) || acceptsHalf(call) != half)
    return false;
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views)
      if (view.elements() == 0 ||
          (view.dtype != plan::F32 && bytesPerElement(view.dtype) != 2 && &view != keepOf(call)))
        return false;
  return true;
}

/// Whether operands and results are BF16, but for a bias in F32 and for what dropout keeps. Where a sum is wanted in
/// F32, and in a reproducible plan, probabilities stay F32.
bool acceptsPairs(const KernelCall &call) {
  if (!accepts(call, true) || call.exact)
    return false;
  const TensorView *const bias = biasOf(call), *const keep = keepOf(call), *const statistics = statisticsOf(call);
  for (const std::vector<TensorView> *views : {&call.inputs, &call.outputs})
    for (const TensorView &view : *views) {
      const bool single = &view == bias || &view == statistics;
      if (view.dtype != (single ? plan::F32 : plan::BF16) && !(&view == keep && view.dtype == plan::BOOL))
        return false;
    }
  return true;
}

BindResult bind(const KernelCall &call) {
  auto kernel = std::make_unique<AttentionKernel>(call);
  return BindResult(kernel->products() ? std::move(kernel) : nullptr);
}

} // namespace

void registerTiledAttention(KernelRegistry &registry) {
  for (const char *name : {"attention", "attention_grad"}) {
    registry.add(name, {"tiled", [](const KernelCall &call) { return accepts(call, false); }, bind});
    registry.add(name, {"tiled, in pairs", acceptsPairs, bind});
    registry.add(name, {"tiled, in F32", [](const KernelCall &call) { return accepts(call, true); },
                        [](const KernelCall &call) { return bindThroughF32(call, bind); }});
  }
}

} // namespace tessera::rt
