// The lines that tessera-compile prints at the end.
#include "compiler/driver/Driver.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include "llvm/Support/FormatVariadic.h"

namespace tessera {

static std::string milliseconds(strategies::Cost ns) { return llvm::formatv("{0:F3} ms", double(ns) / 1e6).str(); }

/// The stages: where each begins, what it takes, and what it needs of a rank's memory.
static std::string pipelineText(const compiler::PipelineReport &pipeline, const compiler::MemoryReport &memory) {
  using llvm::formatv;
  const size_t devices = memory.stageBytes.size();
  const bool shared = devices > 0 && pipeline.stages.size() > devices; // several stages on one rank
  std::string out = formatv(
      "pipeline     {0} stages{6}, {1} micro-batch{2}, schedule {3}; predicted {4}, bubble {5:F1} %\n",
      pipeline.stages.size(), pipeline.microBatches, pipeline.microBatches == 1 ? "" : "es", pipeline.schedule,
      milliseconds(pipeline.predicted), 100 * pipeline.bubble, shared ? formatv(" on {0} places", devices).str() : "");
  if (pipeline.least > 0)
    out += formatv("             in any order of its memory at least {0}, gap to that bound {1:F2} %\n",
                   milliseconds(pipeline.least),
                   100 * double(pipeline.predicted - pipeline.least) / double(pipeline.predicted));
  for (auto [s, stage] : llvm::enumerate(pipeline.stages)) {
    out += formatv("             stage {0}{3} from {1}: {2} operators; ", s, rt::printable(stage.first),
                   stage.operators, s == size_t(stage.device) ? "" : formatv(" (place {0})", stage.device).str());
    if (stage.forward + stage.input + stage.weight > 0)
      out += formatv("forward {0}, input {1}, weight {2}, once {3}", milliseconds(stage.forward),
                     milliseconds(stage.input), milliseconds(stage.weight), milliseconds(stage.once));
    else
      out += milliseconds(stage.once);
    if (s < devices)
      out += "; memory " + bytesText(double(memory.stageBytes[s]));
    if (stage.beside > 0)
      out += formatv("; {0} message{1} beside kernels", stage.beside, stage.beside == 1 ? "" : "s");
    out += "\n";
  }
  return out;
}

/// The best for each number of stages.
static std::string stagesText(const ComparedStages &stages) {
  using llvm::formatv;
  std::string out;
  for (const StagesCandidate &one : stages.best) {
    const std::string what = (one.stages == 1 ? "no stages" : std::to_string(one.stages) + " stages") + ", " +
                             std::to_string(one.microBatches) + " micro-batch" + (one.microBatches == 1 ? "" : "es");
    out += formatv("             {0,-28} {1,-24} ", what, one.mesh.str());
    if (!one.error.empty()) {
      out += rt::printable(one.error) + "\n";
      continue;
    }
    out += (one.estimate ? "about " : "predicted ") + milliseconds(one.predicted);
    if (one.stages > 1)
      out += formatv(", schedule {0}, bubble {1:F1} %", one.schedule, 100 * one.bubble);
    out += "\n";
  }
  if (!stages.best.empty())
    out += formatv("             {0} combinations of stages, micro-batches and meshes were searched", stages.tried);
  if (!stages.leftOut.empty()) {
    out += "; kernels alone take too long in";
    for (auto [i, n] : llvm::enumerate(stages.leftOut))
      out += (i ? ", " : " ") + std::to_string(n);
    out += " stages";
  }
  return stages.best.empty() ? out : out + "\n";
}

/// Which axes of the mesh cut no sum, since they do not share so many leaves out evenly; a plan that is slower than it
/// has to be says why.
static std::string wholeSums(int64_t leaves, const dist::Mesh &mesh) {
  std::string axes;
  for (const dist::MeshAxis &axis : mesh.axes())
    if (axis.name != dist::kStageAxis && leaves % axis.size != 0) // stages share no sum
      axes += (axes.empty() ? "" : ", ") + axis.name + "=" + std::to_string(axis.size);
  return axes.empty() ? "" : "; none is cut by " + axes;
}

/// What --compress does to the program that trains.
static std::string compressedText(const CompileOptions &options, const CompileResult &result) {
  if (options.training.compress.empty())
    return "";
  llvm::Expected<dist::Wire> wire = dist::Wire::parse(options.training.compress);
  const strategies::FunctionReport *train = result.report.find("train");
  if (!wire || !train) {
    llvm::consumeError(wire.takeError());
    return "";
  }
  if (train->compressed.sums == 0)
    return "compressed   no sum of gradients: none takes less time in " + wire->name() + "\n";
  return llvm::formatv("compressed   {0} sum{1} of gradients in {2}: another function than on one device; {3} sent per "
                       "rank, not {4}\n",
                       train->compressed.sums, train->compressed.sums == 1 ? "" : "s", wire->name(),
                       bytesText(train->compressed.bytesSent), bytesText(train->compressed.wholeBytes));
}

std::string summary(const CompileOptions &options, const CompileResult &result) {
  using llvm::formatv;
  std::string out;
  int64_t ranks = result.mesh.numRanks();
  out += formatv("mesh         {0}, {1} rank{2}, mode {3}, topology {4}\n",
                 result.report.mesh.empty() ? "1" : result.report.mesh, ranks, ranks == 1 ? "" : "s",
                 result.report.mode, rt::printable(result.report.topology));
  if (options.leaves > 0)
    out += formatv("reproducible every sum in at most {0} leaves, added as one tree{1}\n", options.leaves,
                   wholeSums(options.leaves, result.mesh));
  out += compressedText(options, result);
  for (const strategies::MeshCandidate &m : result.meshes)
    out += formatv("             {0,-14} {1}\n", m.mesh.str(),
                   m.error.empty() ? "predicted " + milliseconds(m.predicted) + ", of it communication " +
                                         milliseconds(m.communication)
                                   : rt::printable(m.error));
  out += stagesText(result.stages);
  for (const strategies::FunctionReport &f : result.report.functions) {
    out += formatv("{0,-13}{1} operators; predicted {2} {3} compute {4} + communication {5}\n", f.name,
                   f.operators.size(), milliseconds(f.predicted()),
                   f.pipelined ? "by all stages, of"
                   : f.beside  ? "beside each other, of"
                               : "=",
                   milliseconds(f.compute), milliseconds(f.communication));
    out += formatv("             {0} collectives, {1}{2} sent per rank\n", f.numCollectives,
                   f.numMessages < f.numCollectives ? formatv("{0} messages, ", f.numMessages).str() : "",
                   bytesText(double(f.bytesSent)));
    if (f.beside)
      out += formatv("             {0} message{1} beside kernels; exposed communication {2}\n", f.beside->messages,
                     f.beside->messages == 1 ? "" : "s", milliseconds(f.exposed()));
    if (f.hasScheduleBound())
      out += formatv(
          "             in any order at least {0}, gap to that bound {1:F2} % (leaves out memory, and some starts of "
          "messages that could be joined)\n",
          milliseconds(f.leastTime), 100 * f.scheduleGap());
    if (!f.search.searcher.empty())
      out += formatv(
          "             search: {0} nodes, {1} options, {2} edges, {3:F2} s + {4:F2} s "
          "({5}); {6}{7}{8}\n",
          f.search.nodes, f.search.options, f.search.edges, f.search.buildSeconds, f.search.solveSeconds,
          f.search.searcher,
          f.search.optimal ? std::string("optimal, gap to the bound on the sum of costs 0 %")
                           : formatv("gap to the bound on the sum of costs {0:F2} %", 100 * f.search.gap()).str(),
          f.search.partly > 0
              ? formatv(", without a part of the strategies of {0} operators (more than three axes)", f.search.partly)
                    .str()
              : std::string(),
          f.search.stopped ? ", interrupted" : "");
    if (f.hasBesideBound())
      out +=
          formatv("             with all hidden that can be: at least {0}, gap to that bound {1:F2} % (leaves out the "
                  "order, memory, and starts of messages that could be joined)\n",
                  milliseconds(f.search.besideBound), 100 * f.besideGap());
  }
  if (result.pipeline)
    out += pipelineText(*result.pipeline, result.memory);
  const std::string recompute = result.recompute == "none" ? "" : "recompute    " + result.recompute + "\n";
  if (result.memory.arenaBytes == 0 && options.output.empty()) {
    if (const strategies::FunctionReport *step = result.report.step())
      out += formatv("memory       about {0} per rank of {1}: parameters and states {2}\n", bytesText(step->peakBytes),
                     bytesText(result.report.memoryLimit), bytesText(step->persistentBytes));
    return out + recompute;
  }
  out += formatv("memory       {0} per rank of {1}: parameters {2}, states {3}, constants {4}, "
                 "activations {5}\n",
                 bytesText(double(result.memory.arenaBytes)), bytesText(result.report.memoryLimit),
                 bytesText(double(result.memory.parameterBytes)), bytesText(double(result.memory.stateBytes)),
                 bytesText(double(result.memory.constantBytes)), bytesText(double(result.memory.activationBytes)));
  return out + recompute + (options.output.empty() ? "" : "plan         " + rt::printable(options.output) + "\n");
}

} // namespace tessera
