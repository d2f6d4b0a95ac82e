//===- Roles.h - what the graph's inputs and initializers are ---------------------------------===//
//
// ONNX does not tell a parameter from a constant or, in files without weights, from an input. This
// is decided here from how the values are used, by the `operands` column of the operator table; the
// rules are stated in OnnxImport.h.
//
//   Conv(image, conv1.weight)       conv1.weight: kernel of a Conv -> Parameter, fan-in c*r*s
//   Mul(x, Slice(cos, ...))         cos: a table that is sliced and multiplied -> Constant
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_ROLES_H
#define TESSERA_COMPILER_IMPORT_ROLES_H

#include "compiler/import/ModelFile.h"
#include "compiler/import/OnnxImport.h"

namespace tessera::compiler {

enum class SourceKind { Input, Parameter, State, Constant };

/// A value that no node produces.
struct Source {
  std::string name;
  SourceKind kind = SourceKind::Input;
  DType type = DType::F32;
  Shape shape;
  Shape whole;      // of parameters and states: of all ranks' slices together (ImportOptions::perRank)
  InitContext init; // of parameters and states
  onnx::TensorProto *tensor = nullptr; // null: the file has no values
};

/// Inputs in the file's order, then parameters, then states, then constants. Initializers that
/// nothing reads are left out.
llvm::Expected<std::vector<Source>> assignRoles(const ModelFile &file, const ImportOptions &options);

} // namespace tessera::compiler

#endif
