// The ONNX importer. Mutations know the format: they change nodes, attributes, shapes and tensors of
// models that import, and make nodes of random operators of the table with random attributes.
#include "compiler/import/OnnxImport.h"
#include "compiler/import/onnx.pb.h"
#include "test/fuzz/Fuzz.h"

#include "mlir/IR/MLIRContext.h"

#include <fstream>
#include <memory>
#include <sstream>

using namespace tessera;

namespace {

using fuzz::Random;

int pick(int n, Random &random) { return n > 0 ? int(random() % uint64_t(n)) : 0; }

std::string anyValue(onnx::GraphProto &graph, Random &random) {
  std::vector<std::string> names{""};
  for (const auto &input : graph.input())
    names.push_back(input.name());
  for (const auto &tensor : graph.initializer())
    names.push_back(tensor.name());
  for (const auto &node : graph.node())
    names.insert(names.end(), node.output().begin(), node.output().end());
  return names[pick(int(names.size()), random)];
}

std::string anyOperator(Random &random) {
  static const auto table = compiler::supportedOperators();
  return table[pick(int(table.size()), random)].name;
}

void anyAttribute(onnx::AttributeProto &a, Random &random) {
  static const char *const ints[] = {"axis",          "keepdims",  "group",     "to",          "transA",
                                     "transB",        "ceil_mode", "allowzero", "blocksize",   "num_groups",
                                     "training_mode", "exclusive", "reverse",   "num_outputs", "start"};
  static const char *const lists[] = {"axes",  "perm",           "kernel_shape", "strides", "pads", "dilations",
                                      "split", "output_padding", "output_shape", "starts",  "ends"};
  static const char *const floats[] = {"alpha", "beta", "epsilon", "momentum", "ratio", "min", "max"};
  static const std::pair<const char *, const char *> strings[] = {
      {"mode", "linear"},         {"mode", "constant"},      {"auto_pad", "SAME_UPPER"},
      {"auto_pad", "SAME_LOWER"}, {"equation", "ij,jk->ik"}, {"equation", "ab,cb->ac"},
      {"equation", "a->"},        {"reduction", "sum"},      {"approximate", "tanh"}};
  switch (pick(4, random)) {
  case 0:
    a.set_name(ints[pick(std::size(ints), random)]);
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(fuzz::interesting(1, random));
    break;
  case 1:
    a.set_name(lists[pick(std::size(lists), random)]);
    a.set_type(onnx::AttributeProto::INTS);
    for (int n = pick(6, random); n > 0; --n)
      a.add_ints(pick(3, random) ? pick(4, random) : fuzz::interesting(0, random));
    break;
  case 2:
    a.set_name(floats[pick(std::size(floats), random)]);
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(float(fuzz::interesting(0, random)) / 2);
    break;
  default: {
    auto [name, value] = strings[pick(std::size(strings), random)];
    a.set_name(name);
    a.set_type(onnx::AttributeProto::STRING);
    a.set_s(value);
  }
  }
}

/// A node of a random operator, which the output then reads.
void addNode(onnx::GraphProto &graph, Random &random) {
  auto *node = graph.add_node();
  node->set_op_type(anyOperator(random));
  node->set_name("fuzz" + std::to_string(graph.node_size()));
  for (int n = 1 + pick(3, random); n > 0; --n)
    node->add_input(anyValue(graph, random));
  for (int n = pick(3, random); n > 0; --n)
    anyAttribute(*node->add_attribute(), random);
  for (int n = pick(8, random) ? 1 : 3; n > 0; --n)
    node->add_output("value" + std::to_string(graph.node_size()) + "_" + std::to_string(n));
  graph.add_output()->set_name(node->output(0));
}

void mutateTensor(onnx::TensorProto &tensor, Random &random) {
  switch (pick(4, random)) {
  case 0:
    if (tensor.dims_size() > 0) {
      int at = pick(tensor.dims_size(), random);
      tensor.set_dims(at, fuzz::interesting(tensor.dims(at), random));
    }
    break;
  case 1:
    tensor.set_data_type(pick(18, random));
    break;
  case 2:
    if (tensor.int64_data_size() > 0) {
      int at = pick(tensor.int64_data_size(), random);
      tensor.set_int64_data(at, fuzz::interesting(tensor.int64_data(at), random));
    } else if (!tensor.raw_data().empty()) {
      fuzz::mutateBytes(*tensor.mutable_raw_data(), random);
    }
    break;
  default:
    if (tensor.dims_size() > 0 && pick(2, random))
      tensor.mutable_dims()->RemoveLast();
    else
      tensor.add_dims(1);
  }
}

void mutateNode(onnx::NodeProto &node, onnx::GraphProto &graph, Random &random) {
  switch (pick(6, random)) {
  case 0:
    node.set_op_type(anyOperator(random));
    break;
  case 1:
    if (node.input_size() > 0)
      node.set_input(pick(node.input_size(), random), anyValue(graph, random));
    break;
  case 2:
    if (node.input_size() > 0 && pick(2, random))
      node.mutable_input()->RemoveLast();
    else
      node.add_input(anyValue(graph, random));
    break;
  case 3:
    anyAttribute(*node.add_attribute(), random);
    break;
  default:
    if (node.attribute_size() == 0)
      return;
    auto &a = *node.mutable_attribute(pick(node.attribute_size(), random));
    if (a.has_t())
      return mutateTensor(*a.mutable_t(), random);
    if (a.ints_size() > 0) {
      int at = pick(a.ints_size(), random);
      a.set_ints(at, fuzz::interesting(a.ints(at), random));
    } else if (a.has_i()) {
      a.set_i(fuzz::interesting(a.i(), random));
    } else {
      anyAttribute(a, random);
    }
  }
}

void mutateInput(onnx::GraphProto &graph, Random &random) {
  if (graph.input_size() == 0)
    return;
  auto *tensor = graph.mutable_input(pick(graph.input_size(), random))->mutable_type()->mutable_tensor_type();
  auto *shape = tensor->mutable_shape();
  if (pick(4, random) == 0)
    tensor->set_elem_type(pick(18, random));
  else if (shape->dim_size() > 0 && pick(3, random))
    shape->mutable_dim(pick(shape->dim_size(), random))->set_dim_value(fuzz::interesting(3, random));
  else if (shape->dim_size() > 0 && pick(2, random))
    shape->mutable_dim()->RemoveLast();
  else
    shape->add_dim()->set_dim_value(2);
}

/// Tensors of many shapes and types, for nodes that are added.
std::string playground(int64_t opset) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(opset);
  auto &graph = *model.mutable_graph();
  int index = 0;
  for (std::vector<int64_t> shape :
       std::vector<std::vector<int64_t>>{{2, 3, 4, 4}, {2, 3, 4}, {3, 4}, {4, 3}, {3}, {}, {3, 3, 2, 2}})
    for (int type : {onnx::TensorProto::FLOAT, onnx::TensorProto::INT64, onnx::TensorProto::BOOL}) {
      auto *info = graph.add_input();
      info->set_name("in" + std::to_string(index));
      auto *tensor = info->mutable_type()->mutable_tensor_type();
      tensor->set_elem_type(type);
      tensor->mutable_shape();
      auto *constant = graph.add_initializer();
      constant->set_name("known" + std::to_string(index++));
      constant->set_data_type(onnx::TensorProto::INT64);
      int64_t count = 1;
      for (int64_t extent : shape) {
        tensor->mutable_shape()->add_dim()->set_dim_value(extent);
        constant->add_dims(extent);
        count *= extent;
      }
      for (int64_t i = 0; i < count; ++i)
        constant->add_int64_data(i % 4 - 1);
    }
  auto *node = graph.add_node();
  node->set_op_type("Relu");
  node->add_input("in0");
  node->add_output("out");
  graph.add_output()->set_name("out");
  return model.SerializeAsString();
}

} // namespace

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> inputs;
  for (const char *name : {"lenet_train", "lenet_eval_op9", "vgg11_cifar_train", "resnet18_cifar_train"}) {
    std::ifstream file(std::string(TESSERA_TEST_MODELS "/") + name + ".onnx", std::ios::binary);
    std::stringstream contents;
    contents << file.rdbuf();
    inputs.push_back(contents.str());
  }
  for (int64_t opset : {9, 12, 17, 17, 20})
    inputs.push_back(playground(opset));
  return inputs;
}

void mutate(std::string &input, Random &random) {
  onnx::ModelProto model;
  if (pick(16, random) == 0 || !model.ParseFromString(input))
    return mutateBytes(input, random);
  auto &graph = *model.mutable_graph();
  int what = pick(8, random);
  if (what == 0)
    mutateInput(graph, random);
  else if (what == 1 && graph.initializer_size() > 0)
    mutateTensor(*graph.mutable_initializer(pick(graph.initializer_size(), random)), random);
  else if (what == 2 && model.opset_import_size() > 0)
    model.mutable_opset_import(0)->set_version(7 + pick(15, random));
  else if (what < 5 && graph.node_size() > 0)
    mutateNode(*graph.mutable_node(pick(graph.node_size(), random)), graph, random);
  else
    addNode(graph, random);
  input = model.SerializeAsString();
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A context costs a while to make, and keeps every type and attribute that it has seen.
  static std::unique_ptr<mlir::MLIRContext> held;
  static int runs = 0;
  if (runs++ % 500 == 0)
    held = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  mlir::MLIRContext &context = *held;
  compiler::ImportOptions options;
  options.dims["batch"] = 2;
  options.training = size % 2 == 0;
  llvm::StringRef bytes(reinterpret_cast<const char *>(data), size);
  auto model = compiler::importOnnxBytes(context, bytes, ".", options);
  if (!model && llvm::StringRef(llvm::toString(model.takeError())).contains("no symbolic dimension")) {
    options.dims.clear();
    model = compiler::importOnnxBytes(context, bytes, ".", options);
  }
  if (!model)
    llvm::consumeError(model.takeError());
  return 0;
}
