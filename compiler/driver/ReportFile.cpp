#include "compiler/driver/ReportFile.h"

#include <nlohmann/json.hpp>

namespace tessera {

using Json = nlohmann::ordered_json;

static Json toJson(const strategies::MeshCandidate &candidate) {
  if (!candidate.error.empty())
    return {{"mesh", candidate.mesh.str()}, {"error", candidate.error}};
  return {{"mesh", candidate.mesh.str()},
          {"predicted_ns", candidate.predicted},
          {"communication_ns", candidate.communication},
          {"peak_bytes_estimate", candidate.peakBytes}};
}

static Json toJson(const compiler::MemoryReport &memory) {
  Json peak = Json::array();
  for (const compiler::MemoryReport::Item &item : memory.atPeak)
    peak.push_back({{"name", item.name}, {"kind", item.kind}, {"bytes", item.bytes}});
  return {{"arena_bytes", memory.arenaBytes},
          {"parameter_bytes", memory.parameterBytes},
          {"state_bytes", memory.stateBytes},
          {"constant_bytes", memory.constantBytes},
          {"activation_bytes", memory.activationBytes},
          {"peak_program", memory.peakProgram},
          {"peak_step", memory.peakStep},
          {"at_peak", std::move(peak)}};
}

static Json toJson(const compiler::TensorRole &role, bool train) {
  return {{"name", role.name},
          {"role", train || role.role != "trained" ? role.role : "parameter"},
          {"type", compiler::dtypeName(role.type).str()},
          {"shape", std::vector<int64_t>(role.shape.begin(), role.shape.end())},
          {"reason", role.reason},
          {"guess", role.guess}};
}

static Json toJson(const WhatIf &whatIf, llvm::ArrayRef<ClusterPrediction> clusters) {
  Json rows = Json::array();
  for (const ClusterPrediction &c : clusters) {
    Json row = {{"nodes", c.nodes}, {"ranks", c.ranks}, {"mesh", c.mesh}};
    if (!c.error.empty()) {
      row["error"] = c.error;
    } else {
      row.update(Json{{"predicted_ns", c.predicted},
                      {"communication_ns", c.communication},
                      {"memory_bytes", c.memory},
                      {"fits", c.fits},
                      {"recompute", c.recompute}});
      if (std::optional<double> share = efficiency(whatIf, clusters.front(), c))
        row["efficiency"] = *share;
    }
    rows.push_back(std::move(row));
  }
  return {{"grows", whatIf.grows}, {"clusters", std::move(rows)}};
}

std::string reportText(const CompileOptions &options, const CompileResult &result, const compiler::EmitOptions &emit) {
  Json report = strategies::toJson(result.report);
  report["model"] = emit.model;
  report["producer"] = emit.producer;
  report["recompute"] = result.recompute;
  if (!result.meshes.empty())
    for (const strategies::MeshCandidate &candidate : result.meshes)
      report["meshes"].push_back(toJson(candidate));
  report["memory"] = toJson(result.memory);
  for (const compiler::TensorRole &role : result.roles)
    report["parameters"].push_back(toJson(role, options.train));
  if (options.whatIf)
    report["what_if"] = toJson(*options.whatIf, result.clusters);
  if (!result.warnings.empty())
    report["warnings"] = result.warnings;
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tessera
