#include "tools/page/PageData.h"

#include "runtime/plan/stages/Stages.h"
#include "tools/page/Arena.h"
#include "tools/page/Costs.h"
#include "tools/page/Network.h"
#include "tools/page/web/PageTexts.h"

#include <algorithm>
#include <unordered_map>

namespace tessera {

namespace {

constexpr size_t kCosts = 10; // so many are told

/// "stages", "micro_batches", "schedule", "bubble"; null: the plan is no pipeline.
Json pipelineJson(const Json &report) {
  if (!report.contains("pipeline"))
    return {};
  const Json &pipeline = report["pipeline"];
  return {{"stages", list(pipeline, "stages").size()},
          {"micro_batches", number(pipeline, "micro_batches")},
          {"schedule", text(pipeline, "schedule")},
          {"bubble", number(pipeline, "bubble")}};
}

Json headJson(const Json &report, const Network &network, const PagePlans &plans) {
  const Json &function = *network.function;
  const double compute = number(function, "compute_ns"), communication = number(function, "communication_ns");
  double limit = number(report, "memory_limit");
  Json head = {{"function", text(function, "name")},
               {"predicted_ns", predictedNs(function)},
               {"compute_ns", compute},
               {"communication_ns", communication},
               {"bytes_sent", number(function, "bytes_sent")},
               {"num_collectives", number(function, "num_collectives")},
               {"arena_bytes", plans.mostArena},
               {"memory_limit", limit}};
  head["search"] = function.contains("search") ? function["search"] : Json();
  head["pipeline"] = pipelineJson(report);
  if (head["beside"] = Json(); function.is_object() && function.contains("beside"))
    head["beside"] = {{"exposed_ns", number(function["beside"], "exposed_ns")},
                      {"num_messages", number(function["beside"], "num_messages")}};
  std::vector<CostItem> costs = costItems(network, report);
  head["num_costs"] = costs.size();
  costs.resize(std::min(costs.size(), kCosts));
  head["costs"] = toJson(costs);
  // Where stages wait for each other, or collectives run beside kernels, what links save of the work is not what they
  // save of the step.
  const bool staged = !head["pipeline"].is_null() || !head["beside"].is_null();
  const double twice = staged ? -1 : withBandwidth(function, 2), infinite = staged ? -1 : withBandwidth(function, 1e18);
  head["twice_the_bandwidth_ns"] = twice < 0 ? Json() : Json(twice);
  head["infinite_bandwidth_ns"] = infinite < 0 ? Json() : Json(infinite);
  return head;
}

/// "classes": operators without names; "arguments"; "operators": [name, class, node or -1, part, inputs]. An input is
/// an operator's index, or -1 less an argument's.
void addOperators(Json &page, const Network &network) {
  Json classes = Json::array();
  for (const Json *op : network.classes) {
    Json cls = Json::object();
    if (op->is_object())
      for (const auto &[field, value] : op->items())
        if (!isIdentity(field))
          cls[field] = value;
    classes.push_back(std::move(cls));
  }
  Json operators = Json::array(), arguments = Json::array();
  std::unordered_map<std::string, int64_t> made; // by name: an operator, or -1 less an argument
  const Json &all = list(*network.function, "operators");
  for (size_t i = 0; i < all.size(); ++i) {
    Json inputs = Json::array();
    for (const Json &input : list(all[i], "inputs")) {
      const std::string name = input.is_string() ? input.get<std::string>() : "?";
      auto [it, fresh] = made.try_emplace(name, -1 - int64_t(arguments.size()));
      if (fresh)
        arguments.push_back(name);
      inputs.push_back(it->second);
    }
    const std::string name = text(all[i], "name");
    made[name] = int64_t(i);
    operators.push_back(
        Json::array({name, network.classOf[i], network.nodeOf[i], int(network.partOf[i]), std::move(inputs)}));
  }
  page["classes"] = std::move(classes);
  page["arguments"] = std::move(arguments);
  page["operators"] = std::move(operators);
}

/// "nodes": [name, operator with the name, signature, compute by part, communication by part], ns;
/// "blocks": [first node, nodes of a repeat, repeats, title of the first, of the last].
void addNetwork(Json &page, const Network &network) {
  Json nodes = Json::array(), blocks = Json::array();
  for (const Node &node : network.nodes) {
    const size_t op = size_t(node.op - &list(*network.function, "operators")[0]);
    nodes.push_back(Json::array({node.name, op, node.signature, node.compute, node.communication}));
  }
  for (const Block &b : network.blocks)
    blocks.push_back(Json::array({b.first, b.period, b.count, b.title, b.lastTitle}));
  page["nodes"] = std::move(nodes);
  page["blocks"] = std::move(blocks);
}

} // namespace

void PagePlans::add(const plan::Plan &plan) {
  if (traffic.empty())
    first = plan;
  mostArena = std::max(mostArena, plan.arena_bytes());
  traffic.push_back(trafficOf(plan, rt::stagesOf(plan).ranks()));
}

Json pageData(const Json &report, const PagePlans &plans, const Json &measured) {
  static const Json kEmpty = Json::object();
  const Json &functions = list(report, "functions");
  const Json &function = functions.empty() ? kEmpty : functions[0];
  const Network network = readNetwork(function);
  Json page = {{"model", text(report, "model")},
               {"mesh", text(report, "mesh")},
               {"mode", text(report, "mode")},
               {"topology", text(report, "topology")},
               {"producer", text(report, "producer")},
               {"recompute", text(report, "recompute")},
               {"plan_id", plans.first.plan_id()},
               {"num_ranks", plans.traffic.size()},
               {"global_batch", plans.first.global_batch()}};
  page["head"] = headJson(report, network, plans);
  for (const Json &f : functions)
    page["functions"].push_back({{"name", text(f, "name")},
                                 {"operators", list(f, "operators").size()},
                                 {"predicted_ns", predictedNs(f)},
                                 {"compute_ns", number(f, "compute_ns")},
                                 {"communication_ns", number(f, "communication_ns")}});
  addOperators(page, network);
  addNetwork(page, network);
  page["boundary"] = list(function, "boundary");
  page["arena"] = arenaJson(plans.first);
  page["traffic"] = trafficJson(function, plans.traffic);
  page["meshes"] = list(report, "meshes");
  page["what_if"] = report.contains("what_if") ? report["what_if"] : Json();
  page["warnings"] = list(report, "warnings");
  for (const char *part : {"trace", "log"})
    page[part] = measured.contains(part) ? measured[part] : Json();
  return page;
}

std::string toHtml(const Json &page) {
  // No text of a plan can end the script element that holds it.
  std::string data;
  for (char c : page.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  std::string html = web::kPageHtml;
  for (const auto &[mark, part] : {std::pair<std::string, std::string>("/*page.css*/", web::kPageCss),
                                   {"/*page.js*/", web::kPageJs},
                                   {"/*page.json*/", data}})
    html.replace(html.find(mark), mark.size(), part);
  return html;
}

} // namespace tessera
