// --recompute auto, on programs of which everything is known.
#include "compiler/driver/fit/FitMemory.h"

#include "catch2/catch.hpp"

using namespace tessera;

namespace {

std::vector<bool> inAnyMemory; // of the programs that are no better, which come first
size_t tries = 0;

llvm::Expected<FittedProgram> fit(Compilation &, mlir::ModuleOp, const strategies::AssignOptions &,
                                  std::optional<FittedProgram>) {
  if (tries++ < inAnyMemory.size())
    return llvm::make_error<NoBetter>(bool(inAnyMemory[tries - 1]));
  FittedProgram fitted;
  fitted.report.functions.emplace_back();
  return fitted;
}

/// What is computed again in the program that is taken, or the error.
std::string choose(std::vector<bool> noBetter) {
  inAnyMemory = std::move(noBetter);
  tries = 0;
  CompileOptions options;
  options.recompute = "auto";
  const Progress quiet = [](const std::string &) {};
  Compilation run(options, quiet);
  const auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(mlir::UnknownLoc::get(&run.context)));
  llvm::Expected<FittedProgram> fitted = fitWithRecompute(run, *module, run.assign, fit);
  return fitted ? fitted->recompute : llvm::toString(fitted.takeError());
}

} // namespace

TEST_CASE("a program that is too slow in little memory may be faster where something is computed again") {
  CHECK(choose({false}) == "cheap");
  CHECK(tries == 2);
}

TEST_CASE("a program that is too slow in any memory is no faster where something is computed again") {
  CHECK(choose({true}) == "takes no less than the best");
  CHECK(tries == 1);
  CHECK(choose({false, true}) == "takes no less than the best");
  CHECK(tries == 2);
}
