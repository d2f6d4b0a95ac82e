//===- Safetensors.h - named tensors in a file ------------------------------------------------===//
//
// The safetensors format: eight bytes with the length of a JSON header, little-endian, the header,
// the contents. (https://github.com/huggingface/safetensors, "Format".) The reader maps the file
// and checks every entry before it gives one out; the writer streams and is atomic.
//
//   Result<Safetensors> file = Safetensors::open("plan/weights.safetensors");
//   const Safetensors::Entry *w = file->find("fc.weight");     // null: not there
//   TESSERA_RETURN_IF_ERROR(file->readBox(*w, {8, 0}, {8, 64}, plan::F32, buffer)); // rows 8..15
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TENSOR_SAFETENSORS_H
#define TESSERA_RUNTIME_TENSOR_SAFETENSORS_H

#include "runtime/support/CheckedFile.h"
#include "runtime/tensor/TensorSource.h"

#include <map>
#include <string>
#include <vector>

namespace tessera::rt {

class Safetensors : public TensorSource {
public:
  struct Entry {
    std::string name;
    plan::DType type = plan::DTYPE_INVALID;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0; // in bytes from the end of the header
  };

  /// With sums, what is read is held against them.
  static Result<Safetensors> open(const std::string &path, std::optional<FileSums> sums = std::nullopt);

  const std::string &path() const override { return file_.path(); }
  std::vector<std::string> names() const override;
  std::optional<TensorType> typeOf(const std::string &name) const override;
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override;

  const std::map<std::string, Entry> &entries() const { return entries_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }
  const Entry *find(const std::string &name) const;
  /// Copies the box [offset, offset + shape) to `out`, row-major, converted to `type` if both types
  /// are floating-point; another difference of types is an error.
  Status readBox(const Entry &entry, const std::vector<int64_t> &offset, const std::vector<int64_t> &shape,
                 plan::DType type, void *out) const;

private:
  explicit Safetensors(CheckedFile file) : file_(std::move(file)) {}
  Status parseHeader();
  CheckedFile file_;
  uint64_t contents_ = 0; // where they begin
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// The name that the format has for a type, and back; "" and DTYPE_INVALID for what it does not know.
std::string safetensorsTypeName(plan::DType type);
plan::DType safetensorsType(const std::string &name);

struct NamedTensor {
  std::string name;
  plan::DType type;
  std::vector<int64_t> shape;
};

/// Where everything lies in a file of these tensors, in this order.
struct SafetensorsLayout {
  std::string header;           // with the eight bytes before it
  std::vector<uint64_t> begins; // of the tensors, from the start of the file
  uint64_t bytes = 0;           // of the file

  static Result<SafetensorsLayout> of(const std::vector<NamedTensor> &tensors,
                                      const std::map<std::string, std::string> &metadata);
};

/// Writes tensors in the order in which they were announced.
class SafetensorsWriter {
public:
  using Tensor = NamedTensor;
  static Result<SafetensorsWriter> create(const std::string &path, std::vector<Tensor> tensors,
                                          const std::map<std::string, std::string> &metadata = {});
  /// The contents of the next tensor, whole.
  Status add(const void *data, uint64_t bytes);
  /// Or in parts, of which none is of two tensors.
  Status append(const void *data, uint64_t bytes);
  /// Fails if a tensor is missing.
  Status commit();

private:
  SafetensorsWriter(std::string path, AtomicFile file, std::vector<Tensor> tensors)
      : path_(std::move(path)), file_(std::move(file)), tensors_(std::move(tensors)) {}
  std::string path_;
  AtomicFile file_;
  std::vector<Tensor> tensors_;
  size_t next_ = 0;
  uint64_t written_ = 0; // of tensor next_
};

} // namespace tessera::rt

#endif
