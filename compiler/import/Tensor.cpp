//===- Tensor.cpp - tensors of the model file -------------------------------------------------===//

#include "compiler/import/ModelFile.h"

#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace tessera::compiler {

std::optional<DType> dtypeOf(int32_t type) {
  switch (type) {
  case onnx::TensorProto::FLOAT:
    return DType::F32;
  case onnx::TensorProto::UINT8:
    return DType::UI8;
  case onnx::TensorProto::INT8:
    return DType::I8;
  case onnx::TensorProto::INT32:
    return DType::I32;
  case onnx::TensorProto::INT64:
    return DType::I64;
  case onnx::TensorProto::BOOL:
    return DType::I1;
  case onnx::TensorProto::FLOAT16:
    return DType::F16;
  case onnx::TensorProto::DOUBLE:
    return DType::F64;
  case onnx::TensorProto::BFLOAT16:
    return DType::BF16;
  default:
    return std::nullopt;
  }
}

std::string onnxTypeName(int32_t type) {
  if (onnx::TensorProto::DataType_IsValid(type))
    return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type));
  // What ONNX has added since onnx.proto was written down here.
  static constexpr StringLiteral newer[] = {"FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",
                                            "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0", "UINT2",          "INT2"};
  constexpr int32_t first = 17;
  if (type >= first && type < first + int32_t(std::size(newer)))
    return newer[type - first].str();
  return "type " + std::to_string(type);
}

/// The external file's path, which must stay inside the model's directory, symbolic links resolved.
static Expected<std::string> resolveExternal(StringRef what, StringRef location, StringRef directory) {
  bool up = false;
  for (auto it = sys::path::begin(location), end = sys::path::end(location); it != end; ++it)
    up |= *it == "..";
  if (location.empty() || location.contains('\0') || sys::path::is_absolute(location) || up)
    return createStringError("%s: external data at '%s' lies outside the model's directory", what.str().c_str(),
                             location.str().c_str());
  SmallString<256> path(directory), real, root;
  sys::path::append(path, location);
  if (std::error_code code = sys::fs::real_path(path, real))
    return createStringError("%s: cannot find the external data '%s': %s", what.str().c_str(), path.c_str(),
                             code.message().c_str());
  if (std::error_code code = sys::fs::real_path(directory, root))
    return createStringError("%s: cannot find the model's directory '%s': %s", what.str().c_str(),
                             directory.str().c_str(), code.message().c_str());
  StringRef rest(real);
  if (!rest.consume_front(root) || !(rest.starts_with("/") || root == "/"))
    return createStringError("%s: external data at '%s' lies outside the model's directory", what.str().c_str(),
                             location.str().c_str());
  if (!sys::fs::is_regular_file(Twine(real)))
    return createStringError("%s: the external data '%s' is not a file", what.str().c_str(), real.c_str());
  return std::string(real);
}

static Expected<FileRange> externalRange(StringRef what, const onnx::TensorProto &tensor, uint64_t bytes,
                                         StringRef directory) {
  StringRef location;
  uint64_t offset = 0, length = bytes;
  for (const auto &entry : tensor.external_data()) {
    StringRef value = entry.value();
    if (entry.key() == "location")
      location = value;
    else if ((entry.key() == "offset" && value.getAsInteger(10, offset)) ||
             (entry.key() == "length" && value.getAsInteger(10, length)))
      return createStringError("%s: external data has a malformed %s '%s'", what.str().c_str(), entry.key().c_str(),
                               value.str().c_str());
  }
  if (length != bytes)
    return createStringError("%s: its shape needs %llu bytes, but its external data has %llu", what.str().c_str(),
                             (unsigned long long)bytes, (unsigned long long)length);
  auto path = resolveExternal(what, location, directory);
  if (!path)
    return path.takeError();
  uint64_t size = 0;
  if (std::error_code code = sys::fs::file_size(*path, size))
    return createStringError("%s: cannot read '%s': %s", what.str().c_str(), path->c_str(), code.message().c_str());
  if (offset > size || bytes > size - offset)
    return createStringError("%s: needs bytes %llu to %llu of '%s', which has %llu", what.str().c_str(),
                             (unsigned long long)offset, (unsigned long long)(offset + bytes), path->c_str(),
                             (unsigned long long)size);
  return FileRange{*path, offset};
}

/// Values of a typed field as bytes of `type`.
template <typename Field> static std::string fieldBytes(DType type, const Field &field) {
  std::string bytes(field.size() * byteSize(type), '\0');
  char *p = bytes.data();
  for (int i = 0; i < field.size(); ++i, p += byteSize(type)) {
    auto value = field.Get(i);
    if (type == DType::F32)
      support::endian::write32le(p, bit_cast<uint32_t>(float(value)));
    else if (type == DType::F64)
      support::endian::write64le(p, bit_cast<uint64_t>(double(value)));
    else if (byteSize(type) == 8)
      support::endian::write64le(p, uint64_t(value));
    else if (byteSize(type) == 4)
      support::endian::write32le(p, uint32_t(value));
    else if (byteSize(type) == 2) // float16 and bfloat16 are stored as bit patterns
      support::endian::write16le(p, uint16_t(value));
    else
      *p = char(value);
  }
  return bytes;
}

/// `inside` is the tensor's raw_data, or a copy of it.
static Expected<Weight> makeWeight(const onnx::TensorProto &tensor, std::string inside, StringRef directory) {
  Weight weight;
  weight.name = tensor.name();
  std::string what = weight.name.empty() ? "a constant" : "tensor '" + weight.name + "'";
  auto type = dtypeOf(tensor.data_type());
  if (!type)
    return createStringError("%s has the element type %s, which is not supported", what.c_str(),
                             onnxTypeName(tensor.data_type()).c_str());
  weight.type = *type;
  weight.shape.assign(tensor.dims().begin(), tensor.dims().end());
  auto count = elementCount(weight.shape);
  if (!count || int64_t(weight.shape.size()) > kMaxRank)
    return createStringError("%s has the shape %s: an extent is negative, or dimensions or elements are too many",
                             what.c_str(), shapeText(weight.shape).c_str());
  uint64_t bytes = *count * byteSize(*type);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    auto range = externalRange(what, tensor, bytes, directory);
    if (!range)
      return range.takeError();
    weight.source = *range;
    return weight;
  }
  std::string data;
  if (tensor.has_raw_data())
    data = std::move(inside);
  else if (*type == DType::F32)
    data = fieldBytes(*type, tensor.float_data());
  else if (*type == DType::F64)
    data = fieldBytes(*type, tensor.double_data());
  else if (*type == DType::I64)
    data = fieldBytes(*type, tensor.int64_data());
  else
    data = fieldBytes(*type, tensor.int32_data());
  if (data.size() != bytes)
    return createStringError("%s: its shape %s of %s needs %llu bytes, but it has %zu", what.c_str(),
                             shapeText(weight.shape).c_str(), dtypeName(*type).str().c_str(), (unsigned long long)bytes,
                             data.size());
  weight.source = std::move(data);
  return weight;
}

Expected<Weight> tensorOf(const onnx::TensorProto &tensor, StringRef directory) {
  return makeWeight(tensor, tensor.raw_data(), directory);
}

Expected<Weight> takeTensor(onnx::TensorProto &tensor, StringRef directory) {
  if (!tensor.has_raw_data())
    return makeWeight(tensor, {}, directory);
  return makeWeight(tensor, std::move(*tensor.mutable_raw_data()), directory);
}

Expected<Constant> constantOf(const onnx::TensorProto &tensor, StringRef directory) {
  auto weight = tensorOf(tensor, directory);
  if (!weight)
    return weight.takeError();
  std::vector<char> bytes;
  if (Error error = WeightStore::read(*weight, [&](ArrayRef<char> part) {
        bytes.insert(bytes.end(), part.begin(), part.end());
        return Error::success();
      }))
    return error;
  return Constant::fromBytes(weight->type, weight->shape, bytes);
}

} // namespace tessera::compiler
