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
  if (!result.warnings.empty())
    report["warnings"] = result.warnings;
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tessera
