//===- ModelFile.h - an ONNX file, parsed and checked -----------------------------------------===//
//
// The file is untrusted. After readModelFile succeeds:
//   - the opset is known and within [kOldestOpset, kNewestOpset];
//   - every name is valid UTF-8 and every value is produced once;
//   - `order` holds the nodes that the outputs depend on, each after the nodes it reads;
// `tensorOf` checks one tensor: that its declared shape and type agree with the bytes it has, inside or
// outside of the file.
//
//   auto file = readModelFile("resnet50.onnx");
//   for (const onnx::NodeProto *node : (*file)->order) ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_MODELFILE_H
#define TESSERA_COMPILER_IMPORT_MODELFILE_H

#include "compiler/import/Weights.h"
#include "compiler/import/onnx.pb.h"

#include <map>
#include <memory>

namespace tessera::compiler {

inline constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;
inline constexpr int64_t kMaxRank = 16;

struct ModelFile {
  std::string directory; // of the model: external data must lie inside
  onnx::ModelProto proto;
  int64_t opset = 0;
  std::map<std::string, onnx::TensorProto *> initializers;
  std::vector<const onnx::NodeProto *> order;
  /// Of nodes with bodies: the values of the graph that the bodies read, sorted.
  std::map<const onnx::NodeProto *, std::vector<std::string>> captured;

  const onnx::GraphProto &graph() const { return proto.graph(); }

  /// Calls visit(name, operand) for all that a node of the graph reads: its inputs that are not left
  /// out, then what its bodies capture.
  template <typename Visit> void eachRead(const onnx::NodeProto &node, Visit visit) const {
    int operand = 0;
    for (const std::string &name : node.input()) {
      if (!name.empty())
        visit(name, operand);
      ++operand;
    }
    if (auto it = captured.find(&node); it != captured.end())
      for (const std::string &name : it->second)
        visit(name, operand++);
  }
};

llvm::Expected<std::unique_ptr<ModelFile>> readModelFile(llvm::StringRef path);
/// The same from memory; `directory` is where external data is looked for.
llvm::Expected<std::unique_ptr<ModelFile>> parseModel(llvm::StringRef bytes, llvm::StringRef directory);

/// The graph dialect's element type for an ONNX data type; nullopt: it has none.
std::optional<DType> dtypeOf(int32_t onnxType);
std::string onnxTypeName(int32_t onnxType);

/// Type, shape and where the bytes are. Typed fields (float_data, ...) are turned into bytes. `takeTensor`
/// moves the bytes out of the tensor.
llvm::Expected<Weight> tensorOf(const onnx::TensorProto &tensor, llvm::StringRef directory);
llvm::Expected<Weight> takeTensor(onnx::TensorProto &tensor, llvm::StringRef directory);
/// Its elements.
llvm::Expected<Constant> constantOf(const onnx::TensorProto &tensor, llvm::StringRef directory);

} // namespace tessera::compiler

#endif
