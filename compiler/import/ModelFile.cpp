//===- ModelFile.cpp - structure of the graph -------------------------------------------------===//

#include "compiler/import/ModelFile.h"

#include "compiler/import/OnnxImport.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <queue>
#include <set>

using namespace llvm;

namespace tessera::compiler {

constexpr uint64_t kMaxFileSize = INT32_MAX; // the limit of protobuf itself
constexpr int kMaxNodes = 1 << 20;
constexpr size_t kMaxName = 4096;
constexpr int kMaxDepth = 8; // of bodies in bodies

static Error checkName(const std::string &name) {
  if (name.size() > kMaxName)
    return createStringError("a name in the model has %zu characters; at most %zu are allowed", name.size(), kMaxName);
  if (!json::isUTF8(name))
    return createStringError("the model has a name that is not valid UTF-8");
  return Error::success();
}

/// `nodes` counts those of bodies, too.
static Error checkNames(const onnx::GraphProto &graph, int depth, int &nodes) {
  if (depth > kMaxDepth)
    return createStringError("bodies of If, Loop and Scan lie more than %d deep", kMaxDepth);
  nodes += graph.node_size();
  if (nodes > kMaxNodes)
    return createStringError("the model has more than %d nodes", kMaxNodes);
  for (const auto &node : graph.node()) {
    for (const std::string *name : {&node.name(), &node.op_type(), &node.domain()})
      if (Error error = checkName(*name))
        return error;
    for (const auto *list : {&node.input(), &node.output()})
      for (const std::string &name : *list)
        if (Error error = checkName(name))
          return error;
    for (const auto &attribute : node.attribute()) {
      if (Error error = checkName(attribute.name()))
        return error;
      if (attribute.has_g())
        if (Error error = checkNames(attribute.g(), depth + 1, nodes))
          return error;
    }
  }
  for (const auto *list : {&graph.input(), &graph.output()})
    for (const auto &info : *list) {
      if (info.name().empty())
        return createStringError("an input or output of the model has no name");
      if (Error error = checkName(info.name()))
        return error;
      for (const auto &dim : info.type().tensor_type().shape().dim())
        if (Error error = checkName(dim.dim_param()))
          return error;
    }
  for (const auto &tensor : graph.initializer())
    if (Error error = checkName(tensor.name()))
      return error;
  return Error::success();
}

static Error readOpset(ModelFile &file) {
  for (const auto &import : file.proto.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") {
      if (file.opset != 0 && file.opset != import.version())
        return createStringError("the model imports two versions of the standard operator set");
      file.opset = import.version();
    }
  if (file.opset < kOldestOpset || file.opset > kNewestOpset)
    return createStringError("the model's operator set is %lld; supported are %lld to %lld (export with "
                             "opset_version=17)",
                             static_cast<long long>(file.opset), static_cast<long long>(kOldestOpset),
                             static_cast<long long>(kNewestOpset));
  return Error::success();
}

/// Adds the names that a body reads and does not define.
static void addCaptured(const onnx::GraphProto &body, std::set<std::string> &names) {
  std::set<std::string> read, defined;
  for (const auto &input : body.input())
    defined.insert(input.name());
  for (const auto &tensor : body.initializer())
    defined.insert(tensor.name());
  for (const auto &node : body.node()) {
    for (const std::string &name : node.input())
      if (!name.empty())
        read.insert(name);
    defined.insert(node.output().begin(), node.output().end());
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        addCaptured(attribute.g(), read);
  }
  for (const auto &output : body.output())
    read.insert(output.name());
  for (const std::string &name : read)
    if (!defined.count(name))
      names.insert(name);
}

static void findCaptured(ModelFile &file) {
  for (const auto &node : file.graph().node()) {
    std::set<std::string> names;
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        addCaptured(attribute.g(), names);
    if (!names.empty())
      file.captured[&node].assign(names.begin(), names.end());
  }
}

static std::string nodeText(const onnx::NodeProto &node) {
  std::string name = node.name();
  if (name.empty() && node.output_size() > 0)
    name = node.output(0);
  return "node '" + name + "' (" + node.op_type() + ")";
}

/// Live nodes in topological order, ties by place in the file.
static Error orderNodes(ModelFile &file) {
  const auto &graph = file.graph();
  std::set<std::string> defined;
  for (const auto &input : graph.input())
    if (!defined.insert(input.name()).second)
      return createStringError("the model has two inputs named '%s'", input.name().c_str());
  for (const auto &[name, tensor] : file.initializers)
    defined.insert(name);

  std::map<std::string, int> producer;
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &output : graph.node(i).output()) {
      if (output.empty())
        continue;
      if (defined.count(output) || !producer.emplace(output, i).second)
        return createStringError("the value '%s' is produced twice, the second time by %s", output.c_str(),
                                 nodeText(graph.node(i)).c_str());
    }

  std::vector<bool> live(graph.node_size(), false);
  std::vector<int> work;
  auto need = [&](const std::string &name) {
    auto it = producer.find(name);
    if (it != producer.end() && !live[it->second]) {
      live[it->second] = true;
      work.push_back(it->second);
    }
    return it != producer.end() || defined.count(name);
  };
  for (const auto &output : graph.output())
    if (!need(output.name()))
      return createStringError("the model's output '%s' is produced by no node", output.name().c_str());
  while (!work.empty()) {
    const auto &node = graph.node(work.back());
    work.pop_back();
    std::string missing;
    file.eachRead(node, [&](const std::string &name, int) {
      if (!need(name) && missing.empty())
        missing = name;
    });
    if (!missing.empty())
      return createStringError("%s reads '%s', which nothing produces", nodeText(node).c_str(), missing.c_str());
  }

  std::vector<int> waiting(graph.node_size(), 0);
  std::vector<std::vector<int>> readers(graph.node_size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  int total = 0;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!live[i])
      continue;
    ++total;
    std::set<int> sources;
    file.eachRead(graph.node(i), [&](const std::string &name, int) {
      if (auto it = producer.find(name); it != producer.end())
        sources.insert(it->second);
    });
    for (int source : sources)
      readers[source].push_back(i);
    waiting[i] = int(sources.size());
    if (waiting[i] == 0)
      ready.push(i);
  }
  while (!ready.empty()) {
    int i = ready.top();
    ready.pop();
    file.order.push_back(&graph.node(i));
    for (int reader : readers[i])
      if (--waiting[reader] == 0)
        ready.push(reader);
  }
  if (int(file.order.size()) == total)
    return Error::success();

  // A walk backward over nodes that were not ordered must visit one of them twice. That node lies on a cycle.
  int at = 0;
  while (!live[at] || waiting[at] == 0)
    ++at;
  for (std::set<int> seen; seen.insert(at).second;) {
    int next = at;
    file.eachRead(graph.node(at), [&](const std::string &name, int) {
      if (auto it = producer.find(name); it != producer.end() && waiting[it->second] > 0)
        next = it->second;
    });
    at = next;
  }
  return createStringError("the model's graph has a cycle through %s", nodeText(graph.node(at)).c_str());
}

Expected<std::unique_ptr<ModelFile>> parseModel(StringRef bytes, StringRef directory) {
  auto file = std::make_unique<ModelFile>();
  file->directory = directory.empty() ? "." : directory.str();
  if (bytes.empty())
    return createStringError("the model is empty");
  if (bytes.size() > kMaxFileSize)
    return createStringError("the model exceeds 2 GiB: export its weights as external data");
  if (!file->proto.ParseFromArray(bytes.data(), int(bytes.size())))
    return createStringError("not an ONNX model, or cut short: its bytes do not parse");
  if (!file->proto.has_graph())
    return createStringError("not an ONNX model: it has no graph");
  const auto &graph = file->graph();
  if (graph.sparse_initializer_size() > 0)
    return createStringError("the model has sparse initializers, which are not supported: store them dense");
  int nodes = 0;
  if (Error error = checkNames(graph, 0, nodes))
    return error;
  findCaptured(*file);
  if (Error error = readOpset(*file))
    return error;
  for (auto &tensor : *file->proto.mutable_graph()->mutable_initializer()) {
    if (tensor.name().empty())
      return createStringError("an initializer of the model has no name");
    if (!file->initializers.emplace(tensor.name(), &tensor).second)
      return createStringError("the model has two initializers named '%s'", tensor.name().c_str());
  }
  if (Error error = orderNodes(*file))
    return error;
  if (graph.output_size() == 0)
    return createStringError("the model has no output");
  return file;
}

Expected<std::unique_ptr<ModelFile>> readModelFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError("cannot read the model '%s': %s", path.str().c_str(), buffer.getError().message().c_str());
  auto file = parseModel((*buffer)->getBuffer(), sys::path::parent_path(path));
  if (!file)
    return createStringError("%s: %s", path.str().c_str(), toString(file.takeError()).c_str());
  return file;
}

Expected<WeightStore> readWeights(StringRef path) {
  auto file = readModelFile(path);
  if (!file)
    return file.takeError();
  WeightStore store;
  for (auto &[name, tensor] : (*file)->initializers) {
    auto weight = takeTensor(*tensor, (*file)->directory);
    if (!weight)
      return createStringError("%s: %s", path.str().c_str(), toString(weight.takeError()).c_str());
    store.add(std::move(*weight));
  }
  if (store.weights().empty())
    return createStringError("%s: stores no tensors", path.str().c_str());
  return store;
}

} // namespace tessera::compiler
