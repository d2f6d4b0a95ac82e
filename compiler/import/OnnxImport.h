//===- OnnxImport.h - an ONNX file becomes a module -------------------------------------------===//
//
// importOnnx reads a model file and returns the program as the graph dialect on global tensors of
// static shape, and its parameters beside it. Nothing of the file is trusted; whatever is wrong
// with it or not supported is one error that names the node, the operator and what to do.
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
//   running statistics           "state"; in @forward graph.update = i names the result that holds
//   the new value large constants (masks, ...) "state", never updated
// and the results "output", in @forward followed by the "update" results. graph.name of arguments
// and results is the model file's name; names in the WeightStore are the arguments' graph.name. An
// operator that stems from a node carries the node's name as graph.name (primary operator of a
// decomposition), or that name plus "/suffix" (helpers).
//
// A BatchNormalization or Dropout that the file marks as being in training mode is so in @forward. Where a file marks
// none (it was exported for inference), every BatchNormalization is in training mode in @forward, as PyTorch's
// model.train() would have it; and where the file has metadata of torch.export, too, since that exporter marks no
// BatchNormalization at all. In other files 0 is meant. `freezeBatchNorm` overrides all this.
//
// What an initializer is, by the first of these that knows it (roles, with the reason for each):
//   1. `constants`; running statistics of BatchNormalization are states; `parameters`.
//   2. Integers are constants.
//   3. What the exporter says (Exporter.h): PARAMETER is a parameter; BUFFER a state that never changes where PyTorch's
//      state_dict has it, else a constant; CONSTANT_TENSOR a constant. What such a file says nothing of, the exporter
//      made; it is a constant if the file lists all tensors and no parameter is missing.
//   4. Names of buffers only (inv_freq, ...) are constants. Weight operands (kernel, bias, scale, ...) are parameters.
//   5. Made by the exporter's constant folding ("onnx::Add_12"), only compared or selected by (masks), only sliced
//      and multiplied (rotary tables): constants. Named weight or bias: parameters. Scalars that only elementwise
//      operators read: constants. All else are parameters.
// Where 4 and 5 do not decide it well, the role is marked as a guess, and a warning tells it.
// In a file without weights (no weighted operator reads an initializer, and some graph input is named
// like a parameter, "fc1.weight") the graph inputs with such names and those that feed the weight
// operand of a convolution, Gemm, ... are parameters. All other graph inputs are inputs. `inputs` and `parameters`
// override this.
//
// Parameters that `freeze` names carry graph.frozen: they are loaded and saved, and never updated.
//
// With `training`, parameters of equal values that the exporter merged are parameters of their own again, and what
// else it did to the network is in the warnings (Suspicions.h).
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
  /// Of the values that `dims` gives for dimension 0 of inputs, the model sees this part: it is built for
  /// a micro-batch. A batch that the file fixes is a micro-batch's.
  int64_t microBatches = 1;
  bool training = false;
  /// What the file marks as being in training mode is so in @infer as well: the program is the
  /// file's function to the letter. Without it @infer evaluates.
  bool literal = false;
  /// For parameters that the file has no values of; see makeInitRule.
  std::string initRule = "kaiming";
  /// (pattern, rule) for the parameters and states whose name matches (NamePatterns.h); the last one wins. It is meant
  /// to the letter: {"*.bn3.weight", "zeros"} starts residual branches at zero.
  std::vector<std::pair<std::string, std::string>> initRules;
  /// Initialise parameters by rule even where the file has values.
  bool forceInit = false;
  /// Seed of initialisation and of Dropout.
  uint64_t seed = 0;
  /// If not empty: exactly these graph inputs are inputs, the others are parameters.
  std::vector<std::string> inputs;
  /// The file's program is that of one rank of a mesh: shapes are local, and operators of the domain
  /// ai.tessera are its collectives (docs/hybrid.md). The module gets the mesh.
  struct PerRank {
    dist::Mesh mesh;
    /// The shape of the parameter or state of which the file's program has a slice (often the same); weights
    /// are whole. An error if it cannot be cut like this.
    std::function<llvm::Expected<Shape>(llvm::StringRef name, llvm::ArrayRef<int64_t> local)> wholeShape;
  };
  std::optional<PerRank> perRank;
  // Patterns of names (NamePatterns.h). One that matches nothing is an error.

  /// Initializers that are parameters, or constants, whatever they look like.
  std::vector<std::string> parameters, constants;
  /// Parameters that are not trained.
  std::vector<std::string> freeze;
  /// BatchNormalizations that normalise by their running statistics in training, too: by the node's name, or by that of
  /// the module of its running mean. Scale and offset are trained all the same.
  std::vector<std::string> freezeBatchNorm;
  /// Symbolic dimensions without a value are 1: where shapes do not matter.
  bool anyDims = false;

  /// "batch=256".
  llvm::Error addDim(llvm::StringRef text);
  /// "zeros", or "PATTERN=RULE".
  void addInit(llvm::StringRef text);
};

/// What an initializer, or a graph input that is no input of the model, is.
struct TensorRole {
  std::string name;
  std::string role; // "trained", "frozen", "state", "constant"
  DType type = DType::F32;
  Shape shape;
  std::string reason; // why it is that
  bool guess = false;
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  WeightStore weights;
  std::vector<TensorRole> roles;
  std::vector<std::string> warnings; // sentences
};

/// Loads the dialects that it needs into the context.
llvm::Expected<ImportedModel> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                         const ImportOptions &options);
/// The same from memory; external data is looked for in `directory`.
llvm::Expected<ImportedModel> importOnnxBytes(mlir::MLIRContext &context, llvm::StringRef bytes,
                                              llvm::StringRef directory, const ImportOptions &options);

/// What the file's tensors would be if it were trained, and the warnings. No dimension needs a value.
struct ListedParameters {
  std::vector<TensorRole> roles;
  std::vector<std::string> warnings;
};
llvm::Expected<ListedParameters> listParameters(llvm::StringRef path, ImportOptions options);

/// The tensors that a model file stores, by name, whatever operators it has: a weight set for another
/// file's model.
llvm::Expected<WeightStore> readWeights(llvm::StringRef path);

struct SupportedOperator {
  std::string name;
  int64_t since, until; // opsets
  std::string limits;   // what of it is not supported; empty: nothing
};
/// Every ONNX operator that the importer knows, by name. Documentation is generated from it.
std::vector<SupportedOperator> supportedOperators();

} // namespace tessera::compiler

#endif
