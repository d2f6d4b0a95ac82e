//===- OwnMeshes.h - stages of which each has a mesh of its own -------------------------------------===//
//
//   parseOwnMeshes("stages=[data=2,model=2; data=1]")          // two meshes: five ranks
//
// The network gets strategies for each different mesh, is cut once, and every stage is taken from the version of its
// mesh (compiler/pipeline/Versions.h). This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_STAGES_OWNMESHES_H
#define TESSERA_COMPILER_DRIVER_STAGES_OWNMESHES_H

#include "compiler/driver/fit/FitMemory.h"

namespace tessera {

/// The mesh of each stage; empty: the text is not of this form. An error says what is wrong with it.
llvm::Expected<std::vector<dist::Mesh>> parseOwnMeshes(llvm::StringRef text);

/// The other way.
std::string textOf(llvm::ArrayRef<dist::Mesh> meshes);

/// All ranks of the stages as one axis.
dist::Mesh ranksInARow(llvm::ArrayRef<dist::Mesh> meshes);

/// An error if options do not go with stages that have meshes of their own.
llvm::Error checkOwnMeshes(const CompileOptions &options, llvm::ArrayRef<dist::Mesh> meshes);

/// Phases 3 to 5 on copies of a module in phase 2, as fitMemory (FitMemory.h) does them for one mesh.
llvm::Expected<FittedProgram> fitOwnMeshes(Compilation &run, mlir::ModuleOp module,
                                           const strategies::AssignOptions &assign,
                                           std::optional<FittedProgram> first = std::nullopt);

} // namespace tessera

#endif
