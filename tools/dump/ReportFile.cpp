#include "tools/dump/ReportFile.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/Printable.h"
#include "tools/cli/ParameterTable.h"
#include "tools/dump/ReportFields.h"
#include "tools/dump/Screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

namespace tessera {

namespace {

constexpr size_t kRowsOnScreen = 30; // a network of more operators is folded

std::string shape(const Json &dims) {
  std::string s = "[";
  if (dims.is_array())
    for (size_t i = 0; i < dims.size(); ++i)
      s += (i ? ", " : "") + (dims[i].is_number() ? dims[i].dump() : "?");
  return s + "]";
}

std::string shapes(const Json &object, const char *field) {
  std::string s;
  for (const Json &dims : list(object, field))
    s += (s.empty() ? "" : ", ") + shape(dims);
  return s.empty() ? "-" : s;
}

std::string joined(const Json &object, const char *field) {
  std::string s;
  for (const Json &item : list(object, field))
    s += (s.empty() ? "" : ", ") + (item.is_string() ? rt::printable(item.get<std::string>()) : "?");
  return s.empty() ? "-" : s;
}

std::string us(double ns) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.1f us", ns / 1e3);
  return buffer;
}

std::string collectiveLine(const Json &c) {
  std::string axes = rt::printable(text(c, "axes"));
  return rt::printable(text(c, "kind")) + (axes.empty() ? "" : " over " + axes) + " at " +
         rt::printable(text(c, "where")) + ": " +
         shape(c.is_object() && c.contains("local_in") ? c["local_in"] : Json()) + " to " +
         shape(c.is_object() && c.contains("local_out") ? c["local_out"] : Json()) + ", " +
         bytesText(number(c, "bytes_sent")) + " sent, " + us(number(c, "cost_ns")) +
         (number(c, "least_bytes") > 0 ? "; the reshard sends at least " + bytesText(number(c, "least_bytes")) : "");
}

/// "all-reduce data x2, slice".
std::string collectiveSummary(const std::vector<const Json *> &ops) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const Json *op : ops)
    for (const Json &c : list(*op, "collectives")) {
      std::string axes = rt::printable(text(c, "axes"));
      std::string what = rt::printable(text(c, "kind")) + (axes.empty() ? "" : " " + axes);
      auto it = std::find_if(kinds.begin(), kinds.end(), [&](auto &k) { return k.first == what; });
      if (it == kinds.end())
        kinds.push_back({what, 1});
      else
        ++it->second;
    }
  std::string s;
  for (const auto &[what, n] : kinds)
    s += (s.empty() ? "" : ", ") + what + (n > 1 ? " x" + std::to_string(n) : "");
  return s;
}

/// Whether the operator is neither a gradient nor the update of a parameter.
bool ofModel(const Json &op) { return text(op, "gradient_of").empty() && text(op, "update_of").empty(); }

/// One line of the table: an operator, or an operator of the model file with the parts it was imported as
/// ("/bn1/BatchNormalization" and "/bn1/BatchNormalization/mean", ...).
struct Row {
  const Json *op = nullptr; // the operator with the name
  double compute = 0, communication = 0;
  std::vector<const Json *> parts;
};

std::vector<Row> rowsOf(const Json &function, bool all, size_t &hidden) {
  std::vector<Row> rows;
  std::map<std::string, size_t> byName;
  const Json &operators = list(function, "operators");
  auto add = [&](Row &row, const Json &op) {
    row.parts.push_back(&op);
    row.compute += number(op, "compute_ns");
    row.communication += number(op, "communication_ns");
  };
  std::set<std::string> names;
  for (const Json &op : operators)
    names.insert(text(op, "name"));
  for (const Json &op : operators) {
    std::string name = text(op, "name");
    if (!all && (!ofModel(op) || list(op, "operands").empty())) {
      ++hidden;
      continue;
    }
    // The root is the shortest name of which this one is a part.
    std::string root = name;
    for (size_t slash = name.find('/', 1); !all && slash != std::string::npos; slash = name.find('/', slash + 1))
      if (names.count(name.substr(0, slash))) {
        root = name.substr(0, slash);
        break;
      }
    auto [it, fresh] = byName.try_emplace(all ? name + "#" + std::to_string(rows.size()) : root, rows.size());
    if (fresh)
      rows.emplace_back();
    Row &row = rows[it->second];
    if (!row.op || name == root)
      row.op = &op;
    add(row, op);
  }
  return rows;
}

} // namespace

/// Extents in tessera-compile's form: "2x3x4".
static std::string extents(const Json &dims) {
  std::string s;
  for (const Json &extent : dims)
    s += (s.empty() ? "" : "x") + (extent.is_number() ? extent.dump() : "?");
  return s.empty() ? "scalar" : s;
}

static std::vector<ParameterRow> parameterRows(const Report &report) {
  std::vector<ParameterRow> rows;
  for (const Json &p : list(report.json, "parameters")) {
    const bool guess = p.is_object() && p.contains("guess") && p["guess"].is_boolean() && p["guess"].get<bool>();
    rows.push_back({rt::printable(text(p, "role")), rt::printable(text(p, "name")), rt::printable(text(p, "type")),
                    extents(list(p, "shape")), rt::printable(text(p, "reason")), guess});
  }
  return rows;
}

std::string parameterText(const Report &report) {
  if (!report.json.contains("parameters"))
    return "the report does not say what the model's tensors are: it was made by an older tessera-compile\n";
  std::string out = parameterTable(parameterRows(report));
  for (const Json &warning : list(report.json, "warnings"))
    out += "warning: " + (warning.is_string() ? rt::printable(warning.get<std::string>()) : "?") + "\n";
  return out;
}

/// What was compiled with --compress.
static std::string compressedText(const Json &report) {
  if (text(report, "compress").empty())
    return "";
  std::string sums = "no sum of gradients, since none takes less time so";
  for (const Json &f : list(report, "functions"))
    if (f.is_object() && f.contains("compressed")) {
      const Json &c = f["compressed"];
      sums = std::to_string(int64_t(number(c, "num_sums"))) +
             " sums of gradients, another function than on one device; " + bytesText(number(c, "bytes_sent")) +
             " sent per rank, not " + bytesText(number(c, "whole_bytes"));
    }
  return "compressed to " + rt::printable(text(report, "compress")) + ": " + sums + "\n";
}

std::string toText(const Report &report, bool all) {
  const Json &j = report.json;
  std::string out = "model " + rt::printable(text(j, "model")) + ", mesh " +
                    (text(j, "mesh").empty() ? "1" : rt::printable(text(j, "mesh"))) + ", mode " +
                    rt::printable(text(j, "mode")) + ", topology " + rt::printable(text(j, "topology")) + "\n";
  if (const double leaves = number(j, "leaves"); leaves > 0)
    out += "reproducible: every sum in at most " + std::to_string(int64_t(leaves)) + " leaves, added as one tree\n";
  out += compressedText(j);
  if (j.contains("pipeline")) {
    const Json &p = j["pipeline"];
    char bubble[40];
    std::snprintf(bubble, sizeof bubble, "%.1f %%", 100 * number(p, "bubble"));
    out += "pipeline: " + std::to_string(list(p, "stages").size()) + " stages, " +
           std::to_string(int64_t(number(p, "micro_batches"))) + " micro-batches, schedule " +
           rt::printable(text(p, "schedule")) + ", bubble " + bubble + " (--schedule)\n";
  }
  if (const std::vector<ParameterRow> rows = parameterRows(report); !rows.empty())
    out += "parameters: " + parameterCounts(rows) + " (--parameters)\n";
  for (const Json &f : list(j, "functions")) {
    double compute = number(f, "compute_ns"), communication = number(f, "communication_ns");
    const double predicted = predictedNs(f);
    out += "\n" + rt::printable(text(f, "name")) + ": predicted " + ms(predicted) + ofItsWork(j, f) + " compute " +
           ms(compute) + " + communication " + ms(communication) + "\n";
    if (f.is_object() && f.contains("beside"))
      out += "  " + std::to_string(int64_t(number(f["beside"], "num_messages"))) +
             " messages beside kernels; exposed communication " + ms(number(f["beside"], "exposed_ns")) + "\n";
    if (f.is_object() && f.contains("search")) {
      const Json &s = f["search"];
      char gap[40];
      std::snprintf(gap, sizeof gap, "%.2f %%", 100 * number(s, "gap"));
      out += "  search: " + std::to_string(int64_t(number(s, "nodes"))) + " nodes, cost " + ms(number(s, "cost_ns")) +
             ", lower bound on the sum of costs " + ms(number(s, "lower_bound_ns")) + ", gap to that bound " + gap +
             "\n";
      if (s.contains("beside")) {
        std::snprintf(gap, sizeof gap, "%.2f %%", 100 * number(s["beside"], "gap"));
        out += "  with all hidden that can be: at least " + ms(number(s["beside"], "lower_bound_ns")) +
               ", gap to that bound " + gap + "\n";
      }
    }
    // The other functions run the same network with the same strategies.
    if (!all && &f != &list(j, "functions")[0])
      continue;
    size_t width = 8, hidden = 0;
    std::vector<Row> rows = rowsOf(f, all, hidden);
    if (!all && rows.size() > kRowsOnScreen) {
      out += screenText(f, j);
      continue;
    }
    for (const Row &row : rows)
      width = std::max(width, std::min<size_t>(48, text(*row.op, "name").size()));
    out += "  " + padded("operator", width) + padded("kind", 13) + padded("strategy", 28) + padded("local result", 20) +
           padded("compute", 12) + "collectives\n";
    for (const Row &row : rows) {
      const Json &op = *row.op;
      std::string strategy = rt::printable(text(op, "strategy"));
      std::string moves = collectiveSummary(row.parts);
      out += "  " + padded(rt::printable(text(op, "name")), width) + padded(rt::printable(text(op, "kind")), 13) +
             padded(strategy.empty() ? "-" : strategy, 28) + padded(shapes(op, "local_results"), 20) +
             padded(us(row.compute), 12) + (moves.empty() ? "-" : moves + " (" + us(row.communication) + ")") + "\n";
    }
    if (hidden)
      out += "  and " + std::to_string(hidden) + " operators of gradients and updates (--all)\n";
  }
  return out;
}

/// Says which single change would make the alternative as cheap as the choice. `growing` is the part of the difference
/// that grows with the batch, `memory` how much more memory the alternative needs, `arena` the memory of the plan.
static std::string whatItTakes(double compute, double communication, double growing, double memory, double arena) {
  std::string ways;
  auto way = [&](const char *format, double factor) {
    char text[80];
    std::snprintf(text, sizeof text, format, factor);
    ways += (ways.empty() ? "" : ", or ") + std::string(text);
  };
  const double all = compute + communication, fixed = all - growing;
  if (all <= 0)
    return memory > 0 ? "would win with so much more memory" : "as good";
  if (communication > 0 && compute < 0)
    way("links %.3g times as fast", communication / -compute);
  if (communication < 0 && compute > 0)
    way("links %.3g times as slow", compute / -communication);
  if (growing < 0 && fixed > 0)
    way("a batch %.3g times as large", fixed / -growing);
  if (growing > 0 && fixed < 0)
    way("a batch %.3g times as small", growing / -fixed);
  if (memory < 0 && arena > 0)
    ways += (ways.empty() ? "" : ", or ") + std::string("a limit of memory between ") +
            bytesText(std::max(0.0, arena + memory)) + " and " + bytesText(arena);
  return ways.empty() ? "no speed of the links, batch or limit of memory makes it win" : "would win with " + ways;
}

static std::string alternativeLines(const Json &op, double arena) {
  std::string out;
  auto more = [](double ns) { return (ns < 0 ? "-" : "+") + us(std::abs(ns)); };
  for (const Json &a : list(op, "alternatives")) {
    double compute = number(a, "more_compute_ns"), moves = number(a, "more_communication_ns"),
           memory = number(a, "more_memory_bytes");
    std::string strategy = rt::printable(text(a, "strategy"));
    out += "    " + (strategy.empty() ? "nothing cut" : strategy) + ": " + more(compute + moves) + " = compute " +
           more(compute) + ", communication " + more(moves);
    if (memory != 0)
      out += ", memory " + std::string(memory < 0 ? "-" : "+") + bytesText(std::abs(memory));
    out += "; " + whatItTakes(compute, moves, number(a, "growing_with_batch_ns"), memory, arena) + "\n";
  }
  return out.empty() ? out : "  alternatives, the neighbours following\n" + out;
}

namespace {

/// An operator of one of the report's functions.
struct Found {
  const Json *function, *op;
};

/// The operators that an explanation of `name` is about.
rt::Result<std::vector<Found>> findOperators(const Report &report, const std::string &name) {
  std::vector<Found> found;
  std::vector<std::string> near;
  for (const Json &f : list(report.json, "functions"))
    for (const Json &op : list(f, "operators")) {
      const std::string own = text(op, "name");
      if (own == name || own.starts_with(name + ".") || own.starts_with(name + "/"))
        found.push_back({&f, &op});
      else if (near.size() < 5 && own.find(name) != std::string::npos)
        near.push_back(own);
    }
  if (!found.empty())
    return found;
  std::string hint;
  for (const std::string &n : near)
    hint += (hint.empty() ? "; there are " : ", ") + rt::quoted(n);
  return rt::Status::error("the plan has no operator " + rt::quoted(name) + hint);
}

/// "1 of 4, on data=2": with the mesh if each stage has its own.
std::string stageLine(const Json &report, double stage) {
  static const Json none = Json::object();
  const Json &stages = list(report.contains("pipeline") ? report["pipeline"] : none, "stages");
  std::string line = std::to_string(int64_t(stage)) + " of " + std::to_string(stages.size());
  if (stage >= 0 && stage < double(stages.size()))
    if (const std::string mesh = text(stages[size_t(stage)], "mesh"); !mesh.empty())
      line += ", on " + rt::printable(mesh);
  return line;
}

std::string dumped(const Json &json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

} // namespace

rt::Result<std::string> explainOperator(const Report &report, const std::string &name) {
  rt::Result<std::vector<Found>> found = findOperators(report, name);
  if (!found)
    return found.status();
  std::string out;
  const double arena = report.json.contains("memory") ? number(report.json["memory"], "arena_bytes") : 0;
  for (const auto &[function, described] : *found) {
    const Json &op = *described;
    out += rt::printable(text(op, "name")) + " (" + rt::printable(text(op, "kind")) + ") in " +
           rt::printable(text(*function, "name")) + "\n";
    if (op.contains("stage"))
      out += "  stage        " + stageLine(report.json, number(op, "stage")) + "\n";
    out += "  rule         " + rt::printable(text(op, "rule")) + "\n";
    std::string strategy = rt::printable(text(op, "strategy"));
    out += "  strategy     " + (strategy.empty() ? "nothing cut" : strategy) + "\n";
    out += "  operands     " + joined(op, "operands") + "\n";
    out += "  results      " + joined(op, "results") + "\n";
    out += "  global       " + shapes(op, "global_operands") + " -> " + shapes(op, "global_results") + "\n";
    out += "  local        " + shapes(op, "local_operands") + " -> " + shapes(op, "local_results") + "\n";
    char flops[48];
    std::snprintf(flops, sizeof flops, "%.4g", number(op, "flops"));
    out += "  compute      " + us(number(op, "compute_ns")) + ": " + flops + " flops, " +
           bytesText(number(op, "bytes")) + " of operands and results\n";
    out += "  collectives  " + us(number(op, "communication_ns")) + "\n";
    for (const Json &c : list(op, "collectives"))
      out += "    " + collectiveLine(c) + "\n";
    out += alternativeLines(op, arena);
  }
  return out;
}

rt::Result<std::string> explainAsJson(const Report &report, const std::string &name) {
  rt::Result<std::vector<Found>> found = findOperators(report, name);
  if (!found)
    return found.status();
  Json all = Json::array();
  for (const auto &[function, op] : *found) {
    Json one = {{"function", text(*function, "name")}};
    one.update(*op);
    all.push_back(std::move(one));
  }
  return dumped(all);
}

std::string parametersAsJson(const Report &report) { return dumped(list(report.json, "parameters")); }

std::string toJson(const PlanFacts &facts, const Report &report, Json page) {
  Json ranks = Json::array();
  for (const RankFacts &r : facts.ranks) {
    Json programs = Json::array();
    for (const ProgramFacts &p : r.programs) {
      Json collectives = Json::array();
      for (const auto &[name, c] : p.collectives)
        collectives.push_back({{"what", name}, {"count", c.count}, {"bytes_sent", c.bytesSent}});
      Json sections = Json::array();
      for (const rt::Section &section : p.sections)
        sections.push_back({{"steps", section.end - section.begin}, {"calls", section.calls}});
      programs.push_back({{"name", p.name},
                          {"sections", std::move(sections)},
                          {"kernels", p.kernels},
                          {"num_collectives", p.total().count},
                          {"num_messages", p.messages},
                          {"bytes_sent", p.total().bytesSent},
                          {"collectives", std::move(collectives)}});
    }
    ranks.push_back({{"rank", r.rank},
                     {"arena_bytes", r.arenaBytes},
                     {"parameter_bytes", r.parameterBytes},
                     {"state_bytes", r.stateBytes},
                     {"constant_bytes", r.constantBytes},
                     {"programs", std::move(programs)}});
  }
  Json top = report.json;
  top["plan_id"] = facts.planId;
  top["num_ranks"] = facts.ranks.size();
  top["ranks"] = std::move(ranks);
  top["page"] = std::move(page);
  return top.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tessera
