// Attention's products in F32: oneDNN's matrix product reads all operands where they lie.
#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/cpu/attention/Products.h"

#include <algorithm>
#include <atomic>
#include <dnnl.h>

namespace tessera::rt {
namespace {

/// A row-major matrix, or its transpose, inside a larger one.
struct Matrix {
  const float *data;
  int64_t stride;
  bool transposed = false;
};

class SingleProducts final : public AttentionProducts {
public:
  SingleProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line) : g_(g), line_(line) {
    const bool grad = call.name() == "attention_grad";
    const size_t first = grad ? 1 : 0;
    q_ = call.inputs[first].as<float>();
    k_ = call.inputs[first + 1].as<float>();
    v_ = call.inputs[first + 2].as<float>();
    dy_ = grad ? call.inputs[0].as<float>() : nullptr;
    y_ = grad && g_.hasStatistics ? call.inputs[kGradientY].as<float>() : nullptr;
    for (size_t i = 0; i < std::min<size_t>(call.outputs.size(), 3); ++i)
      out_[i] = call.outputs[i].as<float>();
  }

  void begin(int64_t batch, int64_t keyHead, float *) override {
    if (!dy_)
      return;
    float *const dk = out_[1] + g_.dk.base(batch, keyHead), *const dv = out_[2] + g_.dv.base(batch, keyHead);
    for (int64_t j = 0; j < g_.keys(); ++j) {
      std::fill_n(dk + j * g_.dk.stride(), g_.k.depth, 0.0f);
      std::fill_n(dv + j * g_.dv.stride(), g_.v.depth, 0.0f);
    }
  }
  void scores(const AttentionBlock &b, float *s, float *) override {
    multiply(b.rows, b.used, g_.q.depth, g_.scale, q(b), transposed(k(b)), 0, s, line_);
  }
  void mix(const AttentionBlock &b, const float *p, float *) override {
    multiply(b.rows, g_.v.depth, b.used, 1, {p, line_}, v(b), 0, out_[0] + at(g_.y, b), g_.y.stride());
  }
  void mixGradient(const AttentionBlock &b, float *ds, float *) override {
    multiply(b.rows, b.used, g_.v.depth, 1, dy(b), transposed(v(b)), 0, ds, line_);
  }
  float dot(const AttentionBlock &b, int64_t i) const override {
    const int64_t row = at(g_.y, b) + i * g_.y.stride();
    return float(dotLine(dy_ + row, y_ + row, g_.y.depth));
  }
  void scoreGradients(const AttentionBlock &b, const float *ds, float *) override {
    multiply(b.rows, g_.q.depth, b.used, g_.scale, {ds, line_}, k(b), 0, out_[0] + at(g_.dq, b), g_.dq.stride());
    multiply(b.used, g_.q.depth, b.rows, g_.scale, {ds, line_, true}, q(b), 1,
             out_[1] + g_.dk.base(b.batch, keyHead(b)), g_.dk.stride());
  }
  void valueGradients(const AttentionBlock &b, const float *p, float *) override {
    multiply(b.used, g_.v.depth, b.rows, 1, {p, line_, true}, dy(b), 1, out_[2] + g_.dv.base(b.batch, keyHead(b)),
             g_.dv.stride());
  }
  void end(int64_t, int64_t, float *) override {}
  bool failed() const override { return failed_; }
  std::string describe() const override { return "oneDNN products"; }

private:
  using Rows = AttentionGeometry::Rows;
  int64_t keyHead(const AttentionBlock &b) const { return b.head / g_.group(); }
  static int64_t at(const Rows &rows, const AttentionBlock &b) {
    return rows.base(b.batch, b.head) + b.first * rows.stride();
  }
  Matrix q(const AttentionBlock &b) const { return {q_ + at(g_.q, b), g_.q.stride()}; }
  Matrix k(const AttentionBlock &b) const { return {k_ + g_.k.base(b.batch, keyHead(b)), g_.k.stride()}; }
  Matrix v(const AttentionBlock &b) const { return {v_ + g_.v.base(b.batch, keyHead(b)), g_.v.stride()}; }
  Matrix dy(const AttentionBlock &b) const { return {dy_ + at(g_.y, b), g_.y.stride()}; }
  static Matrix transposed(Matrix m) { return {m.data, m.stride, true}; }

  /// c [m, n] = alpha * a b + beta * c.
  void multiply(int64_t m, int64_t n, int64_t k, double alpha, Matrix a, Matrix b, double beta, float *c,
                int64_t stride) {
    if (m == 0 || n == 0)
      return;
    if (dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, float(alpha), a.data, a.stride, b.data,
                   b.stride, float(beta), c, stride) != dnnl_success)
      failed_ = true;
  }

  AttentionGeometry g_;
  int64_t line_;
  const float *q_, *k_, *v_, *dy_, *y_;
  float *out_[3] = {};
  std::atomic<bool> failed_ = false;
};

} // namespace

std::unique_ptr<AttentionProducts> singleProducts(const KernelCall &call, const AttentionGeometry &g, int64_t line) {
  return std::make_unique<SingleProducts>(call, g, line);
}

} // namespace tessera::rt
