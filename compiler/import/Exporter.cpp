//===- Exporter.cpp - metadata of torch.export ------------------------------------------------===//

#include "compiler/import/Exporter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <set>

using namespace llvm;

namespace tessera::compiler {

using Entries = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

static constexpr StringLiteral kTorch = "pkg.torch.";
static constexpr StringLiteral kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
static constexpr StringLiteral kPersistent = "pkg.torch.export.graph_signature.InputSpec.persistent";
static constexpr StringLiteral kFxNode = "pkg.torch.onnx.fx_node";
static constexpr StringLiteral kSignature = "pkg.torch.export.ExportedProgram.graph_signature";

StringRef metadata(const Entries &entries, StringRef key) {
  for (const auto &entry : entries)
    if (entry.key() == key)
      return entry.value();
  return {};
}

bool isDetach(const onnx::NodeProto &node) {
  // The target stands in front of the operands, whose names are not the exporter's.
  return metadata(node.metadata_props(), kFxNode).split("](").first.contains("[target=torch.ops.aten.detach.");
}

static std::optional<TensorKind> kindOf(StringRef word) {
  return StringSwitch<std::optional<TensorKind>>(word)
      .Case("PARAMETER", TensorKind::Parameter)
      .Case("BUFFER", TensorKind::Buffer)
      .Case("CONSTANT_TENSOR", TensorKind::Constant)
      .Default(std::nullopt);
}

/// Reads the kind from the text before a target. PyTorch has written it in two forms:
///   p_fc_weight: PARAMETER target='fc.weight'
///   InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_fc_weight'), target='fc.weight', ...
static std::optional<TensorKind> kindBefore(StringRef text) {
  if (size_t at = text.rfind("kind=<"); at != StringRef::npos) {
    StringRef kind = text.drop_front(at + 6);
    if (!kind.consume_front("InputKind."))
      return std::nullopt; // of an output
    return kindOf(kind.take_while([](char c) { return isAlpha(c) || c == '_'; }));
  }
  text = text.rtrim();
  return kindOf(text.take_back(text.size() - std::min(text.size(), text.find_last_of(" :\n") + 1)));
}

/// Calls visit(name, says) for every tensor of the graph's text.
static void eachInSignature(StringRef text, function_ref<void(StringRef, TensorSays)> visit) {
  for (;;) {
    auto [before, after] = text.split("target='");
    if (after.empty())
      return;
    auto [name, rest] = after.split('\'');
    if (std::optional<TensorKind> kind = kindBefore(before); kind && !name.empty()) {
      // Up to the end of the entry: "persistent=True", behind a comma in the older form.
      StringRef flag = rest.ltrim(", ");
      visit(name, {*kind, flag.starts_with("persistent=True")});
    }
    text = rest;
  }
}

ExporterSays readExporter(const ModelFile &file) {
  ExporterSays says;
  const onnx::GraphProto &graph = file.graph();
  auto isTorch = [](const Entries &entries) {
    return any_of(entries, [](const auto &entry) { return StringRef(entry.key()).starts_with(kTorch); });
  };
  auto read = [&](const std::string &name, const Entries &entries) {
    says.torchExport |= isTorch(entries);
    if (auto kind = kindOf(metadata(entries, kKind)))
      says.tensors.try_emplace(name, TensorSays{*kind, metadata(entries, kPersistent) == "True"});
  };
  for (const auto &tensor : graph.initializer())
    read(tensor.name(), tensor.metadata_props());
  for (const auto *list : {&graph.value_info(), &graph.input()})
    for (const auto &info : *list)
      read(info.name(), info.metadata_props());
  says.torchExport |= isTorch(graph.metadata_props()) || isTorch(file.proto.metadata_props()) ||
                      any_of(graph.node(), [&](const auto &node) { return isTorch(node.metadata_props()); });

  std::set<std::string> held;
  for (const auto &[name, tensor] : file.initializers)
    held.insert(name);
  for (const auto &input : graph.input())
    held.insert(input.name());
  std::set<std::string> seen;
  eachInSignature(metadata(graph.metadata_props(), kSignature), [&](StringRef name, TensorSays tensor) {
    says.complete = true;
    says.tensors.try_emplace(name.str(), tensor);
    if (held.count(name.str()) || !seen.insert(name.str()).second)
      return;
    says.missing.push_back(name.str());
    says.parametersMissing |= tensor.kind == TensorKind::Parameter;
  });
  return says;
}

} // namespace tessera::compiler
