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
// with P = exp(s - m) / sum and dS = scale * P * (dy v^T - delta). No two blocks add to the same element. So there are
// no atomic operations, and every run gives the same bits.
//
// A causal mask replaces scores by a number and promises nothing (docs/adr/0011-attention.md): tiles beyond the
// diagonal are left out only after every row of the block has shown that what is there is exp(...) = 0.
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::rt::cuda {
namespace {

/// The largest tile that fits a block's 48 KiB of shared memory and has no more rows than there are.
int tileFactor(const AttentionGeometry &g, bool wideNumbers) {
  const int64_t most = std::max(g.rows(), g.keys());
  return most <= 16 ? 1 : most <= 32 || wideNumbers ? 2 : 4;
}

/// Where the rows of a tensor lie that has `width` elements in the place of each row of a head.
void addRows(Constants &constants, const std::string &name, const AttentionGeometry::Rows &r, int64_t width) {
  constants.push_back({name + "_STRIDE", wide((r.rowsFirst ? r.heads : 1) * width)});
  constants.push_back({name + "_BASE(batch, head)", "(((batch) * " + wide(r.rowsFirst ? r.rows * r.heads : r.heads) +
                                                        " + (head)) * " + wide(r.rowsFirst ? width : r.rows * width) +
                                                        ")"});
}

Constants constantsOf(const KernelCall &call, const AttentionGeometry &g, const std::vector<StoredRows> &stored) {
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
  for (const auto &[name, r] : tensors)
    addRows(constants, name, *r, r->depth);
  if (stored.size() == 1) {
    addRows(constants, "TO_Y", g.y, stored[0].width);
  } else {
    addRows(constants, "TO_Q", g.q, stored[0].width);
    addRows(constants, "TO_K", g.k, stored[1].width);
    addRows(constants, "TO_V", g.v, stored[2].width);
  }
  constants.push_back({"S", memoryType(stored[0].type)});
  constants.push_back({"STORE(x)", storeCode(stored[0].type, "(x)")});
  for (auto &constant : biasConstants(g))
    constants.push_back(constant);
  return constants;
}

} // namespace

CudaKernel bindTiledAttention(const KernelCall &call, const std::vector<StoredRows> *stored) {
  const AttentionGeometry g = *attentionGeometry(call);
  std::vector<StoredRows> to;
  for (const TensorView &y : call.outputs)
    to.push_back({at(y.data), y.dtype, y.shape.back()});
  if (stored)
    to = *stored;
  const Constants constants = constantsOf(call, g, to);
  const int64_t lines = g.batches * g.heads() * g.rows(), tile = 16 * tileFactor(g, call.outputs[0].dtype == plan::F64);
  CudaKernel kernel;
  kernel.description = "generated, tiled";
  if (lines == 0)
    return kernel;
  auto add = [&](const std::string &body, bool gradient, int64_t tasks, std::vector<Place> arguments) {
    Constants all = constants;
    all.push_back({"GRADIENT", gradient ? "1" : "0"});
    kernel.actions.push_back(Launch{withConstants(all, (kernels::kAttentionTiles + body).c_str()),
                                    {uint32_t(std::min<int64_t>(tasks, 1 << 20)), 1, 1},
                                    256,
                                    std::move(arguments)});
  };
  const bool gradient = call.name() == "attention_grad";
  const size_t first = gradient ? 1 : 0;
  const Place q = at(call.inputs[first].data), k = at(call.inputs[first + 1].data), v = at(call.inputs[first + 2].data),
              none, bias = g.hasBias ? at(call.inputs[first + 3].data) : none; // none: never read or written
  const int64_t rowTasks = g.batches * g.heads() * ((g.rows() + tile - 1) / tile);
  if (!gradient) {
    add(kernels::kAttentionForward, false, rowTasks, {q, k, v, bias, none, to[0].first, none});
    return kernel;
  }
  const Place dy = at(call.inputs[0].data),
              statistics = kernel.reserve(3 * uint64_t(lines) * bytesPerElement(call.outputs[0].dtype));
  const int64_t keyTasks = g.batches * g.k.heads * ((g.keys() + tile - 1) / tile);
  add(kernels::kAttentionForward, true, rowTasks, {q, k, v, bias, dy, none, statistics});
  add(std::string(kernels::kAttentionGradientTiles) + kernels::kAttentionKeyGradients, true, keyTasks,
      {q, k, v, bias, dy, statistics, to[1].first, to[2].first});
  add(std::string(kernels::kAttentionGradientTiles) + kernels::kAttentionRowGradients, true, rowTasks,
      {q, k, v, bias, dy, statistics, to[0].first});
  return kernel;
}

} // namespace tessera::rt::cuda
