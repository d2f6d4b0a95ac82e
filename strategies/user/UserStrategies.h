//===- UserStrategies.h - strategies that a person or an earlier run wrote -----------------------===//
//
// A JSON file: a list of entries, or an object with that list under "strategies".
//
//   {"op": "fc1", "in": [[1, 1], [1, 2]]}                              split counts per input dimension
//   {"op": "fc1", "in": [["data", null], [null, "model"]]}             named axes
//   {"op": "fc1", "in": [["data+model", null], [["data", "model"], null]], "out": [["data", null]]}
//   {"op": "q", "in": [[1, 1], [1, "8/64"]]}                           8 parts of whole units of 64; or "model/64"
//   {"op": "/layer4/*", "stage": 3}                                   the stage of a pipeline; or "pipeline_stage"
//
// "op" is the operator's name in the model file; '*' in it stands for any text. "in" has one list per input
// of the operator as the model file counts them, with one entry per dimension; null for a whole input leaves
// it to the others. Split counts are mapped to mesh axes by a search for axes with exactly these products,
// axes in mesh order first. Where plain blocks cannot be, it takes the units of the operator (Units.h); axis names
// without a unit mean plain blocks. An entry may give a stage as well as shardings, or a stage alone.
//
// A saved assignment (--save-strategies) is a JSON object with "format": "tessera-strategies"; it holds
// every strategy and sharding of a module and is taken as it is, with the stages that a user gave. Of stages with
// meshes of their own it has such an object for each different mesh under "versions".
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_USER_USERSTRATEGIES_H
#define TESSERA_STRATEGIES_USER_USERSTRATEGIES_H

#include "strategies/space/Program.h"

#include <map>
#include <optional>

namespace tessera::strategies {

/// One dimension as the user wrote it: a count, or axis names, and the unit (Sharding.h).
struct UserDim {
  int64_t count = 1;
  int64_t unit = 0; // 0: not said
  std::vector<std::string> axes;
  bool named = false;
};
/// One tensor; nullopt: not said.
using UserTensor = std::optional<std::vector<UserDim>>;

struct UserEntry {
  std::string op;
  std::vector<UserTensor> in, out;
  bool hasOut = false;
};

/// Operators that the user puts in a stage of a pipeline.
struct UserStage {
  std::string op;
  int64_t stage = 0;
};

/// A whole assignment as text, by function.
struct SavedFunction {
  struct Operator {
    std::string name, kind, strategy;
  };
  std::vector<Operator> operators; // in program order
  std::vector<std::string> args, results;
  bool apart = false; // dist::kApartAttr
};

struct UserStrategies {
  std::string origin; // file name, for messages
  std::vector<UserEntry> entries;
  std::vector<UserStage> stages;
  std::string savedMesh;
  std::map<std::string, SavedFunction> saved; // not empty: a saved assignment
  /// Not empty: saved assignments for the different meshes of the stages that `savedMesh` has, each without stages.
  std::vector<UserStrategies> versions;

  /// Whether it says no strategy; it may give stages.
  bool empty() const { return entries.empty() && saved.empty() && versions.empty(); }
  bool isSaved() const { return !saved.empty() || !versions.empty(); }

  static llvm::Expected<UserStrategies> load(llvm::StringRef path);
  static llvm::Expected<UserStrategies> parse(llvm::StringRef json, llvm::StringRef origin);
};

/// "conv*" against "conv1": whether the pattern matches the whole name.
bool matchesName(llvm::StringRef pattern, llvm::StringRef name);

/// Why no strategy on the mesh is as the entry says, such as "has no axis 'model'"; empty: there may be one.
std::string whyNotOn(const Mesh &mesh, const UserEntry &entry);

/// The names of the function's operators that an entry with such an "op" is about.
std::vector<std::string> operatorsOf(mlir::func::FuncOp func, llvm::StringRef op);

/// By name, the stages that the user gives operators of the module's forward passes. Fails with one sentence if an
/// operator has two.
llvm::Expected<std::map<std::string, int>> givenStages(mlir::ModuleOp module, const UserStrategies &user);

/// The annotated module's strategies as a file that `load` takes, with these stages; the same text for the same
/// assignment.
std::string saveStrategies(mlir::ModuleOp module, llvm::ArrayRef<UserStage> stages = {});
/// The same of stages with meshes of their own: `modules` has one for each different mesh, `meshes` is the text of all.
std::string saveVersions(llvm::ArrayRef<mlir::ModuleOp> modules, llvm::StringRef meshes,
                         llvm::ArrayRef<UserStage> stages = {});
/// Writes a saved assignment to the module. Fails with one sentence if it belongs to another
/// program or mesh.
llvm::Error applySaved(mlir::ModuleOp module, const Mesh &mesh, const UserStrategies &saved);

} // namespace tessera::strategies

#endif
