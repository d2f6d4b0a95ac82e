//===- Constant.cpp - storage and conversion of known values ----------------------------------===//

#include "compiler/import/Constant.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Endian.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;

namespace tessera::compiler {

bool isFloat(DType type) { return type <= DType::BF16; }

unsigned byteSize(DType type) {
  switch (type) {
  case DType::F64:
  case DType::I64:
    return 8;
  case DType::F32:
  case DType::I32:
    return 4;
  case DType::F16:
  case DType::BF16:
    return 2;
  case DType::I8:
  case DType::UI8:
  case DType::I1:
    return 1;
  }
  return 0;
}

llvm::StringRef dtypeName(DType type) {
  static constexpr llvm::StringLiteral names[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i8", "ui8", "i1"};
  return names[int(type)];
}

std::optional<DType> dtypeOf(Type type) {
  if (type.isF32())
    return DType::F32;
  if (type.isF64())
    return DType::F64;
  if (type.isF16())
    return DType::F16;
  if (type.isBF16())
    return DType::BF16;
  if (type.isUnsignedInteger(8))
    return DType::UI8;
  if (type.isSignlessInteger(64))
    return DType::I64;
  if (type.isSignlessInteger(32))
    return DType::I32;
  if (type.isSignlessInteger(8))
    return DType::I8;
  if (type.isSignlessInteger(1))
    return DType::I1;
  return std::nullopt;
}

Type elementType(MLIRContext *context, DType type) {
  switch (type) {
  case DType::F32:
    return Float32Type::get(context);
  case DType::F64:
    return Float64Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::BF16:
    return BFloat16Type::get(context);
  case DType::I64:
    return IntegerType::get(context, 64);
  case DType::I32:
    return IntegerType::get(context, 32);
  case DType::I8:
    return IntegerType::get(context, 8);
  case DType::UI8:
    return IntegerType::get(context, 8, IntegerType::Unsigned);
  case DType::I1:
    return IntegerType::get(context, 1);
  }
  return {};
}

std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape) {
  constexpr int64_t limit = int64_t(1) << 40;
  int64_t count = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent < 0)
      return std::nullopt;
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (extent > limit / count)
      return std::nullopt;
    count *= extent;
  }
  return empty ? 0 : count;
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  std::string text;
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "x" : "") + std::to_string(shape[i]);
  return text;
}

static const llvm::fltSemantics &semantics(DType type) {
  return type == DType::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
}

double roundTo(DType type, double value) {
  if (type == DType::F64)
    return value;
  if (type == DType::F32)
    return float(value);
  llvm::APFloat x(value);
  bool lossy;
  x.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &lossy);
  x.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return x.convertToDouble();
}

/// Wraps the value to the type's width in two's complement.
static int64_t wrapTo(DType type, int64_t value) {
  switch (type) {
  case DType::I32:
    return int32_t(value);
  case DType::I8:
    return int8_t(value);
  case DType::UI8:
    return uint8_t(value);
  case DType::I1:
    return value != 0;
  default:
    return value;
  }
}

static int64_t truncate(double value) {
  if (std::isnan(value))
    return 0;
  if (value >= 9223372036854775808.0)
    return std::numeric_limits<int64_t>::max();
  if (value < -9223372036854775808.0)
    return std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

Constant::Constant(DType type, Shape shape) : type_(type), shape_(std::move(shape)) {
  size_ = elementCount(shape_).value_or(0);
}

void Constant::canonicalize() {
  auto allEqual = [](const auto &v) {
    if (v.empty())
      return false;
    // Compares bits, so that 0.0 and -0.0 differ, and NaNs of different payloads.
    for (const auto &x : v)
      // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      if (std::memcmp(&x, &v.front(), sizeof(x)) != 0)
        return false;
    return true;
  };
  if (splat_ || size_ == 0)
    return;
  if (isFloat(type_) ? allEqual(floats_) : allEqual(ints_)) {
    splat_ = true;
    ints_.resize(isFloat(type_) ? 0 : 1);
    floats_.resize(isFloat(type_) ? 1 : 0);
  }
}

Constant Constant::ints(DType type, Shape shape, std::vector<int64_t> elements) {
  Constant c(type, std::move(shape));
  c.ints_ = std::move(elements);
  for (int64_t &x : c.ints_)
    x = wrapTo(type, x);
  c.canonicalize();
  return c;
}

Constant Constant::floats(DType type, Shape shape, std::vector<double> elements) {
  Constant c(type, std::move(shape));
  c.floats_ = std::move(elements);
  for (double &x : c.floats_)
    x = roundTo(type, x);
  c.canonicalize();
  return c;
}

Constant Constant::splat(DType type, Shape shape, double value) {
  if (!compiler::isFloat(type))
    return splatInt(type, std::move(shape), type == DType::I1 ? value != 0 : truncate(value));
  Constant c(type, std::move(shape));
  c.splat_ = c.size_ > 0;
  c.floats_.assign(c.splat_ ? 1 : 0, roundTo(type, value));
  if (type == DType::F32 && c.splat_ && c.floats_[0] != value && !std::isnan(value))
    c.exact_ = value;
  return c;
}

Constant Constant::splatInt(DType type, Shape shape, int64_t value) {
  if (compiler::isFloat(type))
    return splat(type, std::move(shape), double(value));
  Constant c(type, std::move(shape));
  c.splat_ = c.size_ > 0;
  c.ints_.assign(c.splat_ ? 1 : 0, wrapTo(type, value));
  return c;
}

int64_t Constant::intAt(int64_t i) const {
  if (compiler::isFloat(type_))
    return truncate(floatAt(i));
  return ints_[splat_ ? 0 : i];
}

double Constant::floatAt(int64_t i) const {
  if (!compiler::isFloat(type_))
    return double(ints_[splat_ ? 0 : i]);
  return floats_[splat_ ? 0 : i];
}

std::vector<int64_t> Constant::asInts() const {
  std::vector<int64_t> v(size_);
  for (int64_t i = 0; i < size_; ++i)
    v[i] = intAt(i);
  return v;
}

Constant Constant::fromBytes(DType type, Shape shape, llvm::ArrayRef<char> bytes) {
  using namespace llvm::support;
  Constant c(type, std::move(shape));
  const char *p = bytes.data();
  unsigned width = byteSize(type);
  for (int64_t i = 0; i < c.size_; ++i, p += width) {
    switch (type) {
    case DType::F32:
      c.floats_.push_back(llvm::bit_cast<float>(endian::read32le(p)));
      break;
    case DType::F64:
      c.floats_.push_back(llvm::bit_cast<double>(endian::read64le(p)));
      break;
    case DType::F16:
    case DType::BF16: {
      llvm::APFloat x(semantics(type), llvm::APInt(16, endian::read16le(p)));
      bool lossy;
      x.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      c.floats_.push_back(x.convertToDouble());
      break;
    }
    case DType::I64:
      c.ints_.push_back(int64_t(endian::read64le(p)));
      break;
    case DType::I32:
      c.ints_.push_back(int32_t(endian::read32le(p)));
      break;
    case DType::I8:
      c.ints_.push_back(int8_t(*p));
      break;
    case DType::UI8:
      c.ints_.push_back(uint8_t(*p));
      break;
    case DType::I1:
      c.ints_.push_back(*p != 0);
      break;
    }
  }
  c.canonicalize();
  return c;
}

static uint16_t bits16(DType type, double value) {
  llvm::APFloat x(value);
  bool lossy;
  x.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return uint16_t(x.bitcastToAPInt().getZExtValue());
}

std::vector<char> Constant::toBytes() const {
  using namespace llvm::support;
  unsigned width = byteSize(type_);
  std::vector<char> bytes(size_ * width);
  char *p = bytes.data();
  for (int64_t i = 0; i < size_; ++i, p += width) {
    if (type_ == DType::F32)
      endian::write32le(p, llvm::bit_cast<uint32_t>(float(floatAt(i))));
    else if (type_ == DType::F64)
      endian::write64le(p, llvm::bit_cast<uint64_t>(floatAt(i)));
    else if (isFloat(type_))
      endian::write16le(p, bits16(type_, floatAt(i)));
    else if (width == 8)
      endian::write64le(p, uint64_t(intAt(i)));
    else if (width == 4)
      endian::write32le(p, uint32_t(intAt(i)));
    else
      *p = char(intAt(i));
  }
  return bytes;
}

template <typename T, typename Fn> static std::vector<T> collect(int64_t n, Fn at) {
  std::vector<T> v;
  v.reserve(n);
  for (int64_t i = 0; i < n; ++i)
    v.push_back(static_cast<T>(at(i)));
  return v;
}

DenseElementsAttr Constant::toAttr(MLIRContext *context) const {
  auto type = RankedTensorType::get(shape_, compiler::elementType(context, type_));
  auto asInt = [&](int64_t i) { return intAt(i); };
  auto asFloat = [&](int64_t i) { return floatAt(i); };
  switch (type_) {
  case DType::F32:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<float>(stored(), asFloat)));
  case DType::F64:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<double>(stored(), asFloat)));
  case DType::F16:
  case DType::BF16: {
    std::vector<llvm::APFloat> v;
    for (int64_t i = 0; i < stored(); ++i)
      v.emplace_back(semantics(type_), llvm::APInt(16, bits16(type_, floatAt(i))));
    return DenseElementsAttr::get(type, llvm::ArrayRef(v));
  }
  case DType::I64:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<int64_t>(stored(), asInt)));
  case DType::I32:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<int32_t>(stored(), asInt)));
  case DType::I8:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<int8_t>(stored(), asInt)));
  case DType::UI8:
    return DenseElementsAttr::get(type, llvm::ArrayRef(collect<uint8_t>(stored(), asInt)));
  case DType::I1: {
    llvm::SmallVector<bool> v;
    for (int64_t i = 0; i < stored(); ++i)
      v.push_back(intAt(i) != 0);
    return DenseElementsAttr::get(type, llvm::ArrayRef<bool>(v));
  }
  }
  return {};
}

FloatAttr Constant::exactAttr(MLIRContext *context) const {
  return exact_ ? FloatAttr::get(Float64Type::get(context), *exact_) : FloatAttr();
}

Constant Constant::withShape(Shape shape) const {
  Constant c = *this;
  c.shape_ = std::move(shape);
  return c;
}

} // namespace tessera::compiler
