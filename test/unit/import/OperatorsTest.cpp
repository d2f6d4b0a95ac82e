// The graph operators of single ONNX nodes, as printed IR.
#include "ModelBuilder.h"
#include "compiler/import/ModelFile.h"

#include "catch2/catch.hpp"

#include <set>

using namespace tessera::compiler;
using Catch::Contains;

namespace {

ImportOptions training() {
  ImportOptions options;
  options.training = true;
  return options;
}

/// How often `what` occurs.
int count(const std::string &text, const std::string &what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++n;
  return n;
}

} // namespace

TEST_CASE("Gemm keeps its name on the product", "[import]") {
  std::string text = ModelBuilder()
                         .input("x", {2, 3})
                         .weight("w", {4, 3})
                         .weight("b", {4})
                         .node("Gemm", {"x", "w", "b"}, {"y"}, "/fc/Gemm")
                         .attr("transB", 1)
                         .attrFloat("alpha", 0.1f)
                         .output("y")
                         .print();
  CHECK_THAT(text, Contains("graph.matmul %arg0, %arg1 {graph.name = \"/fc/Gemm\", transpose_b = true}"));
  CHECK_THAT(text, Contains("graph.name = \"/fc/Gemm/alpha\""));
  CHECK_THAT(text, Contains("graph.name = \"/fc/Gemm/bias\""));
  CHECK_THAT(text, Contains("{graph.name = \"w\", graph.role = \"parameter\"}"));
  CHECK_THAT(text, Contains("{graph.name = \"y\", graph.role = \"output\"}"));
}

TEST_CASE("a product takes the transpose of its operand", "[import]") {
  std::string text = ModelBuilder()
                         .input("x", {2, 3})
                         .weight("w", {4, 3})
                         .node("Transpose", {"w"}, {"t"}, "t")
                         .attrInts("perm", {1, 0})
                         .node("MatMul", {"x", "t"}, {"y"}, "p")
                         .output("y")
                         .print();
  CHECK_THAT(text, Contains("graph.matmul %arg0, %arg1 {graph.name = \"p\", transpose_b = true}"));
  CHECK_THAT(text, !Contains("graph.transpose"));
}

TEST_CASE("bitwise operators take integers only", "[import]") {
  auto text = [](const std::string &op, int type) {
    return ModelBuilder(18).input("x", {2, 3}, type).input("m", {3}, type).node(op, {"x", "m"}, {"y"}).output("y");
  };
  const std::pair<const char *, const char *> operators[] = {
      {"BitwiseAnd", "graph.bit_and"},
      {"BitwiseOr", "graph.bit_or"},
      {"BitwiseXor", "graph.bit_xor"},
  };
  for (auto [name, becomes] : operators) {
    CHECK_THAT(text(name, tessera::onnx::TensorProto::INT32).print(), Contains(becomes));
    CHECK_THAT(text(name, tessera::onnx::TensorProto::FLOAT).print(), Contains("the operands must be integers"));
  }
}

TEST_CASE("a mel filter bank needs known numbers within the spectrum", "[import]") {
  auto bank = [](int64_t bands, float low, float high) {
    ModelBuilder model;
    model.ints("bands", {bands}, true).ints("length", {16}, true).ints("rate", {8192}, true);
    for (auto [name, value] : {std::pair("low", low), std::pair("high", high)}) {
      model.weight(name, {});
      model.graph().mutable_initializer(model.graph().initializer_size() - 1)->set_float_data(0, value);
    }
    return model.node("MelWeightMatrix", {"bands", "length", "rate", "low", "high"}, {"y"}, "m").output("y").print();
  };
  CHECK_THAT(bank(8, 0, 4096), Contains("tensor<9x8xf32>"));
  CHECK_THAT(bank(0, 0, 4096), Contains("num_mel_bins (input 0) must be one number between 1 and"));
  CHECK_THAT(bank(8, 100, 50), Contains("lower_edge_hertz <= upper_edge_hertz"));
  CHECK_THAT(bank(8, 0, 8000), Contains("upper_edge_hertz lies above the spectrum's last bin"));
  CHECK_THAT(bank(1 << 20, 0, 4096), Contains("has too many elements"));
}

TEST_CASE("DFT is a product with a known matrix", "[import]") {
  auto dft = [](const std::vector<int64_t> &shape, int64_t axis, bool onesided, bool inverse) {
    ModelBuilder model;
    model.input("x", shape).node("DFT", {"x"}, {"y"}, "f");
    return model.attr("axis", axis).attr("onesided", onesided).attr("inverse", inverse).output("y").print();
  };
  // The axis that is last already is not moved.
  std::string text = dft({2, 8, 1}, 1, true, false);
  CHECK_THAT(text, Contains("(tensor<2x8xf32>, tensor<8x10xf32>) -> tensor<2x10xf32>"));
  CHECK_THAT(text, !Contains("graph.transpose") && !Contains("graph.cos"));
  CHECK(count(dft({2, 8, 3, 2}, 1, false, true), "graph.transpose") == 2);
  CHECK_THAT(dft({2, 8, 2}, 1, true, false), Contains("onesided=1 needs an input of real numbers"));
  CHECK_THAT(dft({2, 8, 1}, 1, true, true), Contains("with inverse=1 one of complex numbers"));
  CHECK_THAT(dft({2, 8, 1}, 2, false, false), Contains("the input 2x8x1 must have 1 (real numbers) or 2"));
  CHECK_THAT(dft({2, 8, 3}, 1, false, false), Contains("the input 2x8x3 must have 1 (real numbers) or 2"));
  CHECK_THAT(dft({2, 1, 2}, 1, true, true), Contains("half a spectrum of one number needs dft_length"));
  CHECK_THAT(dft({2, 8, 1}, 5, false, false), Contains("axis 5 is out of range for 3 dimensions"));
  std::string length = ModelBuilder(20)
                           .input("x", {2, 8, 1})
                           .input("n", {}, tessera::onnx::TensorProto::INT64)
                           .node("DFT", {"x", "n"}, {"y"}, "f")
                           .output("y")
                           .print();
  CHECK_THAT(length, Contains("dft_length (input 1) must be known at import"));
}

TEST_CASE("STFT needs a window or its length, within the signal", "[import]") {
  auto stft = [](const std::vector<int64_t> &shape, const std::string &window, int64_t length) {
    ModelBuilder model;
    model.input("x", shape).ints("step", {4}, true).weight("w", {8});
    std::vector<std::string> inputs{"x", "step", window};
    if (length)
      model.ints("n", {length}, true), inputs.push_back("n");
    return model.node("STFT", inputs, {"y"}, "f").output("y").print();
  };
  CHECK_THAT(stft({2, 20, 1}, "w", 0), Contains("tensor<2x4x5x2xf32>"));
  CHECK_THAT(stft({2, 20}, "", 8), Contains("tensor<2x4x5x2xf32>"));
  CHECK_THAT(stft({2, 20, 1}, "", 0), Contains("window or frame_length is needed"));
  CHECK_THAT(stft({2, 20, 1}, "w", 6), Contains("the window 8 must have frame_length (6) elements"));
  CHECK_THAT(stft({2, 6, 1}, "w", 0), Contains("a window of 8 does not lie within a signal of 6"));
  CHECK_THAT(stft({2, 20, 2}, "w", 0), Contains("must be [batch, length, 1] of real numbers"));
}

TEST_CASE("a Resize whose inputs do not fit is one error", "[import]") {
  auto resize = [](const std::vector<int64_t> &sizes, auto &&change) {
    ModelBuilder model(19);
    model.input("x", {2, 4, 6}).ints("sizes", sizes).node("Resize", {"x", "", "", "sizes"}, {"y"}, "f");
    change(model);
    return model.output("y").print();
  };
  auto text = [](const char *name, const char *value) {
    return [=](ModelBuilder &model) { model.attrString(name, value); };
  };
  // One scale for both axes: 3/4 is the smaller one, 9/6 the larger one. Axes may come in any order.
  auto kept = [&](const char *policy) {
    return resize({3, 9}, [&](ModelBuilder &model) {
      model.attrString("keep_aspect_ratio_policy", policy).attrInts("axes", {-2, 2});
    });
  };
  CHECK_THAT(kept("not_larger"), Contains("tensor<2x3x5xf32>"));
  CHECK_THAT(kept("not_smaller"), Contains("tensor<2x6x9xf32>"));
  CHECK_THAT(kept("as_it_is"), Contains("keep_aspect_ratio_policy='as_it_is' is unknown"));
  CHECK_THAT(resize({2, 3, 3}, [](ModelBuilder &model) { model.attr("antialias", 1); }),
             Contains("antialias is for the modes linear and cubic, not for nearest"));
  CHECK_THAT(resize({2, 3, 3}, text("mode", "quintic")), Contains("use nearest, or linear or cubic of floating point"));
  CHECK_THAT(resize({2, 3},
                    [](ModelBuilder &model) {
                      model.attrInts("axes", {1, -2});
                    }),
             Contains("axes name a dimension twice"));
  CHECK_THAT(resize({2, 3, 0}, [](ModelBuilder &) {}), Contains("would get an extent that is not possible"));
}

TEST_CASE("a window that does not fit is one error", "[import]") {
  auto norm = ModelBuilder(18).input("x", {2, 3, 8}).node("LpPool", {"x"}, {"y"}, "f").attrInts("kernel_shape", {2});
  CHECK_THAT(ModelBuilder(norm).attr("p", 0).output("y").print(), Contains("p has 0, which is no norm"));
  CHECK_THAT(ModelBuilder(norm).attrInts("pads", {1000000, 0}).output("y").print(),
             Contains("a window lies outside the input"));
  auto columns = [](const std::vector<int64_t> &image) {
    return ModelBuilder(18)
        .input("x", {2, 12, 6})
        .ints("image", image)
        .ints("block", {2, 2})
        .node("Col2Im", {"x", "image", "block"}, {"y"}, "f")
        .output("y")
        .print();
  };
  CHECK_THAT(columns({3, 4}), Contains("tensor<2x3x3x4xf32>"));
  CHECK_THAT(columns({3, 3}), Contains("the input 2x12x6 does not fit 4 windows of 4 elements"));
  CHECK_THAT(columns({3, -4}), Contains("is not possible"));
  CHECK_THAT(columns({int64_t(1) << 62, int64_t(1) << 62}), Contains("is not possible"));
  auto cropped = [](const std::vector<int64_t> &shape) {
    return ModelBuilder(18)
        .input("x", {2, 3})
        .ints("shape", shape)
        .node("CenterCropPad", {"x", "shape"}, {"y"}, "f")
        .output("y")
        .print();
  };
  CHECK_THAT(cropped({1, 6}), Contains("tensor<1x6xf32>"));
  CHECK_THAT(cropped({1}), Contains("shape needs one number for each axis"));
  CHECK_THAT(cropped({int64_t(1) << 39, int64_t(1) << 39}), Contains("is too large"));
  auto det = [](int64_t rows, int64_t columns) {
    return ModelBuilder().input("x", {2, rows, columns}).node("Det", {"x"}, {"y"}, "f").output("y").print();
  };
  CHECK_THAT(det(1, 1), Contains("tensor<2xf32>"));
  CHECK_THAT(det(7, 7), Contains("matrices must be square, of 1 to 6 rows"));
  CHECK_THAT(det(2, 3), Contains("matrices must be square"));
}

TEST_CASE("operators that read images between their pixels check their inputs", "[import]") {
  auto moved = [](const std::vector<int64_t> &offsets, int64_t groups) {
    return ModelBuilder(19)
        .input("x", {2, 4, 5, 5})
        .weight("w", {6, 2, 3, 3})
        .input("o", offsets)
        .node("DeformConv", {"x", "w", "o"}, {"y"}, "f")
        .attr("group", groups)
        .output("y")
        .print();
  };
  CHECK_THAT(moved({2, 18, 3, 3}, 2), Contains("tensor<2x6x3x3xf32>"));
  CHECK_THAT(moved({2, 18, 3, 4}, 2), Contains("do not fit the input 2x4x5x5"));
  CHECK_THAT(moved({2, 18, 3, 3}, 0), Contains("do not fit the input 2x4x5x5"));
  auto regions = [](int64_t ratio, const char *mode) {
    return ModelBuilder()
        .input("x", {2, 4, 5, 5})
        .input("rois", {3, 4})
        .input("which", {3}, tessera::onnx::TensorProto::INT64)
        .node("RoiAlign", {"x", "rois", "which"}, {"y"}, "f")
        .attr("sampling_ratio", ratio)
        .attrString("mode", mode)
        .output("y")
        .print();
  };
  CHECK_THAT(regions(2, "avg"), Contains("tensor<3x4x1x1xf32>"));
  CHECK_THAT(regions(0, "avg"), Contains("rois must be known at import, and of one size; or give sampling_ratio"));
  CHECK_THAT(regions(2, "max"), Contains("mode='max' is not supported: only avg is"));
}

TEST_CASE("Conv: bias and automatic padding", "[import]") {
  auto conv = [](const std::string &pad) {
    return ModelBuilder()
        .input("x", {1, 2, 5, 6})
        .weight("w", {4, 2, 2, 2})
        .weight("b", {4})
        .node("Conv", {"x", "w", "b"}, {"y"}, "c")
        .attrString("auto_pad", pad)
        .attrInts("strides", {2, 1})
        .output("y")
        .print();
  };
  // Height 5, stride 2: 3 rows need (3 - 1) * 2 + 2 - 5 = 1 more; width 6: 1 more.
  CHECK_THAT(conv("SAME_UPPER"), Contains("pads = array<i64: 0, 0, 1, 1>") && Contains("tensor<1x4x3x6xf32>"));
  CHECK_THAT(conv("SAME_LOWER"), Contains("pads = array<i64: 1, 1, 0, 0>"));
  CHECK_THAT(conv("VALID"), Contains("tensor<1x4x2x5xf32>"));
  CHECK_THAT(conv("VALID"), Contains("graph.reshape %arg2 {graph.name = \"c/bias_reshape\"} : "
                                     "(tensor<4xf32>) -> tensor<1x4x1x1xf32>"));
  CHECK_THAT(conv("OTHER"), Contains("error: node 'c' (Conv, opset 17): auto_pad='OTHER' is unknown"));
}

TEST_CASE("Conv: a bias of zeros may have any shape, as PyTorch's exporter writes it", "[import]") {
  auto conv = [](float value) {
    ModelBuilder model;
    model.input("x", {1, 2, 5, 6, 6}).weight("w", {4, 2, 1, 3, 3}).weight("zero", {}).ints("shape", {4, 2});
    model.graph().mutable_initializer(1)->set_float_data(0, value);
    model.node("Expand", {"zero", "shape"}, {"b"}, "e").node("Conv", {"x", "w", "b"}, {"y"}, "c").output("y");
    ImportOptions options;
    options.constants = {"zero"};
    return model.print(options);
  };
  CHECK_THAT(conv(0), Contains("graph.conv") && !Contains("graph.add"));
  CHECK_THAT(conv(1), Contains("error: node 'c' (Conv, opset 17): the bias 4x2 does not fit 4 channels"));
}

TEST_CASE("MaxPool rounds up by padding", "[import]") {
  auto pool = [](int64_t extent) {
    return ModelBuilder()
        .input("x", {1, 1, extent, extent})
        .node("MaxPool", {"x"}, {"y"})
        .attrInts("kernel_shape", {2, 2})
        .attrInts("strides", {2, 2})
        .attr("ceil_mode", 1)
        .output("y")
        .print();
  };
  CHECK_THAT(pool(5), Contains("pads = array<i64: 0, 0, 1, 1>") && Contains("tensor<1x1x3x3xf32>"));
  CHECK_THAT(pool(4), Contains("pads = array<i64: 0, 0, 0, 0>") && Contains("tensor<1x1x2x2xf32>"));
}

TEST_CASE("BatchNormalization in both modes", "[import]") {
  auto norm = [](int64_t opset, bool marked, const ImportOptions &options) {
    ModelBuilder model(opset);
    model.input("x", {4, 3, 2, 2});
    for (const char *name : {"s", "b", "m", "v"})
      model.weight(name, {3});
    std::vector<std::string> outputs{"y"};
    if (marked)
      outputs.insert(outputs.end(), {"m2", "v2"});
    model.node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs, "bn");
    model.attrFloat("momentum", 0.9f).attrFloat("epsilon", 1e-5f);
    if (marked && opset >= 14)
      model.attr("training_mode", 1);
    return model.output("y").print(options);
  };
  for (int64_t opset : {9, 17}) {
    std::string text = norm(opset, true, training());
    std::string forward = text.substr(0, text.find("func.func @infer"));
    std::string infer = text.substr(forward.size());
    CHECK_THAT(forward, Contains("graph.batch_norm %arg0, %arg1, %arg2 {epsilon = 1.000000e-05 : f64, "
                                 "graph.name = \"bn\"}"));
    // PyTorch's momentum 0.1, exactly; 16 values per channel: 0.1 * 16 / 15.
    CHECK_THAT(forward, Contains("dense<1.000000e-01>") && Contains("dense<0.106666669>"));
    CHECK_THAT(forward, Contains("{graph.name = \"m\", graph.role = \"state\", graph.update = 1 : i64}"));
    CHECK_THAT(forward, Contains("{graph.name = \"v\", graph.role = \"state\", graph.update = 2 : i64}"));
    CHECK_THAT(forward, Contains("{graph.name = \"m\", graph.role = \"update\"}"));
    CHECK_THAT(infer, !Contains("graph.batch_norm"));
    CHECK_THAT(infer, Contains("graph.rsqrt") && Contains("tensor<1x3x1x1xf32>"));
    CHECK_THAT(infer, Contains("{graph.name = \"m\", graph.role = \"state\"}"));
  }
  // A file for inference trains as model.train() would have it.
  CHECK(count(norm(17, false, training()), "graph.batch_norm") == 1);
  CHECK(count(norm(17, false, {}), "graph.batch_norm") == 0);
}

TEST_CASE("Dropout draws numbers only in training", "[import]") {
  auto dropout = [](bool on) {
    ModelBuilder model;
    model.input("x", {4, 3}).weight("r", {}).ints("t", {on}, true);
    model.graph().mutable_initializer(0)->set_float_data(0, 0.2f);
    return model.node("Dropout", {"x", "r", "t"}, {"y"}, "d")
        .node("Dropout", {"y", "r", "t"}, {"z"}, "e")
        .output("z")
        .print(training());
  };
  std::string text = dropout(true);
  CHECK(count(text, "graph.random") == 2);
  CHECK(count(text, "graph.role = \"step\"") == 1);
  CHECK_THAT(text, Contains("graph.name = \"d/random\", seed = 0 : i64, stream = 0 : i64"));
  CHECK_THAT(text, Contains("graph.name = \"e/random\", seed = 0 : i64, stream = 1 : i64"));
  CHECK_THAT(text, Contains("dense<1.250000e+00>")); // 1 / (1 - 0.2), not 1 / (1 - 0.2f)
  CHECK(count(dropout(false), "graph.random") == 0);
}

TEST_CASE("shape arithmetic folds away", "[import]") {
  // x.view(x.size(0), -1), as exporters write it.
  std::string text = ModelBuilder()
                         .input("x", {-1, 3, 4, 5})
                         .ints("zero", {0}, true)
                         .ints("axes", {0})
                         .ints("rest", {-1})
                         .node("Shape", {"x"}, {"s"}, "a")
                         .node("Gather", {"s", "zero"}, {"n"}, "b")
                         .node("Unsqueeze", {"n", "axes"}, {"n1"}, "c")
                         .node("Concat", {"n1", "rest"}, {"target"}, "d")
                         .attr("axis", 0)
                         .node("Reshape", {"x", "target"}, {"y"}, "e")
                         .output("y")
                         .print([] {
                           ImportOptions options;
                           options.dims["batch"] = 7;
                           return options;
                         }());
  CHECK_THAT(text, Contains("%0 = graph.reshape %arg0 {graph.name = \"e\"} : (tensor<7x3x4x5xf32>) -> "
                            "tensor<7x60xf32>\n    return %0"));
}

TEST_CASE("Gather wraps negative indices", "[import]") {
  auto gather = [](const std::vector<int64_t> &indices, bool scalar) {
    return ModelBuilder()
        .input("x", {5, 2})
        .ints("i", indices, scalar)
        .node("Gather", {"x", "i"}, {"y"}, "g")
        .output("y")
        .print();
  };
  CHECK_THAT(gather({-1, 0}, false), Contains("dense<[4, 0]>") && Contains("graph.gather"));
  CHECK_THAT(gather({-2}, true), Contains("graph.slice") && Contains("starts = array<i64: 3, 0>"));
  CHECK_THAT(gather({-6, 0}, false),
             Contains("error: node 'g' (Gather, opset 17): index -6 lies outside the extent 5"));
  std::string text = ModelBuilder()
                         .input("i", {3}, tessera::onnx::TensorProto::INT64)
                         .weight("emb.weight", {10, 2})
                         .node("Gather", {"emb.weight", "i"}, {"y"}, "g")
                         .output("y")
                         .print();
  CHECK_THAT(text, Contains("dense<10>") && Contains("graph.select") &&
                       Contains("graph.gather %arg1, %4 {axis = 0 : i64, graph.name = \"g\"}"));
}

TEST_CASE("Softmax takes dimensions together until opset 12", "[import]") {
  auto softmax = [](int64_t opset) {
    return ModelBuilder(opset).input("x", {2, 3, 4}).node("Softmax", {"x"}, {"y"}, "s").output("y").print();
  };
  CHECK_THAT(softmax(12), Contains("graph.softmax %0 {dim = 1 : i64") && Contains("tensor<2x12xf32>"));
  CHECK_THAT(softmax(13), Contains("graph.softmax %arg0 {dim = 2 : i64"));
}

TEST_CASE("tables and masks are constants, weights are parameters", "[import]") {
  ModelBuilder model;
  model.input("x", {4, 6}).weight("cos", {8, 6}).weight("mask", {4, 6}).weight("scale", {6});
  model.ints("from", {0}).ints("to", {4}).ints("axis", {0});
  model.node("Slice", {"cos", "from", "to", "axis"}, {"c"}, "a");
  model.node("Mul", {"x", "c"}, {"p"}, "b");
  model.node("Cast", {"mask"}, {"m"}, "c").attr("to", tessera::onnx::TensorProto::BOOL);
  model.node("Where", {"m", "p", "x"}, {"q"}, "d");
  model.node("Mul", {"q", "scale"}, {"y"}, "e").output("y");
  std::string text = model.print();
  CHECK(count(text, "graph.role = \"parameter\"") == 1);
  CHECK_THAT(text, Contains("{graph.name = \"scale\", graph.role = \"parameter\"}"));
  ImportOptions options;
  options.parameters = {"cos"};
  options.constants = {"scale"};
  text = model.print(options);
  CHECK(count(text, "graph.role = \"parameter\"") == 1);
  CHECK_THAT(text, Contains("{graph.name = \"cos\", graph.role = \"parameter\"}"));
}

TEST_CASE("equal names are told apart", "[import]") {
  std::string text = ModelBuilder()
                         .input("x", {2})
                         .node("Relu", {"x"}, {"a"}, "r")
                         .node("Tanh", {"a"}, {"b"}, "r")
                         .node("Relu", {"b"}, {"c"}, "")
                         .output("c")
                         .print();
  CHECK_THAT(text, Contains("graph.relu %arg0 {graph.name = \"r\"}") &&
                       Contains("graph.tanh %0 {graph.name = \"r_2\"}") &&
                       Contains("graph.relu %1 {graph.name = \"c\"}"));
}

TEST_CASE("a constant larger than a graph.constant may be is a state", "[import]") {
  mlir::MLIRContext context;
  ModelBuilder model;
  model.input("x", {300, 300}).weight("table", {300, 300});
  model.graph().mutable_initializer(0)->set_float_data(0, 2);
  auto imported = [&] {
    ImportOptions options = training();
    options.constants = {"table"};
    return model.node("Mul", {"x", "table"}, {"y"}).output("y").import(context, options);
  }();
  REQUIRE(bool(imported));
  const Weight *weight = imported->weights.find("constant/table");
  REQUIRE(weight);
  CHECK(weight->byteLength() == 300 * 300 * 4);
  CHECK(imported->weights.weights().size() == 1); // one for both functions
}

TEST_CASE("an operator that is not supported is one error", "[import]") {
  auto error = [](const std::string &op, int64_t opset = 17) {
    return ModelBuilder(opset).input("x", {2}).node(op, {"x"}, {"y"}, "node").output("y").print();
  };
  CHECK_THAT(error("Bogus"), Contains("error: node 'node' (Bogus, opset 17): this operator is not "
                                      "supported; docs/operators.md lists "));
  CHECK_THAT(error("Gelu"), Contains("node 'node' (Gelu, opset 17): this operator is supported in opset "
                                     "20 to 28"));
  CHECK_THAT(error("Add", 6), Contains("(Add, opset 6): this operator is supported in opset 7 to 28"));
  CHECK_THAT(error("Relu", 0), Contains("the model's operator set is 0; supported are 1 to 28"));
  std::string text =
      ModelBuilder().input("x", {2}).node("Relu", {"x"}, {"y"}, "r").attr("slope", 1).output("y").print();
  CHECK_THAT(text, Contains("node 'r' (Relu, opset 17): the attribute 'slope' is not supported"));
  text = ModelBuilder()
             .input("x", {2, 2})
             .ints("pads", {1, 1, 1, 1})
             .node("Pad", {"x", "pads"}, {"y"}, "p")
             .attrString("mode", "bogus")
             .output("y")
             .print();
  CHECK_THAT(text, Contains("node 'p' (Pad, opset 17): mode='bogus' is unknown"));
  text = ModelBuilder().input("x", {2, 3}).input("w", {2, 3}).node("MatMul", {"x", "w"}, {"y"}).output("y").print();
  CHECK_THAT(text,
             Contains("node 'n' (MatMul, opset 17): matmul of inner extents 3 and 2") && Contains("2x3 f32, 2x3 f32"));
}

TEST_CASE("symbolic dimensions must have values", "[import]") {
  ModelBuilder model;
  model.input("x", {-1, 2}).node("Relu", {"x"}, {"y"}).output("y");
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
  CHECK_THAT(model.print(), Contains("(batch, x#2): add --dim batch=VALUE --dim x#2=VALUE"));
  ImportOptions options;
  options.dims = {{"batch", 3}, {"x#2", 4}};
  CHECK_THAT(model.print(options), Contains("tensor<3x2x4xf32>"));
  options.dims["bacth"] = 3;
  CHECK_THAT(model.print(options), Contains("no symbolic dimension 'bacth'; it has batch, x#2"));
}

TEST_CASE("the table of operators is listed", "[import]") {
  std::set<std::string> names;
  for (const SupportedOperator &op : supportedOperators()) {
    CHECK(op.since >= 1);
    CHECK(op.until <= kNewestOpset);
    names.insert(op.name);
  }
  CHECK(names.size() == supportedOperators().size());
  for (const char *name : {"Conv", "Gemm", "BatchNormalization", "Dropout", "LayerNormalization", "Einsum"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("parameters stay parameters behind a triangle or a cast", "[import]") {
  for (const char *op : {"Trilu", "Cast"}) {
    ModelBuilder model;
    model.input("x", {4, 3}).weight("mix.weight", {3, 3}).node(op, {"mix.weight"}, {"t"}, "t");
    if (op == std::string("Cast"))
      model.attr("to", tessera::onnx::TensorProto::DOUBLE).node("Cast", {"x"}, {"x2"}, "wide");
    if (op == std::string("Cast"))
      model.attr("to", tessera::onnx::TensorProto::DOUBLE);
    std::string text =
        model.node("MatMul", {op == std::string("Cast") ? "x2" : "x", "t"}, {"y"}, "p").output("y").print(training());
    CHECK_THAT(text, Contains("{graph.name = \"mix.weight\", graph.role = \"parameter\"}"));
  }
  // A mask of numbers that only decides between two values becomes a mask of truth values.
  std::string text = ModelBuilder()
                         .input("x", {3, 3})
                         .weight("mask", {3, 3})
                         .node("Cast", {"mask"}, {"m"}, "m")
                         .attr("to", tessera::onnx::TensorProto::BOOL)
                         .node("Where", {"m", "x", "x"}, {"y"}, "w")
                         .output("y")
                         .print(training());
  CHECK_THAT(text, !Contains("graph.role = \"parameter\""));
}

TEST_CASE("lists of tensors are their elements", "[import]") {
  ModelBuilder model;
  model.input("x", {6, 4}).ints("two", {2}, true).ints("last", {-1}, true);
  model.node("SplitToSequence", {"x", "two"}, {"parts"}, "split").attr("axis", 0);
  model.node("SequenceAt", {"parts", "last"}, {"c"}, "at");
  model.node("SequenceErase", {"parts", "last"}, {"ab"}, "erase");
  model.node("SequenceInsert", {"ab", "c", "last"}, {"acb"}, "insert");
  model.node("SequenceLength", {"acb"}, {"n"}, "length");
  model.node("Cast", {"n"}, {"nf"}, "cast").attr("to", tessera::onnx::TensorProto::FLOAT);
  model.node("ConcatFromSequence", {"acb"}, {"stack"}, "stack").attr("axis", 1).attr("new_axis", 1);
  std::string text = model.node("Mul", {"stack", "nf"}, {"y"}, "mul").output("y").print();
  CHECK_THAT(text, Contains("tensor<2x3x4xf32>") && Contains("dense<3.000000e+00>"));
  // a = rows 0-1, c = rows 4-5, b = rows 2-3, in this order.
  size_t c = text.find("\"split/part_3\""), stack = text.find("graph.concat");
  CHECK(c != std::string::npos);
  CHECK(stack != std::string::npos);

  ModelBuilder unbound; // as PyTorch writes x.unbind(1)
  unbound.input("x", {6, 4}).ints("one", {1}, true);
  unbound.node("SplitToSequence", {"x", "one"}, {"parts"}, "split").attr("axis", 1);
  unbound.attr("keepdims", 0).node("SequenceAt", {"parts", "one"}, {"y"}, "at");
  CHECK_THAT(unbound.output("y").print(), Contains("-> tensor<6xf32>"));

  ModelBuilder list;
  list.input("x", {6, 4}).node("SplitToSequence", {"x"}, {"parts"}, "split");
  CHECK_THAT(list.node("Relu", {"parts"}, {"y"}, "relu").output("y").print(),
             Contains("node 'relu' (Relu, opset 17): input 0 is a sequence, not a tensor"));
  ModelBuilder result;
  result.input("x", {6, 4}).node("SplitToSequence", {"x"}, {"parts"}, "split");
  CHECK_THAT(result.output("parts").print(), Contains("a sequence stands where a tensor is needed"));
}

TEST_CASE("shapes put together by ScatterElements fold", "[import]") {
  std::string text = ModelBuilder()
                         .input("x", {4, 1})
                         .input("p", {4, 5})
                         .ints("one", {1})
                         .ints("three", {3})
                         .node("Shape", {"p"}, {"s"}, "shape")
                         .node("ScatterElements", {"s", "one", "three"}, {"t"}, "scatter")
                         .node("Expand", {"x", "t"}, {"y"}, "expand")
                         .output("y")
                         .print();
  CHECK_THAT(text, Contains("-> tensor<4x3xf32>"));
  CHECK_THAT(text, !Contains("graph.scatter_add"));
}

TEST_CASE("masks put together by ScatterND fold", "[import]") { // m[1:, :] = 7
  ModelBuilder model;
  model.input("x", {3, 2}).ints("shape", {3, 2}).ints("sevens", {7, 7, 7, 7}).ints("two", {2, 2});
  model.ints("flat", {1, 2}).ints("column", {2, 1});
  model.node("ConstantOfShape", {"shape"}, {"zeros"}, "zeros");
  model.node("Cast", {"sevens"}, {"sf"}, "cast").attr("to", tessera::onnx::TensorProto::FLOAT);
  model.node("Reshape", {"sf", "two"}, {"updates"}, "updates");
  model.node("Reshape", {"flat", "column"}, {"indices"}, "indices");
  model.node("ScatterND", {"zeros", "indices", "updates"}, {"mask"}, "scatter");
  std::string text = model.node("Add", {"x", "mask"}, {"y"}, "add").output("y").print();
  CHECK_THAT(text, !Contains("graph.scatter_add"));
  CHECK_THAT(text, Contains("dense<[[0.000000e+00, 0.000000e+00], [7.000000e+00, 7.000000e+00], "
                            "[7.000000e+00, 7.000000e+00]]>"));
}

TEST_CASE("tensors without elements are left out where nothing computes with them", "[import]") {
  // Partial rotary embeddings that rotate everything: the rest, 2x4x0, is put behind the rotated part again.
  ModelBuilder rotary;
  rotary.input("x", {2, 4, 6})
      .ints("from", {6})
      .ints("to", {99})
      .ints("last", {2})
      .ints("none", {})
      .ints("split", {6, 0});
  rotary.node("Slice", {"x", "from", "to", "last"}, {"rest"}, "slice");
  rotary.node("Split", {"x", "split"}, {"whole", "empty"}, "split").attr("axis", 2);
  rotary.node("Gather", {"x", "none"}, {"nothing"}, "gather").attr("axis", 2);
  rotary.node("Relu", {"whole"}, {"h"}, "relu").node("Mul", {"rest", "empty"}, {"product"}, "mul");
  rotary.node("Concat", {"product", "h", "nothing"}, {"y"}, "concat").attr("axis", 2);
  std::string text = rotary.output("y").print();
  CHECK_THAT(text, Contains("graph.relu %arg0") && Contains("-> tensor<2x4x6xf32>"));
  for (const char *op : {"graph.slice", "graph.gather", "graph.mul", "graph.concat"})
    CHECK_THAT(text, !Contains(op));

  ModelBuilder moved; // through everything that only moves data, and filled by a padding
  moved.input("x", {2, 4})
      .ints("from", {4})
      .ints("to", {4})
      .ints("one", {1})
      .ints("shape", {2, 1, 0})
      .ints("back", {2, 0});
  moved.ints("backward", {-1}).ints("times", {3, 1}).ints("pads", {0, 0, 0, 4});
  moved.node("Slice", {"x", "from", "to", "one"}, {"a"}, "slice").node("Reshape", {"a", "shape"}, {"b"}, "split");
  moved.attr("allowzero", 1).node("Transpose", {"b"}, {"c"}, "transpose").attrInts("perm", {1, 0, 2});
  moved.node("Squeeze", {"c"}, {"d"}, "squeeze")
      .node("Slice", {"d", "from", "to", "one", "backward"}, {"e"}, "reverse");
  moved.node("Tile", {"e", "times"}, {"f"}, "tile").node("Reshape", {"f", "back"}, {"g"}, "back").attr("allowzero", 1);
  moved.node("Pad", {"g", "pads"}, {"h"}, "pad").node("Add", {"x", "h"}, {"y"}, "add").output("y");
  CHECK_THAT(moved.print(), Contains("graph.add %arg0") && Contains("dense<0.000000e+00> : tensor<2x4xf32>"));

  auto sliced = [](const std::string &op) {
    ModelBuilder model;
    model.input("x", {2, 4}).ints("from", {4}).ints("to", {4}).ints("one", {1});
    model.node("Slice", {"x", "from", "to", "one"}, {"a"}, "slice");
    if (op != "Slice")
      model.node(op, {"a"}, {"y"}, "reads");
    return model.output(op == "Slice" ? "a" : "y").print();
  };
  CHECK_THAT(sliced("Slice"), Contains("the model's output 'a' has no elements (shape 2x0)"));
  CHECK_THAT(sliced("Softmax"), Contains("a tensor without elements (2x0) is read by an operator that computes"));
}

TEST_CASE("updates without elements change nothing", "[import]") {
  for (bool along : {true, false}) {
    ModelBuilder model;
    model.input("x", {3, 2}).input("u", {3, 2}).ints("from", {2}).ints("to", {2}).ints("one", {1});
    model.ints("shape", along ? std::vector<int64_t>{3, 0} : std::vector<int64_t>{3, 0, 2});
    model.node("ConstantOfShape", {"shape"}, {"zeros"}, "zeros").node("Cast", {"zeros"}, {"at"}, "cast");
    model.attr("to", tessera::onnx::TensorProto::INT64).node("Slice", {"u", "from", "to", "one"}, {"none"}, "slice");
    model.node(along ? "ScatterElements" : "ScatterND", {"x", "at", "none"}, {"z"}, "scatter");
    CHECK_THAT(model.node("Relu", {"z"}, {"y"}, "relu").output("y").print(), Contains("graph.relu %arg0"));
  }
}
