#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/ExpressionCode.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <bit>
#include <map>

namespace tessera::rt {
namespace {

constexpr int64_t kAttributeLimit = int64_t(1) << 20; // strides, pads, dilations, kernel sizes

Status arity(const KernelCall &call, size_t inputs, size_t outputs) {
  if (call.inputs.size() == inputs && call.outputs.size() == outputs)
    return Status();
  return Status::error(call.name() + " has " + std::to_string(call.inputs.size()) + " inputs and " +
                       std::to_string(call.outputs.size()) + " outputs, not " + std::to_string(inputs) + " and " +
                       std::to_string(outputs));
}

/// All inputs from `first` on and the outputs have one element type.
Status sameTypes(const KernelCall &call, size_t first = 0) {
  for (size_t i = first; i < call.inputs.size(); ++i)
    if (call.inputs[i].dtype != call.outputs[0].dtype)
      return Status::error(call.name() + " of " + dtypeName(call.inputs[i].dtype) + " cannot give " +
                           dtypeName(call.outputs[0].dtype));
  return Status();
}

/// Like sameTypes, but sums of 16-bit products may be stored in F32 (attribute "wide"; in F64 where a plan is widened).
Status productTypes(const KernelCall &call) {
  plan::DType in = call.inputs[0].dtype, out = call.outputs[0].dtype;
  bool half = in == plan::F16 || in == plan::BF16;
  if (!half || !call.intAttribute("wide"))
    return sameTypes(call);
  if (call.inputs[1].dtype == in && (out == plan::F32 || out == plan::F64))
    return Status();
  return Status::error("wide " + call.name() + " of " + dtypeName(in) + " and " + dtypeName(call.inputs[1].dtype) +
                       " cannot give " + dtypeName(out));
}

Status floatOnly(const KernelCall &call) {
  plan::DType t = call.outputs[0].dtype;
  if (isFloat(t))
    return Status();
  return Status::error(call.name() + " is not defined for " + dtypeName(t));
}

std::string operandList(const KernelCall &call) {
  std::string s;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    s += (i == 0 ? "" : i + 1 == call.inputs.size() ? " and " : ", ") + str(call.inputs[i].shape);
  return s;
}

Status resultShape(const KernelCall &call, const Shape &expected) {
  if (call.outputs[0].shape == expected)
    return Status();
  return Status::error(call.name() + ": the result of " + operandList(call) + " has the shape " + str(expected) +
                       ", not " + str(call.outputs[0].shape));
}

Status attributeError(const KernelCall &call, const std::string &what) {
  return Status::error(call.name() + " of " + operandList(call) + ": " + what);
}

/// Reads `name` with `count` values in [low, high] to out[3 - count ...].
Status readSpatial(const KernelCall &call, const char *name, size_t count, int64_t low, int64_t high,
                   std::array<int64_t, 3> &out) {
  Shape values = call.intsAttribute(name);
  if (values.size() != count)
    return attributeError(call, std::string(name) + " has " + std::to_string(values.size()) + " values for " +
                                    std::to_string(count) + " spatial dimensions");
  for (size_t i = 0; i < count; ++i) {
    if (values[i] < low || values[i] > high)
      return attributeError(call, std::string(name) + " " + str(values) + " is out of range");
    out[3 - count + i] = values[i];
  }
  return Status();
}

Status readPads(const KernelCall &call, size_t count, int64_t low, std::array<int64_t, 3> &lo,
                std::array<int64_t, 3> &hi) {
  Shape values = call.intsAttribute("pads");
  if (values.size() != 2 * count)
    return attributeError(call, "pads has " + std::to_string(values.size()) + " values for " + std::to_string(count) +
                                    " spatial dimensions");
  for (size_t i = 0; i < 2 * count; ++i)
    if (values[i] < low || values[i] > kAttributeLimit)
      return attributeError(call, "pads " + str(values) + " is out of range");
  for (size_t i = 0; i < count; ++i) {
    lo[3 - count + i] = values[i];
    hi[3 - count + i] = values[count + i];
  }
  return Status();
}

void spatialOf(const Shape &shape, std::array<int64_t, 3> &out) {
  for (size_t i = 2; i < shape.size(); ++i)
    out[3 - (shape.size() - i)] = shape[i];
}

/// Extent of a window's result; 0 where no window fits.
int64_t windowExtent(int64_t in, int64_t lo, int64_t hi, int64_t kernel, int64_t dilation, int64_t stride) {
  int64_t room = in + lo + hi - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Status batchOf(const KernelCall &call, const Shape &a, const Shape &b, MatMulGeometry &g) {
  size_t rank = std::max(a.size(), b.size()) - 2;
  auto at = [&](const Shape &s, size_t d) {
    size_t own = s.size() - 2;
    return d + own < rank ? int64_t(1) : s[d + own - rank];
  };
  Shape sa(rank), sb(rank);
  for (size_t d = 0; d < rank; ++d) {
    sa[d] = at(a, d);
    sb[d] = at(b, d);
    if (sa[d] != sb[d] && sa[d] != 1 && sb[d] != 1)
      return attributeError(call, "the batch dimensions do not broadcast");
    g.batch.push_back(sa[d] == 1 ? sb[d] : sa[d]);
  }
  g.batchStrideA = broadcastStrides(sa, rank);
  g.batchStrideB = broadcastStrides(sb, rank);
  return Status();
}

//===- Checks of single kernels ---------------------------------------------------------------===//

Status checkReshape(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  if (call.inputs[0].elements() != call.outputs[0].elements())
    return Status::error("reshape of " + str(call.inputs[0].shape) + " to " + str(call.outputs[0].shape) +
                         " changes the number of elements");
  return Status();
}

Status checkTranspose(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  Shape perm = call.intsAttribute("perm"), sorted = perm, expected;
  std::sort(sorted.begin(), sorted.end());
  bool good = perm.size() == call.inputs[0].shape.size();
  for (size_t d = 0; good && d < sorted.size(); ++d)
    good = sorted[d] == int64_t(d);
  if (!good)
    return attributeError(call, "perm " + str(perm) + " is not a permutation of the dimensions");
  for (int64_t d : perm)
    expected.push_back(call.inputs[0].shape[size_t(d)]);
  return resultShape(call, expected);
}

Status checkSlice(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  const Shape &x = call.inputs[0].shape;
  Shape starts = call.intsAttribute("starts"), limits = call.intsAttribute("limits");
  Shape strides = call.intsAttribute("strides"), expected;
  if (starts.size() != x.size() || limits.size() != x.size() || strides.size() != x.size())
    return attributeError(call, "starts, limits and strides need one value per dimension");
  for (size_t d = 0; d < x.size(); ++d) {
    if (starts[d] < 0 || starts[d] > limits[d] || limits[d] > x[d] || strides[d] < 1)
      return attributeError(call, "starts " + str(starts) + ", limits " + str(limits) + ", strides " + str(strides) +
                                      " leave the operand");
    expected.push_back(limits[d] == starts[d] ? 0 : (limits[d] - starts[d] - 1) / strides[d] + 1);
  }
  return resultShape(call, expected);
}

Status checkPad(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  const Shape &x = call.inputs[0].shape;
  Shape lo = call.intsAttribute("lo"), hi = call.intsAttribute("hi");
  Shape inner = call.intsAttribute("inner"), expected;
  if (lo.size() != x.size() || hi.size() != x.size() || inner.size() != x.size())
    return attributeError(call, "lo, hi and inner need one value per dimension");
  for (size_t d = 0; d < x.size(); ++d) {
    int64_t between = 0, total = 0;
    if (lo[d] < 0 || hi[d] < 0 || inner[d] < 0 ||
        __builtin_mul_overflow(std::max<int64_t>(x[d] - 1, 0), inner[d], &between) ||
        __builtin_add_overflow(x[d], between, &total) || __builtin_add_overflow(total, lo[d], &total) ||
        __builtin_add_overflow(total, hi[d], &total))
      return attributeError(call, "lo " + str(lo) + ", hi " + str(hi) + ", inner " + str(inner) + " are out of range");
    expected.push_back(total);
  }
  return resultShape(call, expected);
}

Status checkConcat(const KernelCall &call) {
  if (call.inputs.empty() || call.outputs.size() != 1)
    return Status::error("concat needs at least one operand and one result");
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  int64_t dim = call.intAttribute("dim", -1);
  Shape expected = call.inputs[0].shape;
  if (dim < 0 || dim >= int64_t(expected.size()))
    return attributeError(call, "there is no dimension " + std::to_string(dim));
  size_t d = size_t(dim);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Shape s = call.inputs[i].shape, t = expected;
    if (s.size() != t.size())
      return attributeError(call, "the operands differ in rank");
    t[d] = s[d];
    if (s != t)
      return attributeError(call, "the operands differ in a dimension other than " + std::to_string(dim));
    expected[d] += s[d];
  }
  return resultShape(call, expected);
}

Status checkMicroRows(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  const int64_t parts = call.intAttribute(kParts);
  Shape expected = call.inputs[0].shape;
  if (parts < 1 || expected.empty() || expected[0] % parts)
    return attributeError(call, "its rows are not " + std::to_string(parts) + " equal parts");
  expected[0] /= parts;
  return resultShape(call, expected);
}

Status checkArgMax(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(axisGeometry(call).status());
  if (call.outputs[0].dtype != plan::I64)
    return Status::error("argmax gives i64, not " + dtypeName(call.outputs[0].dtype));
  Shape expected = call.inputs[0].shape;
  auto at = expected.begin() + call.intAttribute("dim");
  if (*at == 0)
    return attributeError(call, "an empty dimension has no maximum");
  if (call.intAttribute("keepdims"))
    *at = 1;
  else
    expected.erase(at);
  return resultShape(call, expected);
}

Status checkTopK(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(axisGeometry(call).status());
  if (call.outputs[0].dtype != plan::I64)
    return Status::error("topk gives i64, not " + dtypeName(call.outputs[0].dtype));
  Shape expected = call.inputs[0].shape;
  int64_t &extent = expected[size_t(call.intAttribute("dim"))];
  int64_t k = call.intAttribute("k");
  if (k < 1 || k > extent)
    return attributeError(call, "k = " + std::to_string(k) + " is out of range");
  extent = k;
  return resultShape(call, expected);
}

Status checkOrthonormalize(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  TESSERA_RETURN_IF_ERROR(floatOnly(call));
  const Shape &x = call.inputs[0].shape;
  if (x.size() < 2)
    return Status::error("orthonormalize of " + str(x) + ": a matrix is wanted");
  if (x.back() > UINT32_MAX || x[x.size() - 2] > UINT32_MAX) // rows and columns are numbered in 32 bits
    return Status::error("orthonormalize of " + str(x) + ": the matrix is too large");
  return resultShape(call, x);
}

Status checkSoftmax(const KernelCall &call) {
  bool grad = call.name().find("_grad") != std::string::npos;
  TESSERA_RETURN_IF_ERROR(arity(call, grad ? 2 : 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  TESSERA_RETURN_IF_ERROR(floatOnly(call));
  TESSERA_RETURN_IF_ERROR(axisGeometry(call).status());
  if (grad && call.inputs[0].shape != call.inputs[1].shape)
    return attributeError(call, "the operands differ in shape");
  return resultShape(call, call.inputs[0].shape);
}

Status checkExpression(const KernelCall &call) { return lowerExpression(call).status(); }
Status checkConv(const KernelCall &call) { return convGeometry(call).status(); }
Status checkPool(const KernelCall &call) { return poolGeometry(call).status(); }
Status checkMatMul(const KernelCall &call) { return matmulGeometry(call).status(); }
Status checkAttention(const KernelCall &call) { return attentionGeometry(call).status(); }
Status checkIndex(const KernelCall &call) { return indexGeometry(call).status(); }

/// Within one kernel an output may share bytes with an input only element for element.
Status checkOverlap(const KernelCall &call) {
  bool elementwise = isExpressionKernel(call.name());
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    for (const TensorView &in : call.inputs)
      if (overlap(in, call.outputs[o]) &&
          !(elementwise && in.data == call.outputs[o].data && in.dtype == call.outputs[o].dtype &&
            in.elements() == call.outputs[o].elements()))
        return Status::error(call.name() + ": output " + std::to_string(o) + " overlaps an input that is still read");
    for (size_t p = 0; p < o; ++p)
      if (overlap(call.outputs[p], call.outputs[o]))
        return Status::error(call.name() + ": two outputs overlap");
  }
  return Status();
}

} // namespace

//===- Geometries -----------------------------------------------------------------------------===//

/// In how many equal ranges `terms` are summed; `what` are they.
static Status readLeaves(const KernelCall &call, int64_t terms, const char *what, int64_t &leaves) {
  leaves = call.intAttribute("leaves", 1);
  if (leaves < 1 || !std::has_single_bit(uint64_t(leaves)) || terms % leaves != 0)
    return attributeError(call, std::to_string(leaves) + " leaves are no power of two that divides the " +
                                    std::to_string(terms) + " " + what);
  return Status();
}

Result<ConvGeometry> convGeometry(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 2, 1));
  TESSERA_RETURN_IF_ERROR(productTypes(call));
  TESSERA_RETURN_IF_ERROR(floatOnly(call));
  bool inputGrad = call.name() == "conv_input_grad", weightGrad = call.name() == "conv_weight_grad";
  // conv: x, w -> y; conv_input_grad: dy, w -> dx; conv_weight_grad: x, dy -> dw.
  const Shape &x = inputGrad ? call.outputs[0].shape : call.inputs[0].shape;
  const Shape &w = weightGrad ? call.outputs[0].shape : call.inputs[1].shape;
  const Shape &y = inputGrad ? call.inputs[0].shape : weightGrad ? call.inputs[1].shape : call.outputs[0].shape;
  if (x.size() < 3 || x.size() > 5 || w.size() != x.size() || y.size() != x.size())
    return attributeError(call, "a convolution needs 1 to 3 spatial dimensions");
  ConvGeometry g;
  g.spatial = x.size() - 2;
  g.groups = call.intAttribute("groups", 1);
  g.n = x[0];
  g.c = w[1];
  if (g.groups < 1 || w[0] % g.groups != 0 || x[1] % g.groups != 0 || x[1] / g.groups != w[1] || y[1] != w[0] ||
      y[0] != x[0])
    return attributeError(call,
                          "batch and channel counts do not fit together (groups " + std::to_string(g.groups) + ")");
  g.f = w[0] / g.groups;
  spatialOf(x, g.in);
  spatialOf(w, g.kernel);
  spatialOf(y, g.out);
  TESSERA_RETURN_IF_ERROR(readSpatial(call, "strides", g.spatial, 1, kAttributeLimit, g.stride));
  TESSERA_RETURN_IF_ERROR(readSpatial(call, "dilations", g.spatial, 1, kAttributeLimit, g.dilation));
  TESSERA_RETURN_IF_ERROR(readPads(call, g.spatial, -kAttributeLimit, g.padLo, g.padHi));
  for (int64_t k : g.kernel)
    if (k > kAttributeLimit)
      return attributeError(call, "the kernel is too large");
  if (inputGrad || weightGrad) {
    const char *name = inputGrad ? "input_sizes" : "kernel_sizes";
    Shape given = call.intsAttribute(name);
    const Shape &out = call.outputs[0].shape;
    if (given != Shape(out.begin() + 2, out.end()))
      return attributeError(call, std::string(name) + " " + str(given) + " is not the result's " + str(out));
    if (weightGrad)
      TESSERA_RETURN_IF_ERROR(readLeaves(call, g.n, "images", g.leaves));
    return g;
  }
  Shape expected = {x[0], w[0]};
  for (size_t d = 3 - g.spatial; d < 3; ++d)
    expected.push_back(windowExtent(g.in[d], g.padLo[d], g.padHi[d], g.kernel[d], g.dilation[d], g.stride[d]));
  TESSERA_RETURN_IF_ERROR(resultShape(call, expected));
  return g;
}

Result<PoolGeometry> poolGeometry(const KernelCall &call) {
  bool maximum = call.name().starts_with("max_pool");
  bool grad = call.name().find("_grad") != std::string::npos;
  TESSERA_RETURN_IF_ERROR(arity(call, maximum && grad ? 2 : 1, 1));
  TESSERA_RETURN_IF_ERROR(sameTypes(call));
  TESSERA_RETURN_IF_ERROR(floatOnly(call));
  const Shape &x = grad ? call.outputs[0].shape : call.inputs[0].shape;
  const Shape &y = !grad ? call.outputs[0].shape : call.inputs[maximum ? 1 : 0].shape;
  if (x.size() < 3 || x.size() > 5 || y.size() != x.size())
    return attributeError(call, "pooling needs 1 to 3 spatial dimensions");
  if (maximum && grad && call.inputs[0].shape != x)
    return attributeError(call, "the gradient has the shape " + str(x));
  if (!maximum && grad && call.intsAttribute("input_sizes") != Shape(x.begin() + 2, x.end()))
    return attributeError(call, "input_sizes is not the result's " + str(x));
  PoolGeometry g;
  g.spatial = x.size() - 2;
  g.planes = x[0] * x[1];
  g.includePad = call.intAttribute("include_pad") != 0;
  spatialOf(x, g.in);
  spatialOf(y, g.out);
  TESSERA_RETURN_IF_ERROR(readSpatial(call, "kernel", g.spatial, 1, kAttributeLimit, g.kernel));
  TESSERA_RETURN_IF_ERROR(readSpatial(call, "strides", g.spatial, 1, kAttributeLimit, g.stride));
  TESSERA_RETURN_IF_ERROR(readPads(call, g.spatial, -kAttributeLimit, g.padLo, g.padHi));
  if (maximum)
    TESSERA_RETURN_IF_ERROR(readSpatial(call, "dilations", g.spatial, 1, kAttributeLimit, g.dilation));
  Shape expected = {x[0], x[1]};
  for (size_t d = 3 - g.spatial; d < 3; ++d)
    expected.push_back(windowExtent(g.in[d], g.padLo[d], g.padHi[d], g.kernel[d], g.dilation[d], g.stride[d]));
  if (y != expected)
    return attributeError(call, "windows over " + str(x) + " give " + str(expected) + ", not " + str(y));
  return g;
}

Result<MatMulGeometry> matmulGeometry(const KernelCall &call) {
  TESSERA_RETURN_IF_ERROR(arity(call, 2, 1));
  TESSERA_RETURN_IF_ERROR(productTypes(call));
  const Shape &a = call.inputs[0].shape, &b = call.inputs[1].shape;
  if (a.size() < 2 || b.size() < 2)
    return attributeError(call, "both operands need at least two dimensions");
  MatMulGeometry g;
  g.transposeA = call.intAttribute("transpose_a") != 0;
  g.transposeB = call.intAttribute("transpose_b") != 0;
  g.m = a[a.size() - (g.transposeA ? 1 : 2)];
  g.k = a[a.size() - (g.transposeA ? 2 : 1)];
  g.n = b[b.size() - (g.transposeB ? 2 : 1)];
  if (b[b.size() - (g.transposeB ? 1 : 2)] != g.k)
    return attributeError(call, "the inner dimensions differ");
  TESSERA_RETURN_IF_ERROR(readLeaves(call, g.k, "terms of a sum", g.leaves));
  TESSERA_RETURN_IF_ERROR(batchOf(call, a, b, g));
  Shape expected = g.batch;
  expected.push_back(g.m);
  expected.push_back(g.n);
  TESSERA_RETURN_IF_ERROR(resultShape(call, expected));
  return g;
}

std::pair<int64_t, int64_t> MatMulGeometry::operands(int64_t i) const {
  int64_t inA = 0, inB = 0;
  for (size_t d = batch.size(); d-- > 0; i /= batch[d]) {
    inA += i % batch[d] * batchStrideA[d];
    inB += i % batch[d] * batchStrideB[d];
  }
  return {inA, inB};
}

Result<IndexGeometry> indexGeometry(const KernelCall &call) {
  // gather: table, indices -> y; scatter_add: indices, updates -> y.
  bool scatter = call.name() == "scatter_add";
  TESSERA_RETURN_IF_ERROR(arity(call, 2, 1));
  const TensorView &indices = call.inputs[scatter ? 0 : 1];
  const TensorView &table = scatter ? call.outputs[0] : call.inputs[0];
  const TensorView &items = scatter ? call.inputs[1] : call.outputs[0];
  if (indices.dtype != plan::I64 && indices.dtype != plan::I32)
    return Status::error(call.name() + ": indices are i64 or i32, not " + dtypeName(indices.dtype));
  if (table.dtype != items.dtype)
    return Status::error(call.name() + " of " + dtypeName(table.dtype) + " cannot give " + dtypeName(items.dtype));
  int64_t axis = call.intAttribute("axis", -1);
  if (axis < 0 || axis >= int64_t(table.shape.size()))
    return attributeError(call, "there is no axis " + std::to_string(axis));
  auto at = table.shape.begin() + axis;
  if (scatter && call.intAttribute("size", -1) != *at)
    return attributeError(call, "size is not the extent of axis " + std::to_string(axis) + " of " + str(table.shape));
  int64_t batch = call.intAttribute("batch_dims");
  const Shape &index = indices.shape;
  if (batch < 0 || batch > axis || batch > int64_t(index.size()) ||
      !std::equal(index.begin(), index.begin() + batch, table.shape.begin()))
    return attributeError(call, "there are no " + std::to_string(batch) + " batch dimensions");
  auto own = table.shape.begin() + batch;
  Shape expected(table.shape.begin(), at);
  expected.insert(expected.end(), index.begin() + batch, index.end());
  expected.insert(expected.end(), at + 1, table.shape.end());
  if (expected != items.shape)
    return attributeError(call, "the gathered elements have the shape " + str(expected) + ", not " + str(items.shape));
  IndexGeometry g;
  g.batch = elementCount(Shape(table.shape.begin(), own));
  g.outer = elementCount(Shape(own, at));
  g.extent = *at;
  g.inner = elementCount(Shape(at + 1, table.shape.end()));
  g.indices = elementCount(Shape(index.begin() + batch, index.end()));
  g.start = call.intAttribute("start");
  int64_t limit = call.intAttribute("limit", -1);
  if (limit < -1 || limit > g.extent)
    return attributeError(call, "limit is " + std::to_string(limit) + " of " + std::to_string(g.extent) + " rows");
  g.rows = limit < 0 ? g.extent : limit;
  return g;
}

Result<AxisGeometry> axisGeometry(const KernelCall &call) {
  const Shape &x = call.inputs[0].shape;
  int64_t dim = call.intAttribute("dim", -1);
  if (dim < 0 || dim >= int64_t(x.size()))
    return attributeError(call, "there is no dimension " + std::to_string(dim));
  AxisGeometry g;
  g.outer = elementCount(Shape(x.begin(), x.begin() + dim));
  g.extent = x[size_t(dim)];
  g.inner = elementCount(Shape(x.begin() + dim + 1, x.end()));
  return g;
}

Status checkKernel(const KernelCall &call) {
  using Check = Status (*)(const KernelCall &);
  static const std::map<std::string, Check, std::less<>> table = {
      {"reshape", checkReshape},
      {"transpose", checkTranspose},
      {"slice", checkSlice},
      {"pad", checkPad},
      {"concat", checkConcat},
      {kMicroRows, checkMicroRows},
      {"gather", checkIndex},
      {"scatter_add", checkIndex},
      {"argmax", checkArgMax},
      {"topk", checkTopK},
      {"matmul", checkMatMul},
      {"conv", checkConv},
      {"conv_input_grad", checkConv},
      {"conv_weight_grad", checkConv},
      {"max_pool", checkPool},
      {"max_pool_grad", checkPool},
      {"avg_pool", checkPool},
      {"avg_pool_grad", checkPool},
      {"orthonormalize", checkOrthonormalize},
      {"softmax", checkSoftmax},
      {"softmax_grad", checkSoftmax},
      {"attention", checkAttention},
      {"attention_grad", checkAttention},
  };
  if (isExpressionKernel(call.name())) {
    TESSERA_RETURN_IF_ERROR(checkExpression(call));
  } else {
    auto it = table.find(call.name());
    if (it == table.end())
      return Status::error("there is no kernel '" + call.name() + "'");
    TESSERA_RETURN_IF_ERROR(it->second(call));
  }
  return checkOverlap(call);
}

} // namespace tessera::rt
