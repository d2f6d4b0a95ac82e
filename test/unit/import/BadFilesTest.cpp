// Files that are broken or hostile: one clear error each.
#include "ModelBuilder.h"

#include "catch2/catch.hpp"

using namespace tessera::compiler;
using Catch::Contains;

namespace {

std::string errorOf(const std::string &bytes) {
  mlir::MLIRContext context;
  auto imported = importOnnxBytes(context, bytes, ".", {});
  return imported ? "no error" : llvm::toString(imported.takeError());
}

ModelBuilder good() {
  return ModelBuilder().input("x", {2, 3}).weight("w", {3, 4}).node("MatMul", {"x", "w"}, {"y"}).output("y");
}

} // namespace

TEST_CASE("a file that does not parse is one error", "[import]") {
  std::string bytes = good().bytes();
  REQUIRE(errorOf(bytes) == "no error");
  CHECK_THAT(errorOf(""), Contains("the model is empty"));
  CHECK_THAT(errorOf("this is no model"), Contains("not an ONNX model"));
  // Cut anywhere, the file is refused.
  for (size_t length = 0; length < bytes.size(); ++length) {
    INFO(length);
    CHECK(errorOf(bytes.substr(0, length)) != "no error");
  }
  mlir::MLIRContext context;
  auto missing = importOnnx(context, "does/not/exist.onnx", {});
  REQUIRE(!missing);
  CHECK_THAT(llvm::toString(missing.takeError()), Contains("cannot read the model 'does/not/exist.onnx'"));
}

TEST_CASE("a malformed graph is one error", "[import]") {
  CHECK_THAT(ModelBuilder()
                 .input("x", {2})
                 .node("Add", {"x", "b"}, {"a"}, "first")
                 .node("Relu", {"a"}, {"b"}, "second")
                 .output("b")
                 .print(),
             Contains("cycle through node 'first' (Add)") || Contains("cycle through node 'second' (Relu)"));
  CHECK_THAT(ModelBuilder().input("x", {2}).node("Relu", {"z"}, {"y"}, "r").output("y").print(),
             Contains("node 'r' (Relu) reads 'z', which nothing produces"));
  CHECK_THAT(ModelBuilder()
                 .input("x", {2})
                 .node("Relu", {"x"}, {"y"}, "r")
                 .node("Tanh", {"x"}, {"y"}, "t")
                 .output("y")
                 .print(),
             Contains("the value 'y' is produced twice, the second time by node 't' (Tanh)"));
  CHECK_THAT(good().output("nothing").print(), Contains("output 'nothing' is produced by no node"));
  CHECK_THAT(ModelBuilder().input("x", {2}).node("Relu", {"x"}, {"y"}).print(), Contains("has no output"));
  CHECK_THAT(good().input("x", {1}).print(), Contains("two inputs named 'x'"));
  CHECK_THAT(good().weight("w", {1}).print(), Contains("two initializers named 'w'"));
  // Nodes in any order are a graph.
  CHECK_THAT(ModelBuilder()
                 .input("x", {2})
                 .node("Relu", {"a"}, {"b"}, "second")
                 .node("Tanh", {"x"}, {"a"}, "first")
                 .output("b")
                 .print(),
             Contains("graph.relu"));
}

TEST_CASE("a tensor that contradicts itself is one error", "[import]") {
  ModelBuilder model = good();
  model.graph().mutable_initializer(0)->set_dims(0, 4);
  CHECK_THAT(model.print(), Contains("tensor 'w': its shape 4x4 of f32 needs 64 bytes, but it has 48"));
  model.graph().mutable_initializer(0)->set_dims(0, int64_t(1) << 62);
  CHECK_THAT(model.print(), Contains("initializer 'w'") && Contains("not supported"));
  model.graph().mutable_initializer(0)->set_dims(0, -1);
  CHECK_THAT(model.print(), Contains("initializer 'w'"));
  model.graph().mutable_initializer(0)->set_dims(0, 0);
  CHECK_THAT(model.print(), Contains("has no elements"));
  model = good();
  model.graph().mutable_initializer(0)->set_data_type(tessera::onnx::TensorProto::COMPLEX64);
  CHECK_THAT(model.print(), Contains("COMPLEX64"));
  model = good();
  model.graph().mutable_initializer(0)->set_name("w\xff");
  CHECK_THAT(model.print(), Contains("not valid UTF-8"));
}

TEST_CASE("a shape that is too large is one error", "[import]") {
  CHECK_THAT(
      ModelBuilder().input("x", {int64_t(1) << 40, int64_t(1) << 40}).node("Relu", {"x"}, {"y"}).output("y").print(),
      Contains("the input 'x'") && Contains("too large"));
  CHECK_THAT(ModelBuilder()
                 .input("x", {1})
                 .ints("s", {1 << 20, 1 << 20, 1 << 20})
                 .node("Expand", {"x", "s"}, {"y"})
                 .output("y")
                 .print(),
             Contains("cannot expand"));
  CHECK_THAT(ModelBuilder()
                 .input("x", {1, 1, 4, 4})
                 .node("MaxPool", {"x"}, {"y"})
                 .attrInts("kernel_shape", {2, 2})
                 .attrInts("pads", {INT64_MAX, 0, INT64_MAX, 0})
                 .output("y")
                 .print(),
             Contains("pads"));
}

TEST_CASE("constants that would take forever are refused", "[import]") {
  ModelBuilder model;
  model.input("x", {1}).ints("s", {1 << 20});
  model.node("Range", {"zero", "many", "one"}, {"v0"}, "range");
  model.ints("zero", {0}, true).ints("many", {1 << 20}, true).ints("one", {1}, true);
  for (int i = 0; i < 400; ++i)
    model.node("Add", {"v" + std::to_string(i), "v0"}, {"v" + std::to_string(i + 1)}, "add" + std::to_string(i));
  CHECK_THAT(model.output("v400").print(), Contains("take too much work to evaluate"));
}

TEST_CASE("numbers that are too large are not called negative", "[import]") {
  constexpr int64_t kHuge = int64_t(1) << 62;
  auto image = [] { return ModelBuilder().input("x", {1, 1, 4, 4}).weight("w", {1, 1, 2, 2}); };
  auto conv = image().node("Conv", {"x", "w"}, {"y"}).attrInts("strides", {kHuge, kHuge}).output("y").print();
  CHECK_THAT(conv, Contains("strides has 4611686018427387904, which is too large; at most 1048576 is supported"));
  CHECK_THAT(image().node("Conv", {"x", "w"}, {"y"}).attrInts("strides", {0, 1}).output("y").print(),
             Contains("need 2 positive numbers"));
  auto tile = [](int64_t times) {
    return ModelBuilder().input("x", {3}).ints("r", {times}).node("Tile", {"x", "r"}, {"y"}).output("y").print();
  };
  CHECK_THAT(tile(kHuge), Contains("too large") && !Contains("positive"));
  CHECK_THAT(tile(-1), Contains("repeats must not be negative"));
  auto range = [](int64_t limit, int64_t delta) {
    ModelBuilder model;
    model.input("x", {1}).ints("a", {0}, true).ints("z", {limit}, true).ints("d", {delta}, true);
    return model.node("Range", {"a", "z", "d"}, {"y"}).output("y").print();
  };
  CHECK_THAT(range(3000000000, 1), Contains("it has 3000000000 elements, which is too large; at most 1048576"));
  CHECK_THAT(range(4, 0), Contains("the delta is 0"));
}

TEST_CASE("an error shows an index that is out of range as the file has it", "[import]") {
  for (const char *op : {"Gather", "GatherElements"})
    for (const int64_t index : {INT64_MIN, int64_t(-4), int64_t(3)})
      CHECK_THAT(ModelBuilder().input("x", {3}).ints("i", {index}).node(op, {"x", "i"}, {"y"}).output("y").print(),
                 Contains("index " + std::to_string(index) + " lies outside the extent 3 of dimension 0"));
  CHECK_THAT(ModelBuilder().input("x", {3}).ints("i", {-3}).node("Gather", {"x", "i"}, {"y"}).output("y").print(),
             !Contains("error"));
}

TEST_CASE("a reshape with a size that no division gives is one error", "[import]") {
  for (const std::string op : {"Div", "Mod"}) {
    ModelBuilder model;
    model.input("x", {4}).ints("a", {4}).ints("zero", {0});
    model.node(op, {"a", "zero"}, {"s"}, "quotient").node("Reshape", {"x", "s"}, {"y"}, "reshape");
    CHECK_THAT(model.output("y").print(),
               Contains("node 'reshape'") && Contains("known at import; 'quotient' divides an integer by 0"));
  }
  ModelBuilder model;
  model.input("x", {4}).input("n", {1}, tessera::onnx::TensorProto::INT64).ints("zero", {0});
  model.node("Div", {"n", "zero"}, {"s"}).node("Reshape", {"x", "s"}, {"y"});
  CHECK_THAT(model.output("y").print(), Contains("known at import; it depends on the model's inputs or weights"));
}

TEST_CASE("an attribute that is given twice is refused", "[import]") {
  ModelBuilder model;
  model.input("x", {2, 3}).node("Softmax", {"x"}, {"y"}).attr("axis", 0).attr("axis", 1);
  CHECK_THAT(model.output("y").print(),
             Contains("node 'n' (Softmax") && Contains("the attribute 'axis' is given twice"));
}
