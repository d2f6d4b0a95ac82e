//===- Safetensors.h - named tensors in a file ------------------------------------------------===//
//
// The safetensors format: eight bytes with the length of a JSON header, little-endian, the header, the contents.
// (https://github.com/huggingface/safetensors, "Format".) The reader checks every entry when it opens the file and
// reads contents on demand. The writer streams, and the file appears under its name when it is complete (AtomicFile).
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

  /// With sums, everything that is read is checked against them.
  static Result<Safetensors> open(const std::string &path, std::optional<FileSums> sums = std::nullopt);

  const std::string &path() const override { return file_.path(); }
  std::vector<std::string> names() const override;
  std::optional<TensorType> typeOf(const std::string &name) const override;
  Status read(const std::string &name, const Block &block, plan::DType type, void *out) const override;

  const std::map<std::string, Entry> &entries() const { return entries_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }
  const Entry *find(const std::string &name) const;
  /// Copies the block [offset, offset + shape) to `out`, row-major, converted to `type` if both types are
  /// floating-point. Any other difference of types is an error.
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

/// The format's name of a type, and the type of a name; "" and DTYPE_INVALID where the format has none.
std::string safetensorsTypeName(plan::DType type);
plan::DType safetensorsType(const std::string &name);

struct NamedTensor {
  std::string name;
  plan::DType type;
  std::vector<int64_t> shape;
};

/// The places of these tensors in a file that holds them in this order.
struct SafetensorsLayout {
  std::string header;           // with the eight bytes before it
  std::vector<uint64_t> begins; // of the tensors, from the start of the file
  uint64_t bytes = 0;           // of the file

  static Result<SafetensorsLayout> of(const std::vector<NamedTensor> &tensors,
                                      const std::map<std::string, std::string> &metadata);
};

/// Writes the tensors in the order in which `create` was given them.
class SafetensorsWriter {
public:
  using Tensor = NamedTensor;
  static Result<SafetensorsWriter> create(const std::string &path, std::vector<Tensor> tensors,
                                          const std::map<std::string, std::string> &metadata = {});
  /// Writes the next tensor whole.
  Status add(const void *data, uint64_t bytes);
  /// Writes a part of the next tensor; no call crosses from one tensor to another.
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
