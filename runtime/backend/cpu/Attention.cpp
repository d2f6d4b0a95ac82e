#include "runtime/backend/cpu/Attention.h"
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/fused/VectorOps.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <dnnl.h>

namespace tessera::rt {
namespace {

/// The number of scores in a block. Two blocks (probabilities and their gradient) fit in a second-level cache of 1 MiB.
constexpr int64_t kBlockScores = 96 << 10;
constexpr int64_t kFewestRows = 16, kMostRows = 128;
/// e^x is 0 in F32 below this.
constexpr float kUnderflow = -104;

int64_t roundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// A row-major matrix, or its transpose, inside a larger one.
struct Matrix {
  const float *data;
  int64_t stride;
  bool transposed = false;
};

class Attention {
public:
  Attention(const KernelCall &call, bool grad) : g_(*attentionGeometry(call)), threads_(call.threads) {
    size_t first = grad ? 1 : 0;
    q_ = call.inputs[first].as<float>();
    k_ = call.inputs[first + 1].as<float>();
    v_ = call.inputs[first + 2].as<float>();
    const TensorView *bias = biasOf(call), *keep = keepOf(call);
    bias_ = bias ? bias->as<float>() : nullptr;
    keeps_ = keep && keep->dtype == plan::BOOL ? keep->as<uint8_t>() : nullptr;
    keepFactors_ = keep && !keeps_ ? keep->as<float>() : nullptr;
    dy_ = grad ? call.inputs[0].as<float>() : nullptr;
    y_ = grad && g_.hasStatistics ? call.inputs[kGradientY].as<float>() : nullptr;
    statistics_ = grad && g_.hasStatistics ? call.inputs[kGradientStatistics].as<float>() : nullptr;
    for (size_t i = 0; i < call.outputs.size(); ++i)
      out_[i] = call.outputs[i].as<float>();
    line_ = roundUp(g_.keys());
    block_ = std::clamp(kBlockScores / line_, kFewestRows, std::min(kMostRows, roundUp(g_.rows())));
    blocks_ = (g_.rows() + block_ - 1) / block_;
    tasks_ = grad ? g_.batches * g_.k.heads : g_.batches * g_.heads() * blocks_;
    // Room for the scores, their gradient, and one line.
    floats_ = (grad ? 2 * block_ + 1 : block_) * line_;
  }

  size_t scratchBytes() const { return size_t(std::min<int64_t>(threads_, tasks_) * floats_) * sizeof(float); }

  void run(std::byte *scratch) {
    useThreads(threads_);
    int64_t parts = std::min<int64_t>(threads_, tasks_);
    parallelFor(threads_, parts, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        float *own = reinterpret_cast<float *>(scratch) + p * floats_;
        for (int64_t task = tasks_ * p / parts; task < tasks_ * (p + 1) / parts; ++task)
          if (dy_)
            backward(task / g_.k.heads, task % g_.k.heads, own);
          else
            forward(task / blocks_, task % blocks_ * block_, own);
      }
    });
  }

  bool failed() const { return failed_; }

private:
  /// c [m, n] = alpha * a b + beta * c.
  void multiply(int64_t m, int64_t n, int64_t k, double alpha, Matrix a, Matrix b, double beta, float *c,
                int64_t stride) {
    if (m == 0 || n == 0)
      return;
    if (dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, float(alpha), a.data, a.stride, b.data,
                   b.stride, float(beta), c, stride) != dnnl_success)
      failed_ = true;
  }

  /// Whether the statistic of a row of this number tells its probabilities.
  static bool tells(const float *statistic) { return statistic && std::fabs(*statistic) < kLargestStatistic; }

  /// Fills `s` with the probabilities of the rows from `first` on; those of keys beyond the returned count are 0. Reads
  /// the rows' statistics where they are `known`, and writes them to `made`, if these are not null.
  int64_t probabilities(int64_t batch, int64_t head, int64_t first, int64_t rows, float *s, const float *known,
                        float *made) {
    const float *q = q_ + g_.q.base(batch, head) + first * g_.q.stride();
    const float *k = k_ + g_.k.base(batch, head / g_.group());
    int64_t used = bias_ ? g_.keys() : g_.inside(first + rows - 1);
    multiply(rows, used, g_.q.depth, g_.scale, {q, g_.q.stride()}, {k, g_.k.stride(), true}, 0, s, line_);
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
      else
        for (int64_t j = 0; j < used; ++j)
          line[j] *= keepFactors_[at + j] * scale;
    }
  }

  void forward(int64_t batchHead, int64_t first, float *s) {
    int64_t batch = batchHead / g_.heads(), head = batchHead % g_.heads();
    int64_t rows = std::min(block_, g_.rows() - first);
    float *made = g_.hasStatistics ? out_[kStatisticsResult] + g_.lineBase(batch, head) + first : nullptr;
    int64_t used = probabilities(batch, head, first, rows, s, nullptr, made);
    drop(batch, head, first, rows, s, used);
    const float *v = v_ + g_.v.base(batch, head / g_.group());
    multiply(rows, g_.v.depth, used, 1, {s, line_}, {v, g_.v.stride()}, 0,
             out_[0] + g_.y.base(batch, head) + first * g_.y.stride(), g_.y.stride());
  }

  /// The gradient for one head of k and v and all heads of q that use it. No other call adds to this head's dk and dv.
  void backward(int64_t batch, int64_t keyHead, float *scratch) {
    float *p = scratch, *ds = p + block_ * line_, *t = ds + block_ * line_;
    const float *k = k_ + g_.k.base(batch, keyHead), *v = v_ + g_.v.base(batch, keyHead);
    float *dk = out_[1] + g_.dk.base(batch, keyHead), *dv = out_[2] + g_.dv.base(batch, keyHead);
    for (int64_t j = 0; j < g_.keys(); ++j) {
      std::fill_n(dk + j * g_.dk.stride(), g_.k.depth, 0.0f);
      std::fill_n(dv + j * g_.dv.stride(), g_.v.depth, 0.0f);
    }
    for (int64_t head = keyHead * g_.group(); head < (keyHead + 1) * g_.group(); ++head)
      for (int64_t first = 0; first < g_.rows(); first += block_) {
        int64_t rows = std::min(block_, g_.rows() - first);
        int64_t at = g_.q.base(batch, head) + first * g_.q.stride();
        const int64_t atY = g_.y.base(batch, head) + first * g_.y.stride();
        const float *dy = dy_ + atY;
        const float *known = statistics_ ? statistics_ + g_.lineBase(batch, head) + first : nullptr;
        int64_t used = probabilities(batch, head, first, rows, p, known, nullptr);
        multiply(rows, used, g_.v.depth, 1, {dy, g_.y.stride()}, {v, g_.v.stride(), true}, 0, ds, line_);
        drop(batch, head, first, rows, ds, used);
        for (int64_t i = 0; i < rows; ++i) {
          float *line = ds + i * line_;
          if (y_)
            softmaxGradLine(line, p + i * line_,
                            float(dotLine(dy + i * g_.y.stride(), y_ + atY + i * g_.y.stride(), g_.y.depth)), line,
                            used);
          else
            softmaxGradLine(line, p + i * line_, line, t, used);
          int64_t inside = std::min(used, g_.inside(first + i));
          std::fill(line + inside, line + used, 0.0f);
        }
        multiply(rows, g_.q.depth, used, g_.scale, {ds, line_}, {k, g_.k.stride()}, 0,
                 out_[0] + g_.dq.base(batch, head) + first * g_.dq.stride(), g_.dq.stride());
        multiply(used, g_.q.depth, rows, g_.scale, {ds, line_, true}, {q_ + at, g_.q.stride()}, 1, dk, g_.dk.stride());
        drop(batch, head, first, rows, p, used);
        multiply(used, g_.v.depth, rows, 1, {p, line_, true}, {dy, g_.y.stride()}, 1, dv, g_.dv.stride());
      }
  }

  AttentionGeometry g_;
  int threads_;
  const float *q_, *k_, *v_, *bias_, *dy_, *y_, *statistics_;
  const uint8_t *keeps_; // what dropout keeps; null: it is floats, or there is none
  const float *keepFactors_;
  float *out_[3] = {};
  int64_t line_, block_, blocks_, tasks_, floats_;
  VectorFn add_ = vectorOps().find(VectorOp::Add, 0), addLanes_ = vectorOps().find(VectorOp::Add, 2);
  std::atomic<bool> failed_ = false;
};

class AttentionKernel final : public BoundKernel {
public:
  explicit AttentionKernel(const KernelCall &call)
      : attention_(call, call.name() == "attention_grad"),
        description_(std::string("tiled, oneDNN products, lines ") + vectorOps().isa) {}
  Status run(std::byte *scratch) override {
    attention_.run(scratch);
    return attention_.failed() ? Status::error("attention: oneDNN's matrix product failed") : Status();
  }
  size_t scratchBytes() const override { return attention_.scratchBytes(); }
  std::string describe() const override { return description_; }

private:
  Attention attention_;
  std::string description_;
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

BindResult bind(const KernelCall &call) { return BindResult(std::make_unique<AttentionKernel>(call)); }

} // namespace

void registerTiledAttention(KernelRegistry &registry) {
  for (const char *name : {"attention", "attention_grad"}) {
    registry.add(name, {"tiled", [](const KernelCall &call) { return accepts(call, false); }, bind});
    registry.add(name, {"tiled, in F32", [](const KernelCall &call) { return accepts(call, true); },
                        [](const KernelCall &call) { return bindThroughF32(call, bind); }});
  }
}

} // namespace tessera::rt
