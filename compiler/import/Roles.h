//===- Roles.h - what the graph's inputs and initializers are ---------------------------------===//
//
// ONNX does not distinguish parameters from constants or, in files without weights, from inputs. This file decides by
// what the user says, then by what the exporter says (Exporter.h), then by the use (Uses.h) and the name of a tensor.
// OnnxImport.h states the rules.
//
//   Conv(image, conv1.weight)       conv1.weight: kernel of a Conv -> Parameter, fan-in c*r*s
//   Mul(x, Slice(cos, ...))         cos: a table that is sliced and multiplied -> Constant
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_ROLES_H
#define TESSERA_COMPILER_IMPORT_ROLES_H

#include "compiler/import/Exporter.h"
#include "compiler/import/OnnxImport.h"
#include "compiler/import/Uses.h"

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
  std::string reason;                  // why it has this kind
  bool guess = false;                  // neither user nor file says the kind, and the use does not decide it
  bool frozen = false;                 // a parameter that is not trained
};

/// Inputs in the file's order, then parameters, then states, then constants. Initializers that
/// nothing reads are left out.
llvm::Expected<std::vector<Source>> assignRoles(const ModelFile &file, const ExporterSays &says,
                                                const ImportOptions &options);

/// Uses and fans of parameters and states, for initialisation (InitialUse.cpp).
void describeWeights(std::vector<Source> &sources, const UseMap &uses);

/// Whether the name is one that PyTorch gives to a parameter: a module path, "features.0.weight", or the parameter of a
/// module that is the whole model. ("input.1" is PyTorch's name for an input without a name.)
bool isParameterName(llvm::StringRef name);

} // namespace tessera::compiler

#endif
