//===- tessera-profile.cpp - measures this machine for the cost model ---------------------------------===//
//
//   tessera-compile model.onnx ... --dump-phases phases -o plan
//   tessera-profile phases/2-training.mlir --mesh data=2,model=2 -o machine.json
//   tessera-compile model.onnx ... --mesh data=2,model=2 --mode auto --profile machine.json -o plan
//
// Writes a profile file (strategies/cost/ProfileTable.h): the times of the kernels that the program could need under
// some strategy on the mesh, and of the collectives among its ranks. Without a program only collectives. Exit
// codes: 1 for a failure, 2 for a wrong command line.
//
//===----------------------------------------------------------------------------------------------===//
#include "tools/compile/Output.h"
#include "tools/profile/Measure.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/cost/Topology.h"

#include "mlir/Parser/Parser.h"

#include <CLI/CLI.hpp>

#include <cstdio>

using namespace tessera;

namespace {

struct CommandLine {
  std::string program, output, mesh, maxBytes = "16MiB", add;
  bool quiet = false;
  MeasureOptions measure;
};

llvm::Error run(CommandLine &c) {
  llvm::Expected<dist::Mesh> mesh = dist::Mesh::parse(c.mesh);
  if (!mesh)
    return mesh.takeError();
  constexpr int64_t kMaxRanks = 256;
  if (mesh->numRanks() > kMaxRanks)
    return llvm::createStringError("mesh %s: at most %lld ranks are measured on one machine",
                                   mesh->str().c_str(), (long long)kMaxRanks);
  c.measure.mesh = std::move(*mesh);
  llvm::Expected<int64_t> bytes = strategies::parseBytes(c.maxBytes);
  if (!bytes)
    return bytes.takeError();
  c.measure.maxBytes = *bytes;
  strategies::ProfileTable table;
  if (!c.add.empty()) {
    auto old = strategies::ProfileTable::load(c.add);
    if (!old)
      return old.takeError();
    table = std::move(*old);
  }
  auto progress = [&](const std::string &line) {
    if (!c.quiet)
      std::puts(line.c_str());
  };
  if (llvm::Error e = measureCollectives(c.measure, table, progress))
    return e;
  if (!c.program.empty()) {
    mlir::DialectRegistry registry;
    registry.insert<mlir::func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    mlir::MLIRContext context(registry);
    context.loadAllAvailableDialects();
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(c.program, mlir::ParserConfig(&context));
    if (!module)
      return llvm::createStringError("%s: not a program as --dump-phases writes it",
                                     c.program.c_str());
    if (llvm::Error e = measureKernels(*module, c.measure, table, progress))
      return e;
  }
  return writeFile(c.output, table.toJson());
}

} // namespace

int main(int argc, char **argv) {
  CommandLine c;
  CLI::App app("Measures kernels and collectives on this machine", "tessera-profile");
  app.set_version_flag("--version", "tessera-profile " TESSERA_VERSION);
  app.add_option("PROGRAM", c.program,
                 "2-training.mlir of tessera-compile --dump-phases: its kernels are measured");
  app.add_option("-o,--output", c.output, "Profile file to write")->required()->type_name("FILE");
  app.add_option("--mesh", c.mesh, "Ranks that run at once, as threads: data=2,model=2")
      ->required();
  app.add_option("--add-to", c.add, "Keep what this profile holds and measure the rest")
      ->type_name("FILE");
  app.add_option("--backend", c.measure.backend, "cpu or reference")->capture_default_str();
  app.add_option("--seconds", c.measure.seconds, "Time of one measurement")
      ->check(CLI::Range(1e-6, 60.0))
      ->capture_default_str();
  app.add_option("--max-bytes", c.maxBytes, "Largest buffer of a collective")
      ->capture_default_str();
  app.add_flag("-q,--quiet", c.quiet, "Print nothing but errors");
  app.footer(
      "Example:\n  tessera-profile phases/2-training.mlir --mesh data=2,model=2 -o machine.json");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (llvm::Error e = run(c)) {
    std::fprintf(stderr, "tessera-profile: error: %s\n", llvm::toString(std::move(e)).c_str());
    return 1;
  }
  return 0;
}
