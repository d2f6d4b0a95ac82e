#include "runtime/backend/cuda/text/Source.h"

#include <algorithm>

namespace tessera::rt::cuda {

const char *memoryType(plan::DType type) {
  switch (type) {
  case plan::F64:
    return "double";
  case plan::F16:
  case plan::BF16:
    return "u16";
  case plan::I64:
    return "i64";
  case plan::I32:
    return "int";
  case plan::I8:
    return "s8";
  case plan::U8:
  case plan::BOOL:
    return "u8";
  default:
    return "float";
  }
}

const char *valueType(ValueClass c) { return c == ValueClass::F32 ? "float" : c == ValueClass::F64 ? "double" : "i64"; }

IndexType indexTypeFor(int64_t points, const std::vector<int64_t> &elements) {
  // A loop's last step may run past its end by a whole grid: 2^30 leaves room.
  int64_t most = points;
  for (int64_t n : elements)
    most = std::max(most, n);
  return {most >= (int64_t(1) << 30)};
}

std::string indexCode(const Shape &sizes, const std::string &from, IndexType type, const std::string &prefix) {
  if (sizes.empty())
    return "";
  std::string text, rest = from;
  const std::string declare = "const " + type.name() + " ";
  for (size_t d = sizes.size(); d-- > 1;) {
    const std::string n = std::to_string(d), size = type.literal(sizes[d]);
    text += declare + prefix + n + " = " + rest + " % " + size + ", " + prefix + "r" + n + " = " + rest + " / " + size +
            ";\n";
    rest = prefix + "r" + n;
  }
  return text + declare + prefix + "0 = " + rest + ";\n";
}

std::string addressCode(const Shape &strides, IndexType type, const std::string &prefix) {
  std::string text;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0)
      continue;
    text += (text.empty() ? "" : " + ") + prefix + std::to_string(d);
    if (strides[d] != 1)
      text += " * " + type.literal(strides[d]);
  }
  return text.empty() ? type.literal(0) : text;
}

std::string loadCode(plan::DType type, const std::string &element) {
  switch (type) {
  case plan::F16:
    return "from_half(" + element + ")";
  case plan::BF16:
    return "from_bfloat(" + element + ")";
  case plan::F32:
  case plan::F64:
  case plan::I64:
    return element;
  case plan::BOOL:
    return "(i64)(" + element + " != 0)";
  default:
    return "(i64)" + element;
  }
}

std::string storeCode(plan::DType type, const std::string &value) {
  switch (type) {
  case plan::F16:
    return "to_half(" + value + ")";
  case plan::BF16:
    return "to_bfloat(" + value + ")";
  case plan::BOOL:
    return "(u8)(" + value + " != 0)";
  default:
    return std::string("(") + memoryType(type) + ")" + value;
  }
}

Nest collapse(const Nest &nest) {
  Nest result;
  result.strides.resize(nest.strides.size());
  for (size_t d = 0; d < nest.sizes.size(); ++d) {
    if (nest.sizes[d] == 1)
      continue;
    bool joins = !result.sizes.empty();
    for (size_t a = 0; joins && a < nest.strides.size(); ++a)
      joins = result.strides[a].back() == nest.strides[a][d] * nest.sizes[d];
    if (joins)
      result.sizes.back() *= nest.sizes[d];
    else
      result.sizes.push_back(nest.sizes[d]);
    for (size_t a = 0; a < nest.strides.size(); ++a) {
      if (joins)
        result.strides[a].back() = nest.strides[a][d];
      else
        result.strides[a].push_back(nest.strides[a][d]);
    }
  }
  return result;
}

uint32_t blocksFor(int64_t points) { return uint32_t(std::clamp<int64_t>((points + 255) / 256, 1, 8192)); }

} // namespace tessera::rt::cuda
