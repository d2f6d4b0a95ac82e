// attention and its gradient without ever holding the scores of more than a tile.
//
// A block of 256 threads takes TILE rows of queries of one head and goes over the keys a tile at a time; a thread holds
// some rows and columns of a tile. Products of tiles are scalar arithmetic, and in bfloat16 those of tensor cores:
// scores and what is made of them are F32 in both cases. Forward: an online softmax (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018) as in Dao et al., "FlashAttention" (2022): maximum and sum of a row are
// corrected as tiles go by, and with them what has been summed of the result. The gradient:
//
//   1  per row: maximum m, 1 / sum, and delta = dy . y. Where y and the statistics are operands that is delta alone,
//      with the statistic as m and 1 for the rest. Without them, and for a block with a statistic that does not tell
//      the probabilities (AttentionGeometry.h), it is the forward pass once more
//   2  per tile of keys: dv += P^T dy, dk += dS^T q over all rows of all heads that meet it
//   3  per tile of rows: dq += dS k
//
// with P = exp(s - m) / sum and dS = scale * P * (dy v^T - delta). With dropout the P of dv and dy v^T are multiplied
// by what it keeps, tile by tile. No two blocks add to the same element. So there are
// no atomic operations, and every run gives the same bits.
//
// A causal mask replaces scores by a number and promises nothing (docs/adr/0011-attention.md): tiles beyond the
// diagonal are left out only after every row of the block has shown that what is there is exp(...) = 0. Where a bias is
// added to the masked scores, each such tile is asked, and no product is made for that.
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace tessera::rt::cuda {
namespace {

/// The largest tile that fits a block's 48 KiB of shared memory and has no more rows than there are. In a reproducible
/// plan ranks may have parts of the rows, but all keys.
int tileFactor(const KernelCall &call, const AttentionGeometry &g, bool wideNumbers) {
  const int64_t most = call.exact ? g.keys() : std::max(g.rows(), g.keys());
  return most <= 16 ? 1 : most <= 32 || wideNumbers ? 2 : 4;
}

/// Rows of bfloat16 can be multiplied by tensor cores. Those of float16 cannot: gradients of probabilities may be
/// larger than the type holds.
bool takesTensorCores(const AttentionPlaces &places) { return places.operands[0].type == plan::BF16; }
constexpr int64_t kTensorTile = 64; // of TensorProducts.cu

/// Whether the rows can be read in pieces of 16 bytes.
bool aligned(const PlacedRows &rows, int64_t depth) {
  const int64_t elements = rows.row | rows.head | rows.batch | depth;
  return elements * int64_t(bytesPerElement(rows.type)) % 16 == 0 && rows.first.value % 16 == 0;
}

void addRows(Constants &constants, const std::string &name, const PlacedRows &rows) {
  constants.push_back({name + "_STRIDE", wide(rows.row)});
  constants.push_back(
      {name + "_BASE(batch, head)", "((batch) * " + wide(rows.batch) + " + (head) * " + wide(rows.head) + ")"});
}

Constants constantsOf(const KernelCall &call, const AttentionGeometry &g, const AttentionPlaces &places) {
  const bool gradient = places.results.size() > 1;
  const PlacedRows *operand = places.operands.data() + (gradient ? 1 : 0);
  const plan::DType type = operand->type, biasType = g.hasBias ? biasOf(call)->dtype : plan::F32;
  const bool wideNumbers = type == plan::F64;
  const int64_t widest = std::max(g.q.depth, g.v.depth);
  bool whole = true;
  for (size_t i = 0; i < places.operands.size(); ++i)
    whole = whole && aligned(places.operands[i],
                             i + 1 == places.operands.size() || (gradient && i == 0) ? g.v.depth : g.q.depth);
  Constants constants = {{"T", memoryType(type)},
                         {"A", wideNumbers ? "double" : "float"},
                         {"B", memoryType(biasType)},
                         {"S", memoryType(places.results[0].type)},
                         {"LOAD(x)", loadCode(type, "(x)")},
                         {"STORE(x)", storeCode(places.results[0].type, "(x)")},
                         {"ALIGNED", whole ? "1" : "0"},
                         {"R", std::to_string(tileFactor(call, g, wideNumbers))},
                         {"COLUMNS", std::to_string(std::clamp<int64_t>((widest + 15) / 16, 1, wideNumbers ? 4 : 8))},
                         {"BATCHES", wide(g.batches)},
                         {"HEADS", wide(g.heads())},
                         {"GROUP", wide(g.group())},
                         {"ROWS", wide(g.rows())},
                         {"KEYS", wide(g.keys())},
                         {"DEPTH", wide(g.q.depth)},
                         {"WIDTH", wide(g.v.depth)},
                         {"LINES", wide(g.lines())},
                         {"LARGEST", exactNumber(kLargestStatistic)},
                         {"INSIDE", insideCode(g)},
                         {"SCALE", exactNumber(g.scale)},
                         {"OUTSIDE", exactNumber(g.outside)},
                         {"LOWEST", exactNumber(-std::numeric_limits<double>::infinity())},
                         {"UNDERFLOW", wideNumbers ? "-746.0" : "-104.0"}}; // e^x is 0 below
  addRows(constants, "Q", operand[0]);
  addRows(constants, "K", operand[1]);
  addRows(constants, "V", operand[2]);
  if (gradient) {
    addRows(constants, "Y", places.operands[0]);
    addRows(constants, "TO_Q", places.results[0]);
    addRows(constants, "TO_K", places.results[1]);
    addRows(constants, "TO_V", places.results[2]);
  } else {
    addRows(constants, "TO_Y", places.results[0]);
  }
  for (auto &constant : biasConstants(g, biasType))
    constants.push_back(constant);
  for (auto &constant : keepConstants(call, g))
    constants.push_back(constant);
  return constants;
}

} // namespace

PlacedRows placedRows(const AttentionGeometry::Rows &r, Place tensor, plan::DType type) {
  tensor.value += uint64_t(r.base(0, 0)) * bytesPerElement(type);
  return {tensor, type, r.stride(), r.headStride(), r.batchStride()};
}

AttentionPlaces attentionPlaces(const KernelCall &call) {
  const AttentionGeometry g = *attentionGeometry(call);
  AttentionPlaces places;
  auto add = [](std::vector<PlacedRows> &list, const AttentionGeometry::Rows &r, const TensorView &view) {
    list.push_back(placedRows(r, at(view.data), view.dtype));
  };
  const bool gradient = call.name() == "attention_grad";
  const TensorView *operand = call.inputs.data() + (gradient ? 1 : 0);
  if (gradient)
    add(places.operands, g.y, call.inputs[0]);
  add(places.operands, g.q, operand[0]);
  add(places.operands, g.k, operand[1]);
  add(places.operands, g.v, operand[2]);
  if (gradient) {
    add(places.results, g.dq, call.outputs[0]);
    add(places.results, g.dk, call.outputs[1]);
    add(places.results, g.dv, call.outputs[2]);
  } else {
    add(places.results, g.y, call.outputs[0]);
  }
  return places;
}

CudaKernel bindTiledAttention(const KernelCall &call, const AttentionPlaces &places) {
  const AttentionGeometry g = *attentionGeometry(call);
  const Constants constants = constantsOf(call, g, places);
  const bool tensor = takesTensorCores(places), wideNumbers = places.operands[0].type == plan::F64;
  const int64_t lines = g.lines(), tile = tensor ? kTensorTile : 16 * tileFactor(call, g, wideNumbers);
  CudaKernel kernel;
  kernel.description = tensor ? "generated, tiled, tensor cores" : "generated, tiled";
  if (lines == 0)
    return kernel;
  const TensorView *kept = statisticsOf(call);
  const std::string tiles = std::string(kernels::kAttentionTiles) +
                            (tensor ? kernels::kAttentionTensorProducts : kernels::kAttentionScalarProducts);
  auto add = [&](const std::string &body, bool gradient, int64_t tasks, std::vector<Place> arguments) {
    Constants all = constants;
    all.push_back({"GRADIENT", gradient ? "1" : "0"});
    all.push_back({"KEPT", kept ? "1" : "0"});
    all.push_back({"L", memoryType(kept ? kept->dtype : plan::F32)});
    Launch launch{withConstants(all, (tiles + body).c_str()),
                  {uint32_t(std::min<int64_t>(tasks, 1 << 20)), 1, 1},
                  256,
                  std::move(arguments)};
    launch.bits = tensor ? 16 : 32;
    kernel.actions.push_back(std::move(launch));
  };
  const bool gradient = places.results.size() > 1;
  const PlacedRows *operand = places.operands.data() + (gradient ? 1 : 0);
  const Place q = operand[0].first, k = operand[1].first, v = operand[2].first, none,
              bias = g.hasBias ? at(biasOf(call)->data) : none, // none: never read or written
      keptLines = kept ? at(kept->data) : none, keep = g.hasKeep ? at(keepOf(call)->data) : none;
  const int64_t rowTasks = g.batches * g.heads() * ((g.rows() + tile - 1) / tile);
  const std::string forward = std::string(kernels::kAttentionRowTotals) + kernels::kAttentionForward;
  if (!gradient) {
    add(forward, false, rowTasks, {q, k, v, bias, none, none, places.results[0].first, none, keptLines, keep});
    return kernel;
  }
  const Place dy = places.operands[0].first, y = kept ? at(call.inputs[kGradientY].data) : none,
              statistics = kernel.reserve(3 * uint64_t(lines) * (wideNumbers ? sizeof(double) : sizeof(float)));
  const int64_t keyTasks = g.batches * g.k.heads * ((g.keys() + tile - 1) / tile);
  const std::string gradientTiles = kernels::kAttentionGradientTiles;
  add(forward, true, rowTasks, {q, k, v, bias, dy, y, none, statistics, keptLines, keep});
  add(gradientTiles + kernels::kAttentionKeyGradients, true, keyTasks,
      {q, k, v, bias, dy, statistics, places.results[1].first, places.results[2].first, keep});
  add(gradientTiles + kernels::kAttentionRowGradients, true, rowTasks,
      {q, k, v, bias, dy, statistics, places.results[0].first, keep});
  return kernel;
}

} // namespace tessera::rt::cuda
