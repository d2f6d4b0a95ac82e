// Weights: initialisation, external data, the safetensors file.
#include "ModelBuilder.h"

#include "catch2/catch.hpp"

#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace tessera::compiler;
using Catch::Contains;

namespace {

std::vector<float> floats(const WeightStore &store, llvm::StringRef name) {
  auto bytes = store.bytes(name);
  REQUIRE(bool(bytes));
  std::vector<float> values(bytes->size() / 4);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = llvm::bit_cast<float>(llvm::support::endian::read32le(bytes->data() + 4 * i));
  return values;
}

struct Directory {
  llvm::SmallString<128> path;
  Directory() { REQUIRE(!llvm::sys::fs::createUniqueDirectory("tessera-import", path)); }
  ~Directory() { llvm::sys::fs::remove_directories(path); }
  std::string file(llvm::StringRef name) const {
    llvm::SmallString<128> full(path);
    llvm::sys::path::append(full, name);
    return std::string(full);
  }
  void write(llvm::StringRef name, llvm::StringRef bytes) const {
    std::error_code code;
    llvm::raw_fd_ostream(file(name), code) << bytes;
    REQUIRE(!code);
  }
};

/// A model whose weights are graph inputs.
ModelBuilder withoutWeights() {
  ModelBuilder model;
  model.input("image", {2, 64}).input("fc.weight", {1000, 64}).input("fc.bias", {1000});
  model.node("Gemm", {"image", "fc.weight", "fc.bias"}, {"y"}).attr("transB", 1).output("y");
  return model;
}

WeightStore importWeights(const ModelBuilder &model, const ImportOptions &options) {
  mlir::MLIRContext context;
  auto imported = model.import(context, options);
  if (!imported)
    FAIL(llvm::toString(imported.takeError()));
  return std::move(imported->weights);
}

/// y = x * w with w in an external file.
ModelBuilder external(const std::string &location, const std::string &offset, const std::string &length) {
  ModelBuilder model;
  model.input("x", {2}).node("PRelu", {"x", "w"}, {"y"}).output("y");
  auto *tensor = model.graph().add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(tessera::onnx::TensorProto::FLOAT);
  tensor->add_dims(2);
  tensor->set_data_location(tessera::onnx::TensorProto::EXTERNAL);
  auto put = [&](const char *key, const std::string &value) {
    if (value.empty())
      return;
    auto *entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  put("location", location);
  put("offset", offset);
  put("length", length);
  return model;
}

std::string errorOf(const ModelBuilder &model, const std::string &directory) {
  mlir::MLIRContext context;
  auto imported = model.import(context, {}, directory);
  return imported ? "no error" : llvm::toString(imported.takeError());
}

} // namespace

TEST_CASE("weights that the file lacks follow rule and seed", "[import]") {
  ImportOptions options;
  options.seed = 3;
  WeightStore store = importWeights(withoutWeights(), options);
  std::vector<float> w = floats(store, "fc.weight");
  double sum = 0, squares = 0;
  for (float x : w) {
    sum += x;
    squares += double(x) * x;
  }
  auto n = double(w.size());
  CHECK(std::abs(sum / n) < 4 * std::sqrt(2.0 / 64 / n)); // four standard errors
  CHECK(squares / n == Approx(2.0 / 64).epsilon(0.03));
  CHECK(floats(store, "fc.bias") == std::vector<float>(1000, 0));

  CHECK(floats(importWeights(withoutWeights(), options), "fc.weight") == w);
  options.seed = 4;
  CHECK(floats(importWeights(withoutWeights(), options), "fc.weight") != w);

  options.initRule = "torch";
  store = importWeights(withoutWeights(), options);
  for (const char *name : {"fc.weight", "fc.bias"}) {
    float largest = 0;
    for (float x : floats(store, name))
      largest = std::max(largest, std::abs(x));
    CHECK(largest <= 0.125f); // 1 / sqrt(64)
    CHECK(largest > 0.12f);
  }
  options.initRules = {{"*", "ones"}, {"fc.w*", "zeros"}};
  store = importWeights(withoutWeights(), options);
  CHECK(floats(store, "fc.weight") == std::vector<float>(64000, 0)); // the last match wins
  CHECK(floats(store, "fc.bias") == std::vector<float>(1000, 1));
  options.initRules = {{"fd.*", "zeros"}};
  CHECK_THAT(withoutWeights().print(options), Contains("--init fd.*=zeros: no parameter"));
  options.initRules = {{"[", "zeros"}};
  CHECK_THAT(withoutWeights().print(options), Contains("--init [=zeros:"));
  options.initRules.clear();
  options.initRule = "nonsense";
  CHECK_THAT(withoutWeights().print(options), Contains("unknown initialisation rule 'nonsense'"));
}

TEST_CASE("a file without weights has inputs and parameters", "[import]") {
  std::string text = withoutWeights().print();
  CHECK_THAT(text, Contains("{graph.name = \"image\", graph.role = \"input\"}") &&
                       Contains("{graph.name = \"fc.bias\", graph.role = \"parameter\"}"));
  ImportOptions options;
  options.inputs = {"image", "fc.bias"};
  CHECK_THAT(withoutWeights().print(options), Contains("{graph.name = \"fc.bias\", graph.role = \"input\"}"));
  options.inputs = {"img"};
  CHECK_THAT(withoutWeights().print(options), Contains("the model has no input 'img'"));
}

TEST_CASE("weights are read from safetensors", "[import]") {
  Directory directory;
  WeightStore store;
  store.add({"a", DType::F32, {2, 3}, InitRule::constant(1.5)});
  store.add({"b \"quoted\"", DType::I64, {2}, std::string("\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16)});
  std::string path = directory.file("w.safetensors");
  REQUIRE(!store.writeSafetensors(path));
  auto buffer = llvm::MemoryBuffer::getFile(path);
  REQUIRE(bool(buffer));
  llvm::StringRef all = (*buffer)->getBuffer();
  uint64_t length = llvm::support::endian::read64le(all.data());
  CHECK(length % 8 == 0);
  REQUIRE(all.size() == 8 + length + 24 + 16);
  auto header = llvm::json::parse(all.substr(8, length));
  REQUIRE(bool(header));
  auto *b = header->getAsObject()->getObject("b \"quoted\"");
  REQUIRE(b);
  CHECK(*b->getString("dtype") == "I64");
  CHECK((*b->getArray("data_offsets"))[0] == 24);
  CHECK((*b->getArray("data_offsets"))[1] == 40);
  CHECK(all.substr(8 + length + 24) == std::get<std::string>(store.weights()[1].source));

  auto error = llvm::toString(store.writeSafetensors(directory.file("none/w.safetensors")));
  CHECK_THAT(error, Contains("none/w.safetensors: cannot be written"));
}

TEST_CASE("external data stays inside the model's directory", "[import]") {
  Directory directory;
  std::string path(directory.path);
  directory.write("data.bin", std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40", 12)); // 0, 1, 2
  WeightStore store;
  {
    mlir::MLIRContext context;
    auto imported = external("data.bin", "4", "8").import(context, {}, path);
    if (!imported)
      FAIL(llvm::toString(imported.takeError()));
    store = std::move(imported->weights);
  }
  CHECK(floats(store, "w") == std::vector<float>{1, 2});

  CHECK_THAT(errorOf(external("data.bin", "8", "8"), path), Contains("needs bytes 8 to 16"));
  CHECK_THAT(errorOf(external("data.bin", "18446744073709551612", ""), path), Contains("needs bytes"));
  CHECK_THAT(errorOf(external("data.bin", "x", ""), path), Contains("malformed offset"));
  CHECK_THAT(errorOf(external("data.bin", "0", "4"), path), Contains("needs 8 bytes"));
  CHECK_THAT(errorOf(external("none.bin", "", ""), path), Contains("cannot find the external data"));
  for (const char *bad : {"../data.bin", "/etc/passwd", "a/../../data.bin", ""})
    CHECK_THAT(errorOf(external(bad, "", ""), path), Contains("outside the model's directory"));
  CHECK_THAT(errorOf(external(".", "", ""), path),
             Contains("is not a file") || Contains("outside the model's directory"));
  REQUIRE(!llvm::sys::fs::create_link("/etc/passwd", directory.file("link")));
  CHECK_THAT(errorOf(external("link", "", ""), path), Contains("outside the model's directory"));
  // A weight that vanishes after import is an error when it is read.
  REQUIRE(!llvm::sys::fs::remove(directory.file("data.bin")));
  CHECK_THAT(llvm::toString(store.bytes("w").takeError()), Contains("weight 'w': cannot open"));
}
