// Attention, RotaryEmbedding and related operators of opset 23 and later, as printed IR.
#include "ModelBuilder.h"

#include "catch2/catch.hpp"

using namespace tessera::compiler;
using Catch::Contains;

namespace {

using Type = tessera::onnx::TensorProto;

/// q [2, 4, 3, 8], k and v [2, groups, keys, 8].
ModelBuilder attention(int64_t groups, int64_t keys, const std::vector<std::string> &more = {}) {
  ModelBuilder model(25);
  model.input("q", {2, 4, 3, 8}).input("k", {2, groups, keys, 8}).input("v", {2, groups, keys, 8});
  std::vector<std::string> inputs{"q", "k", "v"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return model.node("Attention", inputs, {"y"}, "attn").output("y");
}

} // namespace

TEST_CASE("a causal Attention has the triangle as its only mask", "[import]") {
  std::string text = attention(4, 3).attr("is_causal", 1).print();
  CHECK_THAT(text, Contains("graph.select") && Contains("graph.softmax") && Contains("graph.name = \"attn\""));
  CHECK_THAT(text, Contains("dense<[[true, false, false], [true, true, false], [true, true, true]]>"));
  CHECK_THAT(text, Contains("graph.mul") && !Contains("graph.add") && !Contains("graph.broadcast"));
}

TEST_CASE("an Attention of groups repeats keys, and of three dimensions brings heads to the front", "[import]") {
  CHECK_THAT(attention(2, 5).print(), Contains("tensor<2x2x2x5x8xf32>") && Contains("tensor<2x4x3x8xf32>"));
  ModelBuilder flat(23);
  flat.input("q", {2, 3, 32}).input("k", {2, 5, 16}).input("v", {2, 5, 16}).node("Attention", {"q", "k", "v"}, {"y"});
  flat.attr("q_num_heads", 4).attr("kv_num_heads", 2).attrFloat("scale", 0.5f).output("y");
  CHECK_THAT(flat.print(), Contains("-> tensor<2x3x32xf32>") && Contains("dense<5.000000e-01>"));
}

TEST_CASE("rows of an Attention that may see no key are guarded", "[import]") {
  auto masked = [](int type, const std::vector<int64_t> &shape) {
    ModelBuilder model = attention(4, 5, {"mask"});
    return model.input("mask", shape, type).print();
  };
  CHECK_THAT(masked(Type::BOOL, {2, 1, 3, 5}), Contains("attn/blind") && Contains("attn/guarded_bias"));
  CHECK_THAT(masked(Type::FLOAT, {3, 4}), Contains("attn/mask_pad") && Contains("attn/seeing"));
  CHECK_THAT(masked(Type::FLOAT, {3, 6}), Contains("attn_mask 3x6 does not broadcast to the scores 2x4x3x5"));
  // Windows are known, and every row sees a key.
  std::string window = attention(4, 3).attr("left_window_size", 1).attr("right_window_size", 0).print();
  CHECK_THAT(window, !Contains("attn/blind") && !Contains("attn/seeing"));
}

TEST_CASE("past keys stand before the new ones and move the triangle", "[import]") {
  ModelBuilder model = attention(4, 3, {"", "pk", "pv"}).attr("is_causal", 1);
  model.input("pk", {2, 4, 2, 8}).input("pv", {2, 4, 2, 8});
  model.graph().mutable_node(0)->add_output("present_k");
  std::string text = model.output("present_k").print();
  CHECK_THAT(text, Contains("tensor<2x4x5x8xf32>"));
  CHECK_THAT(text, Contains("dense<[[true, true, true, false, false], [true, true, true, true, false], "
                            "[true, true, true, true, true]]>"));
  CHECK_THAT(attention(4, 3, {"", "k"}).print(), Contains("past_key and past_value belong together"));
  CHECK_THAT(attention(3, 5).print(), Contains("do not fit together"));
}

TEST_CASE("a RotaryEmbedding rotates a part of every head", "[import]") {
  auto rotary = [](const std::vector<int64_t> &shape, int64_t dim, int64_t pairs, int64_t heads) {
    ModelBuilder model(23);
    model.input("x", shape).weight("cos", {16, 2}).weight("sin", {16, 2}).input("at", {2, 3}, Type::INT64);
    model.node("RotaryEmbedding", {"x", "cos", "sin", "at"}, {"y"}, "rope").attr("interleaved", pairs);
    return model.attr("rotary_embedding_dim", dim).attr("num_heads", heads).output("y").print();
  };
  CHECK_THAT(rotary({2, 4, 3, 4}, 0, 0, 0), Contains("graph.concat") && !Contains("rope/rest"));
  CHECK_THAT(rotary({2, 4, 3, 8}, 4, 0, 0), Contains("rope/rest") && Contains("-> tensor<2x4x3x8xf32>"));
  CHECK_THAT(rotary({2, 3, 16}, 0, 1, 4), Contains("tensor<2x3x4x2x2xf32>") && Contains("-> tensor<2x3x16xf32>"));
  CHECK_THAT(rotary({2, 3, 16}, 0, 1, 3), Contains("three of which num_heads divides the last"));
  CHECK_THAT(rotary({2, 4, 3, 8}, 0, 0, 0), Contains("the tables hold 2 and 2 numbers a token; of 8 entries 8"));
  CHECK_THAT(rotary({2, 4, 5, 4}, 0, 0, 0), Contains("the cos table has the shape 2x3x2, not [2, 5, ...]"));
}

TEST_CASE("an RMSNormalization divides by the root of the mean of squares", "[import]") {
  ModelBuilder model(23);
  model.input("x", {2, 3, 8}).weight("norm", {8}).node("RMSNormalization", {"x", "norm"}, {"y"}, "rms").output("y");
  CHECK_THAT(model.print(), Contains("graph.rsqrt") && Contains("dense<1.250000e-01>") &&
                                Contains("{graph.name = \"norm\", graph.role = \"parameter\"}"));
  CHECK_THAT(ModelBuilder(22).input("x", {2}).node("RMSNormalization", {"x", "x"}, {"y"}).output("y").print(),
             Contains("supported in opset 23 to 28"));
  CHECK_THAT(ModelBuilder(29).input("x", {2}).node("Relu", {"x"}, {"y"}).output("y").print(),
             Contains("the model's operator set is 29; supported are 1 to 28"));
}

TEST_CASE("a CausalConvWithState sees what came before", "[import]") {
  auto conv = [](const std::vector<std::string> &inputs, const std::string &activation) {
    ModelBuilder model(27);
    model.input("x", {2, 4, 5}).weight("w", {4, 1, 3}).weight("b", {4}).input("past", {2, 4, 2});
    model.node("CausalConvWithState", inputs, {"y", "next"}, "conv").attrString("activation", activation);
    return model.output("y").output("next").print();
  };
  CHECK_THAT(conv({"x", "w", "b", "past"}, "silu"), Contains("graph.concat") && Contains("graph.sigmoid"));
  CHECK_THAT(conv({"x", "w"}, "none"), Contains("graph.pad") && Contains("-> tensor<2x4x2xf32>"));
  CHECK_THAT(conv({"x", "w", "", "x"}, "none"), Contains("past_state has the shape 2x4x5, not 2x4x2"));
}

TEST_CASE("a TensorScatter overwrites rows of its cache", "[import]") {
  auto scatter = [](const std::string &mode, int64_t rows) {
    ModelBuilder model(24);
    model.input("cache", {2, 4, 8, 3}).input("update", {2, 4, rows, 3}).input("at", {2}, Type::INT64);
    model.node("TensorScatter", {"cache", "update", "at"}, {"y"}, "put").attrString("mode", mode);
    return model.output("y").print();
  };
  CHECK_THAT(scatter("linear", 2), Contains("graph.gather") && !Contains("graph.mod"));
  CHECK_THAT(scatter("circular", 2), Contains("graph.mod"));
  CHECK_THAT(scatter("linear", 9), Contains("the update 2x4x9x3 does not fit the cache 2x4x8x3 along axis 2"));
}
