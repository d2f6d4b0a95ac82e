//===- ModelBuilder.h - small ONNX models for tests -----------------------------------------------===//
//
//   ModelBuilder model(17);
//   model.input("x", {2, 3}).weight("w", {4, 3}).node("Gemm", {"x", "w"}, "y").attr("transB", 1);
//   auto imported = model.output("y").import(context);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_IMPORT_MODELBUILDER_H
#define TESSERA_TEST_UNIT_IMPORT_MODELBUILDER_H

#include "compiler/import/OnnxImport.h"
#include "compiler/import/onnx.pb.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

namespace tessera::compiler {

class ModelBuilder {
public:
  explicit ModelBuilder(int64_t opset = 17) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
  }

  onnx::ModelProto proto;
  onnx::GraphProto &graph() { return *proto.mutable_graph(); }

  /// A negative extent becomes the symbol "batch".
  ModelBuilder &input(const std::string &name, const std::vector<int64_t> &shape, int type = onnx::TensorProto::FLOAT) {
    auto *info = graph().add_input();
    info->set_name(name);
    auto *tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t extent : shape) {
      auto *dim = tensor->mutable_shape()->add_dim();
      if (extent < 0)
        dim->set_dim_param("batch");
      else
        dim->set_dim_value(extent);
    }
    return *this;
  }
  ModelBuilder &output(const std::string &name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  /// An initializer of ones.
  ModelBuilder &weight(const std::string &name, const std::vector<int64_t> &shape) {
    auto *tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (int64_t extent : shape) {
      tensor->add_dims(extent);
      count *= extent;
    }
    for (int64_t i = 0; i < count; ++i)
      tensor->add_float_data(1);
    return *this;
  }
  /// A 1-D int64 initializer.
  ModelBuilder &ints(const std::string &name, const std::vector<int64_t> &values, bool scalar = false) {
    auto *tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    if (!scalar)
      tensor->add_dims(int64_t(values.size()));
    for (int64_t value : values)
      tensor->add_int64_data(value);
    return *this;
  }
  ModelBuilder &node(const std::string &op, const std::vector<std::string> &inputs,
                     const std::vector<std::string> &outputs, const std::string &name = "n") {
    auto *node = graph().add_node();
    node->set_op_type(op);
    node->set_name(name);
    for (const std::string &input : inputs)
      node->add_input(input);
    for (const std::string &output : outputs)
      node->add_output(output);
    return *this;
  }
  // Attributes of the last node.
  ModelBuilder &attr(const std::string &name, int64_t value) {
    auto *a = add(name, onnx::AttributeProto::INT);
    a->set_i(value);
    return *this;
  }
  ModelBuilder &attrFloat(const std::string &name, float value) {
    add(name, onnx::AttributeProto::FLOAT)->set_f(value);
    return *this;
  }
  ModelBuilder &attrString(const std::string &name, const std::string &value) {
    add(name, onnx::AttributeProto::STRING)->set_s(value);
    return *this;
  }
  ModelBuilder &attrInts(const std::string &name, const std::vector<int64_t> &values) {
    auto *a = add(name, onnx::AttributeProto::INTS);
    for (int64_t value : values)
      a->add_ints(value);
    return *this;
  }

  std::string bytes() const { return proto.SerializeAsString(); }

  llvm::Expected<ImportedModel> import(mlir::MLIRContext &context, const ImportOptions &options = {},
                                       const std::string &directory = ".") const {
    return importOnnxBytes(context, bytes(), directory, options);
  }
  /// The printed module, or "error: " and the message.
  std::string print(const ImportOptions &options = {}) const {
    mlir::MLIRContext context;
    auto model = import(context, options);
    if (!model)
      return "error: " + llvm::toString(model.takeError());
    std::string text;
    llvm::raw_string_ostream stream(text);
    model->module->print(stream);
    return text;
  }

private:
  onnx::AttributeProto *add(const std::string &name, onnx::AttributeProto::AttributeType type) {
    auto *a = graph().mutable_node(graph().node_size() - 1)->add_attribute();
    a->set_name(name);
    a->set_type(type);
    return a;
  }
};

} // namespace tessera::compiler

#endif
