#include "runtime/data/Elements.h"

#include "runtime/support/Float16.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {

bool boxInside(const std::vector<int64_t> &whole, const std::vector<int64_t> &offset,
               const std::vector<int64_t> &shape) {
  if (offset.size() != whole.size() || shape.size() != whole.size())
    return false;
  for (size_t d = 0; d < whole.size(); ++d)
    if (offset[d] < 0 || shape[d] < 0 || offset[d] > whole[d] || shape[d] > whole[d] - offset[d])
      return false;
  return true;
}

void storeFloats(std::span<const float> values, plan::DType dtype, void *buffer, int64_t at) {
  switch (dtype) {
  case plan::F32:
    std::copy(values.begin(), values.end(), static_cast<float *>(buffer) + at);
    break;
  case plan::F64:
    std::copy(values.begin(), values.end(), static_cast<double *>(buffer) + at);
    break;
  case plan::F16:
    std::transform(values.begin(), values.end(), static_cast<uint16_t *>(buffer) + at, floatToHalf);
    break;
  default: // BF16
    std::transform(values.begin(), values.end(), static_cast<uint16_t *>(buffer) + at, floatToBfloat);
  }
}

void storeInteger(int64_t value, plan::DType dtype, void *buffer, int64_t at) {
  switch (dtype) {
  case plan::I64:
    static_cast<int64_t *>(buffer)[at] = value;
    break;
  case plan::I32:
    static_cast<int32_t *>(buffer)[at] = int32_t(value);
    break;
  case plan::I8:
  case plan::U8:
  case plan::BOOL:
    static_cast<uint8_t *>(buffer)[at] = uint8_t(value);
    break;
  default: {
    const auto number = float(value);
    storeFloats({&number, 1}, dtype, buffer, at);
  }
  }
}

} // namespace tessera::rt
