#include "runtime/backend/AttentionGeometry.h"
#include "runtime/plan/KeepScale.h"
#include "runtime/plan/OperandParts.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace tessera::rt {

int64_t AttentionGeometry::biasBase(int64_t batchIndex, int64_t head) const {
  int64_t at = head * biasStrides[batch.size()];
  for (size_t d = batch.size(); d-- > 0;) {
    at += batchIndex % batch[d] * biasStrides[d];
    batchIndex /= batch[d];
  }
  return at;
}

const TensorView *statisticsOf(const KernelCall &call) {
  const bool grad = call.name() == "attention_grad";
  const std::vector<TensorView> &views = grad ? call.inputs : call.outputs;
  const size_t place = grad ? kGradientStatistics : kStatisticsResult;
  return views.size() > place ? &views[place] : nullptr;
}

/// The number of operands before the bias.
static size_t operandsBeforeBias(const KernelCall &call) {
  return call.name() != "attention_grad" ? 3 : statisticsOf(call) ? 6 : 4;
}

const TensorView *biasOf(const KernelCall &call) {
  const size_t at = operandsBeforeBias(call);
  return call.inputs.size() > at + (keepOf(call) ? 1 : 0) ? &call.inputs[at] : nullptr;
}

const TensorView *keepOf(const KernelCall &call) {
  return call.attribute(kKeepScale) && call.inputs.size() > operandsBeforeBias(call) ? &call.inputs.back() : nullptr;
}

Result<AttentionGeometry> attentionGeometry(const KernelCall &call) {
  bool grad = call.name() == "attention_grad";
  const TensorView *kept = statisticsOf(call), *addend = biasOf(call), *keep = keepOf(call);
  const bool statistics = kept;
  const size_t first = grad ? 1 : 0, least = operandsBeforeBias(call);
  const size_t results = grad ? 3 : 1 + size_t(statistics);
  auto error = [&](const std::string &what) { return Status::error(call.name() + ": " + what); };
  if (call.inputs.size() < least || call.inputs.size() != least + (addend ? 1 : 0) + (keep ? 1 : 0) ||
      call.outputs.size() != results)
    return error("there are " + std::to_string(call.inputs.size()) + " inputs and " +
                 std::to_string(call.outputs.size()) + " outputs");
  // Sums of products of 16 bits may be F32 (F64 where a plan is widened), and so may what is added to them. Statistics
  // are in any case.
  const plan::DType type = call.inputs[first].dtype, result = call.outputs[0].dtype;
  const bool half = type == plan::F16 || type == plan::BF16;
  auto typeFits = [&](plan::DType t, bool wide) {
    return t == type || (half && wide && (t == plan::F32 || t == plan::F64));
  };
  bool typed = isFloat(type) && typeFits(result, call.intAttribute("wide") != 0);
  for (const TensorView &view : call.inputs)
    typed = typed &&
            (&view == kept || (&view == keep && view.dtype == plan::BOOL) || typeFits(view.dtype, &view == addend));
  for (const TensorView &view : call.outputs)
    typed = typed && (&view == kept || view.dtype == result);
  if (kept)
    typed = typed && (half ? kept->dtype == plan::F32 || kept->dtype == plan::F64 : kept->dtype == type);
  if (!typed)
    return error("operands are of one floating-point type, and results of that type, or if wide of f32");

  Shape q = call.inputs[first].shape, k = call.inputs[first + 1].shape, v = call.inputs[first + 2].shape;
  size_t rank = q.size();
  if (call.attribute(kKeepScale) && !keep)
    return error("there is no operand that says what is kept");
  if (rank < 3 || k.size() != rank || v.size() != rank)
    return error("q, k and v must have equally many dimensions, at least 3");
  const bool rowsFirst = call.intAttribute("rows_first") != 0, inParts = call.attribute(kOperandParts);
  const Shape parts = call.intsAttribute(kOperandParts);
  if (inParts && parts.size() != 12)
    return error("of q, k and v there are " + std::to_string(parts.size()) + " numbers of parts, not 12");
  const size_t head = rank - (rowsFirst ? 2 : 3), row = rank - (rowsFirst ? 3 : 2);
  /// The rows of an operand, whose shape becomes that of its part.
  auto rowsOf = [&](Shape &shape, size_t operand) -> Result<AttentionGeometry::Rows> {
    auto r = AttentionGeometry::Rows::whole(shape[head], shape[row], shape[rank - 1], rowsFirst);
    if (!inParts)
      return r;
    const int64_t *part = parts.data() + 4 * operand;
    for (auto [begin, size, all] : {std::array{part[0], part[1], r.heads}, std::array{part[2], part[3], r.depth}})
      if (size < 1 || size > all || begin < 0 || begin > all - size)
        return error("a part of " + std::to_string(size) + " from " + std::to_string(begin) + " on lies outside of " +
                     str(shape));
    r.firstHead = part[0];
    r.firstColumn = part[2];
    shape[head] = r.heads = part[1];
    shape[rank - 1] = r.depth = part[3];
    return r;
  };
  AttentionGeometry g;
  for (auto [rows, shape, operand] : {std::tuple(&g.q, &q, 0), std::tuple(&g.k, &k, 1), std::tuple(&g.v, &v, 2)}) {
    Result<AttentionGeometry::Rows> found = rowsOf(*shape, size_t(operand));
    if (!found)
      return found.status();
    *rows = *found;
  }
  g.y = AttentionGeometry::Rows::whole(g.q.heads, g.q.rows, g.v.depth, rowsFirst);
  g.dq = g.q.alone();
  g.dk = g.k.alone();
  g.dv = g.v.alone();
  g.batch.assign(q.begin(), q.end() - 3);
  if (!std::equal(g.batch.begin(), g.batch.end(), k.begin()) || !std::equal(g.batch.begin(), g.batch.end(), v.begin()))
    return error("q " + str(q) + ", k " + str(k) + " and v " + str(v) + " differ in their batch");
  if (g.k.heads < 1 || g.q.heads < 1 || g.q.heads % g.k.heads != 0 || g.v.heads != g.k.heads || g.k.rows < 1 ||
      g.v.rows != g.k.rows || g.q.depth < 1 || g.k.depth != g.q.depth)
    return error("q " + str(q) + ", k " + str(k) + " and v " + str(v) + " do not fit together");
  g.batches = elementCount(g.batch);
  g.scale = call.floatAttribute("scale", 1);
  g.outside = call.floatAttribute("outside");
  g.causal = call.intAttribute("causal") != 0;
  g.start = call.intAttribute("start");

  Shape y = q;
  y.back() = g.v.depth;
  Shape lines = g.batch;
  lines.insert(lines.end(), {g.q.heads, g.q.rows});
  const std::vector<Shape> shapes = grad ? std::vector<Shape>{q, k, v} : std::vector<Shape>{y, lines};
  for (size_t i = 0; i < results; ++i)
    if (call.outputs[i].shape != shapes[i])
      return error("result " + std::to_string(i) + " has the shape " + str(shapes[i]) + ", not " +
                   str(call.outputs[i].shape));
  if (grad && call.inputs[0].shape != y)
    return error("dy has the shape " + str(y) + ", not " + str(call.inputs[0].shape));
  if (grad && statistics && call.inputs[kGradientY].shape != y)
    return error("y has the shape " + str(y) + ", not " + str(call.inputs[kGradientY].shape));
  if (grad && statistics && kept->shape != lines)
    return error("the statistics have the shape " + str(lines) + ", not " + str(kept->shape));

  g.hasStatistics = statistics;
  g.hasBias = addend;
  g.hasKeep = keep;
  g.keepScale = call.floatAttribute(kKeepScale, 1);
  Shape scores = g.batch;
  for (int64_t extent : {g.q.heads, g.q.rows, g.k.rows})
    scores.push_back(extent);
  if (keep && keep->shape != scores)
    return error("what is kept has the shape " + str(scores) + ", not " + str(keep->shape));
  if (!g.hasBias)
    return g;
  const Shape &bias = addend->shape;
  bool fits = bias.size() <= scores.size();
  for (size_t d = 0; fits && d < bias.size(); ++d)
    fits = bias[d] == 1 || bias[d] == scores[d + scores.size() - bias.size()];
  if (!fits)
    return error("the bias " + str(bias) + " does not broadcast to the scores " + str(scores));
  g.biasStrides = broadcastStrides(bias, scores.size());
  return g;
}

} // namespace tessera::rt
