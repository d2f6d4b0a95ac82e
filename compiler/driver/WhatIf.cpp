// --what-if: the same program on clusters of other sizes.
#include "compiler/driver/FitMemory.h"
#include "compiler/driver/Phases.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

/// Changes the options to a cluster of `nodes` machines.
static llvm::Error enlarge(AssignOptions &assign, int64_t nodes) {
  if (llvm::Error e = assign.topology.withNodes(nodes).moveInto(assign.topology))
    return e;
  if (nodes > 1) {
    if (assign.mesh.findAxis("node") >= 0)
      return llvm::createStringError("--what-if adds an axis 'node' to the mesh, but %s has one: rename it",
                                     assign.mesh.str().c_str());
    if (llvm::Error e =
            dist::Mesh::parse("node=" + std::to_string(nodes) + "," + assign.mesh.str()).moveInto(assign.mesh))
      return e;
  }
  return assign.topology.fits(assign.mesh);
}

static void setCosts(ClusterPrediction &cluster, const strategies::AssignReport &report) {
  cluster.predicted = report.functions.front().total();
  cluster.communication = report.functions.front().communication;
}

/// Predicts the program that fits, with the recomputation of --recompute. If none fits, `cluster.error` says so.
static llvm::Error predictFitted(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                 ClusterPrediction &cluster) {
  llvm::Expected<FittedProgram> fitted = fitWithRecompute(run, module, assign, fitMemory);
  if (!fitted) {
    cluster.error = llvm::toString(fitted.takeError());
    return llvm::Error::success();
  }
  setCosts(cluster, fitted->report);
  cluster.memory = int64_t(fitted->memory.arenaBytes);
  cluster.recompute = fitted->recompute;
  cluster.fits = true;
  return llvm::Error::success();
}

/// Predicts the program that the mode chooses, whether it fits or not.
static llvm::Error predictChosen(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                 ClusterPrediction &cluster) {
  OwningOpRef<ModuleOp> local(module.clone());
  strategies::AssignReport report;
  if (llvm::Error e = annotate(run, *local, assign, report)) {
    cluster.error = llvm::toString(std::move(e));
    return llvm::Error::success();
  }
  if (report.functions.empty())
    return llvm::createStringError("the model has no function");
  setCosts(cluster, report);
  const strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  if (llvm::Error e = reshard(run, *local))
    return e;
  if (llvm::Error e = localize(run, *local, model, run.options.fuse, strategies::joinOf(assign)))
    return e;
  llvm::Expected<compiler::MemoryReport> memory = compiler::planMemory(*local, emitOptions(run));
  if (!memory)
    return memory.takeError();
  cluster.memory = int64_t(memory->arenaBytes);
  cluster.fits = cluster.memory <= report.memoryLimit;
  return llvm::Error::success();
}

/// Predicts one cluster. `model` is in phase 2.
static llvm::Expected<ClusterPrediction> predict(Compilation &run, ModuleOp model, int64_t nodes) {
  ClusterPrediction cluster;
  AssignOptions assign = run.assign;
  if (llvm::Error e = enlarge(assign, nodes))
    return e;
  cluster.ranks = assign.mesh.numRanks();
  cluster.nodes = nodes;
  cluster.mesh = assign.mesh.str();
  const bool fit = run.options.recompute != "none";
  if (llvm::Error e = fit ? predictFitted(run, model, assign, cluster) : predictChosen(run, model, assign, cluster))
    return e;
  run.finished(std::to_string(nodes) + (nodes == 1 ? " node" : " nodes"));
  return cluster;
}

llvm::Expected<std::vector<ClusterPrediction>> predictClusters(const CompileOptions &options, const WhatIf &whatIf,
                                                               const Progress &progress) {
  if (!whatIf.grows.empty() && !options.import.dims.count(whatIf.grows))
    return llvm::createStringError("--what-if grow=%s: --dim %s=N must say how large it is on one machine",
                                   whatIf.grows.c_str(), whatIf.grows.c_str());
  std::vector<ClusterPrediction> list;
  // A program of another size is another program.
  for (size_t i = 0; i < whatIf.nodes.size();) {
    CompileOptions sized = options;
    if (!whatIf.grows.empty())
      if (int64_t &size = sized.import.dims[whatIf.grows]; llvm::MulOverflow(size, whatIf.nodes[i], size))
        return llvm::createStringError("--what-if: %s of %lld machines is too large", whatIf.grows.c_str(),
                                       (long long)whatIf.nodes[i]);
    Compilation run(sized, progress);
    if (llvm::Error e = run.read("--what-if"))
      return e;
    llvm::Expected<compiler::ImportedModel> model = preparedModel(run);
    if (!model)
      return model.takeError();
    do {
      llvm::Expected<ClusterPrediction> cluster = predict(run, *model->module, whatIf.nodes[i++]);
      if (!cluster)
        return cluster.takeError();
      list.push_back(std::move(*cluster));
    } while (whatIf.grows.empty() && i < whatIf.nodes.size());
  }
  return list;
}

std::optional<double> efficiency(const WhatIf &whatIf, const ClusterPrediction &first,
                                 const ClusterPrediction &cluster) {
  if (!first.error.empty() || !cluster.error.empty() || cluster.predicted <= 0)
    return std::nullopt;
  const double scale = whatIf.grows.empty() ? double(first.nodes) / double(cluster.nodes) : 1;
  return scale * double(first.predicted) / double(cluster.predicted);
}

std::string table(const WhatIf &whatIf, llvm::ArrayRef<ClusterPrediction> clusters) {
  const bool weak = !whatIf.grows.empty();
  std::string out = weak ? rt::printable(whatIf.grows) + " grows with the machines (weak scaling)\n"
                         : "the same batch on every cluster (strong scaling)\n";
  out += "nodes  ranks  step         communication  efficiency  memory per rank\n";
  for (const ClusterPrediction &c : clusters) {
    if (!c.error.empty()) {
      out += llvm::formatv("{0,5}  {1,5}  {2}\n", c.nodes, c.ranks, rt::printable(c.error));
      continue;
    }
    auto ms = [](strategies::Cost ns) { return llvm::formatv("{0:F3} ms", double(ns) / 1e6).str(); };
    const std::optional<double> share = efficiency(whatIf, clusters.front(), c);
    out += llvm::formatv("{0,5}  {1,5}  {2,-11}  {3,-13}  {4,-10}  {5}{6}\n", c.nodes, c.ranks, ms(c.predicted),
                         ms(c.communication), share ? llvm::formatv("{0:F1} %", 100 * *share).str() : "-",
                         bytesText(c.memory),
                         c.fits ? c.recompute == "none" ? "" : "  recompute " + c.recompute : " (does not fit)");
  }
  return out;
}

} // namespace tessera
