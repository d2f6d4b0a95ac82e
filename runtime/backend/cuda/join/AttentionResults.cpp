#include "runtime/backend/cuda/join/AttentionResults.h"

#include "runtime/backend/cuda/bind/AttentionKernels.h"
#include "runtime/backend/cuda/join/Epilogue.h"

#include <algorithm>

namespace tessera::rt::cuda {
namespace {

class AttentionResults {
public:
  AttentionResults(const plan::Program &program, const std::vector<KernelCall> &calls, size_t first,
                   const BufferUses &uses, const JoinedProgram &joined, const BindOptions &options, AttentionBy by)
      : program_(program), calls_(calls), first_(first), uses_(uses), joined_(joined), options_(options), by_(by) {}

  std::optional<JoinedKernel> with(size_t reader) const {
    for (const std::vector<TensorView> *views : {&call().inputs, &call().outputs, &calls_[reader].outputs})
      for (const TensorView &view : *views)
        if (!view.layout.plain())
          return std::nullopt;
    std::optional<std::vector<PlacedRows>> stored = isGradient() ? beside(reader) : narrowed(reader);
    if (!stored)
      return std::nullopt;
    JoinedKernel both;
    both.set.steps = {first_, reader};
    both.set.accesses = {joined_.accesses()[first_], joined_.accesses()[reader]};
    both.set.accesses[0].writes.clear();
    if (keepsStatistics())
      both.set.accesses[0].writes.push_back(joined_.accesses()[first_].writes[kStatisticsResult]);
    both.set.accesses[1].reads.clear();
    // The statistics' memory may be free again when the reader writes, if nobody reads them.
    if (meet(both.set.accesses[1].writes, both.set.accesses[0].reads) ||
        meet(both.set.accesses[1].writes, both.set.accesses[0].writes))
      return std::nullopt;
    AttentionPlaces places = attentionPlaces(call());
    places.results = std::move(*stored);
    if (by_ == AttentionBy::Tiles) {
      both.kernel = bindTiledAttention(call(), places);
      return both;
    }
    std::vector<CudaKernel> choices = bindLibraryAttention(call(), places, options_);
    if (choices.empty())
      return std::nullopt;
    both.kernel = std::move(by_ == AttentionBy::Library ? choices.front() : choices.back());
    return both;
  }

  /// The step that reads all results but statistics, if nothing else does.
  std::optional<size_t> reader() const {
    std::optional<size_t> found;
    for (int i = 0; i < (isGradient() ? kernel(first_).outputs_size() : 1); ++i)
      if (const uint32_t out = kernel(first_).outputs(i);
          uses_.kept(out) || uses_.reads(out) != 1 || uses_.writes(out) != 1)
        return std::nullopt;
    for (size_t s = first_ + 1; s < calls_.size() && !found; ++s)
      if (calls_[s].kernel && reads(s, 0))
        found = s;
    return found && !joined_.taken(*found) ? found : std::nullopt;
  }

private:
  const plan::Kernel &kernel(size_t s) const { return program_.steps(int(s)).kernel(); }
  const KernelCall &call() const { return calls_[first_]; }
  bool isGradient() const { return call().name() == "attention_grad"; }
  bool keepsStatistics() const { return !isGradient() && statisticsOf(call()); }

  /// The operand of a step that is the result number `o`.
  std::optional<size_t> reads(size_t s, size_t o) const {
    for (int i = 0; i < kernel(s).inputs_size(); ++i)
      if (uses_.root(kernel(s).inputs(i)) == uses_.root(kernel(first_).outputs(int(o))))
        return size_t(i);
    return std::nullopt;
  }

  /// The result in the type of a conversion.
  std::optional<std::vector<PlacedRows>> narrowed(size_t s) const {
    const KernelCall &reader = calls_[s];
    const TensorView &made = call().outputs[0];
    if (made.dtype != plan::F32 || !isExpressionKernel(reader.name()) || reader.inputs.size() != 1 ||
        reader.inputs[0].data != made.data)
      return std::nullopt;
    const Result<ExpressionCode> code = lowerExpression(reader);
    const std::optional<Epilogue> e = code ? epilogueOf(*code, 0) : std::nullopt;
    const TensorView &to = reader.outputs[0];
    if (!e || e->bits != 0 || reader.outputs.size() != 1 || to.elements() != made.elements() ||
        bytesPerElement(to.dtype) != 2 || !isFloat(to.dtype))
      return std::nullopt;
    return std::vector<PlacedRows>{placedRows(attentionGeometry(call())->y, at(to.data), to.dtype)};
  }

  /// The rows of a result in a tensor into which the pieces of `piece` elements that follow each other in the result are
  /// put `apart` elements apart; nothing where rows, heads and batches do not lie evenly there.
  static std::optional<PlacedRows> inPieces(const AttentionGeometry::Rows &r, Place first, plan::DType type,
                                            int64_t batches, int64_t piece, int64_t apart) {
    PlacedRows rows = placedRows(r, first, type);
    int64_t element = 1;
    for (auto [stride, count] : {std::pair(&element, r.depth), std::pair(&rows.row, r.rows),
                                 std::pair(&rows.head, r.heads), std::pair(&rows.batch, batches)}) {
      const int64_t extent = *stride * count; // of it and what is inside
      if (piece % extent == 0)
        continue;
      if (*stride % piece != 0)
        return std::nullopt;
      *stride = *stride / piece * apart;
    }
    return element == 1 ? std::optional(rows) : std::nullopt;
  }

  /// The results side by side in a concatenation.
  std::optional<std::vector<PlacedRows>> beside(size_t s) const {
    const KernelCall &reader = calls_[s];
    const size_t results = call().outputs.size();
    if (reader.name() != "concat" || reader.inputs.size() != results)
      return std::nullopt;
    const TensorView &to = reader.outputs[0];
    const auto dim = size_t(reader.intAttribute("dim"));
    int64_t within = 1; // elements of each step along the dimension
    for (size_t d = dim + 1; d < to.shape.size(); ++d)
      within *= to.shape[d];
    const AttentionGeometry g = *attentionGeometry(call());
    const AttentionGeometry::Rows *rows[] = {&g.dq, &g.dk, &g.dv};
    std::vector<PlacedRows> stored(results);
    for (size_t o = 0; o < results; ++o) {
      const std::optional<size_t> i = reads(s, o);
      if (!i || reader.inputs[*i].data != call().outputs[o].data ||
          reader.inputs[*i].elements() != call().outputs[o].elements() || to.dtype != call().outputs[o].dtype)
        return std::nullopt;
      Place place = at(to.data);
      for (size_t before = 0; before < *i; ++before)
        place.value += uint64_t(reader.inputs[before].shape[dim] * within) * bytesPerElement(to.dtype);
      const std::optional<PlacedRows> found =
          inPieces(*rows[o], place, to.dtype, g.batches, reader.inputs[*i].shape[dim] * within, to.shape[dim] * within);
      if (!found)
        return std::nullopt;
      stored[o] = *found;
    }
    return stored;
  }

  const plan::Program &program_;
  const std::vector<KernelCall> &calls_;
  const size_t first_;
  const BufferUses &uses_;
  const JoinedProgram &joined_;
  const BindOptions &options_;
  const AttentionBy by_;
};

} // namespace

std::optional<JoinedKernel> attentionFrom(const plan::Program &program, const std::vector<KernelCall> &calls,
                                          size_t first, const BufferUses &uses, const JoinedProgram &joined,
                                          const BindOptions &options, AttentionBy by) {
  if (!calls[first].kernel || (calls[first].name() != "attention" && calls[first].name() != "attention_grad"))
    return std::nullopt;
  // Composed of products it writes as they do.
  if (composesAttention(calls[first], options))
    return std::nullopt;
  const AttentionResults results(program, calls, first, uses, joined, options, by);
  const std::optional<size_t> reader = results.reader();
  return reader ? results.with(*reader) : std::nullopt;
}

} // namespace tessera::rt::cuda
