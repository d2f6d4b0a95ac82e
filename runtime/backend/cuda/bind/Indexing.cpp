// gather, scatter_add, argmax, topk.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kMostTiles = 256; // of indices that are put in order
constexpr int64_t kThreads = 256;

Constants constantsOf(const IndexGeometry &g) {
  return {{"BATCH", wide(g.batch)},
          {"OUTER", wide(g.outer)},
          {"EXTENT", wide(g.extent)},
          {"ROWS", wide(g.rows)},
          {"INNER", wide(g.inner)},
          {"INDICES", wide(g.indices)},
          {"START", g.start == INT64_MIN ? "(-9223372036854775807LL - 1)" : "(" + wide(g.start) + ")"}};
}

/// The most neighbouring columns of updates and result that are one access.
int64_t columnsAtOnce(const IndexGeometry &g, const TensorView &updates, const TensorView &y) {
  const int64_t bytes = bytesPerElement(y.dtype);
  int64_t side = std::max<int64_t>(16 / bytes, 1);
  auto begins = [&](const TensorView &view) { return at(view.data).value % uint64_t(side * bytes) == 0; };
  while (side > 1 && (g.inner % side != 0 || !begins(updates) || !begins(y)))
    side /= 2;
  return side;
}

/// Puts the indices in the order of their rows, and adds up the updates of each row in the order that they have. Few
/// rows may have nearly all indices, so chunks of equal size are added, and what they have of the same row after that.
/// Sums are made in F64, as those of reductions, so that the chunks hardly show in a result that is F32.
void addInOrder(CudaKernel &kernel, const KernelCall &call, const IndexGeometry &g, Constants constants) {
  const TensorView &indices = call.inputs[0], &updates = call.inputs[1], &y = call.outputs[0];
  const int64_t all = g.batch * g.indices, rows = g.batch * g.extent, columns = g.outer * g.inner;
  const int64_t tile = (all + kThreads * kMostTiles - 1) / (kThreads * kMostTiles) * kThreads;
  const int64_t side = columnsAtOnce(g, updates, y), groups = columns / side;
  const int64_t threads = std::min(groups, kThreads), together = kThreads / threads;
  int64_t chunk = 32; // so that a row with all indices has not many more chunks than a chunk has indices
  while (8 * chunk * chunk < all)
    chunk *= 2;
  if (call.exact) // where a row is cut would follow from the indices of all others
    chunk = all;
  const int64_t chunks = (all + chunk - 1) / chunk;
  const bool wideRows = rows > int64_t(UINT32_MAX), widePlaces = all > int64_t(UINT32_MAX);
  const std::string sum = sumType(valueClass(y.dtype)), row = wideRows ? "u64" : "u32";
  for (const auto &constant : Constants{{"ALL", wide(all)},
                                        {"TILE", wide(tile)},
                                        {"CHUNK", wide(chunk)},
                                        {"SIDE", std::to_string(side) + "u"},
                                        {"THREADS", std::to_string(threads) + "u"},
                                        {"AHEAD", "8u"},
                                        {"K", row},
                                        {"P", widePlaces ? "u64" : "u32"},
                                        {"S", sum},
                                        {"ADD(a, b)", sum == "i64" ? "((i64)((u64)(a) + (u64)(b)))" : "((a) + (b))"}})
    constants.push_back(constant);
  auto launch = [&](Constants own, const char *text, std::array<uint32_t, 3> grid, int64_t block,
                    std::vector<Place> arguments) {
    own.insert(own.begin(), constants.begin(), constants.end());
    kernel.actions.push_back(Launch{withConstants(own, (std::string(kernels::kScatterRow) + text).c_str()), grid,
                                    uint32_t(block), std::move(arguments)});
  };

  const auto tiles = uint32_t((all + tile - 1) / tile);
  const Place counts = kernel.reserve(uint64_t(tiles) * 256 * sizeof(uint32_t));
  auto ofEach = [&](bool isWide) { return kernel.reserve(uint64_t(all) * (isWide ? 8 : 4)); };
  std::array<Place, 2> sorted = {}, places = {};
  size_t from = 0; // which of them hold what is in order so far
  for (int64_t shift = 0; shift == 0 || rows >> shift > 0; shift += 8) {
    const bool first = shift == 0;
    const size_t to = 1 - from;
    if (shift < 16) {
      sorted[to] = ofEach(wideRows);
      places[to] = ofEach(widePlaces);
    }
    const Constants own = {{"FIRST", first ? "true" : "false"},
                           {"F", first ? memoryType(indices.dtype) : row},
                           {"SHIFT", std::to_string(shift)}};
    const Place read = first ? at(indices.data) : sorted[from];
    launch(own, kernels::kScatterCount, {tiles, 1, 1}, kThreads, {read, counts});
    launch(own, kernels::kScatterOrder, {tiles, 1, 1}, kThreads,
           {read, places[first ? to : from], counts, sorted[to], places[to]});
    from = to;
  }
  const Place parts = kernel.reserve(uint64_t(chunks * 2 * columns) * 8);
  const Constants own = {{"FIRST", "false"}, {"F", row}};
  auto grid = [&](int64_t n) {
    return std::array<uint32_t, 3>{uint32_t((chunks + together - 1) / together),
                                   uint32_t(std::min<int64_t>((n + threads - 1) / threads, 65535)), 1};
  };
  launch(own, kernels::kScatterSums, grid(groups), threads * together,
         {at(updates.data), sorted[from], places[from], parts, at(y.data)});
  if (chunks > 1)
    launch(own, kernels::kScatterEnds, grid(columns), threads * together, {sorted[from], parts, at(y.data)});
}

} // namespace

CudaKernel bindIndexing(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  const TensorView &y = call.outputs[0];
  if (call.name() == "argmax" || call.name() == "topk") {
    AxisGeometry g = *axisGeometry(call);
    const int64_t lines = g.outer * g.inner;
    if (lines == 0)
      return kernel;
    uint32_t block = 32;
    while (block < 256 && block < g.extent)
      block *= 2;
    kernel.actions.push_back(Launch{withConstants({{"OUTER", wide(g.outer)},
                                                   {"EXTENT", wide(g.extent)},
                                                   {"INNER", wide(g.inner)},
                                                   {"BLOCK", std::to_string(block)},
                                                   {"K", wide(call.intAttribute("k", 1))},
                                                   {"SMALLEST", call.intAttribute("smallest") != 0 ? "true" : "false"},
                                                   {"T", memoryType(call.inputs[0].dtype)}},
                                                  kernels::kTopK),
                                    {uint32_t(std::min<int64_t>(lines, 65535)), 1, 1},
                                    block,
                                    {at(call.inputs[0].data), at(y.data)}});
    return kernel;
  }
  IndexGeometry g = *indexGeometry(call);
  Constants constants = constantsOf(g);
  const bool scatter = call.name() == "scatter_add";
  constants.push_back({"I", memoryType(call.inputs[scatter ? 0 : 1].dtype)});
  constants.push_back({"T", memoryType(y.dtype)});
  if (!scatter) {
    if (y.elements() > 0)
      kernel.actions.push_back(Launch{withConstants(constants, kernels::kGather),
                                      {blocksFor(y.elements()), 1, 1},
                                      256,
                                      {at(call.inputs[0].data), at(call.inputs[1].data), at(y.data)}});
    return kernel;
  }
  if (y.bytes() > 0)
    kernel.actions.push_back(FillBytes{at(y.data), y.bytes()});
  if (y.elements() > 0 && g.indices > 0)
    addInOrder(kernel, call, g, constants);
  return kernel;
}

} // namespace tessera::rt::cuda
