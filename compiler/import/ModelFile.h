//===- ModelFile.h - an ONNX file, parsed and checked -----------------------------------------===//
//
// The file is untrusted. After readModelFile succeeds:
//   - the opset is known and within [kOldestOpset, kNewestOpset];
//   - every name is valid UTF-8 and every value is produced once;
//   - `order` holds the nodes that the outputs depend on, each after the nodes that it reads from.
// `tensorOf` checks that the declared shape and type of one tensor agree with its bytes, which are in this file or in
// another one.
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
  /// For every node with bodies the values of the graph that the bodies read, sorted.
  std::map<const onnx::NodeProto *, std::vector<std::string>> captured;

  const onnx::GraphProto &graph() const { return proto.graph(); }

  /// Calls visit(name, operand) for every value that a node of the graph reads: first its inputs, except omitted ones,
  /// then the values that its bodies capture.
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

/// The tensor's type, its shape and where its bytes are. Typed fields (float_data, ...) are converted to bytes.
/// `takeTensor` moves the bytes out of the tensor.
llvm::Expected<Weight> tensorOf(const onnx::TensorProto &tensor, llvm::StringRef directory);
llvm::Expected<Weight> takeTensor(onnx::TensorProto &tensor, llvm::StringRef directory);
/// The tensor's elements.
llvm::Expected<Constant> constantOf(const onnx::TensorProto &tensor, llvm::StringRef directory);

} // namespace tessera::compiler

#endif
