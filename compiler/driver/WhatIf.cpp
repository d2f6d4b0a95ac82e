// --what-if: the same program on clusters of other sizes, with another batch, or with another limit of memory.
#include "compiler/driver/ChooseProgram.h"
#include "compiler/driver/Phases.h"
#include "compiler/driver/WhatIfLines.h"
#include "compiler/driver/stages/OwnMeshes.h"

#include "dialects/dist/DistOps.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <set>

using namespace mlir;

namespace tessera {

/// The mesh on so many machines: it gets an axis, behind that of the stages, which is always the first.
static llvm::Expected<dist::Mesh> withNodes(const dist::Mesh &mesh, int64_t nodes) {
  if (mesh.findAxis("node") >= 0)
    return llvm::createStringError("--what-if adds an axis 'node' to the mesh, but %s has one: rename it",
                                   mesh.str().c_str());
  llvm::SmallVector<dist::MeshAxis, 4> axes(mesh.axes());
  axes.insert(axes.begin() + (mesh.findAxis(dist::kStageAxis) == 0), dist::MeshAxis{"node", nodes});
  return dist::Mesh(axes);
}

/// Changes the options to a cluster of `nodes` machines. Where stages or the mesh are chosen, it is their ranks that
/// become more; else the mesh, or that of each stage, gets an axis.
static llvm::Error enlarge(Compilation &run, int64_t nodes) {
  strategies::AssignOptions &assign = run.assign;
  if (llvm::Error e = assign.topology.withNodes(nodes).moveInto(assign.topology))
    return e;
  if (nodes > 1) {
    if (run.options.assign.memory.empty())
      assign.memoryLimit = 0; // that of so many ranks
    compiler::PipelineOptions pipelined;
    if (run.pipeline)
      pipelined = run.pipeline->options;
    if (!run.ownMeshes.empty()) {
      std::vector<dist::Mesh> meshes;
      for (const dist::Mesh &mesh : run.ownMeshes)
        if (llvm::Error e = withNodes(mesh, nodes).moveInto(meshes.emplace_back()))
          return e;
      return run.setOwnMeshes(std::move(meshes), std::move(pipelined));
    }
    const dist::Mesh &before = run.pipeline ? run.pipeline->mesh : assign.mesh;
    llvm::Expected<dist::Mesh> mesh = run.chooseMesh || run.chooseStages
                                          ? dist::Mesh::parse(std::to_string(before.numRanks() * nodes))
                                          : withNodes(before, nodes);
    if (!mesh)
      return mesh.takeError();
    if (llvm::Error e = run.setMesh(std::move(*mesh), std::move(pipelined)))
      return e;
  }
  return run.pipeline ? llvm::Error::success() : assign.topology.fits(assign.mesh);
}

/// The program that the mode chooses, whether it fits or not. There are no stages.
static llvm::Expected<FittedProgram> chosenProgram(Compilation &run, ModuleOp module,
                                                   const strategies::AssignOptions &assign,
                                                   std::optional<FittedProgram>) {
  FittedProgram chosen;
  chosen.local = module.clone();
  if (llvm::Error e = annotate(run, *chosen.local, assign, chosen.report))
    return e;
  if (!chosen.report.step())
    return llvm::createStringError("the model has no function");
  if (llvm::Error e = reshard(run, *chosen.local))
    return e;
  if (llvm::Error e = localize(run, *chosen.local, strategies::pricesOf(assign)->model, run.options.fuse,
                               strategies::joinOf(assign)))
    return e;
  if (llvm::Error e = compiler::planMemory(*chosen.local, emitOptions(run.options)).moveInto(chosen.memory))
    return e;
  return chosen;
}

namespace {

/// A line that has no prediction says why.
struct Line {
  ClusterPrediction prediction;
  bool isAnswer = true; // false: the question has none, whatever the memory
};

/// Predicts lines. What the importer warns of is said once.
class Predictor {
public:
  explicit Predictor(const Progress &progress)
      : progress_([this, &progress](const std::string &line) {
          if (!llvm::StringRef(line).starts_with("warning: ") || said_.insert(line).second)
            progress(line);
        }) {}

  /// What a compile with these options would choose, on `line.nodes` machines and under `line.limit`.
  Line predict(CompileOptions options, ClusterPrediction line, const std::string &what) const {
    options.dumpPhases.clear(); // they are of the plan that is compiled
    options.assign.dumpGraph.clear();
    Compilation run(options, progress_);
    if (llvm::Error e = predict(run, line)) {
      const bool isAnswer = e.isA<DoesNotFit>();
      line.error = llvm::toString(std::move(e));
      return {std::move(line), isAnswer};
    }
    run.finished(what);
    return {std::move(line), true};
  }

private:
  static llvm::Error predict(Compilation &run, ClusterPrediction &line) {
    if (llvm::Error e = run.read("--what-if"))
      return e;
    if (line.limit > 0)
      run.assign.memoryLimit = line.limit;
    const auto asked = [&] { return run.pipeline ? run.pipeline->mesh : run.assign.mesh; };
    const auto text = [&](const dist::Mesh &mesh) {
      return run.ownMeshes.empty() ? mesh.str() : textOf(run.ownMeshes);
    };
    line.ranks = asked().numRanks() * line.nodes;
    if (llvm::Error e = enlarge(run, line.nodes))
      return e;
    line.mesh = text(asked());
    run.hurry(run.assign);
    // A limit is kept: strategies are searched again until the program fits. Stages are cut until they do.
    const bool fit = run.options.recompute != "none" || line.limit > 0 || run.pipeline;
    compiler::ImportedModel model;
    CompileResult result;
    llvm::Expected<FittedProgram> fitted =
        chooseProgram(run, /*explain=*/false, fit ? fitMemory : chosenProgram, model, result);
    if (!fitted)
      return fitted.takeError();
    const strategies::FunctionReport &function = *result.report.step();
    line.mesh = text(result.mesh);
    line.choseMesh = run.chooseMesh || run.chooseStages;
    if (run.chooseStages && result.pipeline)
      line.microBatches = result.pipeline->microBatches;
    line.predicted = function.predicted();
    line.communication = function.exposed();
    line.memory = int64_t(result.memory.arenaBytes);
    line.recompute = result.recompute;
    line.fits = line.memory <= result.report.memoryLimit;
    return llvm::Error::success();
  }

  std::set<std::string> said_;
  Progress progress_;
};

/// A table of lines. If none has a prediction, nor could have one with more memory, the question is wrong.
class Table {
public:
  void add(Line line) {
    any_ |= line.isAnswer;
    lines_.push_back(std::move(line.prediction));
  }
  llvm::Error moveInto(std::vector<ClusterPrediction> &lines) {
    if (!any_ && !lines_.empty())
      return llvm::createStringError(lines_.front().error);
    lines = std::move(lines_);
    return llvm::Error::success();
  }

private:
  std::vector<ClusterPrediction> lines_;
  bool any_ = false;
};

} // namespace

static llvm::Error predictClusters(const CompileOptions &options, const WhatIf &whatIf, const Predictor &predictor,
                                   std::vector<ClusterPrediction> &list) {
  if (!whatIf.grows.empty() && !options.import.dims.count(whatIf.grows))
    return llvm::createStringError("--what-if grow=%s: --dim %s=N must say how large it is on one machine",
                                   whatIf.grows.c_str(), whatIf.grows.c_str());
  Table table;
  for (int64_t nodes : whatIf.nodes) {
    CompileOptions sized = options;
    if (!whatIf.grows.empty())
      if (int64_t &size = sized.import.dims[whatIf.grows]; llvm::MulOverflow(size, nodes, size))
        return llvm::createStringError("--what-if: %s of %lld machines is too large", whatIf.grows.c_str(),
                                       (long long)nodes);
    ClusterPrediction line;
    line.nodes = nodes;
    table.add(predictor.predict(sized, line, std::to_string(nodes) + (nodes == 1 ? " node" : " nodes")));
  }
  return table.moveInto(list);
}

static llvm::Error predictSizes(const CompileOptions &options, const WhatIf &whatIf, const Predictor &predictor,
                                std::vector<ClusterPrediction> &list) {
  Table table;
  for (int64_t size : whatIf.sizes) {
    CompileOptions sized = options;
    sized.import.dims[whatIf.dim] = size;
    ClusterPrediction line;
    line.size = size;
    table.add(predictor.predict(sized, line, rt::printable(whatIf.dim) + " " + std::to_string(size)));
  }
  return table.moveInto(list);
}

static llvm::Error predictLimits(const CompileOptions &options, const WhatIf &whatIf, const Predictor &predictor,
                                 std::vector<ClusterPrediction> &list) {
  Table table;
  for (int64_t limit : whatIf.limits) {
    ClusterPrediction line;
    line.limit = limit;
    table.add(predictor.predict(options, line, "limit " + bytesText(double(limit))));
  }
  return table.moveInto(list);
}

llvm::Expected<WhatIfTables> predictWhatIf(const CompileOptions &options, const WhatIf &whatIf,
                                           const Progress &progress) {
  WhatIfTables tables;
  const Predictor predictor(progress);
  if (llvm::Error e = predictClusters(options, whatIf, predictor, tables.clusters))
    return e;
  if (llvm::Error e = predictSizes(options, whatIf, predictor, tables.sizes))
    return e;
  if (llvm::Error e = predictLimits(options, whatIf, predictor, tables.limits))
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
    out += llvm::formatv("{0}  {1,-11}  {2,-13}  {3,-10}  {4}", lead(c), ms(c.predicted), ms(c.communication),
                         share ? llvm::formatv("{0:F1} %", 100 * *share).str() : "-", bytesText(double(c.memory)));
    out += !c.fits ? " (does not fit)" : c.recompute != "none" ? "  recompute " + c.recompute : "";
    out += c.choseMesh ? "  on " + c.mesh : "";
    out += c.microBatches > 0 ? " in " + std::to_string(c.microBatches) + " micro-batches" : "";
    out += "\n";
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
