// Matrix products, convolutions, pooling and attention as plain loops over the descriptors, in F64.
#include "test/emulator/Emulator.h"

#include "runtime/support/Float16.h"

#include <algorithm>
#include <cmath>
#include <variant>

struct TesseraOp {
  std::variant<TesseraMatMul, TesseraConv, TesseraAttention> what;
};

namespace tessera::emulator {
namespace {

bool isHalf(int32_t dtype) { return dtype == TESSERA_F16 || dtype == TESSERA_BF16; }

double load(int32_t dtype, const void *memory, int64_t i) {
  switch (dtype) {
  case TESSERA_F64:
    return static_cast<const double *>(memory)[i];
  case TESSERA_F16:
    return rt::halfToFloat(static_cast<const uint16_t *>(memory)[i]);
  case TESSERA_BF16:
    return rt::bfloatToFloat(static_cast<const uint16_t *>(memory)[i]);
  default:
    return static_cast<const float *>(memory)[i];
  }
}

void store(int32_t dtype, void *memory, int64_t i, double v) {
  switch (dtype) {
  case TESSERA_F64:
    static_cast<double *>(memory)[i] = v;
    break;
  case TESSERA_F16:
    static_cast<uint16_t *>(memory)[i] = rt::floatToHalf(float(v));
    break;
  case TESSERA_BF16:
    static_cast<uint16_t *>(memory)[i] = rt::floatToBfloat(float(v));
    break;
  default:
    static_cast<float *>(memory)[i] = float(v);
  }
}

std::vector<double> loadAll(int32_t dtype, const void *memory, int64_t n) {
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    values[size_t(i)] = load(dtype, memory, i);
  return values;
}

void multiply(const TesseraMatMul &w, const TesseraOperands &o) {
  // From the first element to the last: what lies behind the last row may belong to somebody else.
  auto extent = [](int64_t rows, int64_t columns, int64_t ld) { return (rows - 1) * ld + columns; };
  const std::vector<double> allA = loadAll(
      w.dtype, o.a, (w.batch - 1) * w.strideA + (w.transposeA ? extent(w.k, w.m, w.ldA) : extent(w.m, w.k, w.ldA)));
  const std::vector<double> allB = loadAll(
      w.dtype, o.b, (w.batch - 1) * w.strideB + (w.transposeB ? extent(w.n, w.k, w.ldB) : extent(w.k, w.n, w.ldB)));
  const double *a = allA.data(), *b = allB.data();
  for (int64_t i = 0; i < w.batch; ++i)
    for (int64_t m = 0; m < w.m; ++m)
      for (int64_t n = 0; n < w.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < w.k; ++k)
          sum += a[i * w.strideA + (w.transposeA ? k * w.ldA + m : m * w.ldA + k)] *
                 b[i * w.strideB + (w.transposeB ? n * w.ldB + k : k * w.ldB + n)];
        const int64_t at = i * w.strideY + m * w.ldY + n;
        if (w.accumulate)
          sum += load(w.resultType, o.y, at);
        if (w.epilogue & TESSERA_EPILOGUE_BIAS)
          sum += load(w.resultType, o.bias, n);
        if (w.epilogue & TESSERA_EPILOGUE_KEEP)
          store(w.resultType, o.aux, at, sum);
        if (w.epilogue & TESSERA_EPILOGUE_RELU)
          sum = sum > 0 ? sum : 0;
        if (w.epilogue & TESSERA_EPILOGUE_GELU)
          sum *= 0.5 * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        store(w.resultType, o.y, at, sum);
      }
  for (int64_t n = 0; n < w.n && w.epilogue & TESSERA_EPILOGUE_SUM; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < w.k; ++k)
      sum += b[k * w.ldB + n];
    store(w.resultType, o.aux, n, sum);
  }
}

/// The place of element (outer, inner, point) of a tensor of `inners` times `points` per outer.
int64_t place(const TesseraConv &c, int64_t outer, int64_t inner, int64_t point, int64_t inners, int64_t points) {
  return outer * inners * points + (c.channelsLast ? point * inners + inner : inner * points + point);
}

/// One loop over every (result, tap) triple serves all three kinds.
void convolve(const TesseraConv &c, const TesseraOperands &o) {
  auto volume = [](const int64_t s[3]) { return s[0] * s[1] * s[2]; };
  const int64_t in = volume(c.in), pixels = volume(c.out), taps = volume(c.kernel);
  const int64_t cg = c.channels / c.groups, fg = c.filters / c.groups;
  const int64_t xs = c.n * c.channels * in, ws = c.filters * cg * taps, ys = c.n * c.filters * pixels;
  const std::vector<double> allA = loadAll(c.dtype, o.a, c.kind == 1 ? ys : xs);
  const std::vector<double> allB = loadAll(c.dtype, o.b, c.kind == 2 ? ys : ws);
  const double *a = allA.data(), *b = allB.data();
  const int64_t results = c.kind == 0 ? ys : c.kind == 1 ? xs : ws;
  std::vector<double> sums =
      c.accumulate ? loadAll(c.resultType, o.y, results) : std::vector<double>(size_t(results), 0.0);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t f = 0; f < c.filters; ++f)
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t k = 0; k < cg; ++k)
          for (int64_t t = 0; t < taps; ++t) {
            int64_t po[3] = {p / (c.out[1] * c.out[2]), p / c.out[2] % c.out[1], p % c.out[2]};
            int64_t pt[3] = {t / (c.kernel[1] * c.kernel[2]), t / c.kernel[2] % c.kernel[1], t % c.kernel[2]};
            int64_t at = 0;
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              int64_t i = po[d] * c.stride[d] - c.padLow[d] + pt[d] * c.dilation[d];
              inside &= i >= 0 && i < c.in[d];
              at = at * c.in[d] + i;
            }
            if (!inside)
              continue;
            const int64_t x = place(c, n, f / fg * cg + k, at, c.channels, in);
            const int64_t w = place(c, f, k, t, cg, taps), y = place(c, n, f, p, c.filters, pixels);
            const int64_t to = c.kind == 0 ? y : c.kind == 1 ? x : w;
            sums[size_t(to)] += a[c.kind == 1 ? y : x] * b[c.kind == 2 ? y : w];
          }
  for (size_t i = 0; i < sums.size(); ++i)
    store(c.resultType, o.y, int64_t(i), sums[i]);
}

/// Attention and its gradient, a row at a time. Probabilities are not rounded: a device's are.
struct AttentionRows {
  const TesseraAttention &w;
  const TesseraOperands &o;

  int64_t place(int32_t which, int64_t batch, int64_t head, int64_t row) const {
    return batch * w.apart[which][0] + head * w.apart[which][1] + row * w.apart[which][2];
  }
  double at(int32_t which, int64_t batch, int64_t head, int64_t row, int64_t element) const {
    return load(w.dtype, o.tensors[which], place(which, batch, head, row) + element);
  }
  double dot(int32_t a, int64_t headA, int64_t rowA, int32_t b, int64_t headB, int64_t rowB, int64_t batch,
             int64_t n) const {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += at(a, batch, headA, rowA, i) * at(b, batch, headB, rowB, i);
    return sum;
  }
  int64_t keyHead(int64_t head) const { return head / (w.heads / w.keyHeads); }
  int64_t line(int64_t batch, int64_t head, int64_t row) const { return (batch * w.heads + head) * w.rows + row; }
  int64_t seen(int64_t row) const { return w.causal ? std::min(row + 1, w.keys) : w.keys; }

  /// By what dropout multiplies a probability.
  double kept(int64_t batch, int64_t head, int64_t row, int64_t key) const {
    return w.dropout
               ? w.keepScale * load(w.dtype, o.tensors[TESSERA_ATTENTION_KEEP], line(batch, head, row) * w.keys + key)
               : 1;
  }

  std::vector<double> scores(int64_t batch, int64_t head, int64_t row) const {
    std::vector<double> s;
    for (int64_t key = 0; key < seen(row); ++key) {
      const double product =
          dot(TESSERA_ATTENTION_Q, head, row, TESSERA_ATTENTION_K, keyHead(head), key, batch, w.depth);
      const int64_t bias = batch * w.biasApart[0] + head * w.biasApart[1] + row * w.biasApart[2] + key * w.biasApart[3];
      s.push_back(w.scale * product + (w.biasType ? load(w.biasType, o.tensors[TESSERA_ATTENTION_BIAS], bias) : 0));
    }
    return s;
  }

  void forward(int64_t batch, int64_t head, int64_t row) const {
    const std::vector<double> s = scores(batch, head, row);
    const double highest = *std::max_element(s.begin(), s.end());
    double total = 0;
    for (double x : s)
      total += std::exp(x - highest);
    for (int64_t i = 0; i < w.width; ++i) {
      double sum = 0;
      for (size_t key = 0; key < s.size(); ++key)
        sum += std::exp(s[key] - highest) / total * kept(batch, head, row, int64_t(key)) *
               at(TESSERA_ATTENTION_V, batch, keyHead(head), int64_t(key), i);
      store(w.dtype, o.tensors[TESSERA_ATTENTION_Y], place(TESSERA_ATTENTION_Y, batch, head, row) + i, sum);
    }
    if (w.statistics)
      static_cast<float *>(o.tensors[TESSERA_ATTENTION_STATISTICS])[line(batch, head, row)] =
          float(highest + std::log(total));
  }

  /// Adds what a row of q contributes to the gradients, which lie densely: [batch, head, row, element].
  void backward(int64_t batch, int64_t head, int64_t row, std::vector<double> (&sums)[3]) const {
    const double delta = dot(TESSERA_ATTENTION_DY, head, row, TESSERA_ATTENTION_Y, head, row, batch, w.width);
    static_cast<float *>(o.tensors[TESSERA_ATTENTION_DELTA])[line(batch, head, row)] =
        float(w.dropout ? delta / w.keepScale : delta);
    const double statistics =
        static_cast<const float *>(o.tensors[TESSERA_ATTENTION_STATISTICS])[line(batch, head, row)];
    const std::vector<double> s = scores(batch, head, row);
    for (size_t k = 0; k < s.size(); ++k) {
      const auto key = int64_t(k);
      const double p = std::exp(s[k] - statistics), factor = kept(batch, head, row, key);
      const double ds =
          w.scale * p *
          (factor * dot(TESSERA_ATTENTION_DY, head, row, TESSERA_ATTENTION_V, keyHead(head), key, batch, w.width) -
           delta);
      const int64_t meets = (batch * w.keyHeads + keyHead(head)) * w.keys + key;
      for (int64_t i = 0; i < w.depth; ++i) {
        sums[0][size_t(line(batch, head, row) * w.depth + i)] +=
            ds * at(TESSERA_ATTENTION_K, batch, keyHead(head), key, i);
        sums[1][size_t(meets * w.depth + i)] += ds * at(TESSERA_ATTENTION_Q, batch, head, row, i);
      }
      for (int64_t i = 0; i < w.width; ++i)
        sums[2][size_t(meets * w.width + i)] += p * factor * at(TESSERA_ATTENTION_DY, batch, head, row, i);
    }
  }
  void storeAll(int32_t which, int64_t heads, int64_t rows, int64_t width, const std::vector<double> &sums) const {
    for (size_t i = 0; i < sums.size(); ++i) {
      const int64_t element = int64_t(i) % width, row = int64_t(i) / width % rows;
      const int64_t head = int64_t(i) / (width * rows) % heads, batch = int64_t(i) / (width * rows * heads);
      store(w.dtype, o.tensors[which], place(which, batch, head, row) + element, sums[i]);
    }
  }
};

void attend(const TesseraAttention &w, const TesseraOperands &o) {
  const AttentionRows rows{w, o};
  std::vector<double> sums[3];
  if (w.gradient) {
    sums[0].resize(size_t(w.batches * w.heads * w.rows * w.depth));
    sums[1].resize(size_t(w.batches * w.keyHeads * w.keys * w.depth));
    sums[2].resize(size_t(w.batches * w.keyHeads * w.keys * w.width));
  }
  for (int64_t batch = 0; batch < w.batches; ++batch)
    for (int64_t head = 0; head < w.heads; ++head)
      for (int64_t row = 0; row < w.rows; ++row)
        w.gradient ? rows.backward(batch, head, row, sums) : rows.forward(batch, head, row);
  if (!w.gradient)
    return;
  rows.storeAll(TESSERA_ATTENTION_DQ, w.heads, w.rows, w.depth, sums[0]);
  rows.storeAll(TESSERA_ATTENTION_DK, w.keyHeads, w.keys, w.depth, sums[1]);
  rows.storeAll(TESSERA_ATTENTION_DV, w.keyHeads, w.keys, w.width, sums[2]);
}

bool typesFit(int32_t dtype, int32_t resultType) {
  return isHalf(dtype) ? resultType == dtype || resultType == TESSERA_F32
                       : (dtype == TESSERA_F32 || dtype == TESSERA_F64) && resultType == dtype;
}

int32_t createMatMul(TesseraDevice *, const TesseraMatMul *what, TesseraOp **op, size_t *workspace, TesseraMessage *m) {
  if (!typesFit(what->dtype, what->resultType))
    return fail(m, "a product of types that no library has");
  const int32_t least = isHalf(what->dtype) ? 2 : what->dtype == TESSERA_F64 ? 8 : 4;
  if (what->alignment < least || what->alignment > 16)
    return fail(m, "a product with an alignment of " + std::to_string(what->alignment));
  // These are the formulas of cuBLASLt.
  const bool gelu = what->epilogue & TESSERA_EPILOGUE_GELU;
  if (((what->epilogue & TESSERA_EPILOGUE_KEEP) && (!gelu || what->n % 8 != 0)) ||
      ((what->epilogue & TESSERA_EPILOGUE_SUM) &&
       (what->epilogue != TESSERA_EPILOGUE_SUM || what->batch != 1 || what->transposeB)) ||
      (what->epilogue && what->dtype == TESSERA_F64))
    return fail(m, "no such epilogue", TESSERA_UNSUPPORTED);
  *op = new TesseraOp{*what};
  *workspace = 1024;
  return TESSERA_OK;
}

int32_t createConv(TesseraDevice *, const TesseraConv *what, TesseraOp **op, size_t *workspace, TesseraMessage *m) {
  if (!typesFit(what->dtype, what->resultType))
    return fail(m, "a convolution of types that no library has");
  if (what->accumulate && what->dtype != what->resultType)
    return fail(m, "a convolution that adds to another type", TESSERA_UNSUPPORTED);
  for (int d = 0; d < 3; ++d) {
    int64_t room = what->in[d] + what->padLow[d] + what->padHigh[d] - what->dilation[d] * (what->kernel[d] - 1) - 1;
    if (what->padLow[d] < 0 || what->padHigh[d] < 0 || room < 0 || room / what->stride[d] + 1 != what->out[d])
      return fail(m, "a convolution whose sizes do not fit together");
    if (d < 3 - what->spatial && (what->in[d] != 1 || what->out[d] != 1 || what->kernel[d] != 1))
      return fail(m, "a convolution with more dimensions than it says");
  }
  if (what->kind == 2 && !std::equal(what->padLow, what->padLow + 3, what->padHigh))
    return fail(m, "a filter's gradient with uneven padding, which cuDNN computes wrong");
  if (what->kind == 2 && what->dtype != what->resultType &&
      (what->channels / what->groups % 8 != 0 || what->filters / what->groups % 8 != 0))
    return fail(m, "a wide filter's gradient whose channels do not fill 16 bytes, which cuDNN computes wrong");
  // One in three is refused, so that the backend's own kernels are tried too.
  if ((what->n + what->channels + what->filters) % 3 == 0)
    return fail(m, "refused for the test's sake", TESSERA_UNSUPPORTED);
  *op = new TesseraOp{*what};
  *workspace = 4096;
  return TESSERA_OK;
}

int32_t createAttention(TesseraDevice *, const TesseraAttention *what, TesseraOp **op, size_t *workspace,
                        TesseraMessage *m) {
  if (!isHalf(what->dtype) || (what->biasType && what->biasType != what->dtype && what->biasType != TESSERA_F32))
    return fail(m, "attention of types that no library has");
  if (what->depth % 8 != 0 || what->width % 8 != 0 || what->heads % what->keyHeads != 0 || what->batches < 1)
    return fail(m, "attention whose sizes do not fit together");
  for (const auto &tensor : what->apart)
    for (int64_t apart : tensor)
      if (apart % 8 != 0)
        return fail(m, "attention whose rows do not begin at multiples of 16 bytes");
  if (what->gradient && what->biasType && (what->biasApart[2] == 0 || what->biasApart[3] == 0))
    return fail(m, "a gradient with a bias of no rows or keys of its own, which cuDNN computes wrong");
  if (what->gradient && what->dropout && what->causal)
    return fail(m, "a gradient with dropout below a causal mask, which cuDNN computes wrong");
  // Some is refused, so that parts of the batch and the backend's own kernels are tried too.
  if ((what->keys + what->depth) % 3 == 0 || (what->gradient && what->batches > 1 && what->width % 3 == 0))
    return fail(m, "refused for the test's sake", TESSERA_UNSUPPORTED);
  *op = new TesseraOp{*what};
  *workspace = 2048;
  return TESSERA_OK;
}

/// Whether attention has the tensors that it reads and writes, where it may read and write them.
bool hasTensors(const TesseraAttention &w, const TesseraOperands &o) {
  std::vector<int32_t> wanted = {TESSERA_ATTENTION_Q, TESSERA_ATTENTION_K, TESSERA_ATTENTION_V, TESSERA_ATTENTION_Y};
  if (w.gradient)
    wanted.insert(wanted.end(), {TESSERA_ATTENTION_DY, TESSERA_ATTENTION_DQ, TESSERA_ATTENTION_DK, TESSERA_ATTENTION_DV,
                                 TESSERA_ATTENTION_STATISTICS, TESSERA_ATTENTION_DELTA});
  else if (w.statistics)
    wanted.push_back(TESSERA_ATTENTION_STATISTICS);
  if (w.biasType)
    wanted.push_back(TESSERA_ATTENTION_BIAS);
  return std::ranges::all_of(wanted, [&](int32_t which) {
    return o.tensors[which] && reinterpret_cast<uintptr_t>(o.tensors[which]) % 16 == 0;
  });
}

int32_t runOp(TesseraDevice *d, TesseraOp *op, const TesseraOperands *operands, TesseraMessage *m) {
  const auto what = op->what;
  const TesseraOperands o = *operands;
  if (const auto *matmul = std::get_if<TesseraMatMul>(&what);
      matmul && (((matmul->epilogue & TESSERA_EPILOGUE_BIAS) && !o.bias) ||
                 ((matmul->epilogue & (TESSERA_EPILOGUE_KEEP | TESSERA_EPILOGUE_SUM)) && !o.aux)))
    return fail(m, "an epilogue without its operand");
  if (const auto *attention = std::get_if<TesseraAttention>(&what); attention && !hasTensors(*attention, o))
    return fail(m, "attention without one of its tensors, or with one that begins within 16 bytes");
  return enqueue(d,
                 {TESSERA_COMPUTE_STREAM,
                  [=](TesseraMessage *) {
                    // A workspace is written, whatever was in it.
                    auto *workspace = static_cast<char *>(o.workspace);
                    if (const auto *conv = std::get_if<TesseraConv>(&what)) {
                      workspace[4095] = 1;
                      convolve(*conv, o);
                    } else if (const auto *attention = std::get_if<TesseraAttention>(&what)) {
                      workspace[2047] = 1;
                      attend(*attention, o);
                    } else {
                      workspace[1023] = 1;
                      multiply(std::get<TesseraMatMul>(what), o);
                    }
                    return TESSERA_OK;
                  }},
                 m);
}

void destroyOp(TesseraDevice *, TesseraOp *op) { delete op; }

} // namespace

void addLibrary(TesseraDeviceApi &api) {
  api.createMatMul = createMatMul;
  api.createConv = createConv;
  api.createAttention = createAttention;
  api.runOp = runOp;
  api.destroyOp = destroyOp;
}

} // namespace tessera::emulator
