//===- Recipe.h - how a plan was compiled ---------------------------------------------------------===//
//
// plan/compile.json, which tessera-compile writes beside the plan: what to compile again for another mesh when
// ranks are lost (docs/launching.md). It is no part of the plan: no rank reads it, and plan_id does not cover it.
//
//   {"format": "tessera-recipe", "version": 1, "model": "/models/resnet18.onnx", "mesh": "data=2,model=2",
//    "mode": "auto", "arguments": ["--dim=batch=16", "--train"],       // all options but mesh, mode and output
//    "files": [{"path": "/models/resnet18.onnx", "bytes": 46000000, "digest": "…"}]}
//
//   Result<Recipe> recipe = readRecipe("plan");
//   TESSERA_RETURN_IF_ERROR(recipe->checkFiles());               // the model is what it was
//   meshFor(recipe->mesh, 3);                                    // "data=3,model=1"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_RECIPE_H
#define TESSERA_RUNTIME_PLAN_RECIPE_H

#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

constexpr const char *kRecipeName = "compile.json";
/// Other files that the compiler writes beside the plans: predicted costs, and the chosen strategies.
constexpr const char *kReportName = "report.json", *kStrategiesName = "strategies.json";

struct Recipe {
  /// A file that the compiler read. `digest` is the SHA-256 of the CRC-32 sums of its chunks of 1 MiB.
  struct File {
    std::string path;
    uint64_t bytes = 0;
    std::string digest;

    static Result<File> of(const std::string &path);
  };

  std::string model, mesh, mode;
  std::vector<std::string> arguments; // "--name" or "--name=value"
  std::vector<File> files;

  /// Whether `option` never belongs to the arguments: the recipe has a member of its own for it, it names an output, or
  /// it does not bear on the plan (--quiet, --help).
  static bool leavesOut(const std::string &option);
  std::string format() const;
  static Result<Recipe> parse(const std::string &text);
  /// Checks that every file is there and unchanged.
  Status checkFiles() const;
};

Result<Recipe> readRecipe(const std::string &plan);

/// The mesh for another number of ranks, with the axes of `mesh`. One axis takes another size and all others keep
/// theirs: it is the first one whose other axes' product divides `ranks`. If there is none, the first axis takes all
/// ranks. A mesh that is a plain number becomes the number `ranks`. Stages are two or more: another axis is changed
/// where one would be left, and where there is none, the axis is left out.
std::string meshFor(const std::string &mesh, int ranks);
/// The recipe's arguments for a mesh of meshFor(): without stages there is no schedule of them.
std::vector<std::string> argumentsFor(const Recipe &recipe, const std::string &mesh);

} // namespace tessera::rt

#endif
