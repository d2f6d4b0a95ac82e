// The lines that tessera-compile prints at the end.
#include "compiler/driver/Driver.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"

#include "llvm/Support/FormatVariadic.h"

namespace tessera {

std::string summary(const CompileOptions &options, const CompileResult &result) {
  using llvm::formatv;
  std::string out;
  auto ms = [](strategies::Cost ns) { return formatv("{0:F3} ms", double(ns) / 1e6).str(); };
  int64_t ranks = result.mesh.numRanks();
  out += formatv("mesh         {0}, {1} rank{2}, mode {3}, topology {4}\n",
                 result.report.mesh.empty() ? "1" : result.report.mesh, ranks, ranks == 1 ? "" : "s",
                 result.report.mode, rt::printable(result.report.topology));
  for (const strategies::MeshCandidate &m : result.meshes)
    out += formatv("             {0,-14} {1}\n", m.mesh.str(),
                   m.error.empty() ? "predicted " + ms(m.predicted) + ", of it communication " + ms(m.communication)
                                   : rt::printable(m.error));
  for (const strategies::FunctionReport &f : result.report.functions) {
    out += formatv("{0,-13}{1} operators; predicted {2} = compute {3} + communication {4}\n", f.name,
                   f.operators.size(), ms(f.total()), ms(f.compute), ms(f.communication));
    out += formatv("             {0} collectives, {1}{2} sent per rank\n", f.numCollectives,
                   f.numMessages < f.numCollectives ? formatv("{0} messages, ", f.numMessages).str() : "",
                   bytesText(double(f.bytesSent)));
    if (!f.search.searcher.empty())
      out += formatv("             search: {0} nodes, {1} options, {2} edges, {3:F2} s + {4:F2} s "
                     "({5}); {6}{7}\n",
                     f.search.nodes, f.search.options, f.search.edges, f.search.buildSeconds, f.search.solveSeconds,
                     f.search.searcher,
                     f.search.optimal ? std::string("optimal, gap 0 %")
                                      : formatv("gap {0:F2} %", 100 * f.search.gap()).str(),
                     f.search.stopped ? ", interrupted" : "");
  }
  const std::string recompute = result.recompute == "none" ? "" : "recompute    " + result.recompute + "\n";
  if (options.output.empty()) {
    if (!result.report.functions.empty())
      out += formatv("memory       about {0} per rank of {1}: parameters and states {2}\n",
                     bytesText(result.report.functions.front().peakBytes), bytesText(result.report.memoryLimit),
                     bytesText(result.report.functions.front().persistentBytes));
    return out + recompute;
  }
  out += formatv("memory       {0} per rank of {1}: parameters {2}, states {3}, constants {4}, "
                 "activations {5}\n",
                 bytesText(double(result.memory.arenaBytes)), bytesText(result.report.memoryLimit),
                 bytesText(double(result.memory.parameterBytes)), bytesText(double(result.memory.stateBytes)),
                 bytesText(double(result.memory.constantBytes)), bytesText(double(result.memory.activationBytes)));
  return out + recompute + "plan         " + rt::printable(options.output) + "\n";
}

} // namespace tessera
