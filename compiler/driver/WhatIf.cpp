// --what-if: the same program on clusters of other sizes, with another batch, or with another limit of memory.
#include "compiler/driver/FitMemory.h"
#include "compiler/driver/Phases.h"
#include "compiler/driver/WhatIfLines.h"
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
  cluster.predicted = report.functions.front().predicted();
  cluster.communication = report.functions.front().exposed();
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
  if (llvm::Error e = reshard(run, *local))
    return e;
  if (llvm::Error e =
          localize(run, *local, strategies::pricesOf(assign)->model, run.options.fuse, strategies::joinOf(assign)))
    return e;
  llvm::Expected<compiler::MemoryReport> memory = compiler::planMemory(*local, emitOptions(run.options));
  if (!memory)
    return memory.takeError();
  cluster.memory = int64_t(memory->arenaBytes);
  cluster.fits = cluster.memory <= report.memoryLimit;
  return llvm::Error::success();
}

/// The model in phase 2.
static llvm::Expected<compiler::ImportedModel> modelOf(Compilation &run) {
  if (llvm::Error e = run.read("--what-if"))
    return e;
  return preparedModel(run);
}

/// Predicts one line of a table: `assign` says on which mesh and under which limit. `model` is in phase 2.
static llvm::Expected<ClusterPrediction> predict(Compilation &run, ModuleOp model, AssignOptions assign,
                                                 ClusterPrediction line, const std::string &what) {
  line.ranks = assign.mesh.numRanks();
  line.mesh = assign.mesh.str();
  run.begins("what if");
  run.hurry(assign);
  assign.prices = strategies::pricesOf(assign);
  // A limit is kept: strategies are searched again until the program fits.
  const bool fit = run.options.recompute != "none" || line.limit > 0;
  if (llvm::Error e = fit ? predictFitted(run, model, assign, line) : predictChosen(run, model, assign, line))
    return e;
  run.finished(what);
  return line;
}

static llvm::Error predictClusters(const CompileOptions &options, const WhatIf &whatIf, const Progress &progress,
                                   std::vector<ClusterPrediction> &list) {
  if (!whatIf.grows.empty() && !options.import.dims.count(whatIf.grows))
    return llvm::createStringError("--what-if grow=%s: --dim %s=N must say how large it is on one machine",
                                   whatIf.grows.c_str(), whatIf.grows.c_str());
  // A program of another size is another program.
  for (size_t i = 0; i < whatIf.nodes.size();) {
    CompileOptions sized = options;
    if (!whatIf.grows.empty())
      if (int64_t &size = sized.import.dims[whatIf.grows]; llvm::MulOverflow(size, whatIf.nodes[i], size))
        return llvm::createStringError("--what-if: %s of %lld machines is too large", whatIf.grows.c_str(),
                                       (long long)whatIf.nodes[i]);
    Compilation run(sized, progress);
    llvm::Expected<compiler::ImportedModel> model = modelOf(run);
    if (!model)
      return model.takeError();
    do {
      ClusterPrediction line;
      line.nodes = whatIf.nodes[i++];
      AssignOptions assign = run.assign;
      if (llvm::Error e = enlarge(assign, line.nodes))
        return e;
      const std::string what = std::to_string(line.nodes) + (line.nodes == 1 ? " node" : " nodes");
      llvm::Expected<ClusterPrediction> cluster = predict(run, *model->module, assign, line, what);
      if (!cluster)
        return cluster.takeError();
      list.push_back(std::move(*cluster));
    } while (whatIf.grows.empty() && i < whatIf.nodes.size());
  }
  return llvm::Error::success();
}

/// One line about a program with another size of the dimension.
static llvm::Expected<ClusterPrediction> predictSize(const CompileOptions &options, const WhatIf &whatIf, int64_t size,
                                                     const Progress &progress) {
  CompileOptions sized = options;
  sized.import.dims[whatIf.dim] = size;
  Compilation run(sized, progress);
  llvm::Expected<compiler::ImportedModel> model = modelOf(run);
  if (!model)
    return model.takeError();
  ClusterPrediction line;
  line.size = size;
  return predict(run, *model->module, run.assign, line, rt::printable(whatIf.dim) + " " + std::to_string(size));
}

/// A size that the program cannot have is a line with the reason. If no size works, the question is wrong.
static llvm::Error predictSizes(const CompileOptions &options, const WhatIf &whatIf, const Progress &progress,
                                std::vector<ClusterPrediction> &list) {
  bool any = whatIf.sizes.empty();
  for (int64_t size : whatIf.sizes) {
    llvm::Expected<ClusterPrediction> line = predictSize(options, whatIf, size, progress);
    if (!line) {
      ClusterPrediction failed;
      failed.size = size;
      failed.ranks = 0;
      failed.error = llvm::toString(line.takeError());
      list.push_back(std::move(failed));
      continue;
    }
    any = true;
    list.push_back(std::move(*line));
  }
  return any ? llvm::Error::success() : llvm::createStringError(list.front().error);
}

static llvm::Error predictLimits(const CompileOptions &options, const WhatIf &whatIf, const Progress &progress,
                                 std::vector<ClusterPrediction> &list) {
  if (whatIf.limits.empty())
    return llvm::Error::success();
  Compilation run(options, progress);
  llvm::Expected<compiler::ImportedModel> model = modelOf(run);
  if (!model)
    return model.takeError();
  for (int64_t limit : whatIf.limits) {
    ClusterPrediction line;
    line.limit = limit;
    AssignOptions assign = run.assign;
    assign.memoryLimit = limit;
    llvm::Expected<ClusterPrediction> found =
        predict(run, *model->module, assign, line, "limit " + bytesText(double(limit)));
    if (!found)
      return found.takeError();
    list.push_back(std::move(*found));
  }
  return llvm::Error::success();
}

llvm::Expected<WhatIfTables> predictWhatIf(const CompileOptions &options, const WhatIf &whatIf,
                                           const Progress &progress) {
  WhatIfTables tables;
  if (llvm::Error e = predictClusters(options, whatIf, progress, tables.clusters))
    return e;
  if (llvm::Error e = predictSizes(options, whatIf, progress, tables.sizes))
    return e;
  if (llvm::Error e = predictLimits(options, whatIf, progress, tables.limits))
    return e;
  return tables;
}

std::optional<double> efficiency(const WhatIf &whatIf, const ClusterPrediction &first,
                                 const ClusterPrediction &cluster) {
  if (!first.error.empty() || !cluster.error.empty() || cluster.predicted <= 0)
    return std::nullopt;
  const double scale = cluster.size > 0       ? double(cluster.size) / double(first.size)
                       : whatIf.grows.empty() ? double(first.nodes) / double(cluster.nodes)
                                              : 1;
  return scale * double(first.predicted) / double(cluster.predicted);
}

/// One table; `head` has the names of the first two columns, and `lead` writes them.
static std::string tableOf(const WhatIf &whatIf, llvm::ArrayRef<ClusterPrediction> lines, const std::string &head,
                           llvm::function_ref<std::string(const ClusterPrediction &)> lead) {
  std::string out = head + "  step         communication  efficiency  memory per rank\n";
  for (const ClusterPrediction &c : lines) {
    if (!c.error.empty()) {
      out += lead(c) + "  " + rt::printable(c.error) + "\n";
      continue;
    }
    auto ms = [](strategies::Cost ns) { return llvm::formatv("{0:F3} ms", double(ns) / 1e6).str(); };
    const std::optional<double> share = efficiency(whatIf, reference(lines), c);
    out += llvm::formatv("{0}  {1,-11}  {2,-13}  {3,-10}  {4}{5}\n", lead(c), ms(c.predicted), ms(c.communication),
                         share ? llvm::formatv("{0:F1} %", 100 * *share).str() : "-", bytesText(double(c.memory)),
                         c.fits ? c.recompute == "none" ? "" : "  recompute " + c.recompute : " (does not fit)");
  }
  return out;
}

std::string table(const WhatIf &whatIf, const WhatIfTables &tables) {
  std::string out;
  if (!tables.clusters.empty()) {
    out += !whatIf.grows.empty() ? rt::printable(whatIf.grows) + " grows with the machines (weak scaling)\n"
                                 : "the same batch on every cluster (strong scaling)\n";
    out += tableOf(whatIf, tables.clusters, "nodes  ranks",
                   [](const ClusterPrediction &c) { return llvm::formatv("{0,5}  {1,5}", c.nodes, c.ranks).str(); });
  }
  if (!tables.sizes.empty()) {
    const std::string name = rt::printable(whatIf.dim);
    const size_t width = std::max<size_t>(name.size(), 10);
    out += (out.empty() ? "" : "\n") + std::string("another ") + name + "; efficiency is the samples per second\n" +
           tableOf(whatIf, tables.sizes, std::string(width - name.size(), ' ') + name, [&](const ClusterPrediction &c) {
             const std::string size = std::to_string(c.size);
             return std::string(width - std::min(width, size.size()), ' ') + size;
           });
  }
  if (!tables.limits.empty())
    out += (out.empty() ? "" : "\n") + std::string("another limit of memory\n") +
           tableOf(whatIf, tables.limits, "     limit", [](const ClusterPrediction &c) {
             return llvm::formatv("{0,10}", bytesText(double(c.limit))).str();
           });
  return out;
}

} // namespace tessera
