// orthonormalize: Gram and Schmidt, column by column. A column is projected twice, since the first time leaves errors
// of the size of what it takes away.
#include "runtime/backend/Orthonormalize.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <cmath>
#include <limits>

namespace tessera::rt {
namespace {

double product(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// `basis` are columns, one behind the other, of which the first `before` are done. Returns whether something is left
/// of the next one.
bool addColumn(double *basis, int64_t rows, int64_t before) {
  double *v = basis + before * rows;
  const double length = std::sqrt(product(v, v, rows));
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t k = 0; k < before; ++k) {
      const double *u = basis + k * rows, share = product(u, v, rows);
      for (int64_t i = 0; i < rows; ++i)
        v[i] -= share * u[i];
    }
  const double left = std::sqrt(product(v, v, rows));
  if (!(left > kNothingLeft * length))
    return false;
  for (int64_t i = 0; i < rows; ++i)
    v[i] /= left;
  return true;
}

template <typename T> void orthonormalize(const T *x, T *y, int64_t rows, int64_t columns, double *basis) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i)
      basis[j * rows + i] = double(x[i * columns + j]);
  if (!std::isfinite(product(basis, basis, rows * columns))) {
    for (int64_t i = 0; i < rows * columns; ++i)
      y[i] = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  for (int64_t j = 0; j < columns; ++j) {
    double *v = basis + j * rows;
    bool found = addColumn(basis, rows, j);
    for (uint32_t attempt = 0; !found && attempt < kOrthonormalAttempts; ++attempt) {
      for (int64_t i = 0; i < rows; ++i)
        v[i] = orthonormalFiller(uint32_t(i), uint32_t(j), attempt);
      found = addColumn(basis, rows, j);
    }
    for (int64_t i = 0; i < rows; ++i)
      y[i * columns + j] = static_cast<T>(v[i] = found ? v[i] : 0);
  }
}

BindResult bindOrthonormalize(const KernelCall &call) {
  const TensorView x = call.inputs[0], y = call.outputs[0];
  const int64_t columns = x.shape.back(), rows = x.shape[x.shape.size() - 2];
  const int64_t matrices = elementCount(Shape(x.shape.begin(), x.shape.end() - 2));
  auto run = [=](std::byte *scratch) {
    asFloat(y.dtype, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t m = 0; m < matrices; ++m)
        orthonormalize(x.as<T>() + m * rows * columns, y.as<T>() + m * rows * columns, rows, columns,
                       reinterpret_cast<double *>(scratch));
    });
  };
  return bindFunction("reference", run, size_t(rows * columns) * sizeof(double));
}

} // namespace

void registerReferenceOrthonormalize(KernelRegistry &registry) {
  addFloatKernel<bindOrthonormalize>(registry, "orthonormalize");
}

} // namespace tessera::rt
