//===- tessera-profile.cpp - measures this machine for the cost model ---------------------------------===//
//
//   tessera-compile model.onnx ... --dump-phases phases -o plan
//   tessera-profile phases/2-training.mlir --mesh data=2,model=2 -o machine.json
//   tessera-compile model.onnx ... --mesh data=2,model=2 --mode auto --profile machine.json -o plan
//
// Writes a profile file (strategies/cost/ProfileTable.h): the times of the kernels that the program could need under
// some strategy on the mesh, of loops by their bytes, of the collectives among its ranks, and by how much those delay
// kernels beside them. Without a program no kernels and no loops. Exit codes: 1 for a failure, 2 for a wrong command
// line.
//
//   tessera-profile --write-topology machine.json
//   tessera-profile --device cuda --write-topology machine.json
//
// writes the topology of this machine's cores as measured, or of its GPUs as nvidia-smi shows it, with measured copies.
//
//   tessera-profile --host
//
// keeps that of the cores for tessera-compile --topology host (tools/host/HostTopology.h).
//
//   tessera-profile --count plan/ --like 8xh100
//
// counts what a CUDA device would run of a plan: launches, bytes, operations, and what limits each kind of kernel.
//
//   torchrun --nnodes 4 --nproc_per_node 4 ... --no_python -- tessera-profile --network
//
// measures the links among machines as tessera-run --check does, without a plan. With -o and --mesh it writes a profile
// of the collectives among these ranks instead; --add-to keeps the kernels of another.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/driver/OutputDirectory.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/support/CommandFiles.h"
#include "runtime/support/ExitCodes.h"
#include "runtime/support/Printable.h"
#include "tools/BackendName.h"
#include "tools/NumberRange.h"
#include "tools/cli/CommandLine.h"
#include "tools/host/HostTopology.h"
#include "tools/profile/CountPlan.h"
#include "tools/profile/Measure.h"
#include "tools/profile/Network.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/cost/Topology.h"

#include "mlir/Parser/Parser.h"

#include <cstdio>

using namespace tessera;

namespace {

constexpr char kCountOn[] = "8xh100"; // the device of --count, unless told otherwise

struct CommandLine {
  std::string program, output, count, mesh, maxBytes = "16MiB", add, topology, like, device = "cpu";
  bool quiet = false, network = false, json = false, tf32 = false, host = false;
  int64_t largest = 0;
  MeasureOptions measure;
};

llvm::Error writeTopology(const CommandLine &c, const Progress &progress) {
  const bool cores = c.device == "cpu";
  llvm::Expected<strategies::Topology> machine = cores ? measureHost(c.measure, progress) : readMachine(c.like);
  if (!machine)
    return machine.takeError();
  if (!cores && c.measure.backend == "cuda") {
    llvm::Expected<DeviceRates> rates = measureDevice(c.measure.seconds, progress);
    if (!rates)
      return rates.takeError();
    machine->memoryBandwidth = rates->memoryBandwidth;
    machine->launch = rates->launch;
  }
  return writeFile(c.topology, machine->toJson());
}

/// Checks that no output replaces an input, another output, or what is no regular file. --add-to may name the output.
rt::Status checkFiles(const CommandLine &c) {
  rt::CommandFiles files;
  files.reads(c.program);
  files.reads(c.like);
  for (const std::string &file : rt::planFiles(c.count))
    files.reads(file);
  if (c.add != c.output)
    files.reads(c.add);
  files.writes("--output", c.output);
  files.writes("--write-topology", c.topology);
  return files.check();
}

/// Checks the command line without reading files, and parses its texts.
llvm::Error complete(CommandLine &c) {
  if (c.network && c.json && !c.output.empty())
    return llvm::createStringError("--json is for --network without -o, which writes a JSON file");
  if ((c.network && c.output.empty()) || !c.count.empty())
    return llvm::Error::success();
  if (c.host && c.device != "cpu")
    return llvm::createStringError("--host is for this machine's cores: leave out --device, or take --write-topology");
  if (c.json)
    return llvm::createStringError("--json is for --network and --count: the other outputs are JSON files");
  if (!c.like.empty() && c.topology.empty())
    return llvm::createStringError("--like is for --write-topology and --count");
  if (!c.like.empty() && c.device == "cpu")
    return llvm::createStringError(
        "--like is for GPUs: add --device cuda, or leave it out to measure this machine's cores");
  if (c.output.empty() && c.topology.empty() && !c.host)
    return llvm::createStringError(
        "give -o FILE and --mesh, --write-topology FILE, --host, --count PLAN, or --network");
  if (llvm::Error e = strategies::parseBytes(c.maxBytes).moveInto(c.measure.maxBytes))
    return e;
  if (c.output.empty())
    return llvm::Error::success();
  if (llvm::Error e = dist::Mesh::parse(c.mesh).moveInto(c.measure.mesh))
    return e;
  constexpr int64_t kMaxRanks = 256;
  if (c.measure.mesh.numRanks() > kMaxRanks)
    return llvm::createStringError("mesh '%s': at most %lld ranks are measured on one machine", c.mesh.c_str(),
                                   (long long)kMaxRanks);
  return llvm::Error::success();
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> readProgram(mlir::MLIRContext &context, const std::string &path) {
  std::string why;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    if (auto at = mlir::dyn_cast<mlir::FileLineColLoc>(d.getLocation()); why.empty() && at)
      why = ":" + std::to_string(at.getLine()) + ":" + std::to_string(at.getColumn()) + ": " + d.str();
    return mlir::success();
  });
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, mlir::ParserConfig(&context));
  if (!module)
    return llvm::createStringError(path + why + ": not a program as --dump-phases writes it");
  return module;
}

llvm::Error run(CommandLine &c) {
  if (rt::Status status = checkFiles(c); !status)
    return llvm::createStringError(status.message());
  auto progress = [&](const std::string &line) {
    if (!c.quiet)
      std::puts(rt::printable(line).c_str());
  };
  if (!c.count.empty()) {
    llvm::Expected<strategies::Topology> device = strategies::Topology::load(c.like.empty() ? kCountOn : c.like);
    if (!device)
      return device.takeError();
    llvm::Expected<std::string> text = countPlan(c.count, *device, c.tf32, c.json, c.largest);
    if (!text)
      return text.takeError();
    std::fputs(text->c_str(), stdout);
    const std::string unwritten = finishOutput();
    return unwritten.empty() ? llvm::Error::success() : llvm::createStringError(unwritten);
  }
  if (!c.topology.empty())
    if (llvm::Error e = writeTopology(c, progress))
      return e;
  if (c.host) {
    if (llvm::Error e = checkHostFolder())
      return e;
    llvm::Expected<strategies::Topology> machine = measureHost(c.measure, progress);
    if (!machine)
      return machine.takeError();
    if (llvm::Error e = keepHostTopology(std::move(*machine)))
      return e;
  }
  if (c.output.empty())
    return llvm::Error::success();
  strategies::ProfileTable table;
  if (!c.add.empty()) {
    auto old = strategies::ProfileTable::load(c.add);
    if (!old)
      return old.takeError();
    table = std::move(*old);
  }
  if (c.network) {
    bool isFirst = false;
    if (rt::Status status = measureNetwork(c.measure, table, progress, isFirst); !status)
      return llvm::createStringError(status.message());
    return isFirst ? writeFile(c.output, table.toJson()) : llvm::Error::success();
  }
  c.measure.ranksHere = int(c.measure.mesh.numRanks());
  if (llvm::Error e = measureCollectives(c.measure, table, progress))
    return e;
  if (llvm::Error e = measureBeside(c.measure, table, progress))
    return e;
  if (!c.program.empty()) {
    mlir::MLIRContext context(measuredDialects());
    context.loadAllAvailableDialects();
    auto module = readProgram(context, c.program);
    if (!module)
      return module.takeError();
    if (llvm::Error e = measureKernels(**module, c.measure, table, progress))
      return e;
    if (llvm::Error e = measureLoops(**module, c.measure, table, progress))
      return e;
  }
  return writeFile(c.output, table.toJson());
}

} // namespace

int main(int argc, char **argv) {
  CommandLine c;
  CLI::App app("Measures kernels and collectives on this machine", "tessera-profile");
  app.add_option("PROGRAM", c.program, "2-training.mlir of tessera-compile --dump-phases: its kernels are measured");
  auto *output = app.add_option("-o,--output", c.output, "Profile file to write")->type_name("FILE");
  auto *mesh = app.add_option("--mesh", c.mesh,
                              "Ranks that run at once, as threads or, with --network, as the launcher's "
                              "processes: data=2,model=2");
  output->needs(mesh);
  mesh->needs(output);
  auto *topology = app.add_option("--write-topology", c.topology,
                                  "Topology file to write: this machine's cores as measured, or with --device cuda "
                                  "its GPUs as nvidia-smi shows them")
                       ->type_name("FILE");
  auto *program = app.get_option("PROGRAM");
  auto *host = app.add_flag("--host", c.host,
                            "Measure this machine's cores for tessera-compile --topology host, again where they are, "
                            "and keep the figures in the cache folder")
                   ->excludes(output)
                   ->excludes(topology)
                   ->excludes(program);
  app.add_flag("--network", c.network,
               "Measure the links among the machines on which a launcher has started this program: as tessera-run "
               "--check, without a plan; with -o, collectives among those ranks into a profile")
      ->excludes(topology)
      ->excludes(host)
      ->excludes(program);
  auto *count = app.add_option("--count", c.count,
                               "Count what a CUDA device would run of this plan, by kind of kernel: launches, bytes, "
                               "operations, and the time on a device of --like. Needs no device")
                    ->type_name("PLAN")
                    ->excludes(output)
                    ->excludes(topology)
                    ->excludes(host)
                    ->excludes(program)
                    ->excludes("--network");
  app.add_flag("--tf32", c.tf32, "With --count: as tessera-run --tf32 would bind it")->needs(count);
  app.add_option("--largest", c.largest, "With --count: list the steps that take longest, so many of them")
      ->type_name("N")
      ->check(tessera::between(1, 1000000))
      ->needs(count);
  app.add_flag("--json", c.json, "With --network or --count: print one JSON object instead of a table");
  app.add_option("--like", c.like,
                 "Topology with the rates of a GPU that --write-topology does not know, or that --count shall take "
                 "(default 8xh100)");
  app.add_option("--device", c.device, "cpu or cuda: where kernels and collectives are measured")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--add-to", c.add, "Keep what this profile holds and measure the rest")->type_name("FILE");
  app.add_option("--backend", c.measure.backend, "cpu, cuda or reference (default: as --device says)")
      ->check(tessera::knownBackend());
  app.add_option("--seconds", c.measure.seconds, "Time of one measurement")
      ->check(tessera::between(1e-6, 60.0))
      ->capture_default_str();
  app.add_option("--max-bytes", c.maxBytes, "Largest buffer of a collective")->capture_default_str();
  app.add_flag("-q,--quiet", c.quiet, "Print nothing but errors");
  app.footer("Example:\n  tessera-profile phases/2-training.mlir --mesh data=2,model=2 -o machine.json");
  if (std::optional<int> exitCode = tessera::parseCommandLine(app, argc, argv))
    return *exitCode;
  if (app.count("--backend") == 0)
    c.measure.backend = c.device;
  auto fail = [](llvm::Error e, int code) {
    rt::yieldToInterrupt();
    rt::printError("tessera-profile: error: " + llvm::toString(std::move(e)));
    return code;
  };
  if (llvm::Error e = complete(c))
    return fail(std::move(e), rt::kExitUsage);
  rt::endOnInterrupt("tessera-profile");
  if (c.network && c.output.empty()) {
    const rt::Status found = checkNetwork(c.json);
    return found ? 0 : fail(llvm::createStringError(found.message()), rt::kExitError);
  }
  llvm::Error e = run(c);
  return e ? fail(std::move(e), rt::kExitError) : 0;
}
