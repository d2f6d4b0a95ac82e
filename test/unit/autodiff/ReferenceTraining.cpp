// reference_training DIR...: trains exported networks by definition (test/support/Interpreter.h) and
// compares every loss with the one that PyTorch computed in double precision.
//
// DIR holds train_op17.onnx, in_NAME.npy, target.npy, meta.json (inputs in order) and train.json
// (optimizer, its settings, loss_f64 of consecutive steps on one batch).
#include "compiler/autodiff/Passes.h"
#include "compiler/autodiff/Training.h"
#include "compiler/import/OnnxImport.h"
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
#include <map>

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

Tensor readNpy(const std::string &path, ArrayRef<int64_t> shape) {
  std::string file = readFile(path);
  if (file.size() < 10 || StringRef(file).substr(1, 5) != "NUMPY")
    check(llvm::createStringError("%s: no npy file", path.c_str()));
  size_t header = size_t(uint8_t(file[8])) + 256 * size_t(uint8_t(file[9]));
  StringRef text = StringRef(file).substr(10, header);
  StringRef type = text.split("'descr': '").second.split("'").first.drop_front(); // drops '<'
  Tensor t = Tensor::zeros(shape);
  widenAs(type, StringRef(file).drop_front(10 + header), t.data);
  return t;
}

llvm::json::Value readJson(const std::string &path) {
  return check(llvm::json::parse(readFile(path)));
}

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

/// The largest relative difference of losses.
double train(const std::string &dir, size_t limit) {
  llvm::json::Value meta = readJson(dir + "/meta.json"), settings = readJson(dir + "/train.json");
  MLIRContext context;
  compiler::ImportOptions import;
  import.training = true;
  compiler::ImportedModel model =
      check(compiler::importOnnx(context, dir + "/train_op17.onnx", import));

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

  std::map<std::string, Tensor> inputs;
  std::vector<Tensor> arguments;
  size_t nextInput = 0, operators = 0;
  llvm::StringSet<> names;
  func.walk([&](Operation *op) {
    ++operators;
    auto name = op->getAttrOfType<StringAttr>(graph::kNameAttr);
    if (name && !names.insert(name.getValue()).second)
      check(llvm::createStringError("%s: two operators '%s'", dir.c_str(), name.str().c_str()));
  });
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(func.getArgumentTypes()[i]);
    std::string name = graph::argName(func, i).str();
    StringRef role = graph::argRole(func, i);
    if (role == graph::kInput) {
      const llvm::json::Array &row =
          *(*meta.getAsObject()->getArray("inputs"))[nextInput++].getAsArray();
      arguments.push_back(
          readNpy(dir + "/in_" + row[0].getAsString()->str() + ".npy", type.getShape()));
    } else if (role == graph::kTarget) {
      arguments.push_back(readNpy(dir + "/target.npy", type.getShape()));
    } else if (auto fill = func.getArgAttrOfType<FloatAttr>(i, graph::kFillAttr)) {
      arguments.push_back(Tensor::zeros(type.getShape(), fill.getValueAsDouble()));
    } else if (role == graph::kStep) {
      arguments.push_back(Tensor::scalar(0));
    } else {
      arguments.push_back(weight(model.weights, name, type));
    }
  }

  double worst = 0;
  const llvm::json::Array &losses = *settings.getAsObject()->getArray("loss_f64");
  for (size_t step = 0; step < std::min(limit, losses.size()); ++step) {
    arguments[0] = Tensor::scalar(double(step));
    std::vector<Tensor> results = check(interpret(func, arguments));
    double expected = *losses[step].getAsNumber();
    double difference = std::fabs(results[0].data[0] - expected) / std::fabs(expected);
    worst = std::max(worst, difference);
    llvm::outs() << llvm::format("%s: step %zu loss %.12f expected %.12f (%.1e)\n", dir.c_str(),
                                 step, results[0].data[0], expected, difference);
    llvm::outs().flush();
    for (unsigned a = 0; a < func.getNumArguments(); ++a)
      if (std::optional<unsigned> update = graph::updateOf(func, a))
        arguments[a] = results[*update];
  }
  llvm::outs() << llvm::format("%s: %zu operators, worst %.1e\n", dir.c_str(), operators, worst);
  return worst;
}

} // namespace

int main(int argc, char **argv) {
  check.setBanner("reference_training: ");
  size_t limit = 1000;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    if (StringRef(argv[i]).consume_front("--steps="))
      StringRef(argv[i]).drop_front(8).getAsInteger(10, limit);
    else // constants of the program are single precision, so losses agree no better than this
      good &= train(argv[i], limit) < 1e-6;
  }
  return good ? 0 : 1;
}
