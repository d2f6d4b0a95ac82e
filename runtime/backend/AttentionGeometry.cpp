#include "runtime/backend/AttentionGeometry.h"

#include <algorithm>

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

Result<AttentionGeometry> attentionGeometry(const KernelCall &call) {
  bool grad = call.name() == "attention_grad";
  const TensorView *kept = statisticsOf(call);
  const bool statistics = kept;
  const size_t first = grad ? 1 : 0, biasAt = first + (grad && statistics ? 5 : 3);
  const size_t results = grad ? 3 : 1 + size_t(statistics);
  auto error = [&](const std::string &what) { return Status::error(call.name() + ": " + what); };
  if (call.inputs.size() < biasAt || call.inputs.size() > biasAt + 1 || call.outputs.size() != results)
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
  for (size_t i = 0; i < call.inputs.size(); ++i)
    typed = typed && (&call.inputs[i] == kept || typeFits(call.inputs[i].dtype, i == biasAt));
  for (const TensorView &view : call.outputs)
    typed = typed && (&view == kept || view.dtype == result);
  if (kept)
    typed = typed && (half ? kept->dtype == plan::F32 || kept->dtype == plan::F64 : kept->dtype == type);
  if (!typed)
    return error("operands are of one floating-point type, and results of that type, or if wide of f32");

  const Shape &q = call.inputs[first].shape, &k = call.inputs[first + 1].shape, &v = call.inputs[first + 2].shape;
  size_t rank = q.size();
  if (rank < 3 || k.size() != rank || v.size() != rank)
    return error("q, k and v must have equally many dimensions, at least 3");
  bool rowsFirst = call.intAttribute("rows_first") != 0;
  auto rowsOf = [&](const Shape &shape) {
    AttentionGeometry::Rows r;
    r.rowsFirst = rowsFirst;
    r.heads = shape[rank - (rowsFirst ? 2 : 3)];
    r.rows = shape[rank - (rowsFirst ? 3 : 2)];
    r.depth = shape[rank - 1];
    return r;
  };
  AttentionGeometry g;
  g.q = g.y = rowsOf(q);
  g.k = rowsOf(k);
  g.v = rowsOf(v);
  g.y.depth = g.v.depth;
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
  g.hasBias = call.inputs.size() > biasAt;
  if (!g.hasBias)
    return g;
  Shape scores = g.batch;
  for (int64_t extent : {g.q.heads, g.q.rows, g.k.rows})
    scores.push_back(extent);
  const Shape &bias = call.inputs[biasAt].shape;
  bool fits = bias.size() <= scores.size();
  for (size_t d = 0; fits && d < bias.size(); ++d)
    fits = bias[d] == 1 || bias[d] == scores[d + scores.size() - bias.size()];
  if (!fits)
    return error("the bias " + str(bias) + " does not broadcast to the scores " + str(scores));
  g.biasStrides = broadcastStrides(bias, scores.size());
  return g;
}

} // namespace tessera::rt
