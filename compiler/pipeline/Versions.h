//===- Versions.h - a network with strategies for each mesh of its stages ----------------------------===//
//
// Stages with meshes of their own take their parts from versions of the whole network: one for each different mesh,
// with the strategies that were chosen for it. Versions differ in attributes alone until they become local. So the cut
// is searched before that, with the times, bytes and memory that each stage has in its own version.
//
// Between a value and its readers in another stage stands a view, the border, whose sharding is no sum and has no
// padding. What has a border is all that crosses. So the local programs of two versions, which may do different things
// before and behind a border, are cut alike.
//
//   std::vector<NetworkVersion> versions;                  // in phase 3
//   if (Error e = placeVersions(versions, {0, 1}, costs)) ...
//   for (const NetworkVersion &version : versions)
//     if (Error e = addBorders(version.module, version.mesh)) ...
//   // every module becomes local
//   if (Error e = completeStages(module)) ...              // and dist-cut-stages cuts it
//   if (Error e = joinVersions(cut, {0, 1}, meshes, joined)) ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_VERSIONS_H
#define TESSERA_COMPILER_PIPELINE_VERSIONS_H

#include "compiler/pipeline/PlaceOperators.h"

#include <functional>

namespace tessera::compiler {

struct NetworkVersion {
  mlir::ModuleOp module; // annotated for the mesh
  dist::Mesh mesh;
  std::vector<strategies::Cost> times;       // of each operator of the training step when it runs once
  std::function<int64_t(mlir::Value)> bytes; // of a value of the training step on one rank
};

/// Gives all operators and owned arguments of all versions their stages, alike. `of`: the version of each stage.
/// `costs`: of messages between stages, the limit, and what was given. `counted`: as placeOperators has it.
llvm::Error placeVersions(llvm::ArrayRef<NetworkVersion> versions, llvm::ArrayRef<size_t> of,
                          const PipelineCosts &costs, int64_t *counted = nullptr);

/// Puts borders into a placed version. An error says what crosses and cannot.
llvm::Error addBorders(mlir::ModuleOp placed, const dist::Mesh &mesh);

/// Gives operators that came with localisation the stages of what reads them.
llvm::Error completeStages(mlir::ModuleOp local);

/// Takes from each version, which has a module per stage, the modules of its stages, and connects them. `meshes`: of
/// the stages. The modules go into `joined`.
llvm::Error joinVersions(llvm::ArrayRef<mlir::ModuleOp> cut, llvm::ArrayRef<size_t> of,
                         llvm::ArrayRef<dist::Mesh> meshes, mlir::ModuleOp joined);

/// On a border, and on the send and the receive that follow from it: a dictionary with its name, the sharding and the
/// global shape.
inline constexpr llvm::StringLiteral kBorderAttr = "dist.border";

} // namespace tessera::compiler

#endif
