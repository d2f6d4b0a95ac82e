//===- InterpreterData.cpp - constants, movement and reductions ----------------------------------===//
#include "test/support/InterpreterDetail.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tessera::test::detail {

static void constant(Call &c) {
  auto elements = cast<DenseElementsAttr>(c.attributes.get("value"));
  Type type = elements.getElementType();
  auto read = [&](size_t i) {
    if (isa<FloatType>(type)) {
      APFloat value = elements.getValues<APFloat>()[i];
      bool inexact = false;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
      return value.convertToDouble();
    }
    APInt value = elements.getValues<APInt>()[i];
    bool isSigned = !type.isUnsignedInteger() && !type.isInteger(1);
    return isSigned ? double(value.getSExtValue()) : double(value.getZExtValue());
  };
  for (size_t i = 0; i < c.out[0].data.size(); ++i)
    c.out[0].data[i] = elements.isSplat() && i > 0 ? c.out[0].data[0] : read(i);
}

static void broadcast(Call &c) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) { c.out[0].data[i++] = broadcastAt(*c.in[0], index); });
}

static void transpose(Call &c) {
  SmallVector<int64_t> perm = c.list("perm"), source(perm.size());
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    for (size_t d = 0; d < perm.size(); ++d)
      source[size_t(perm[d])] = index[d];
    c.out[0].data[i++] = c.in[0]->data[size_t(offset(c.in[0]->shape, source))];
  });
}

static void slice(Call &c) {
  SmallVector<int64_t> starts = c.list("starts"), strides = c.list("strides"), source(starts.size());
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    for (size_t d = 0; d < starts.size(); ++d)
      source[d] = starts[d] + index[d] * strides[d];
    c.out[0].data[i++] = c.in[0]->data[size_t(offset(c.in[0]->shape, source))];
  });
}

static void microRows(Call &c) {
  size_t i = 0;
  forEach(c.out[0].shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source(index);
    source[0] = source[0] * c.integer("parts") + c.integer("index");
    c.out[0].data[i++] = c.in[0]->data[size_t(offset(c.in[0]->shape, source))];
  });
}

static void pad(Call &c) {
  SmallVector<int64_t> lo = c.list("lo"), inner = c.list("inner"), target(lo.size());
  std::fill(c.out[0].data.begin(), c.out[0].data.end(), c.real("value"));
  size_t i = 0;
  forEach(c.in[0]->shape, [&](ArrayRef<int64_t> index) {
    for (size_t d = 0; d < lo.size(); ++d)
      target[d] = lo[d] + index[d] * (inner[d] + 1);
    c.out[0].data[size_t(offset(c.out[0].shape, target))] = c.in[0]->data[i++];
  });
}

static void concat(Call &c) {
  size_t dim = size_t(c.integer("dim"));
  int64_t start = 0;
  for (const Tensor *x : c.in) {
    size_t i = 0;
    forEach(x->shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> target(index);
      target[dim] += start;
      c.out[0].data[size_t(offset(c.out[0].shape, target))] = x->data[i++];
    });
    start += x->shape[dim];
  }
}

// Pairs each element of take(table, indices, axis) with the table's element it stands for.
template <typename Fn>
static void forEachTaken(Call &c, const Tensor &indices, ArrayRef<int64_t> table, ArrayRef<int64_t> taken, Fn fn) {
  size_t axis = size_t(c.integer("axis")), batch = size_t(c.integer("batch_dims"));
  size_t n = indices.shape.size() - batch, position = 0;
  forEach(taken, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> which(index.take_front(batch));
    llvm::append_range(which, index.slice(axis, n));
    int64_t chosen = int64_t(indices.data[size_t(offset(indices.shape, which))]) - c.integer("start");
    SmallVector<int64_t> at(index.take_front(axis));
    at.push_back(chosen);
    at.append(index.begin() + axis + n, index.end());
    if (chosen >= 0 && chosen < table[axis])
      fn(position, size_t(offset(table, at)));
    ++position;
  });
}

static void gather(Call &c) {
  forEachTaken(c, *c.in[1], c.in[0]->shape, c.out[0].shape,
               [&](size_t taken, size_t at) { c.out[0].data[taken] = c.in[0]->data[at]; });
}

static void scatterAdd(Call &c) {
  forEachTaken(c, *c.in[0], c.out[0].shape, c.in[1]->shape,
               [&](size_t taken, size_t at) { c.out[0].data[at] += c.in[1]->data[taken]; });
}

template <typename Fn> static void reduce(Call &c, double start, Fn fn) {
  SmallVector<int64_t> kept(c.in[0]->shape);
  for (int64_t d : c.list("dims"))
    kept[size_t(d)] = 1;
  std::fill(c.out[0].data.begin(), c.out[0].data.end(), start);
  size_t i = 0;
  forEach(c.in[0]->shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> target(index);
    for (int64_t d : c.list("dims"))
      target[size_t(d)] = 0;
    double &value = c.out[0].data[size_t(offset(kept, target))];
    value = fn(value, c.in[0]->data[i++]);
  });
}

static void argMax(Call &c) {
  size_t dim = size_t(c.integer("dim"));
  SmallVector<int64_t> kept(c.in[0]->shape);
  kept[dim] = 1;
  size_t i = 0;
  forEach(kept, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    double best = 0;
    int64_t where = -1;
    for (int64_t k = 0; k < c.in[0]->shape[dim]; ++k) {
      at[dim] = k;
      double value = c.in[0]->data[size_t(offset(c.in[0]->shape, at))];
      if (where < 0 || value > best) {
        best = value;
        where = k;
      }
    }
    c.out[0].data[i++] = double(where);
  });
}

static void topK(Call &c) {
  size_t dim = size_t(c.integer("dim"));
  const Tensor &x = *c.in[0];
  SmallVector<int64_t> lines(x.shape);
  lines[dim] = 1;
  forEach(lines, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    std::vector<std::pair<double, int64_t>> values;
    for (int64_t i = 0; i < x.shape[dim]; ++i) {
      at[dim] = i;
      double value = x.data[size_t(offset(x.shape, at))];
      values.emplace_back(c.integer("smallest") ? value : -value, i);
    }
    llvm::sort(values);
    for (int64_t j = 0; j < c.integer("k"); ++j) {
      at[dim] = j;
      c.out[0].data[size_t(offset(c.out[0].shape, at))] = double(values[size_t(j)].second);
    }
  });
}

void addData(Table &t) {
  t["constant"] = constant;
  t["broadcast"] = broadcast;
  t["reshape"] = [](Call &c) { c.out[0].data = c.in[0]->data; };
  t["transpose"] = transpose;
  t["slice"] = slice;
  t["micro_rows"] = microRows;
  t["accumulate"] = [](Call &c) { c.out[0] = *c.in[0]; };
  t["pad"] = pad;
  t["concat"] = concat;
  t["gather"] = gather;
  t["scatter_add"] = scatterAdd;
  constexpr double inf = std::numeric_limits<double>::infinity();
  t["reduce_sum"] = [](Call &c) { reduce(c, 0, [](double a, double b) { return a + b; }); };
  t["reduce_max"] = [](Call &c) { reduce(c, -inf, [](double a, double b) { return std::isnan(b) || b > a ? b : a; }); };
  t["reduce_min"] = [](Call &c) { reduce(c, inf, [](double a, double b) { return std::isnan(b) || b < a ? b : a; }); };
  t["argmax"] = argMax;
  t["topk"] = topK;
}

} // namespace tessera::test::detail
