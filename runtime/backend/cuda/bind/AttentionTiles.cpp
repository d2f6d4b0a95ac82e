// attention and its gradient without ever holding the scores of more than a tile.
//
// A block of 256 threads takes TILE rows of queries of one head and goes over the keys a tile at a time; a thread holds
// every 16th row and column of a tile. Forward: an online softmax (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018) as in Dao et al., "FlashAttention" (2022): maximum and sum of a row are corrected as
// tiles go by, and with them what has been summed of the result. The gradient keeps nothing from the forward pass:
//
//   1  per row: maximum m, 1 / sum, and delta = dy . y, by the forward pass once more
//   2  per tile of keys: dv += P^T dy, dk += dS^T q over all rows of all heads that meet it
//   3  per tile of rows: dq += dS k
//
// with P = exp(s - m) / sum and dS = scale * P * (dy v^T - delta). Nobody adds to what another block adds to: the same
// bits in every run, no atomic operations.
//
// A causal mask replaces scores by a number and promises nothing (docs/adr/0011-attention.md): tiles beyond the diagonal
// are left out only after every row of the block has shown that what is there is exp(...) = 0.
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::rt::cuda {
namespace {

const char *const kParts = R"cuda(
#define TILE (16 * R)
#define CHUNK 16
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); ++i)
struct Shared {
  A a[TILE][CHUNK + 1], b[TILE][CHUNK + 1]; // slices of two operands of a product
  A p[TILE][TILE + 1];                      // a tile of probabilities, or of their gradient
  A m[CHUNK][16 * COLUMNS];                 // a slice of what p is multiplied with
  A total[TILE][17];
};
__device__ inline i64 inside(i64 row) { return INSIDE; }

// s = rows of x times rows of y, both from their first row on; rows that are not there count as zero.
__device__ inline void product(A (&s)[R][R], const T *x, i64 xStride, i64 xRows, const T *y, i64 yStride, i64 yRows, i64 depth,
                               Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  EACH(i, R) EACH(j, R) s[i][j] = 0;
  for (i64 c0 = 0; c0 < depth; c0 += CHUNK) {
    __syncthreads();
    for (int e = t; e < TILE * CHUNK; e += 256) {
      const int row = e / CHUNK, c = e % CHUNK;
      h.a[row][c] = row < xRows && c0 + c < depth ? (A)x[row * xStride + c0 + c] : (A)0;
      h.b[row][c] = row < yRows && c0 + c < depth ? (A)y[row * yStride + c0 + c] : (A)0;
    }
    __syncthreads();
    EACH(c, CHUNK) {
      A u[R], v[R];
      EACH(i, R) u[i] = h.a[ty + 16 * i][c];
      EACH(j, R) v[j] = h.b[tx + 16 * j][c];
      EACH(i, R) EACH(j, R) s[i][j] += u[i] * v[j];
    }
  }
}

// o += p y, or p^T y, for columns from `column` on; y begins with the tile's first row.
template <int N> __device__ inline void accumulate(A (&o)[R][N], bool transposed, const T *y, i64 stride, i64 rows, i64 column,
                                                   i64 columns, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  for (int k0 = 0; k0 < TILE; k0 += CHUNK) {
    __syncthreads(); // also: p is written
    for (int e = t; e < CHUNK * 16 * N; e += 256) {
      const int k = e / (16 * N), c = e % (16 * N);
      h.m[k][c] = k0 + k < rows && column + c < columns ? (A)y[(k0 + k) * stride + column + c] : (A)0;
    }
    __syncthreads();
    EACH(k, CHUNK) {
      A u[R], v[N];
      EACH(i, R) u[i] = transposed ? h.p[k0 + k][ty + 16 * i] : h.p[ty + 16 * i][k0 + k];
      EACH(j, N) v[j] = h.m[k][tx + 16 * j];
      EACH(i, R) EACH(j, N) o[i][j] += u[i] * v[j];
    }
  }
}

// Of every row, over the 16 threads that share it: the same in all of them.
__device__ inline void totals(A (&v)[R], bool largest, Shared &h, int t) {
  const int tx = t % 16, ty = t / 16;
  __syncthreads();
  EACH(i, R) h.total[ty + 16 * i][tx] = v[i];
  __syncthreads();
  EACH(i, R) {
    A r = h.total[ty + 16 * i][0];
    for (int k = 1; k < 16; ++k)
      r = largest ? op_max(r, h.total[ty + 16 * i][k]) : r + h.total[ty + 16 * i][k];
    v[i] = r;
  }
}

// Whether any thread says so.
__device__ inline bool any(bool mine, Shared &h, int t) {
  A v[R];
  EACH(i, R) v[i] = mine ? (A)1 : (A)0;
  totals(v, true, h, t);
  __syncthreads();
  if (t % 16 == 0)
    h.total[t / 16][16] = v[0];
  __syncthreads();
  bool all = false;
  for (int k = 0; k < 16; ++k)
    all |= h.total[k][16] != (A)0;
  return all;
}

// From a product to a score.
__device__ inline A score(A product, i64 row, i64 key, const T *bias) {
  return (key < inside(row) ? (A)SCALE * product : (A)OUTSIDE) + (A)(BIAS(row * BIAS_ROW + key * BIAS_KEY));
}
__device__ inline const T *bias_of(const T *bias, i64 batch, i64 head) {
  i64 at = head * BIAS_HEAD;
  BIAS_BASE
  (void)batch;
  return bias + at;
}
)cuda";

// dy null: y is stored. Otherwise statistics [3, LINES]: maximum, 1 / sum, delta.
const char *const kForward = R"cuda(
extern "C" __global__ void __launch_bounds__(256)
k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const T *__restrict__ bias,
  const T *__restrict__ dy, T *__restrict__ y, A *__restrict__ statistics) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x, tx = t % 16, ty = t / 16;
  const A lowest = (A)LOWEST;
  const i64 tiles = (ROWS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * HEADS * tiles; task += gridDim.x) {
    const i64 first = task % tiles * TILE, head = task / tiles % HEADS, batch = task / tiles / HEADS;
    const i64 rows = ROWS - first < TILE ? ROWS - first : TILE;
    const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *pk = kk + K_BASE(batch, head / GROUP),
            *pv = v + V_BASE(batch, head / GROUP), *pb = bias_of(bias, batch, head);
    const i64 seen = HAS_BIAS ? KEYS : inside(first + rows - 1);
    A delta[R], top[R], sum[R];
    EACH(i, R) delta[i] = 0;
    for (i64 column = 0; column < WIDTH; column += 16 * COLUMNS) {
      A o[R][COLUMNS];
      EACH(i, R) EACH(j, COLUMNS) o[i][j] = 0;
      EACH(i, R) top[i] = lowest, sum[i] = 0;
      bool asked = false;
      for (i64 key0 = 0; key0 < KEYS; key0 += TILE) {
        if (key0 >= seen && !asked) {
          // Negated, so that NaN leaves nothing out.
          bool counts = false;
          EACH(i, R) if (ty + 16 * i < rows)
            counts |= !(inside(first + ty + 16 * i) > 0 && (A)OUTSIDE - top[i] < (A)UNDERFLOW);
          if (!any(counts, h, t))
            break;
          asked = true;
        }
        const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
        A s[R][R];
        if (key0 < seen)
          product(s, pq, Q_STRIDE, rows, pk + key0 * K_STRIDE, K_STRIDE, keys, DEPTH, h, t);
        else {
          EACH(i, R) EACH(j, R) s[i][j] = 0;
        }
        A largest[R], part[R];
        EACH(i, R) {
          largest[i] = lowest;
          EACH(j, R) {
            const i64 key = tx + 16 * j, row = ty + 16 * i;
            s[i][j] = key < keys && row < rows ? score(s[i][j], first + row, key0 + key, pb) : lowest;
            largest[i] = op_max(largest[i], s[i][j]);
          }
        }
        totals(largest, true, h, t);
        EACH(i, R) {
          const A now = op_max(top[i], largest[i]);
          const A shrink = now == lowest ? (A)1 : op_exp(top[i] - now);
          top[i] = now;
          part[i] = 0;
          EACH(j, R) {
            const A p = s[i][j] == lowest ? (A)0 : op_exp(s[i][j] - now);
            h.p[ty + 16 * i][tx + 16 * j] = p;
            part[i] += p;
          }
          sum[i] *= shrink;
          EACH(j, COLUMNS) o[i][j] *= shrink;
        }
        totals(part, false, h, t);
        EACH(i, R) sum[i] += part[i];
        accumulate<COLUMNS>(o, false, pv + key0 * V_STRIDE, V_STRIDE, keys, column, WIDTH, h, t);
      }
      EACH(i, R) EACH(j, COLUMNS) {
        const i64 row = ty + 16 * i, c = column + tx + 16 * j;
        if (row >= rows || c >= WIDTH)
          continue;
        const i64 at = Y_BASE(batch, head) + (first + row) * Y_STRIDE + c;
        if (GRADIENT)
          delta[i] += (A)dy[at] * (o[i][j] / sum[i]);
        else
          y[at] = (T)(o[i][j] / sum[i]);
      }
    }
    if (GRADIENT) {
      totals(delta, false, h, t);
      EACH(i, R) if (tx == 0 && ty + 16 * i < rows) {
        const i64 line = (batch * HEADS + head) * ROWS + first + ty + 16 * i;
        statistics[line] = top[i];
        statistics[LINES + line] = (A)1 / sum[i];
        statistics[2 * LINES + line] = delta[i];
      }
    }
    __syncthreads();
  }
}
)cuda";

// What both passes of the gradient do with a tile: probabilities, and gradients of scores.
const char *const kGradientParts = R"cuda(
__device__ inline void probabilities(A (&s)[R][R], const A *statistics, i64 line, i64 first, i64 rows, i64 key0, i64 keys,
                                     const T *bias, int t) {
  const int tx = t % 16, ty = t / 16;
  EACH(i, R) {
    const i64 row = ty + 16 * i;
    const A top = row < rows ? statistics[line + row] : (A)0, weight = row < rows ? statistics[LINES + line + row] : (A)0;
    EACH(j, R) {
      const i64 key = tx + 16 * j;
      s[i][j] = row < rows && key < keys ? op_exp(score(s[i][j], first + row, key0 + key, bias) - top) * weight : (A)0;
    }
  }
}
// d = scale * s * (d - delta) inside, 0 outside.
__device__ inline void gradients(A (&d)[R][R], A (&s)[R][R], const A *statistics, i64 line, i64 first, i64 rows, i64 key0, i64 keys,
                                 int t) {
  const int tx = t % 16, ty = t / 16;
  EACH(i, R) {
    const i64 row = ty + 16 * i;
    const A delta = row < rows ? statistics[2 * LINES + line + row] : (A)0;
    EACH(j, R) {
      const i64 key = tx + 16 * j;
      d[i][j] = row < rows && key < keys && key0 + key < inside(first + row) ? (A)SCALE * s[i][j] * (d[i][j] - delta) : (A)0;
    }
  }
}
__device__ inline void keep(A (&s)[R][R], Shared &h, int t) {
  __syncthreads(); // what read p is done
  EACH(i, R) EACH(j, R) h.p[t / 16 + 16 * i][t % 16 + 16 * j] = s[i][j];
}
)cuda";

const char *const kKeyGradients = R"cuda(
extern "C" __global__ void __launch_bounds__(256)
k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const T *__restrict__ bias,
  const T *__restrict__ dy, const A *__restrict__ statistics, T *__restrict__ dk, T *__restrict__ dv) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x, tx = t % 16, ty = t / 16;
  const i64 tiles = (KEYS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * (HEADS / GROUP) * tiles; task += gridDim.x) {
    const i64 key0 = task % tiles * TILE, keyHead = task / tiles % (HEADS / GROUP), batch = task / tiles / (HEADS / GROUP);
    const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
    const T *pk = kk + K_BASE(batch, keyHead) + key0 * K_STRIDE, *pv = v + V_BASE(batch, keyHead) + key0 * V_STRIDE;
    for (i64 column = 0; column < DEPTH || column < WIDTH; column += 16 * COLUMNS) {
      A ok[R][COLUMNS], ov[R][COLUMNS];
      EACH(i, R) EACH(j, COLUMNS) ok[i][j] = 0, ov[i][j] = 0;
      for (i64 head = keyHead * GROUP; head < (keyHead + 1) * GROUP; ++head)
        for (i64 first = 0; first < ROWS; first += TILE) {
          const i64 rows = ROWS - first < TILE ? ROWS - first : TILE, line = (batch * HEADS + head) * ROWS + first;
          const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *py = dy + Y_BASE(batch, head) + first * Y_STRIDE;
          const bool crosses = key0 < inside(first + rows - 1); // the tile has scores that are products
          A s[R][R], d[R][R];
          if (crosses || HAS_BIAS)
            product(s, pq, Q_STRIDE, rows, pk, K_STRIDE, keys, DEPTH, h, t);
          else {
            EACH(i, R) EACH(j, R) s[i][j] = 0;
          }
          probabilities(s, statistics, line, first, rows, key0, keys, bias_of(bias, batch, head), t);
          if (!crosses) {
            bool counts = false;
            EACH(i, R) EACH(j, R) counts |= s[i][j] != (A)0;
            if (!any(counts, h, t))
              continue;
          }
          keep(s, h, t);
          accumulate<COLUMNS>(ov, true, py, Y_STRIDE, rows, column, WIDTH, h, t);
          if (!crosses)
            continue;
          product(d, py, Y_STRIDE, rows, pv, V_STRIDE, keys, WIDTH, h, t);
          gradients(d, s, statistics, line, first, rows, key0, keys, t);
          keep(d, h, t);
          accumulate<COLUMNS>(ok, true, pq, Q_STRIDE, rows, column, DEPTH, h, t);
        }
      EACH(i, R) EACH(j, COLUMNS) {
        const i64 key = ty + 16 * i, c = column + tx + 16 * j;
        if (key < keys && c < DEPTH)
          dk[K_BASE(batch, keyHead) + (key0 + key) * K_STRIDE + c] = (T)ok[i][j];
        if (key < keys && c < WIDTH)
          dv[V_BASE(batch, keyHead) + (key0 + key) * V_STRIDE + c] = (T)ov[i][j];
      }
    }
    __syncthreads();
  }
}
)cuda";

const char *const kRowGradients = R"cuda(
extern "C" __global__ void __launch_bounds__(256)
k(const T *__restrict__ q, const T *__restrict__ kk, const T *__restrict__ v, const T *__restrict__ bias,
  const T *__restrict__ dy, const A *__restrict__ statistics, T *__restrict__ dq) {
  __shared__ Shared h;
  const int t = (int)threadIdx.x, tx = t % 16, ty = t / 16;
  const i64 tiles = (ROWS + TILE - 1) / TILE;
  for (i64 task = blockIdx.x; task < BATCHES * HEADS * tiles; task += gridDim.x) {
    const i64 first = task % tiles * TILE, head = task / tiles % HEADS, batch = task / tiles / HEADS;
    const i64 rows = ROWS - first < TILE ? ROWS - first : TILE, line = (batch * HEADS + head) * ROWS + first;
    const T *pq = q + Q_BASE(batch, head) + first * Q_STRIDE, *py = dy + Y_BASE(batch, head) + first * Y_STRIDE;
    const T *pk = kk + K_BASE(batch, head / GROUP), *pv = v + V_BASE(batch, head / GROUP);
    const i64 seen = inside(first + rows - 1); // beyond it scores do not depend on q
    for (i64 column = 0; column < DEPTH; column += 16 * COLUMNS) {
      A o[R][COLUMNS];
      EACH(i, R) EACH(j, COLUMNS) o[i][j] = 0;
      for (i64 key0 = 0; key0 < seen; key0 += TILE) {
        const i64 keys = KEYS - key0 < TILE ? KEYS - key0 : TILE;
        A s[R][R], d[R][R];
        product(s, pq, Q_STRIDE, rows, pk + key0 * K_STRIDE, K_STRIDE, keys, DEPTH, h, t);
        probabilities(s, statistics, line, first, rows, key0, keys, bias_of(bias, batch, head), t);
        product(d, py, Y_STRIDE, rows, pv + key0 * V_STRIDE, V_STRIDE, keys, WIDTH, h, t);
        gradients(d, s, statistics, line, first, rows, key0, keys, t);
        keep(d, h, t);
        accumulate<COLUMNS>(o, false, pk + key0 * K_STRIDE, K_STRIDE, keys, column, DEPTH, h, t);
      }
      EACH(i, R) EACH(j, COLUMNS) {
        const i64 row = ty + 16 * i, c = column + tx + 16 * j;
        if (row < rows && c < DEPTH)
          dq[Q_BASE(batch, head) + (first + row) * Q_STRIDE + c] = (T)o[i][j];
      }
    }
    __syncthreads();
  }
}
)cuda";

/// What fits a block's 48 KiB of shared memory, and no more rows than there are.
int tileFactor(const AttentionGeometry &g, bool wideNumbers) {
  const int64_t most = std::max(g.rows(), g.keys());
  return most <= 16 ? 1 : most <= 32 || wideNumbers ? 2 : 4;
}

Constants constantsOf(const KernelCall &call, const AttentionGeometry &g) {
  const plan::DType type = call.outputs[0].dtype;
  const bool wideNumbers = type == plan::F64;
  const int64_t widest = std::max(g.q.depth, g.v.depth);
  Constants constants = {{"T", memoryType(type)},
                         {"A", memoryType(type)},
                         {"R", std::to_string(tileFactor(g, wideNumbers))},
                         {"COLUMNS", std::to_string(std::clamp<int64_t>((widest + 15) / 16, 1, wideNumbers ? 4 : 8))},
                         {"BATCHES", wide(g.batches)},
                         {"HEADS", wide(g.heads())},
                         {"GROUP", wide(g.group())},
                         {"ROWS", wide(g.rows())},
                         {"KEYS", wide(g.keys())},
                         {"DEPTH", wide(g.q.depth)},
                         {"WIDTH", wide(g.v.depth)},
                         {"LINES", wide(g.batches * g.heads() * g.rows())},
                         {"INSIDE", insideCode(g)},
                         {"SCALE", exactNumber(g.scale)},
                         {"OUTSIDE", exactNumber(g.outside)},
                         {"LOWEST", exactNumber(-std::numeric_limits<double>::infinity())},
                         {"UNDERFLOW", wideNumbers ? "-746.0" : "-104.0"}}; // e^x is 0 below
  const std::pair<const char *, const AttentionGeometry::Rows *> tensors[] = {
      {"Q", &g.q}, {"K", &g.k}, {"V", &g.v}, {"Y", &g.y}};
  for (const auto &[name, r] : tensors) {
    constants.push_back({std::string(name) + "_STRIDE", wide(r->stride())});
    constants.push_back({std::string(name) + "_BASE(batch, head)",
                         "(((batch) * " + wide(r->rowsFirst ? r->rows * r->heads : r->heads) + " + (head)) * " +
                             wide(r->rowsFirst ? r->depth : r->rows * r->depth) + ")"});
  }
  for (auto &constant : biasConstants(g))
    constants.push_back(constant);
  return constants;
}

} // namespace

CudaKernel bindTiledAttention(const KernelCall &call) {
  const AttentionGeometry g = *attentionGeometry(call);
  const Constants constants = constantsOf(call, g);
  const int64_t lines = g.batches * g.heads() * g.rows(), tile = 16 * tileFactor(g, call.outputs[0].dtype == plan::F64);
  CudaKernel kernel;
  kernel.description = "generated, tiled";
  if (lines == 0)
    return kernel;
  auto add = [&](const std::string &body, bool gradient, int64_t tasks, std::vector<Place> arguments) {
    Constants all = constants;
    all.push_back({"GRADIENT", gradient ? "1" : "0"});
    kernel.actions.push_back(Launch{withConstants(all, (kParts + body).c_str()),
                                    {static_cast<uint32_t>(std::min<int64_t>(tasks, 1 << 20)), 1, 1},
                                    256,
                                    std::move(arguments)});
  };
  const bool gradient = call.name() == "attention_grad";
  const size_t first = gradient ? 1 : 0;
  const Place q = at(call.inputs[first].data), k = at(call.inputs[first + 1].data), v = at(call.inputs[first + 2].data),
              bias = g.hasBias ? at(call.inputs[first + 3].data) : q; // never read
  const int64_t rowTasks = g.batches * g.heads() * ((g.rows() + tile - 1) / tile);
  if (!gradient) {
    const Place y = at(call.outputs[0].data);
    add(kForward, false, rowTasks, {q, k, v, bias, y, y, y});
    return kernel;
  }
  const Place dy = at(call.inputs[0].data),
              statistics = kernel.reserve(3 * static_cast<uint64_t>(lines) * bytesPerElement(call.outputs[0].dtype));
  const int64_t keyTasks = g.batches * g.k.heads * ((g.keys() + tile - 1) / tile);
  add(kForward, true, rowTasks, {q, k, v, bias, dy, statistics, statistics});
  add(std::string(kGradientParts) + kKeyGradients, true, keyTasks,
      {q, k, v, bias, dy, statistics, at(call.outputs[1].data), at(call.outputs[2].data)});
  add(std::string(kGradientParts) + kRowGradients, true, rowTasks,
      {q, k, v, bias, dy, statistics, at(call.outputs[0].data)});
  return kernel;
}

} // namespace tessera::rt::cuda
