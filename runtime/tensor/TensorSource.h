//===- TensorSource.h - where a rank's parameters and states come from ------------------------===//
//
// Named tensors that are read block by block from a safetensors file or from a checkpoint of any
// mesh, if need be under other names. A rank reads only the blocks that it holds.
//
//   std::optional<TensorType> type = source.typeOf("fc.weight");      // nothing: not there
//   source.read("fc.weight", {{8, 0}, {8, 64}}, plan::F32, buffer);   // rows 8..15
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_TENSOR_TENSORSOURCE_H
#define TESSERA_RUNTIME_TENSOR_TENSORSOURCE_H

#include "runtime/plan/Blocks.h"

#include <string>

namespace tessera::rt {

struct TensorType {
  plan::DType type = plan::DTYPE_INVALID;
  std::vector<int64_t> shape;
};

class TensorSource {
public:
  virtual ~TensorSource() = default;
  /// The file or folder, for messages.
  virtual const std::string &path() const = 0;
  virtual std::vector<std::string> names() const = 0; // sorted
  virtual std::optional<TensorType> typeOf(const std::string &name) const = 0;
  /// The tensor's name in the file, for messages.
  virtual std::string nameThere(const std::string &name) const { return name; }
  /// Writes the block to `out`, row-major and packed. It is converted to `type` if both types are
  /// floating-point; any other difference of types is an error. So is a block that is not inside
  /// the tensor.
  virtual Status read(const std::string &name, const Block &block, plan::DType type, void *out) const = 0;
};

} // namespace tessera::rt

#endif
