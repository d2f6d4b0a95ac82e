//===- Suspicions.cpp - merged parameters, folded BatchNorm --------------------------------------===//

#include "compiler/import/Suspicions.h"
#include "compiler/import/Roles.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::compiler {

std::string someNames(ArrayRef<std::string> names, size_t count) {
  std::string text;
  for (const std::string &name : names.take_front(count))
    text += (text.empty() ? "'" : ", '") + name + "'";
  if (names.size() > count)
    text += " and " + std::to_string(names.size() - count) + " more";
  return text;
}

bool isMarkedForTraining(const ModelFile &file) {
  return any_of(file.order, [&](const onnx::NodeProto *node) {
    if (node->op_type() == "Dropout")
      return file.opset < 12 || node->input_size() > 2;
    if (node->op_type() != "BatchNormalization")
      return false;
    return (file.opset < 14 && node->output_size() > 1) || any_of(node->attribute(), [](const auto &attribute) {
             return attribute.name() == "training_mode" && attribute.i() != 0;
           });
  });
}

//===----------------------------------------------------------------------------------------------===//
// Merged parameters
//===----------------------------------------------------------------------------------------------===//

/// "layers.#.weight" for "layers.11.weight".
static std::string withoutNumbers(StringRef name) {
  std::string text;
  for (char c : name)
    if (!isDigit(c))
      text += c;
    else if (text.empty() || text.back() != '#')
      text += '#';
  return text;
}

/// Floating-point values that the file holds or takes as inputs, and their ranks.
static std::map<std::string, int> heldRanks(const ModelFile &file) {
  std::map<std::string, int> ranks;
  auto add = [&](const std::string &name, int32_t onnxType, int rank) {
    if (auto type = dtypeOf(onnxType); type && isFloat(*type))
      ranks.emplace(name, rank);
  };
  for (const auto &tensor : file.graph().initializer())
    add(tensor.name(), tensor.data_type(), tensor.dims_size());
  for (const auto &input : file.graph().input())
    add(input.name(), input.type().tensor_type().elem_type(), input.type().tensor_type().shape().dim_size());
  return ranks;
}

/// For every (held, name): makes `name` a copy of `held`, which is an initializer or a graph input.
static void copyHeld(ModelFile &file, ArrayRef<std::pair<std::string, std::string>> copies) {
  onnx::GraphProto &graph = *file.proto.mutable_graph();
  std::map<std::string, int> inputs;
  for (int i = 0; i < graph.input_size(); ++i)
    inputs.emplace(graph.input(i).name(), i);
  for (const auto &[held, name] : copies) {
    if (auto it = file.initializers.find(held); it != file.initializers.end()) {
      const onnx::TensorProto *from = it->second;
      onnx::TensorProto *copy = graph.add_initializer();
      *copy = *from;
      copy->set_name(name);
      file.initializers[name] = copy;
    } else {
      onnx::ValueInfoProto copy = graph.input(inputs.at(held));
      copy.set_name(name);
      *graph.add_input() = std::move(copy);
    }
  }
}

std::vector<std::string> untieMerged(ModelFile &file) {
  std::vector<std::string> untied, tied;
  std::vector<std::pair<std::string, std::string>> copies;
  std::set<const onnx::NodeProto *> gone;
  const std::map<std::string, int> ranks = heldRanks(file);
  const UseMap uses(file);
  // A weight that the exporter computed has a generated name ("onnx::Conv_421"), so its readers decide.
  auto mayBeParameter = [&](StringRef name, const std::string &read) {
    return isParameterName(name) ||
           (name.contains("::") && any_of(uses.reach(read), [](const Reach &r) { return r.isWeight(); }));
  };
  for (const onnx::NodeProto *node : file.order) {
    if (node->op_type() != "Identity" || node->input_size() != 1 || node->output_size() != 1)
      continue;
    const std::string &held = node->input(0), &name = node->output(0);
    if (!mayBeParameter(held, name) || !mayBeParameter(name, name))
      continue;
    auto rank = ranks.find(held);
    if (rank == ranks.end())
      continue;
    if (rank->second > 1 && withoutNumbers(held) != withoutNumbers(name)) {
      tied.push_back(name + "' and '" + held);
      continue;
    }
    copies.push_back({held, name});
    gone.insert(node);
    untied.push_back(name);
  }
  copyHeld(file, copies);
  erase_if(file.order, [&](const onnx::NodeProto *node) { return gone.count(node) != 0; });
  std::vector<std::string> sentences;
  if (!untied.empty())
    sentences.push_back("the file keeps one of several parameters of equal values, as exports for inference do: " +
                        someNames(untied) + (untied.size() == 1 ? " is" : " are") +
                        " trained apart again; export with training=TrainingMode.TRAINING to have them in the file");
  if (!tied.empty())
    sentences.push_back("the file holds one parameter for " + someNames(tied) +
                        ": they are trained as one, as weights that are tied in PyTorch; if they are not, export with "
                        "training=TrainingMode.TRAINING");
  return sentences;
}

//===----------------------------------------------------------------------------------------------===//
// Folded BatchNorm, lost parameters
//===----------------------------------------------------------------------------------------------===//

static StringRef moduleOf(StringRef name) { return name.rsplit('.').first; }

/// The BatchNorm modules that the exporter names and of which the file has no tensor.
static std::vector<std::string> foldedModules(const ModelFile &file, const ExporterSays &says) {
  std::vector<std::string> modules;
  for (const std::string &name : says.missing)
    if (StringRef(name).ends_with(".running_mean"))
      modules.push_back(moduleOf(name).str());
  if (!modules.empty() || says.complete)
    return modules;
  for (const onnx::NodeProto *node : file.order) {
    if (!StringRef(node->op_type()).starts_with("Conv") && node->op_type() != "Gemm")
      continue;
    if (any_of(node->metadata_props(),
               [](const auto &entry) { return StringRef(entry.value()).contains("batchnorm.BatchNorm"); }))
      modules.push_back(node->name().empty() ? node->output(0) : node->name());
  }
  return modules;
}

/// The convolutions whose bias does not belong to their own module.
static std::vector<std::string> oddBiases(const ModelFile &file) {
  std::vector<std::string> found;
  const std::map<std::string, int> ranks = heldRanks(file);
  auto madeUp = [](StringRef name) { return name.contains("::") || all_of(name, isDigit); };
  for (const onnx::NodeProto *node : file.order) {
    if (node->op_type() == "BatchNormalization")
      return {};
    if ((node->op_type() != "Conv" && node->op_type() != "ConvTranspose") || node->input_size() < 3)
      continue;
    StringRef kernel = node->input(1), bias = node->input(2);
    if (!ranks.count(node->input(1)) || !ranks.count(node->input(2)))
      continue;
    bool named = kernel.ends_with(".weight") && bias != (moduleOf(kernel) + ".bias").str();
    if (named || (madeUp(kernel) && madeUp(bias)))
      found.push_back(bias.str());
  }
  return found;
}

std::vector<std::string> findLosses(const ModelFile &file, const ExporterSays &says) {
  static constexpr const char *kAdvice = "what is trained has no BatchNorm there; export with optimize=False, or with "
                                         "training=TrainingMode.TRAINING where the exporter has no such option";
  std::vector<std::string> sentences;
  std::vector<std::string> folded = foldedModules(file, says);
  if (!folded.empty())
    sentences.push_back("the exporter folded BatchNorm into the operators before it (" + someNames(folded) +
                        "): " + kAdvice);
  else if (std::vector<std::string> odd = says.complete ? std::vector<std::string>() : oddBiases(file); !odd.empty())
    sentences.push_back(
        std::to_string(odd.size()) + (odd.size() == 1 ? " convolution has" : " convolutions have") +
        " biases that are not their modules' own (" + someNames(odd) +
        "), and the file has no BatchNormalization, which the exporter seems to have folded into them: " + kAdvice);

  std::set<std::string> explained(folded.begin(), folded.end());
  std::vector<std::string> lost;
  for (const std::string &name : says.missing)
    if (says.find(name)->kind == TensorKind::Parameter && !explained.count(moduleOf(name).str()))
      lost.push_back(name);
  if (!lost.empty())
    sentences.push_back("the file lacks parameters that the model had (" + someNames(lost) +
                        "): the exporter merged them with equal ones, folded them into others, or found them unused; "
                        "export with optimize=False");
  return sentences;
}

} // namespace tessera::compiler
