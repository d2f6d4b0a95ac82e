#include "test/conformance/onnx/NodeTest.h"

#include "compiler/driver/Driver.h"
#include "compiler/import/ModelFile.h"
#include "dialects/dist/DistInterfaces.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/ConvertElements.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;

namespace tessera::test {
namespace {

using compiler::DType;
using compiler::Weight;

/// Operands of at most so many elements may be bound, except the first.
constexpr int64_t kSmall = 64;

std::string readAll(const fs::path &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

struct Tensor {
  Weight weight;
  std::string bytes() const { return std::get<std::string>(weight.source); }
};

struct DataSet {
  std::map<std::string, onnx::TensorProto> inputs;
  std::vector<Tensor> outputs;
};

/// The data set's tensor for a value of the model. The published files hold bfloat16 as uint16.
llvm::Expected<onnx::TensorProto> readTensor(const fs::path &path, const onnx::ValueInfoProto &value) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(readAll(path)))
    return llvm::createStringError("%s is no tensor", path.filename().c_str());
  if (value.type().tensor_type().elem_type() == onnx::TensorProto::BFLOAT16 &&
      proto.data_type() == onnx::TensorProto::UINT16)
    proto.set_data_type(onnx::TensorProto::BFLOAT16);
  return proto;
}

llvm::Expected<DataSet> readDataSet(const fs::path &folder, const onnx::GraphProto &graph) {
  DataSet set;
  for (int i = 0; i < graph.input_size(); ++i) {
    fs::path path = folder / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(path))
      return llvm::createStringError("%s is missing", path.c_str());
    auto tensor = readTensor(path, graph.input(i));
    if (!tensor)
      return tensor.takeError();
    set.inputs[graph.input(i).name()] = std::move(*tensor);
  }
  for (int i = 0; i < graph.output_size(); ++i) {
    auto tensor = readTensor(folder / ("output_" + std::to_string(i) + ".pb"), graph.output(i));
    if (!tensor)
      return tensor.takeError();
    auto weight = compiler::tensorOf(*tensor, "");
    if (!weight)
      return weight.takeError();
    set.outputs.push_back({std::move(*weight)});
  }
  return set;
}

plan::DType planType(DType type) {
  switch (type) {
  case DType::F32:
    return plan::F32;
  case DType::F64:
    return plan::F64;
  case DType::F16:
    return plan::F16;
  case DType::BF16:
    return plan::BF16;
  case DType::I64:
    return plan::I64;
  case DType::I32:
    return plan::I32;
  case DType::I8:
    return plan::I8;
  case DType::UI8:
    return plan::U8;
  case DType::I1:
    return plan::BOOL;
  }
  return plan::DTYPE_INVALID;
}

/// How `got` differs from what the test expects; empty if it does not.
std::string difference(const Tensor &expected, const plan::Binding &binding, plan::DType type,
                       const std::vector<char> &got) {
  plan::DType wanted = planType(expected.weight.type);
  std::vector<int64_t> shape(expected.weight.shape.begin(), expected.weight.shape.end()),
      given(binding.global_shape().begin(), binding.global_shape().end());
  if (wanted != type)
    return "the type is " + rt::typeName(type) + ", not " + rt::typeName(wanted);
  if (shape != given)
    return "the shape is " + rt::shapeText(given) + ", not " + rt::shapeText(shape);
  std::string bytes = expected.bytes();
  if (bytes.size() != got.size())
    return "the number of bytes differs";
  if (!rt::isFloatType(type))
    return std::memcmp(bytes.data(), got.data(), bytes.size()) == 0 ? "" : "integers differ";
  size_t count = bytes.size() / rt::bytesPerElement(type);
  std::vector<double> want(count), have(count);
  rt::convertElements(bytes.data(), type, want.data(), plan::F64, count);
  rt::convertElements(got.data(), type, have.data(), plan::F64, count);
  double relative = type == plan::BF16 ? 0x1p-7 : 1e-3;
  for (size_t i = 0; i < count; ++i) {
    bool same = want[i] == have[i] || (std::isnan(want[i]) && std::isnan(have[i])) ||
                std::abs(want[i] - have[i]) <= 1e-7 + relative * std::abs(want[i]);
    if (!same)
      return llvm::formatv("element {0} is {1:e9}, not {2:e9}", i, have[i], want[i]).str();
  }
  return "";
}

/// Executes a plan. Empty if every output is as expected.
std::string execute(const rt::PlanDirectory &directory, const onnx::GraphProto &graph, const DataSet &set,
                    const std::string &backendName) {
  std::string wrong;
  rt::Status status = rt::runRanks(1, [&](rt::World &world) -> rt::Status {
    const plan::Plan &plan = directory.ranks[0];
    auto backend = rt::createBackend(backendName);
    if (!backend)
      return backend.status();
    auto made = rt::Executor::create(plan, **backend, world, {.threads = 1});
    if (!made)
      return made.status();
    rt::Executor &executor = **made;
    std::optional<rt::Safetensors> weights;
    if (!directory.weights.empty()) {
      auto opened = rt::Safetensors::open(directory.weights);
      if (!opened)
        return opened.status();
      weights.emplace(std::move(*opened));
    }
    TESSERA_RETURN_IF_ERROR(executor.loadWeights(weights ? &*weights : nullptr, false));
    for (int b : executor.bindings(plan::INPUT, "infer")) {
      auto it = set.inputs.find(plan.bindings(b).name());
      if (it == set.inputs.end())
        return rt::Status::error("there is no data for the input " + plan.bindings(b).name());
      auto weight = compiler::tensorOf(it->second, "");
      if (!weight)
        return rt::Status::error(llvm::toString(weight.takeError()));
      TESSERA_RETURN_IF_ERROR(executor.feed(b, std::get<std::string>(weight->source).data()));
    }
    TESSERA_RETURN_IF_ERROR(executor.run(rt::findProgram(plan, "infer")));
    std::vector<int> outputs = executor.bindings(plan::OUTPUT, "infer");
    if (outputs.size() != set.outputs.size())
      return rt::Status::error("the plan has " + std::to_string(outputs.size()) + " outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<char> got;
      TESSERA_RETURN_IF_ERROR(executor.fetch(outputs[i], got));
      std::string text = difference(set.outputs[i], plan.bindings(outputs[i]), executor.heldType(outputs[i]), got);
      if (!text.empty() && wrong.empty())
        wrong = backendName + ", output " + graph.output(int(i)).name() + ": " + text;
    }
    return rt::Status();
  });
  return status.ok() ? wrong : backendName + ": " + status.message();
}

/// The model with the values of some inputs as initializers.
onnx::ModelProto withBound(const onnx::ModelProto &model, const DataSet &set, const std::vector<std::string> &names) {
  onnx::ModelProto bound = model;
  for (const std::string &name : names) {
    onnx::TensorProto *tensor = bound.mutable_graph()->add_initializer();
    *tensor = set.inputs.at(name);
    tensor->set_name(name);
  }
  return bound;
}

/// Inputs to bind in the second and third attempt.
std::vector<std::string> boundInputs(const onnx::GraphProto &graph, const DataSet &set, bool all) {
  std::vector<std::string> names;
  for (int i = all ? 0 : 1; i < graph.input_size(); ++i) {
    const onnx::TensorProto &tensor = set.inputs.at(graph.input(i).name());
    int64_t count = 1;
    for (int64_t d : tensor.dims())
      count *= d;
    if (all || count <= kSmall)
      names.push_back(graph.input(i).name());
  }
  return names;
}

/// Notes the operators that the nodes became, before normalisations are decomposed.
void collectRules(const CompileOptions &options, Outcome &outcome) {
  mlir::MLIRContext context;
  auto imported = compiler::importOnnx(context, options.model, options.import);
  if (!imported)
    return llvm::consumeError(imported.takeError());
  (*imported->module).walk([&](dist::ShardingRuleOpInterface op) {
    auto rule = op.getShardingRule();
    std::string name = op->getName().stripDialect().str();
    if (!rule)
      return llvm::consumeError(rule.takeError());
    outcome.rules.emplace(name, rule->str());
  });
}

/// The operator that a test is for. Where a function body stands in its place, the test of the same name
/// without "_expanded" has the operator itself; of other models it is the last but helpers before it.
std::string operatorOf(const std::string &folder, const onnx::GraphProto &graph) {
  std::string plain = folder;
  for (const std::string suffix : {"_expanded", "_expanded_ver18", "_function"})
    if (plain.size() > suffix.size() && plain.compare(plain.size() - suffix.size(), suffix.size(), suffix) == 0) {
      plain.resize(plain.size() - suffix.size());
      onnx::ModelProto model;
      if (model.ParseFromString(readAll(fs::path(plain) / "model.onnx")) && model.graph().node_size() > 0)
        return operatorOf(plain, model.graph());
    }
  std::string name;
  for (const auto &node : graph.node())
    if (name.empty() || name == "Constant")
      name = node.op_type();
  return name;
}

} // namespace

Outcome runNodeTest(const std::string &folder, const Setup &setup) {
  Outcome outcome;
  outcome.name = fs::path(folder).filename().string();
  onnx::ModelProto model;
  auto refused = [&](const std::string &reason) {
    outcome.status = Status::Refused;
    outcome.reason = reason;
    return outcome;
  };
  auto failed = [&](const std::string &reason) {
    outcome.status = Status::Failed;
    outcome.reason = reason;
    return outcome;
  };
  if (!model.ParseFromString(readAll(fs::path(folder) / "model.onnx")))
    return failed("the model does not parse");
  const onnx::GraphProto &graph = model.graph();
  outcome.operatorName = operatorOf(folder, graph);
  for (const auto &import : model.opset_import())
    if (import.domain().empty())
      outcome.opset = import.version();

  std::vector<DataSet> sets;
  std::string unreadable;
  for (int i = 0; fs::exists(fs::path(folder) / ("test_data_set_" + std::to_string(i))); ++i) {
    auto set = readDataSet(fs::path(folder) / ("test_data_set_" + std::to_string(i)), graph);
    if (set)
      sets.push_back(std::move(*set));
    else
      unreadable = llvm::toString(set.takeError());
  }

  CompileOptions options;
  options.model = setup.scratch + "/model.onnx";
  options.output = setup.scratch + "/plan";
  options.import.literal = true;
  std::string reason;
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (attempt > 0 && sets.size() != 1)
      return refused(reason);
    if (attempt > 0) {
      outcome.bound = boundInputs(graph, sets[0], attempt == 2);
      if (outcome.bound.empty())
        continue;
    }
    onnx::ModelProto bound = attempt == 0 ? model : withBound(model, sets[0], outcome.bound);
    std::ofstream(options.model, std::ios::binary) << bound.SerializeAsString();
    options.import.inputs.clear(); // no input is a parameter, whatever its name
    for (const auto &input : graph.input())
      if (!llvm::is_contained(outcome.bound, input.name()))
        options.import.inputs.push_back(input.name());
    fs::remove_all(options.output);
    auto compiled = compile(options, [](const std::string &) {});
    if (!compiled) {
      std::string text = llvm::toString(compiled.takeError());
      if (text.rfind(options.model + ": ", 0) == 0)
        text = text.substr(options.model.size() + 2);
      reason = text; // of the attempt with the most bound inputs
      continue;
    }
    if (!unreadable.empty() || sets.empty())
      return failed(unreadable.empty() ? "there is no data" : unreadable);
    auto directory = rt::readPlanDirectory(options.output);
    if (!directory)
      return failed(directory.status().message());
    for (const std::string &backend : setup.backends)
      for (const DataSet &set : sets)
        if (std::string wrong = execute(*directory, graph, set, backend); !wrong.empty())
          return failed(wrong);
    collectRules(options, outcome);
    outcome.status = Status::Passed;
    return outcome;
  }
  outcome.bound.clear();
  return refused(reason);
}

} // namespace tessera::test
