// Attention and its gradient as graphs of products, reductions and pointwise operations, in the form in which cuDNN
// knows them as one kernel that never stores the scores:
//
//   forward   s = mask(scale q k^T + bias);  m = max s;  e = exp(s - m);  t = sum e;  y = (e / t) v;
//             statistics = m + log t
//   gradient  p = exp(mask(scale q k^T + bias - statistics));  delta = sum(dy y)
//             dv = p^T dy;  ds = scale p (dy v^T - delta);  dk = ds^T q;  dq = ds k
//
// and with dropout, which multiplies what it keeps by a factor f:
//
//   forward   y = (f keep e / t) v
//   gradient  delta = sum(dy y) / f;  dv = (f keep p)^T dy;  ds = scale f p (keep dy v^T - delta)
//
// The gradient with dropout below a causal mask is refused: on an H200, 9.19 gave wrong dq and dk in 31 of 32 cases,
// and right ones in 64 of 64 without the mask, half of them with a bias. The mask can be a bias.
//
// Sizes are [batch, head, row, element]. What lies in memory says by its strides how; k^T and v^T are the same memory
// with two strides exchanged. p and ds are rounded to the type of q before they are multiplied.
//
// dq is the result of one product, and not the sum of what blocks add to it by atomic operations. That is how cuDNN is
// asked for an engine whose results do not vary.
#include "runtime/device/cuda/Common.h"
#include "runtime/device/cuda/DnnOp.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::device {
namespace {

using Sizes = std::vector<int64_t>;

Sizes rowMajor(const Sizes &sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;)
    strides[d] = strides[d + 1] * sizes[d + 1];
  return strides;
}

/// Operations on values, written down one after the other.
class Formula {
public:
  using Value = size_t;

  explicit Formula(DnnPlan &made) : made_(made) {
    made_.operations.clear();
    made_.operands.clear();
    made_.numbers.clear();
  }

  /// One of attention's tensors, which has memory.
  Value tensor(int32_t which, cudnnDataType_t type, const Sizes &sizes, const Sizes &strides) {
    const int64_t id = kAttentionOperands + which;
    made_.operands.push_back(id);
    return add(dnnTensor(id, type, sizes, strides, DnnTensorKind::Memory), sizes, strides);
  }
  Value number(float v) {
    const int64_t id = kNumbers + int64_t(made_.numbers.size());
    made_.operands.push_back(id);
    made_.numbers[id] = v;
    const Sizes one(4, 1);
    return add(dnnTensor(id, CUDNN_DATA_FLOAT, one, one, DnnTensorKind::Number), one, one);
  }
  /// What one operation hands on to others.
  Value between(const Sizes &sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return between(sizes, rowMajor(sizes), type);
  }
  Value between(const Sizes &sizes, const Sizes &strides, cudnnDataType_t type) {
    return add(dnnTensor(kBetween + int64_t(values_.size()), type, sizes, strides, DnnTensorKind::Virtual), sizes,
               strides);
  }

  void product(Value a, Value b, Value to) {
    Descriptor sums(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    sums.one(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    finish(Descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
               .one(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a))
               .one(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b))
               .one(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(to))
               .one(CUDNN_ATTR_OPERATION_MATMUL_DESC, sums));
  }
  void reduce(cudnnReduceTensorOp_t how, Value x, Value to) {
    Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    reduction.one(CUDNN_ATTR_REDUCTION_OPERATOR, how).one(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    finish(Descriptor(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
               .one(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x))
               .one(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(to))
               .one(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction));
  }
  void reshape(Value x, Value to) {
    finish(Descriptor(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
               .one(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x))
               .one(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(to)));
  }
  void pointwise(cudnnPointwiseMode_t mode, const std::vector<Value> &operands, Value to,
                 cudnnDataType_t arithmetic = CUDNN_DATA_FLOAT, int64_t axis = -1) {
    static constexpr cudnnBackendAttributeName_t kOperands[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                                CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                                CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
    Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.one(CUDNN_ATTR_POINTWISE_MODE, mode).one(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
    if (axis >= 0)
      function.one(CUDNN_ATTR_POINTWISE_AXIS, axis);
    function.finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.one(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    for (size_t i = 0; i < operands.size(); ++i)
      operation.one(kOperands[i], of(operands[i]));
    finish(operation.one(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(to)));
  }
  /// The same, with a new value of the first operand's sizes.
  Value pointwise(cudnnPointwiseMode_t mode, const std::vector<Value> &operands) {
    const Value to = between(values_[operands[0]].sizes);
    pointwise(mode, operands, to);
    return to;
  }

  const Sizes &sizes(Value v) const { return values_[v].sizes; }
  const Sizes &strides(Value v) const { return values_[v].strides; }
  cudnnStatus_t status() const { return status_; }

private:
  static constexpr int64_t kNumbers = 100, kBetween = 1000; // ids
  struct Known {
    Descriptor descriptor;
    Sizes sizes, strides;
  };

  Value add(Descriptor descriptor, const Sizes &sizes, const Sizes &strides) {
    note(descriptor.status());
    values_.push_back({std::move(descriptor), sizes, strides});
    return values_.size() - 1;
  }
  const Descriptor &of(Value v) const { return values_[v].descriptor; }
  void finish(Descriptor &operation) {
    operation.finalize();
    note(operation.status());
    made_.operations.push_back(std::move(operation));
  }
  void note(cudnnStatus_t status) {
    if (status_ == CUDNN_STATUS_SUCCESS)
      status_ = status;
  }

  DnnPlan &made_;
  std::vector<Known> values_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

class Attention {
public:
  using Value = Formula::Value;

  Attention(const TesseraAttention &what, DnnPlan &made)
      : w_(what), type_(dnnType(what.dtype)),
        f_(made), scores_{w_.batches, w_.heads, w_.rows, w_.keys}, lines_{w_.batches, w_.heads, w_.rows, 1} {}

  cudnnStatus_t forward() {
    const Value q = rows(TESSERA_ATTENTION_Q, w_.heads, w_.rows, w_.depth),
                kT = columns(TESSERA_ATTENTION_K, w_.keyHeads, w_.keys, w_.depth),
                v = rows(TESSERA_ATTENTION_V, w_.keyHeads, w_.keys, w_.width);
    const Value s = masked(scores(q, kT));
    const Value highest = f_.between(lines_), total = f_.between(lines_);
    f_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, highest);
    const Value e = f_.pointwise(CUDNN_POINTWISE_EXP, {f_.pointwise(CUDNN_POINTWISE_SUB, {s, highest})});
    f_.reduce(CUDNN_REDUCE_TENSOR_ADD, e, total);
    const Value logarithm = f_.pointwise(CUDNN_POINTWISE_LOG, {total});
    f_.pointwise(CUDNN_POINTWISE_ADD, {highest, logarithm},
                 w_.statistics ? line(TESSERA_ATTENTION_STATISTICS) : f_.between(lines_));
    const Value p = f_.between(scores_, type_);
    if (w_.dropout)
      f_.pointwise(
          CUDNN_POINTWISE_MUL,
          {f_.pointwise(CUDNN_POINTWISE_MUL, {f_.pointwise(CUDNN_POINTWISE_DIV, {e, total}), keep()}), keepScale()}, p);
    else
      f_.pointwise(CUDNN_POINTWISE_DIV, {e, total}, p);
    f_.product(p, v, rows(TESSERA_ATTENTION_Y, w_.heads, w_.rows, w_.width));
    return f_.status();
  }

  cudnnStatus_t backward() {
    const Value q = rows(TESSERA_ATTENTION_Q, w_.heads, w_.rows, w_.depth),
                kT = columns(TESSERA_ATTENTION_K, w_.keyHeads, w_.keys, w_.depth),
                vT = columns(TESSERA_ATTENTION_V, w_.keyHeads, w_.keys, w_.width),
                y = rows(TESSERA_ATTENTION_Y, w_.heads, w_.rows, w_.width),
                dy = rows(TESSERA_ATTENTION_DY, w_.heads, w_.rows, w_.width);
    // delta
    const Value sums = f_.between(lines_), delta = line(TESSERA_ATTENTION_DELTA);
    f_.reduce(CUDNN_REDUCE_TENSOR_ADD, f_.pointwise(CUDNN_POINTWISE_MUL, {dy, y}), sums);
    f_.pointwise(CUDNN_POINTWISE_MUL, {sums, f_.number(w_.dropout ? float(1 / w_.keepScale) : 1)}, delta);
    // p, and what is made of it
    const Value s = f_.pointwise(CUDNN_POINTWISE_SUB, {scores(q, kT), line(TESSERA_ATTENTION_STATISTICS)});
    const Value p = f_.pointwise(CUDNN_POINTWISE_EXP, {masked(s)});
    const Value kept =
        w_.dropout ? f_.pointwise(CUDNN_POINTWISE_MUL, {f_.pointwise(CUDNN_POINTWISE_MUL, {p, keep()}), keepScale()})
                   : p;
    groups(transposed(kept), dy, TESSERA_ATTENTION_DV, w_.width);
    // ds, and what is made of it
    Value dp = f_.between(scores_);
    f_.product(dy, vT, dp);
    if (w_.dropout)
      dp = f_.pointwise(CUDNN_POINTWISE_MUL, {dp, keep()});
    Value each = f_.pointwise(CUDNN_POINTWISE_MUL, {f_.pointwise(CUDNN_POINTWISE_SUB, {dp, delta}), p});
    if (w_.dropout)
      each = f_.pointwise(CUDNN_POINTWISE_MUL, {each, keepScale()});
    const Value ds = f_.pointwise(CUDNN_POINTWISE_MUL, {each, scale()});
    groups(transposed(ds), q, TESSERA_ATTENTION_DK, w_.depth);
    Sizes sizes = f_.sizes(kT), strides = f_.strides(kT);
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
    const Value k = f_.between(sizes, strides, type_);
    f_.reshape(kT, k);
    f_.product(ds, k, rows(TESSERA_ATTENTION_DQ, w_.heads, w_.rows, w_.depth));
    return f_.status();
  }

private:
  Value rows(int32_t which, int64_t heads, int64_t rows, int64_t width) {
    const int64_t *apart = w_.apart[which];
    return f_.tensor(which, type_, {w_.batches, heads, rows, width}, {apart[0], apart[1], apart[2], 1});
  }
  Value columns(int32_t which, int64_t heads, int64_t rows, int64_t width) {
    const int64_t *apart = w_.apart[which];
    return f_.tensor(which, type_, {w_.batches, heads, width, rows}, {apart[0], apart[1], 1, apart[2]});
  }
  /// A number for each row.
  Value line(int32_t which) { return f_.tensor(which, CUDNN_DATA_FLOAT, lines_, rowMajor(lines_)); }
  Value scale() {
    if (!scale_)
      scale_ = f_.number(float(w_.scale));
    return *scale_;
  }

  Value keep() {
    if (!keep_)
      keep_ = f_.tensor(TESSERA_ATTENTION_KEEP, type_, scores_, rowMajor(scores_));
    return *keep_;
  }
  Value keepScale() {
    if (!keepScale_)
      keepScale_ = f_.number(float(w_.keepScale));
    return *keepScale_;
  }

  Value scores(Value q, Value kT) {
    const Value products = f_.between(scores_);
    f_.product(q, kT, products);
    const Value scaled = f_.pointwise(CUDNN_POINTWISE_MUL, {products, scale()});
    if (w_.biasType == 0)
      return scaled;
    // A stretched dimension has one element.
    Sizes sizes = scores_, strides(4);
    for (size_t d = 4; d-- > 0;) {
      if (w_.biasApart[d] == 0)
        sizes[d] = 1;
      strides[d] = w_.biasApart[d] != 0 ? w_.biasApart[d] : d == 3 ? 1 : strides[d + 1] * sizes[d + 1];
    }
    const Value bias = f_.tensor(TESSERA_ATTENTION_BIAS, dnnType(w_.biasType), sizes, strides);
    return f_.pointwise(CUDNN_POINTWISE_ADD, {scaled, bias});
  }
  Value masked(Value s) {
    if (!w_.causal)
      return s;
    const Value row = f_.between(scores_, rowMajor(scores_), CUDNN_DATA_INT32),
                key = f_.between(scores_, rowMajor(scores_), CUDNN_DATA_INT32),
                seen = f_.between(scores_, rowMajor(scores_), CUDNN_DATA_BOOLEAN);
    f_.pointwise(CUDNN_POINTWISE_GEN_INDEX, {s}, row, CUDNN_DATA_FLOAT, 2);
    f_.pointwise(CUDNN_POINTWISE_GEN_INDEX, {s}, key, CUDNN_DATA_FLOAT, 3);
    f_.pointwise(CUDNN_POINTWISE_CMP_GE, {row, key}, seen, CUDNN_DATA_BOOLEAN);
    return f_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {s, f_.number(-std::numeric_limits<float>::infinity()), seen});
  }

  /// [batch, head, key, row] of the type that is multiplied; the elements stay where they are.
  Value transposed(Value s) {
    const Sizes strides = rowMajor(scores_);
    const Value to =
        f_.between({w_.batches, w_.heads, w_.keys, w_.rows}, {strides[0], strides[1], 1, strides[2]}, type_);
    f_.reshape(s, to);
    return to;
  }
  /// A product for every head of q, and the sums of those that meet one head of k.
  void groups(Value a, Value b, int32_t which, int64_t width) {
    const Value to = rows(which, w_.keyHeads, w_.keys, width);
    if (w_.heads == w_.keyHeads)
      return f_.product(a, b, to);
    const Sizes sizes = {w_.batches, w_.heads, w_.keys, width};
    const Value each = f_.between(sizes, rowMajor(sizes), type_);
    f_.product(a, b, each);
    f_.reduce(CUDNN_REDUCE_TENSOR_ADD, each, to);
  }

  const TesseraAttention &w_;
  const cudnnDataType_t type_;
  Formula f_;
  const Sizes scores_, lines_;
  std::optional<Value> scale_, keep_, keepScale_;
};

/// cuDNN's releases that are known to be wrong here, by what NVIDIA's frontend leaves out.
bool isKnownToFail(const TesseraAttention &what) {
  const size_t version = cudnnGetVersion(); // 91900 is 9.19.0
  return version == 91000 || version == 91001 || (what.gradient && version <= 91500 && what.keys % 128 != 0);
}

} // namespace

int32_t planAttention(const DnnTarget &target, const TesseraAttention &what, DnnPlan &made, TesseraMessage *m) {
  if ((what.dtype != TESSERA_F16 && what.dtype != TESSERA_BF16) || what.depth % 8 != 0 || what.width % 8 != 0)
    return fail(m, "cuDNN has attention of 16 bits, with rows of multiples of 8 elements", TESSERA_UNSUPPORTED);
  if (isKnownToFail(what) || (what.gradient && what.dropout && what.causal))
    return fail(m, "this release of cuDNN is known to fail for such attention", TESSERA_UNSUPPORTED);
  Attention attention(what, made);
  if (const cudnnStatus_t status = what.gradient ? attention.backward() : attention.forward();
      status != CUDNN_STATUS_SUCCESS)
    return failDnn(m, status, "describing attention");
  return prepare(target, DnnLimits(), made, m);
}

namespace {

int32_t createAttention(TesseraDevice *d, const TesseraAttention *what, TesseraOp **op, size_t *workspace,
                        TesseraMessage *m) {
  return createDnnOp(d, "attention", *what, planAttention, op, workspace, m);
}

} // namespace

void addAttention(TesseraDeviceApi &api) { api.createAttention = createAttention; }

} // namespace tessera::device
