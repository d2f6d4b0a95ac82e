// Attention and its gradient by the library's own kernels. They hold a tile of scores at a time as the generated ones
// do, and multiply probabilities of 16 bits.
//
// The library's gradient reads the result and the statistics of its rows, as the program's does. A plan may be older
// and keep neither (docs/adr/0011-attention.md). Then it is two calls: attention once more into scratch memory, two
// products of seven, and the gradient.
#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/bind/Copies.h"
#include "runtime/backend/cuda/bind/LoopTable.h"

#include <algorithm>
#include <optional>

namespace tessera::rt::cuda {
namespace {

/// A score that no network computes with (docs/adr/0011-attention.md): what it replaces has the probability 0.
constexpr double kNoScore = -1e9;
/// The most batches of which each has calls of its own.
constexpr int64_t kMostCalls = 64;

/// Whether the library's mask, under which a row sees the keys up to its own number, says what the call's does; nothing
/// where it does not. Where the masked scores are added to a bias, a row may see nothing else.
std::optional<bool> causal(const AttentionGeometry &g) {
  if (!g.causal || g.start >= g.keys() - 1)
    return false;
  if (g.start != 0 || g.outside > kNoScore || g.hasBias)
    return std::nullopt;
  return true;
}

/// The strides of the bias by batch, head, row and key; nothing where its batches do not lie evenly.
std::optional<std::array<int64_t, 4>> biasApart(const AttentionGeometry &g) {
  if (!g.hasBias)
    return std::array<int64_t, 4>{};
  const size_t rank = g.batch.size();
  int64_t batch = 0, within = 1; // the stride of the last dimension with several batches, and how many lie within it
  for (size_t d = rank; d-- > 0;) {
    if (g.batch[d] == 1)
      continue;
    if (within == 1)
      batch = g.biasStrides[d];
    else if (g.biasStrides[d] != batch * within)
      return std::nullopt;
    within *= g.batch[d];
  }
  if (g.keyStride() != 1 && g.keys() > 1)
    return std::nullopt;
  return std::array<int64_t, 4>{batch, g.biasStrides[rank], g.rowStride(), g.keyStride()};
}

/// Whether rows can be read as the library reads them, in pieces of 16 bytes.
bool aligned(const PlacedRows &rows) {
  const int64_t bytes = (rows.row | rows.head | rows.batch) * int64_t(bytesPerElement(rows.type));
  return bytes % 16 == 0 && rows.first.value % 16 == 0 && rows.first.perIndex % 16 == 0;
}

class LibraryCalls {
public:
  /// kept: y and the statistics of a gradient, or where attention puts its statistics, and what dropout keeps; as far as
  /// the call has them.
  struct Kept {
    std::optional<PlacedRows> y;
    std::optional<Place> statistics;
    Place keep; // of dropout
  };
  LibraryCalls(const AttentionGeometry &g, const AttentionPlaces &places, const Kept &kept, const Place &bias,
               plan::DType biasType, bool causal, const std::array<int64_t, 4> &biasApart)
      : g_(g), places_(places), kept_(kept), bias_(bias), gradient_(places.results.size() > 1) {
    const PlacedRows *operand = places.operands.data() + (gradient_ ? 1 : 0);
    all_.dtype = operand->type;
    all_.causal = causal;
    all_.biasType = g.hasBias ? int32_t(biasType) : 0;
    all_.heads = g.heads();
    all_.keyHeads = g.k.heads;
    all_.rows = g.rows();
    all_.keys = g.keys();
    all_.depth = g.q.depth;
    all_.width = g.v.depth;
    all_.scale = g.scale;
    all_.dropout = g.hasKeep;
    all_.keepScale = g.keepScale;
    std::copy(biasApart.begin(), biasApart.end(), all_.biasApart);
    spread_.elementBytes = bytesPerElement(biasType);
    if (gradient_ && g.hasBias && (biasApart[2] == 0 || biasApart[3] == 0))
      spreadBias();
    if (gradient_ && causal && g.hasKeep)
      maskByBias();
    biasBytes_ = g.hasBias ? all_.biasApart[0] * int64_t(spread_.elementBytes) : 0;
    for (int32_t which : {TESSERA_ATTENTION_Q, TESSERA_ATTENTION_K, TESSERA_ATTENTION_V})
      put(which, operand[which]);
    if (!gradient_) {
      put(TESSERA_ATTENTION_Y, places.results[0]);
      return;
    }
    put(TESSERA_ATTENTION_DY, places.operands[0]);
    put(TESSERA_ATTENTION_DQ, places.results[0]);
    put(TESSERA_ATTENTION_DK, places.results[1]);
    put(TESSERA_ATTENTION_DV, places.results[2]);
    if (kept.y)
      put(TESSERA_ATTENTION_Y, *kept.y);
  }

  /// `batches` at a time. Fewer need less workspace.
  CudaKernel calls(int64_t batches) {
    CudaKernel kernel;
    kernel.description =
        "cuDNN " + dtypeName(plan::DType(all_.dtype)) + (batches < g_.batches ? ", a batch at a time" : "");
    TesseraAttention what = all_;
    what.batches = batches;
    const uint64_t batchLines = uint64_t(g_.heads() * g_.rows()), lines = uint64_t(batches) * batchLines;
    const bool repeats = gradient_ && !kept_.y;
    Place y, statistics, delta, bias = bias_; // in scratch memory, but the bias that is read as it lies
    auto makeBias = [&](int64_t points, uint64_t elementBytes, PointLoop loop, std::vector<Place> from) {
      const uint64_t bytes = uint64_t(points) * elementBytes;
      bias = kernel.reserve(bytes);
      from.push_back(bias);
      Launch launch = launchLoop(std::move(loop), points, std::move(from));
      launch.copied = bytes;
      kernel.actions.push_back(std::move(launch));
    };
    if (masks_)
      makeBias(g_.rows() * g_.keys(), sizeof(float), causalBias(), {});
    else if (!spread_.sizes.empty())
      makeBias(elementCount(spread_.sizes), spread_.elementBytes, stridedCopy(spread_), {bias_});
    if (gradient_)
      delta = kernel.reserve(lines * sizeof(float));
    if (repeats) {
      y = kernel.reserve(lines * uint64_t(g_.v.depth) * uint64_t(bytesPerElement(places_.operands[0].type)));
      statistics = kernel.reserve(lines * sizeof(float));
      int64_t *apart = what.apart[TESSERA_ATTENTION_Y];
      apart[2] = g_.heads() * g_.v.depth;
      apart[1] = g_.v.depth;
      apart[0] = g_.rows() * apart[2];
    }
    for (int64_t first = 0; first < g_.batches; first += batches) {
      LibraryAttention call{what, {}};
      for (int32_t which = TESSERA_ATTENTION_Q; which <= TESSERA_ATTENTION_DV; ++which)
        if (const PlacedRows *rows = rows_[size_t(which)])
          call.tensors[size_t(which)] =
              further(rows->first, first * rows->batch * int64_t(bytesPerElement(rows->type)));
      if (all_.biasType)
        call.tensors[TESSERA_ATTENTION_BIAS] = further(bias, first * biasBytes_);
      if (g_.hasKeep)
        call.tensors[TESSERA_ATTENTION_KEEP] = further(
            kept_.keep, first * int64_t(batchLines) * g_.keys() * int64_t(bytesPerElement(plan::DType(all_.dtype))));
      if (kept_.statistics) {
        call.tensors[TESSERA_ATTENTION_STATISTICS] =
            further(*kept_.statistics, first * int64_t(batchLines * sizeof(float)));
        call.what.statistics = gradient_ ? 0 : 1;
      }
      if (repeats) {
        call.tensors[TESSERA_ATTENTION_Y] = y;
        call.tensors[TESSERA_ATTENTION_STATISTICS] = statistics;
        call.what.statistics = 1;
        kernel.actions.push_back(call);
        call.what.statistics = 0;
      }
      if (gradient_) {
        call.what.gradient = 1;
        call.tensors[TESSERA_ATTENTION_DELTA] = delta;
      }
      kernel.actions.push_back(call);
    }
    return kernel;
  }

  int64_t biasBytes() const { return biasBytes_; } // between batches

private:
  /// cuDNN's gradient is wrong where all rows share one row of the bias, as under a mask of keys (9.19 on an H100). It
  /// reads a copy with a row for each.
  void spreadBias() {
    const int64_t *apart = all_.biasApart;
    spread_.sizes = {apart[0] ? g_.batches : 1, apart[1] ? g_.heads() : 1, g_.rows(), g_.keys()};
    spread_.fromStrides.assign(apart, apart + 4);
    spread_.toStrides = rowMajorStrides(spread_.sizes);
    for (size_t d = 0; d < 4; ++d)
      all_.biasApart[d] = d < 2 && apart[d] == 0 ? 0 : spread_.toStrides[d];
  }

  /// cuDNN's gradient is wrong where a causal mask meets dropout (9.19 on an H200). It gets the mask as a bias that all
  /// heads share. What the mask leaves out is computed then, too, in a third of the time that generated tiles take.
  void maskByBias() {
    masks_ = true;
    all_.causal = 0;
    all_.biasType = plan::F32;
    std::ranges::copy(std::array<int64_t, 4>{0, 0, g_.keys(), 1}, all_.biasApart);
  }
  PointLoop causalBias() const {
    const IndexType index = indexTypeFor(g_.rows() * g_.keys());
    const std::string keys = index.literal(g_.keys());
    return {{{"float", "to"}},
            "to[i] = i % " + keys + " <= i / " + keys + " ? 0.0f : " + std::to_string(kNoScore) + "f;\n",
            index};
  }

  void put(int32_t which, const PlacedRows &rows) {
    rows_[size_t(which)] = &rows;
    all_.apart[which][0] = rows.batch;
    all_.apart[which][1] = rows.head;
    all_.apart[which][2] = rows.row;
  }
  static Place further(Place place, int64_t bytes) {
    place.value += uint64_t(bytes);
    return place;
  }

  const AttentionGeometry &g_;
  const AttentionPlaces &places_;
  const Kept &kept_;
  const Place bias_;
  const bool gradient_;
  StridedCopy spread_; // of the bias; no sizes: it is read as it lies
  bool masks_ = false; // by a bias
  int64_t biasBytes_ = 0;
  TesseraAttention all_ = {};
  std::array<const PlacedRows *, 8> rows_ = {};
};

} // namespace

std::vector<CudaKernel> bindLibraryAttention(const KernelCall &call, const AttentionPlaces &places,
                                             const BindOptions &options) {
  const AttentionGeometry g = *attentionGeometry(call);
  const bool gradient = places.results.size() > 1;
  const plan::DType type = call.inputs[gradient ? 1 : 0].dtype;
  // What the call sums in F32 is not rounded here, whatever reads it.
  if (options.tiledAttention || (type != plan::BF16 && type != plan::F16) || call.outputs[0].dtype != type ||
      g.q.depth % 8 != 0 || g.v.depth % 8 != 0 || g.batches * g.heads() * g.rows() * g.q.depth * g.v.depth == 0)
    return {};
  // What dropout keeps lies in a byte each between attention and its gradient. The library wants 16 bits.
  const TensorView *keep = keepOf(call);
  if (gradient && keep && keep->dtype == plan::BOOL)
    return bindOnCopies(
        call, kWideCopies, "",
        [&](TensorView &view, size_t operand) {
          const bool isKeep = operand == call.inputs.size() - 1;
          view.dtype = isKeep ? type : view.dtype;
          return isKeep;
        },
        [&](const KernelCall &copied) { return bindLibraryAttention(copied, places, options); });
  for (const std::vector<PlacedRows> *list : {&places.operands, &places.results})
    for (const PlacedRows &rows : *list)
      if (!aligned(rows) || rows.type != type)
        return {};
  const std::optional<bool> isCausal = causal(g);
  const auto apart = biasApart(g);
  const plan::DType biasType = g.hasBias ? biasOf(call)->dtype : type;
  const Place bias = g.hasBias ? at(biasOf(call)->data) : Place();
  if (!isCausal || !apart || bias.value % 16 != 0 || (biasType != type && biasType != plan::F32))
    return {};
  LibraryCalls::Kept kept;
  if (keep) {
    kept.keep = at(keep->data);
    if (keep->dtype != type || kept.keep.value % 16 != 0)
      return {};
  }
  if (const TensorView *statistics = statisticsOf(call)) {
    kept.statistics = at(statistics->data);
    if (gradient)
      kept.y = placedRows(g.y, at(call.inputs[kGradientY].data), type);
    if (statistics->dtype != plan::F32 || kept.statistics->value % 16 != 0 || (kept.y && !aligned(*kept.y)))
      return {};
  }
  LibraryCalls library(g, places, kept, bias, biasType, *isCausal, *apart);
  std::vector<CudaKernel> choices = {library.calls(g.batches)};
  // A gradient whose results do not vary needs workspace for parts of all sums.
  const bool evenBias = library.biasBytes() % 16 == 0;
  const bool evenStatistics = !kept.statistics || g.heads() * g.rows() * int64_t(sizeof(float)) % 16 == 0;
  if (gradient && g.batches > 1 && g.batches <= kMostCalls && evenBias && evenStatistics)
    choices.push_back(library.calls(1));
  return choices;
}

} // namespace tessera::rt::cuda
