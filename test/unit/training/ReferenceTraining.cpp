// reference_training DIR...: runs exported networks by definition (test/support/Interpreter.h) and
// compares with PyTorch: the outputs of inference, the running statistics after one training step,
// and the loss of every step with the one that PyTorch computed in double precision.
//
// DIR holds eval_op17.onnx, train_op17.onnx, in_NAME.npy, target.npy, eval_out_I.npy, meta.json
// (inputs in order), train.json (optimizer, its settings, loss_f64 of consecutive steps on one
// batch) and, with BatchNorm, bn_buffers_after_1_forward.npz.
#include "compiler/import/OnnxImport.h"
#include "compiler/training/Training.h"
#include "compiler/transform/Passes.h"
#include "test/support/Interpreter.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

llvm::ExitOnError check;

std::string readFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    check(llvm::createStringError("%s: cannot be read", path.c_str()));
  return (*buffer)->getBuffer().str();
}

template <typename T> void widen(const char *bytes, std::vector<double> &data) {
  for (size_t i = 0; i < data.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    data[i] = double(value);
  }
}

void widenAs(StringRef type, StringRef bytes, std::vector<double> &data) {
  size_t size = type == "f4" || type == "i4" ? 4 : type == "b1" || type == "u1" ? 1 : 8;
  if (bytes.size() != data.size() * size)
    check(llvm::createStringError("%zu elements in %zu bytes", data.size(), bytes.size()));
  if (type == "f4")
    widen<float>(bytes.data(), data);
  else if (type == "f8")
    widen<double>(bytes.data(), data);
  else if (type == "i4")
    widen<int32_t>(bytes.data(), data);
  else if (type == "i8")
    widen<int64_t>(bytes.data(), data);
  else
    widen<uint8_t>(bytes.data(), data);
}

Tensor parseNpy(const std::string &what, StringRef file, ArrayRef<int64_t> shape) {
  if (file.size() < 10 || file.substr(1, 5) != "NUMPY")
    check(llvm::createStringError("%s: no npy file", what.c_str()));
  size_t header = size_t(uint8_t(file[8])) + 256 * size_t(uint8_t(file[9]));
  StringRef text = file.substr(10, header);
  StringRef type = text.split("'descr': '").second.split("'").first.drop_front(); // drops '<'
  Tensor t = Tensor::zeros(shape);
  size_t size = type.ends_with("8") ? 8 : type.ends_with("4") ? 4 : 1;
  widenAs(type, file.substr(10 + header, t.data.size() * size), t.data);
  return t;
}

Tensor readNpy(const std::string &path, ArrayRef<int64_t> shape) { return parseNpy(path, readFile(path), shape); }

/// A member of an uncompressed npz archive.
Tensor readNpz(const std::string &path, StringRef archive, const std::string &name, ArrayRef<int64_t> shape) {
  size_t at = archive.find(name + ".npy");
  if (at == StringRef::npos || at < 30)
    check(llvm::createStringError("%s: no '%s'", path.c_str(), name.c_str()));
  // The local file header ends with the lengths of name and extra field.
  size_t extra = size_t(uint8_t(archive[at - 2])) + 256 * size_t(uint8_t(archive[at - 1]));
  return parseNpy(path, archive.drop_front(at + name.size() + 4 + extra), shape);
}

llvm::json::Value readJson(const std::string &path) { return check(llvm::json::parse(readFile(path))); }

/// The loss that belongs to a network, by the name of its folder.
std::pair<std::string, std::string> lossOf(StringRef name) {
  if (name.starts_with("lenet"))
    return {"nll", ""};
  if (name.starts_with("dlrm"))
    return {"bce_with_logits", ""};
  return {"cross_entropy", name.starts_with("moe") ? "1=0.01" : ""};
}

std::string optimizerOf(const llvm::json::Object &train) {
  const llvm::json::Object &hyper = *train.getObject("hyper");
  std::string text = train.getString("optimizer")->str(), separator = ":";
  auto add = [&](StringRef key, double value) {
    llvm::raw_string_ostream(text) << separator << key << "=" << llvm::format("%.17g", value);
    separator = ",";
  };
  for (StringRef key : {"lr", "momentum", "eps", "weight_decay"})
    if (auto value = hyper.getNumber(key))
      add(key, *value);
  if (const llvm::json::Array *betas = hyper.getArray("betas")) {
    add("beta1", *(*betas)[0].getAsNumber());
    add("beta2", *(*betas)[1].getAsNumber());
  }
  return text;
}

Tensor weight(const compiler::WeightStore &weights, StringRef name, RankedTensorType type) {
  std::vector<char> bytes = check(weights.bytes(name));
  Tensor t = Tensor::zeros(type.getShape());
  Type element = type.getElementType();
  std::string code = element.isF64()         ? "f8"
                     : element.isF32()       ? "f4"
                     : element.isInteger(32) ? "i4"
                     : element.isInteger(64) ? "i8"
                                             : "u1";
  widenAs(code, StringRef(bytes.data(), bytes.size()), t.data);
  return t;
}

/// The arguments of a program: inputs and targets from the folder, the rest from the weights or as
/// the program says.
std::vector<Tensor> argumentsOf(func::FuncOp func, const std::string &dir, const compiler::WeightStore &weights) {
  llvm::json::Value meta = readJson(dir + "/meta.json");
  const llvm::json::Array &inputs = *meta.getAsObject()->getArray("inputs");
  std::vector<Tensor> arguments;
  size_t nextInput = 0;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    StringRef role = graph::argRole(func, i);
    if (role == graph::kInput) {
      std::string name = (*inputs[nextInput++].getAsArray())[0].getAsString()->str();
      arguments.push_back(readNpy(dir + "/in_" + name + ".npy", type.getShape()));
    } else if (role == graph::kTarget) {
      arguments.push_back(readNpy(dir + "/target.npy", type.getShape()));
    } else if (auto fill = func.getArgAttrOfType<FloatAttr>(i, graph::kFillAttr)) {
      arguments.push_back(Tensor::zeros(type.getShape(), fill.getValueAsDouble()));
    } else if (role == graph::kStep) {
      arguments.push_back(Tensor::scalar(0));
    } else {
      arguments.push_back(weight(weights, graph::argName(func, i), type));
    }
  }
  return arguments;
}

/// The largest difference of a tensor's elements, relative to its largest element.
double difference(const Tensor &a, const Tensor &b) {
  double worst = 0, top = 1e-6;
  for (size_t i = 0; i < a.data.size(); ++i) {
    worst = std::max(worst, std::fabs(a.data[i] - b.data[i]));
    top = std::max(top, std::fabs(b.data[i]));
  }
  return worst / top;
}

double infer(const std::string &dir) {
  MLIRContext context;
  compiler::ImportedModel model = check(compiler::importOnnx(context, dir + "/eval_op17.onnx", {}));
  auto func = model.module->lookupSymbol<func::FuncOp>("infer");
  std::vector<Tensor> results = check(interpret(func, argumentsOf(func, dir, model.weights)));
  double worst = 0;
  for (auto [i, result] : llvm::enumerate(results)) {
    Tensor expected = readNpy(dir + "/eval_out_" + std::to_string(i) + ".npy", result.shape);
    worst = std::max(worst, difference(result, expected));
  }
  llvm::outs() << llvm::format("%s: inference differs by %.1e\n", dir.c_str(), worst);
  return worst;
}

/// The running statistics in train_op17.onnx are those that the exporter left: one forward pass after
/// the ones in the archive. So a step from the archive's must lead to the file's.
double compareStates(func::FuncOp func, const std::string &dir, std::vector<Tensor> arguments) {
  std::string path = dir + "/bn_buffers_after_1_forward.npz";
  if (!llvm::sys::fs::exists(path))
    return 0;
  std::string archive = readFile(path);
  std::vector<std::pair<Tensor, unsigned>> expected; // and the result that it is compared with
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    std::optional<unsigned> update = graph::updateOf(func, i);
    if (graph::argRole(func, i) != graph::kState || func.getArgAttr(i, graph::kFillAttr) || !update)
      continue;
    Tensor before = readNpz(path, archive, graph::argName(func, i).str(), arguments[i].shape);
    expected.push_back({std::exchange(arguments[i], before), *update});
  }
  std::vector<Tensor> results = check(interpret(func, arguments));
  double worst = 0;
  for (auto &[after, result] : expected)
    worst = std::max(worst, difference(results[result], after));
  llvm::outs() << llvm::format("%s: %zu running statistics differ by %.1e\n", dir.c_str(), expected.size(), worst);
  return worst;
}

/// Whether the losses agree.
bool train(const std::string &dir, size_t limit) {
  llvm::json::Value settings = readJson(dir + "/train.json");
  MLIRContext context;
  compiler::ImportOptions import;
  import.training = true;
  compiler::ImportedModel model = check(compiler::importOnnx(context, dir + "/train_op17.onnx", import));

  auto [loss, aux] = lossOf(llvm::sys::path::filename(dir));
  compiler::TrainingOptions options;
  options.loss = check(compiler::parseLoss(loss));
  options.auxOutputs = check(compiler::parseAuxOutputs(aux));
  options.optimizer = check(compiler::parseOptimizer(optimizerOf(*settings.getAsObject())));
  check(compiler::buildTraining(*model.module, options));
  PassManager passes(&context);
  passes.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
  passes.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
  if (failed(verify(*model.module)) || failed(passes.run(*model.module)))
    check(llvm::createStringError("%s: invalid program", dir.c_str()));
  auto func = model.module->lookupSymbol<func::FuncOp>("train");

  std::vector<Tensor> arguments = argumentsOf(func, dir, model.weights);
  size_t operators = 0;
  llvm::StringSet<> names;
  func.walk([&](Operation *op) {
    ++operators;
    auto name = op->getAttrOfType<StringAttr>(graph::kNameAttr);
    if (name && !names.insert(name.getValue()).second)
      check(llvm::createStringError("%s: two operators '%s'", dir.c_str(), name.str().c_str()));
  });
  double worst = 0, states = compareStates(func, dir, arguments);
  const llvm::json::Array &losses = *settings.getAsObject()->getArray("loss_f64");
  for (size_t step = 0; step < std::min(limit, losses.size()); ++step) {
    arguments[0] = Tensor::scalar(double(step));
    std::vector<Tensor> results = check(interpret(func, arguments));
    double expected = *losses[step].getAsNumber();
    double difference = std::fabs(results[0].data[0] - expected) / std::fabs(expected);
    worst = std::max(worst, difference);
    llvm::outs() << llvm::format("%s: step %zu loss %.12f expected %.12f (%.1e)\n", dir.c_str(), step,
                                 results[0].data[0], expected, difference);
    llvm::outs().flush();
    for (unsigned a = 0; a < func.getNumArguments(); ++a)
      if (std::optional<unsigned> update = graph::updateOf(func, a))
        arguments[a] = results[*update];
  }
  llvm::outs() << llvm::format("%s: %zu operators, worst %.1e\n", dir.c_str(), operators, worst);
  // PyTorch's statistics are in single precision, and so are the constants of this program (rates).
  return worst < 2e-6 && states < 1e-5;
}

} // namespace

int main(int argc, char **argv) {
  check.setBanner("reference_training: ");
  size_t limit = 1000;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    StringRef argument(argv[i]);
    if (argument.consume_front("--steps="))
      argument.getAsInteger(10, limit);
    else
      good = infer(argv[i]) < 1e-5 && train(argv[i], limit) && good;
  }
  return good ? 0 : 1;
}
