//===- OnnxImport.h - an ONNX file becomes a module -------------------------------------------===//
//
// importOnnx reads a model file and returns the program as the graph dialect on global tensors of
// static shape, and its parameters beside it. The file is not trusted. A malformed file or an unsupported operator
// gives one error that names the node and the operator and says what to do.
//
//   ImportOptions options;
//   options.dims["batch"] = 256;
//   options.training = true;
//   auto model = importOnnx(context, "resnet50.onnx", options);      // llvm::Expected
//   model->module->dump();
//   model->weights.writeSafetensors("weights.safetensors");
//
// The module holds `func.func @infer`, and when `training` is set also `@forward` (before it): the
// same network with BatchNorm and Dropout in training mode. Both have the arguments
//   inputs                       graph.role = "input"
//   step, i64 scalar             "step", in @forward, if it draws random numbers
//   parameters                   "parameter"
//   running statistics           "state"; in @forward graph.update = i is the index of the result that holds the new
//                                value
//   large constants (masks, ...) "state", never updated
// and the results "output", in @forward followed by the "update" results. graph.name of arguments and results is the
// model file's name; names in the WeightStore are the arguments' graph.name. An operator that stems from a node carries
// the node's name as graph.name (primary operator of a decomposition), or that name plus "/suffix" (helpers).
//
// In @forward, a BatchNormalization or Dropout is in training mode if the file marks it so. Two exporters do not mark a
// BatchNormalization that is to be trained: a file that was exported for inference marks no node at all, and a file of
// torch.export marks no BatchNormalization. So all BatchNormalizations of such files are in training mode in @forward,
// as after PyTorch's model.train(). `freezeBatchNorm` overrides all this.
//
// The role of an initializer follows from the first of these rules that applies (roles, with the reason for each):
//   1. `constants`; running statistics of BatchNormalization are states; `parameters`.
//   2. Integers are constants.
//   3. What the exporter says (Exporter.h): a PARAMETER is a parameter; a BUFFER is a state that never changes if
//      PyTorch's state_dict has it, else a constant; a CONSTANT_TENSOR is a constant. A tensor that such a file does
//      not name was made by the exporter. It is a constant if the file lists all tensors and no parameter is missing.
//   4. Names that only buffers have (inv_freq, ...) are constants. Weight operands (kernel, bias, scale, ...) are
//      parameters.
//   5. Constants are: a number that an operator must know at import; a tensor that the exporter's constant folding made
//      ("onnx::Add_12"); one that is only compared or selected by (a mask); one that is only sliced and multiplied (a
//      rotary table). A name like weight or bias makes a parameter. A scalar that only elementwise operators read is a
//      constant. Every other initializer is a parameter.
// If rules 4 and 5 are not sure, the role is marked as a guess, and a warning names it.
//
// A file may come without weights: no weighted operator reads an initializer, and some graph input is named like a
// parameter, "fc1.weight". Then the graph inputs with such names are parameters, and so are those that are the weight
// operand of a convolution, Gemm, ... All other graph inputs are inputs. `inputs` and `parameters` override this.
//
// Parameters that `freeze` names carry graph.frozen: they are loaded and saved, and never updated.
//
// With `training`, parameters of equal values that the exporter merged become separate parameters again. Warnings tell
// what else the exporter changed in the network (Suspicions.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_ONNXIMPORT_H
#define TESSERA_COMPILER_IMPORT_ONNXIMPORT_H

#include "compiler/import/Weights.h"
#include "dialects/dist/Mesh.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <map>
#include <optional>

namespace tessera::compiler {

struct ImportOptions {
  /// Values of symbolic dimensions. A dimension without a name is called INPUT#AXIS.
  std::map<std::string, int64_t> dims;
  /// The number of micro-batches. The model is built for one of them, so dimension 0 of its inputs is the value in
  /// `dims` divided by this number. A batch size that the file fixes is that of a micro-batch.
  int64_t microBatches = 1;
  bool training = false;
  /// Nodes that the file marks as being in training mode are so in @infer as well, so that @infer computes exactly the
  /// file's function. Otherwise @infer has all nodes in inference mode.
  bool literal = false;
  /// The initialisation rule of parameters without values in the file; see makeInitRule.
  std::string initRule = "kaiming";
  /// (pattern, rule) for the parameters and states whose names match (NamePatterns.h). The last match wins. Such a rule
  /// overrides the defaults by use: {"*.bn3.weight", "zeros"} starts residual branches at zero.
  std::vector<std::pair<std::string, std::string>> initRules;
  /// Initialise parameters by rule even where the file has values.
  bool forceInit = false;
  /// Seed of initialisation and of Dropout.
  uint64_t seed = 0;
  /// If not empty, exactly these graph inputs are inputs, and the others are parameters.
  std::vector<std::string> inputs;
  /// Set in mode hybrid (docs/hybrid.md): the file has the program of one rank of a mesh. Shapes are local, and
  /// operators of the domain ai.tessera are collectives. The module gets the mesh.
  struct PerRank {
    dist::Mesh mesh;
    /// The global shape of a parameter or state whose block on one rank has the shape `local`. Fails if it cannot be
    /// cut like this.
    std::function<llvm::Expected<Shape>(llvm::StringRef name, llvm::ArrayRef<int64_t> local)> wholeShape;
  };
  std::optional<PerRank> perRank;
  // Patterns of names (NamePatterns.h). One that matches nothing is an error.

  /// Initializers that are parameters, or constants, whatever the other rules say.
  std::vector<std::string> parameters, constants;
  /// Parameters that are not trained.
  std::vector<std::string> freeze;
  /// BatchNormalizations that use their running statistics in training, too. A pattern matches the node's name, or the
  /// name of the module that its running mean belongs to. Scale and offset are still trained.
  std::vector<std::string> freezeBatchNorm;
  /// Symbolic dimensions without a value are 1. For callers to whom shapes do not matter.
  bool anyDims = false;

  /// "batch=256".
  llvm::Error addDim(llvm::StringRef text);
  /// "zeros", or "PATTERN=RULE".
  void addInit(llvm::StringRef text);
};

/// The role of an initializer, or of a graph input that is not an input of the model.
struct TensorRole {
  std::string name;
  std::string role; // "trained", "frozen", "state", "constant"
  DType type = DType::F32;
  Shape shape;
  std::string reason; // why it has this role
  bool guess = false;
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightStore weights;
  std::vector<TensorRole> roles;
  std::vector<std::string> warnings; // sentences
};

/// Imports a model file. Loads the dialects that it needs into the context.
llvm::Expected<ImportedModel> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                         const ImportOptions &options);
/// The same from memory; external data is looked for in `directory`.
llvm::Expected<ImportedModel> importOnnxBytes(mlir::MLIRContext &context, llvm::StringRef bytes,
                                              llvm::StringRef directory, const ImportOptions &options);

/// The roles that the file's tensors would have in training, and the warnings. No dimension needs a value.
struct ListedParameters {
  std::vector<TensorRole> roles;
  std::vector<std::string> warnings;
};
llvm::Expected<ListedParameters> listParameters(llvm::StringRef path, ImportOptions options);

/// Reads only the tensors that a model file stores, by name, as weights for the model of another file. The file's
/// operators need not be supported.
llvm::Expected<WeightStore> readWeights(llvm::StringRef path);

struct SupportedOperator {
  std::string name;
  int64_t since, until; // opsets
  std::string limits;   // what is not supported; empty: everything is
};
/// Every ONNX operator that the importer knows, by name. Documentation is generated from it.
std::vector<SupportedOperator> supportedOperators();

} // namespace tessera::compiler

#endif
