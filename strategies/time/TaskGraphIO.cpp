#include "strategies/time/TaskGraphIO.h"

#include "strategies/time/JsonReader.h"

namespace tessera::strategies {

namespace {

constexpr int kDeepest = 8; // the format nests five levels deep

Task readTask(JsonReader &read, const Json &json, const std::string &where) {
  Task task;
  task.name = read.text(json, "name", where);
  task.duration = read.whole(json, "duration", where, 0);
  for (const Json &resource : read.list(json, "resources", where))
    task.resources.push_back(read.index(resource, where + ": a resource"));
  for (const Json &need : read.list(json, "needs", where)) {
    if (need.is_object())
      task.needs.push_back({read.index(need, "task", where), read.whole(need, "lag", where, 0)});
    else
      task.needs.push_back({read.index(need, where + ": a need")});
  }
  return task;
}

TaskBuffer readBuffer(JsonReader &read, const Json &json, const std::string &where) {
  TaskBuffer buffer;
  buffer.pool = read.index(json, "pool", where);
  buffer.bytes = read.whole(json, "bytes", where, 0);
  buffer.maker = read.index(json, "maker", where);
  if (auto it = json.find("from_end"); it != json.end()) {
    if (it->is_boolean())
      buffer.fromEnd = it->get<bool>();
    else
      read.fail(where + ": 'from_end' is neither true nor false");
  }
  for (const Json &user : read.list(json, "users", where))
    buffer.users.push_back(read.index(user, where + ": a user"));
  return buffer;
}

TaskGraph readGraph(JsonReader &read, const Json &json) {
  TaskGraph graph;
  if (!read.isObject(json, "the file's content"))
    return graph;
  for (const Json &resource : read.list(json, "resources", ""))
    graph.resources.push_back(read.text(resource, "a resource"));
  auto each = [&](const char *key, const char *one, auto add) {
    size_t n = 0;
    for (const Json &item : read.list(json, key, "")) {
      const std::string where = std::string(one) + " " + std::to_string(n++);
      if (read.isObject(item, where) && read.error.empty())
        add(item, where);
    }
  };
  each("pools", "pool", [&](const Json &item, const std::string &where) {
    MemoryPool pool{read.text(item, "name", where), -1};
    if (item.contains("limit") && !item["limit"].is_null()) {
      pool.limit = read.whole(item, "limit", where, -1);
      if (pool.limit < 0)
        read.fail(where + ": the limit is negative");
    }
    graph.pools.push_back(std::move(pool));
  });
  each("tasks", "task",
       [&](const Json &item, const std::string &where) { graph.tasks.push_back(readTask(read, item, where)); });
  each("buffers", "buffer",
       [&](const Json &item, const std::string &where) { graph.buffers.push_back(readBuffer(read, item, where)); });
  return graph;
}

} // namespace

std::optional<TaskGraph> parseTaskGraph(const std::string &text, const std::string &name, std::string &error) {
  return readChecked<TaskGraph>(text, name, kDeepest, error, readGraph, checkTaskGraph);
}

std::string toJson(const TaskGraph &graph) {
  using Ordered = nlohmann::ordered_json;
  Ordered json;
  json["resources"] = graph.resources;
  json["pools"] = Ordered::array();
  for (const MemoryPool &pool : graph.pools) {
    Ordered item{{"name", pool.name}};
    if (pool.limit >= 0)
      item["limit"] = pool.limit;
    json["pools"].push_back(std::move(item));
  }
  json["tasks"] = Ordered::array();
  for (const Task &task : graph.tasks) {
    Ordered item{{"name", task.name}, {"duration", task.duration}};
    if (!task.resources.empty())
      item["resources"] = task.resources;
    for (const Need &need : task.needs) {
      if (need.lag)
        item["needs"].push_back(Ordered{{"task", need.task}, {"lag", need.lag}});
      else
        item["needs"].push_back(need.task);
    }
    json["tasks"].push_back(std::move(item));
  }
  json["buffers"] = Ordered::array();
  for (const TaskBuffer &buffer : graph.buffers) {
    Ordered item{{"pool", buffer.pool}, {"bytes", buffer.bytes}, {"maker", buffer.maker}};
    if (buffer.fromEnd)
      item["from_end"] = true;
    if (!buffer.users.empty())
      item["users"] = buffer.users;
    json["buffers"].push_back(std::move(item));
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace tessera::strategies
