// gather, scatter_add, argmax, topk.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tessera::rt {
namespace {

/// Index j of an I64 or I32 tensor, relative to `start`; -1 where it lies outside [0, rows).
int64_t indexAt(const TensorView &indices, int64_t j, const IndexGeometry &g) {
  int64_t i = indices.dtype == plan::I64 ? indices.as<int64_t>()[j] : indices.as<int32_t>()[j];
  int64_t local = 0;
  if (__builtin_sub_overflow(i, g.start, &local) || local < 0 || local >= g.rows)
    return -1;
  return local;
}

BindResult bindGather(const KernelCall &call) {
  IndexGeometry g = *indexGeometry(call);
  TensorView table = call.inputs[0], indices = call.inputs[1], y = call.outputs[0];
  int64_t row = g.inner * int64_t(bytesPerElement(y.dtype));
  return bindFunction("reference", [=](std::byte *) {
    for (int64_t o = 0; o < g.batch * g.outer; ++o)
      for (int64_t j = 0; j < g.indices; ++j) {
        std::byte *to = y.as<std::byte>() + (o * g.indices + j) * row;
        int64_t i = indexAt(indices, o / g.outer * g.indices + j, g);
        if (i < 0)
          std::memset(to, 0, size_t(row));
        else
          std::memcpy(to, table.as<std::byte>() + (o * g.extent + i) * row, size_t(row));
      }
  });
}

BindResult bindScatterAdd(const KernelCall &call) {
  IndexGeometry g = *indexGeometry(call);
  TensorView indices = call.inputs[0], updates = call.inputs[1], y = call.outputs[0];
  return bindFunction("reference", [=](std::byte *) {
    std::memset(y.data, 0, y.bytes());
    dispatchNumber(y.dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t o = 0; o < g.batch * g.outer; ++o)
        for (int64_t j = 0; j < g.indices; ++j) {
          int64_t i = indexAt(indices, o / g.outer * g.indices + j, g);
          if (i < 0)
            continue;
          const T *from = updates.as<T>() + (o * g.indices + j) * g.inner;
          T *to = y.as<T>() + (o * g.extent + i) * g.inner;
          for (int64_t k = 0; k < g.inner; ++k)
            if constexpr (std::is_integral_v<T>)
              to[k] = static_cast<T>(uint64_t(to[k]) + uint64_t(from[k]));
            else
              to[k] += from[k];
        }
    });
  });
}

BindResult bindArgMax(const KernelCall &call) {
  AxisGeometry g = *axisGeometry(call);
  TensorView x = call.inputs[0], y = call.outputs[0];
  return bindFunction("reference", [=](std::byte *) {
    dispatchNumber(x.dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t o = 0; o < g.outer; ++o)
        for (int64_t i = 0; i < g.inner; ++i) {
          const T *p = x.as<T>() + o * g.extent * g.inner + i;
          int64_t best = 0;
          for (int64_t k = 1; k < g.extent; ++k) {
            T a = p[k * g.inner], b = p[best * g.inner];
            if (a > b || (a != a && b == b)) // the first NaN wins
              best = k;
          }
          y.as<int64_t>()[o * g.inner + i] = best;
        }
    });
  });
}

BindResult bindTopK(const KernelCall &call) {
  AxisGeometry g = *axisGeometry(call);
  TensorView x = call.inputs[0], y = call.outputs[0];
  int64_t k = call.intAttribute("k");
  bool smallest = call.intAttribute("smallest") != 0;
  auto run = [=](std::byte *scratch) {
    auto *order = reinterpret_cast<int64_t *>(scratch);
    dispatchNumber(x.dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t o = 0; o < g.outer; ++o)
        for (int64_t i = 0; i < g.inner; ++i) {
          const T *p = x.as<T>() + o * g.extent * g.inner + i;
          auto larger = [&](T a, T b) { return a > b || (a != a && b == b); };
          // The order is total, so that the result does not depend on the sorting algorithm.
          auto before = [&](int64_t u, int64_t v) {
            T a = p[u * g.inner], b = p[v * g.inner];
            if (larger(a, b) || larger(b, a))
              return larger(a, b) != smallest;
            return u < v;
          };
          std::iota(order, order + g.extent, int64_t(0));
          std::partial_sort(order, order + k, order + g.extent, before);
          for (int64_t j = 0; j < k; ++j)
            y.as<int64_t>()[(o * k + j) * g.inner + i] = order[j];
        }
    });
  };
  return bindFunction("reference", run, size_t(g.extent) * sizeof(int64_t));
}

} // namespace

void registerReferenceIndexing(KernelRegistry &registry) {
  registry.add("gather", {"reference", acceptsPlain, bindGather});
  addFloatKernel<bindScatterAdd>(registry, "scatter_add");
  addFloatKernel<bindArgMax>(registry, "argmax");
  addFloatKernel<bindTopK>(registry, "topk");
}

} // namespace tessera::rt
