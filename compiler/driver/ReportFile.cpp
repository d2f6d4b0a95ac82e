// report.json, which tessera-dump reads besides the plan, and the same for other programs.
#include "compiler/driver/Phases.h"
#include "compiler/driver/WhatIfLines.h"

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

static Json toJson(const ComparedStages &stages) {
  Json list = Json::array();
  for (const StagesCandidate &one : stages.best) {
    Json row = {{"stages", one.stages}, {"micro_batches", one.microBatches}, {"mesh", one.mesh.str()}};
    if (!one.error.empty())
      row["error"] = one.error;
    else
      row.update(Json{{"schedule", one.schedule},
                      {"predicted_ns", one.predicted},
                      {"bubble", one.bubble},
                      {"bytes", one.bytes},
                      {"estimate", one.estimate}});
    list.push_back(std::move(row));
  }
  return {{"tried", stages.tried}, {"left_out", stages.leftOut}, {"best", std::move(list)}};
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

/// When each place is predicted to do what in its programs with micro-batches.
static Json toJson(llvm::ArrayRef<compiler::ProgramTimes> times) {
  Json places = Json::array();
  for (const compiler::ProgramTimes &program : times) {
    while (places.size() <= program.place)
      places.push_back({{"programs", Json::array()}});
    if (!program.calls.empty())
      places[program.place]["programs"].push_back(
          {{"name", program.program}, {"step_ns", program.steps}, {"call_ns", program.calls}});
  }
  return places;
}

static Json toJson(const compiler::PipelineReport &pipeline, const compiler::MemoryReport &memory,
                   llvm::ArrayRef<compiler::ProgramTimes> times) {
  Json stages = Json::array();
  for (auto [s, stage] : llvm::enumerate(pipeline.stages)) {
    stages.push_back({{"device", stage.device},
                      {"sections", stage.sections},
                      {"first", stage.first},
                      {"operators", stage.operators},
                      {"forward_ns", stage.forward},
                      {"input_ns", stage.input},
                      {"weight_ns", stage.weight},
                      {"once_ns", stage.once},
                      {"num_beside", stage.beside},
                      {"bytes_sent", stage.bytesSent},
                      {"held_bytes", stage.held},
                      {"kept_bytes", stage.kept}});
    if (!stage.mesh.empty())
      stages.back()["mesh"] = stage.mesh;
    if (size_t(stage.device) < memory.stageBytes.size())
      stages.back()["arena_bytes"] = memory.stageBytes[size_t(stage.device)];
  }
  return {{"schedule", pipeline.schedule},      {"micro_batches", pipeline.microBatches},
          {"predicted_ns", pipeline.predicted}, {"bubble", pipeline.bubble},
          {"least_ns", pipeline.least},         {"transfers_ns", pipeline.transfers},
          {"stages", std::move(stages)},        {"places", toJson(times)}};
}

static Json toJson(const compiler::TensorRole &role, bool train) {
  return {{"name", role.name},
          {"role", train || role.role != "trained" ? role.role : "parameter"},
          {"type", compiler::dtypeName(role.type).str()},
          {"shape", std::vector<int64_t>(role.shape.begin(), role.shape.end())},
          {"reason", role.reason},
          {"guess", role.guess}};
}

static Json toJson(const WhatIf &whatIf, llvm::ArrayRef<ClusterPrediction> lines) {
  Json rows = Json::array();
  for (const ClusterPrediction &c : lines) {
    Json row = Json::object();
    if (c.size > 0)
      row["size"] = c.size;
    else if (c.limit > 0)
      row["limit"] = c.limit;
    else
      row["nodes"] = c.nodes;
    row["ranks"] = c.ranks;
    row["mesh"] = c.mesh;
    if (!c.error.empty()) {
      row["error"] = c.error;
    } else {
      row.update(Json{{"predicted_ns", c.predicted},
                      {"communication_ns", c.communication},
                      {"memory_bytes", c.memory},
                      {"fits", c.fits},
                      {"recompute", c.recompute}});
      if (c.microBatches > 0)
        row["micro_batches"] = c.microBatches;
      if (std::optional<double> share = efficiency(whatIf, reference(lines), c))
        row["efficiency"] = *share;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

static Json toJson(const WhatIf &whatIf, const WhatIfTables &tables) {
  return {{"grows", whatIf.grows},
          {"clusters", toJson(whatIf, tables.clusters)},
          {"dim", whatIf.dim},
          {"sizes", toJson(whatIf, tables.sizes)},
          {"limits", toJson(whatIf, tables.limits)}};
}

static Json toJson(llvm::ArrayRef<compiler::TensorRole> roles, bool train) {
  Json list = Json::array();
  for (const compiler::TensorRole &role : roles)
    list.push_back(toJson(role, train));
  return list;
}

static std::string textOf(const Json &json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string whatIfJson(const WhatIf &whatIf, const WhatIfTables &tables) { return textOf(toJson(whatIf, tables)); }

std::string rolesJson(llvm::ArrayRef<compiler::TensorRole> roles, bool train) { return textOf(toJson(roles, train)); }

std::string resultJson(const CompileOptions &options, const CompileResult &result) {
  const compiler::EmitOptions emit = emitOptions(options);
  Json report = strategies::toJson(result.report);
  report["model"] = emit.model;
  report["producer"] = emit.producer;
  report["recompute"] = result.recompute;
  if (options.leaves > 0)
    report["leaves"] = options.leaves;
  if (!options.training.compress.empty())
    report["compress"] = options.training.compress;
  if (!result.meshes.empty())
    for (const strategies::MeshCandidate &candidate : result.meshes)
      report["meshes"].push_back(toJson(candidate));
  if (!result.stages.best.empty())
    report["stages"] = toJson(result.stages);
  if (result.memory.arenaBytes > 0 || !options.output.empty())
    report["memory"] = toJson(result.memory);
  if (result.pipeline)
    report["pipeline"] = toJson(*result.pipeline, result.memory, result.times);
  else
    for (Json &function : report["functions"])
      for (const compiler::ProgramTimes &times : result.times)
        if (function["name"] == times.program)
          function["step_ns"] = times.steps;
  if (!result.roles.empty())
    report["parameters"] = toJson(result.roles, options.train);
  if (options.whatIf)
    report["what_if"] = toJson(*options.whatIf, result.whatIf);
  if (!result.warnings.empty())
    report["warnings"] = result.warnings;
  return textOf(report);
}

} // namespace tessera
