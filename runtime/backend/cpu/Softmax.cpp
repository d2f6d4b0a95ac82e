#include "runtime/backend/cpu/Softmax.h"
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/fused/VectorOps.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

struct Lanes {
  alignas(64) float v[kLanes];
  explicit Lanes(float x) { std::fill_n(v, kLanes, x); }
};

double fold(const double *lanes) {
  double sum = 0;
  for (int64_t j = 0; j < kLanes; ++j)
    sum += lanes[j];
  return sum;
}

double sumOf(const float *x, int64_t n) {
  double lanes[kLanes] = {};
  constexpr int64_t kTile = 4096; // a tile is summed in F32, tiles are added in F64
  for (int64_t i = 0; i < n; i += kTile)
    vectorOps().sumLanes(lanes, x + i, std::min(kTile, n - i));
  return fold(lanes);
}

float maximumOf(const float *x, int64_t n) { return vectorOps().largest(x, n); }

/// The functions of one line. `t` is a line of scratch.
struct SoftmaxLine {
  VectorFn sub = vectorOps().find(VectorOp::Sub, 2);     // vector - lanes
  VectorFn scale = vectorOps().find(VectorOp::Mul, 2);   // vector * lanes
  VectorFn product = vectorOps().find(VectorOp::Mul, 0); // vector * vector

  LineTotals totals(const float *x, float *y, int64_t n) const {
    const float maximum = maximumOf(x, n);
    const double sum = vectorOps().expSum(y, x, maximum, n);
    scale(y, y, Lanes(float(1 / sum)).v, nullptr, n);
    return {maximum, sum};
  }
  void exponential(const float *x, float a, float *y, int64_t n) const { vectorOps().expSum(y, x, a, n); }
  void softmax(const float *x, const float *, float *y, float *, int64_t n) const { totals(x, y, n); }
  void softmaxGrad(const float *dy, const float *y, float *dx, float *t, int64_t n) const {
    product(t, dy, y, nullptr, n);
    softmaxGradOf(dy, y, float(sumOf(t, n)), dx, n);
  }
  void softmaxGradOf(const float *dy, const float *y, float a, float *dx, int64_t n) const {
    sub(dx, dy, Lanes(a).v, nullptr, n);
    product(dx, dx, y, nullptr, n);
  }
};

const SoftmaxLine &lines() {
  static const SoftmaxLine functions;
  return functions;
}

/// Where a line is no piece of memory it is copied. That is for reproducible plans, in which the number of elements
/// behind the line must not matter.
bool accepts(const KernelCall &call) {
  return call.outputs[0].dtype == plan::F32 && acceptsPlain(call) && (axisGeometry(call)->inner == 1 || call.exact) &&
         call.outputs[0].elements() > 0;
}

/// Lines of numbers that lie `stride` apart, between memory and scratch.
void gather(const float *from, int64_t stride, float *to, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] = from[i * stride];
}
void scatter(const float *from, float *to, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i * stride] = from[i];
}

BindResult bind(const KernelCall &call) {
  AxisGeometry g = *axisGeometry(call);
  const float *a = call.inputs[0].as<float>();
  const float *b = call.inputs.size() > 1 ? call.inputs[1].as<float>() : nullptr;
  float *y = call.outputs[0].as<float>();
  auto line = call.name() == "softmax" ? &SoftmaxLine::softmax : &SoftmaxLine::softmaxGrad;
  const int64_t lineFloats = (g.extent + kLanes - 1) / kLanes * kLanes, lineCount = g.outer * g.inner;
  const int64_t copies = g.inner == 1 ? 1 : 4; // scratch, operands and result
  int threads = lineCount * g.extent < (16 << 10) ? 1 : call.threads;
  auto run = [=](std::byte *scratch) {
    const SoftmaxLine &functions = lines();
    int64_t parts = std::min<int64_t>(threads, lineCount);
    parallelFor(threads, parts, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        float *t = reinterpret_cast<float *>(scratch) + p * lineFloats * copies;
        for (int64_t l = lineCount * p / parts; l < lineCount * (p + 1) / parts; ++l) {
          const int64_t at = l / g.inner * g.extent * g.inner + l % g.inner;
          if (g.inner == 1) {
            (functions.*line)(a + at, b ? b + at : nullptr, y + at, t, g.extent);
            continue;
          }
          float *x = t + lineFloats, *x2 = x + lineFloats, *result = x2 + lineFloats;
          gather(a + at, g.inner, x, g.extent);
          if (b)
            gather(b + at, g.inner, x2, g.extent);
          (functions.*line)(x, b ? x2 : nullptr, result, t, g.extent);
          scatter(result, y + at, g.inner, g.extent);
        }
      }
    });
  };
  return bindFunction(std::string("lines ") + vectorOps().isa, run,
                      size_t(threads * lineFloats * copies) * sizeof(float));
}

} // namespace

float lineMaximum(const float *x, int64_t n) { return maximumOf(x, n); }
LineTotals softmaxLine(const float *x, float *y, int64_t n) { return lines().totals(x, y, n); }
void exponentialLine(const float *x, float a, float *y, int64_t n) { lines().exponential(x, a, y, n); }
void softmaxGradLine(const float *dy, const float *y, float *dx, float *t, int64_t n) {
  lines().softmaxGrad(dy, y, dx, t, n);
}
void softmaxGradLine(const float *dy, const float *y, float a, float *dx, int64_t n) {
  lines().softmaxGradOf(dy, y, a, dx, n);
}
double dotLine(const float *a, const float *b, int64_t n) {
  double lanes[kLanes] = {};
  vectorOps().dotLanes(lanes, a, b, n);
  return fold(lanes);
}

void registerVectorSoftmax(KernelRegistry &registry) {
  for (const char *name : {"softmax", "softmax_grad"})
    registry.add(name, {"lines", accepts, bind});
}

} // namespace tessera::rt
