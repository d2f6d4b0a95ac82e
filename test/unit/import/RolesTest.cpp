// The roles of initializers: by metadata, by options, by names and uses, by patterns; merged and folded tensors.
#include "ModelBuilder.h"
#include "compiler/import/NamePatterns.h"

#include "catch2/catch.hpp"

#include <map>

using namespace tessera::compiler;
using Catch::Contains;

namespace {

constexpr const char *kKind = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr const char *kPersistent = "pkg.torch.export.graph_signature.InputSpec.persistent";
constexpr const char *kSignature = "pkg.torch.export.ExportedProgram.graph_signature";

template <typename Message> void say(Message &message, const std::string &key, const std::string &value) {
  auto *entry = message.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

/// A value_info as torch.export's exporter writes it.
void sayKind(ModelBuilder &model, const std::string &name, const std::string &kind,
             const std::string &persistent = "None") {
  auto *info = model.graph().add_value_info();
  info->set_name(name);
  say(*info, kKind, kind);
  say(*info, kPersistent, persistent);
}

struct Roles {
  std::map<std::string, TensorRole> roles;
  std::string warnings;
  std::string error;

  std::string of(const std::string &name) const {
    auto it = roles.find(name);
    return it == roles.end() ? "none" : it->second.role + (it->second.guess ? " guess" : "") + ": " + it->second.reason;
  }
};

Roles rolesOf(const ModelBuilder &model, ImportOptions options = {}) {
  mlir::MLIRContext context;
  options.training = true;
  Roles result;
  auto imported = model.import(context, options);
  if (!imported) {
    result.error = llvm::toString(imported.takeError());
    return result;
  }
  for (const TensorRole &role : imported->roles)
    result.roles[role.name] = role;
  for (const std::string &warning : imported->warnings)
    result.warnings += warning + "\n";
  return result;
}

/// y = x W * inv_freq + table + step
ModelBuilder buffers() {
  ModelBuilder model;
  model.input("x", {2, 4}).weight("fc.weight", {4, 4}).weight("rotary.freq", {4}).weight("logits_bias", {4});
  model.weight("embed.scale", {}).weight("token", {4}).output("y");
  model.node("MatMul", {"x", "fc.weight"}, {"a"}).node("Mul", {"a", "rotary.freq"}, {"b"});
  model.node("Add", {"b", "logits_bias"}, {"c"}).node("Mul", {"c", "embed.scale"}, {"d"});
  return model.node("Add", {"d", "token"}, {"y"});
}

/// A BatchNorm, perhaps with a Dropout that is marked as being in training mode behind it.
ModelBuilder batchNorm(bool dropout) {
  ModelBuilder model;
  model.input("x", {4, 3, 2, 2}).output("y");
  for (const char *name : {"bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"})
    model.weight(name, {3});
  model.node("BatchNormalization", {"x", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var"},
             {dropout ? "h" : "y"}, "node_batch_norm_0");
  model.attr("training_mode", 0);
  if (dropout) {
    auto *ratio = model.weight("ratio", {}).graph().mutable_initializer(4);
    ratio->set_float_data(0, 0.5F);
    auto *mode = model.graph().add_initializer();
    mode->set_name("mode");
    mode->set_data_type(tessera::onnx::TensorProto::BOOL);
    mode->add_int32_data(1);
    model.node("Dropout", {"h", "ratio", "mode"}, {"y"});
  }
  return model;
}

bool byBatch(const ModelBuilder &model, ImportOptions options = {}) {
  options.training = true;
  std::string text = model.print(options);
  INFO(text);
  CHECK(text.rfind("error: ", 0) != 0);
  return text.find("graph.batch_norm") != std::string::npos;
}

} // namespace

TEST_CASE("metadata of torch.export says what is trained", "[import]") {
  ModelBuilder model = buffers();
  sayKind(model, "fc.weight", "PARAMETER");
  sayKind(model, "rotary.freq", "BUFFER", "False");
  sayKind(model, "logits_bias", "BUFFER", "True");
  sayKind(model, "embed.scale", "PARAMETER"); // a scalar that PyTorch trains
  sayKind(model, "token", "CONSTANT_TENSOR");
  Roles roles = rolesOf(model);
  CHECK(roles.of("fc.weight") == "trained: the file says PARAMETER");
  CHECK(roles.of("rotary.freq") == "constant: the file says BUFFER");
  CHECK(roles.of("logits_bias") == "state: the file says BUFFER");
  CHECK(roles.of("embed.scale") == "trained: the file says PARAMETER");
  CHECK(roles.of("token") == "constant: the file says CONSTANT_TENSOR");
  CHECK(roles.warnings.empty());
}

TEST_CASE("metadata of tensors and graphs, in both forms, say what is trained", "[import]") {
  ModelBuilder model = buffers();
  say(*model.graph().mutable_initializer(1), kKind, "BUFFER"); // rotary.freq
  say(model.graph(), kSignature,
      "\n# inputs\np_fc_weight: PARAMETER target='fc.weight'\nb_bias: BUFFER target='logits_bias' persistent=True\n"
      "p_scale: PARAMETER target='embed.scale'\nb_token: BUFFER target='token' persistent=False\nx: USER_INPUT\n\n"
      "# outputs\nadd: BUFFER_MUTATION target='fc.weight'\ny: USER_OUTPUT\n");
  Roles roles = rolesOf(model);
  CHECK(roles.of("fc.weight") == "trained: the file says PARAMETER");
  CHECK(roles.of("rotary.freq") == "constant: the file says BUFFER");
  CHECK(roles.of("logits_bias") == "state: the file says BUFFER");
  CHECK(roles.of("token") == "constant: the file says BUFFER");
  CHECK(roles.warnings.empty());

  model = buffers();
  say(model.graph(), kSignature,
      "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_a'), "
      "target='fc.weight', persistent=None), InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_b'), "
      "target='logits_bias', persistent=True), InputSpec(kind=<InputKind.PARAMETER: 2>, "
      "arg=TensorArgument(name='p_c'), "
      "target='embed.scale', persistent=None)], output_specs=[OutputSpec(kind=<OutputKind.BUFFER_MUTATION: 3>, "
      "arg=TensorArgument(name='add'), target='token')])");
  roles = rolesOf(model);
  CHECK(roles.of("logits_bias") == "state: the file says BUFFER");
  // The importer warns of neither, and no parameter is missing: the exporter made them of constants.
  CHECK(roles.of("token") == "constant: made by the exporter of constants");
  CHECK(roles.of("rotary.freq") == "constant: made by the exporter of constants");
  for (const char *text :
       {"target='", "target=''", "target='a", "kind=<InputKind. target='b'", "\xff target='fc.weight'"}) {
    model = buffers();
    say(model.graph(), kSignature, text);
    CHECK(rolesOf(model).error.empty());
  }
}

TEST_CASE("parameters that PyTorch lists and the file lacks are named", "[import]") {
  ModelBuilder model = buffers();
  say(model.graph(), kSignature,
      "p_a: PARAMETER target='fc.weight'\np_b: PARAMETER target='norm.weight'\nb_c: BUFFER target='bn1.running_mean'\n"
      "p_d: PARAMETER target='bn1.weight'\n");
  Roles roles = rolesOf(model);
  CHECK_THAT(roles.warnings, Contains("the exporter folded BatchNorm into the operators before it ('bn1')"));
  CHECK_THAT(roles.warnings, Contains("the file lacks parameters that the model had ('norm.weight')"));
  CHECK(roles.of("logits_bias") == "trained guess: read by Add");
}

TEST_CASE("names and uses decide what is trained where the file does not say it, and guesses are named", "[import]") {
  ModelBuilder model = buffers();
  model.weight("model.inv_freq", {4, 4}).weight("out.bias", {4}).output("z").output("w");
  model.node("MatMul", {"x", "model.inv_freq"}, {"z"}).node("Add", {"x", "out.bias"}, {"w"});
  Roles roles = rolesOf(model);
  CHECK(roles.of("fc.weight") == "trained: kernel of MatMul");
  CHECK(roles.of("out.bias") == "trained: named like a parameter");
  CHECK(roles.of("token") == "trained guess: read by Add");
  CHECK(roles.of("embed.scale") == "constant guess: a scalar that only elementwise operators read");
  CHECK(roles.of("model.inv_freq") == "constant guess: named like a buffer");
  CHECK_THAT(roles.warnings, Contains("'token' (trained: read by Add)") && Contains("--list-parameters shows all"));

  ImportOptions options;
  options.constants = {"rotary.*", "logits_bias", "token"};
  options.parameters = {"*.scale"};
  options.freeze = {"model.inv_freq", "out.*"};
  roles = rolesOf(model, options);
  CHECK(roles.error == "--freeze model.inv_freq: no parameter has a name like this; 'model.inv_freq' is a constant "
                       "already");
  options.freeze = {"out.*"};
  options.parameters = {"*.scale", "model.inv_freq"};
  roles = rolesOf(model, options);
  CHECK(roles.of("rotary.freq") == "constant: --constants rotary.*");
  CHECK(roles.of("embed.scale") == "trained: --parameters *.scale");
  CHECK(roles.of("out.bias") == "frozen: --freeze out.*");
  CHECK(roles.warnings.empty());
  options.training = true;
  CHECK_THAT(model.print(options), Contains("graph.frozen, graph.name = \"out.bias\""));
}

TEST_CASE("patterns that match nothing are errors with near names", "[import]") {
  ImportOptions options;
  options.freeze = {"fc.weigth"};
  CHECK(rolesOf(buffers(), options).error ==
        "--freeze fc.weigth: no parameter has a name like this; near it: 'fc.weight'");
  options = {};
  options.constants = {"rotary.frq*"};
  CHECK_THAT(rolesOf(buffers(), options).error,
             Contains("--constants rotary.frq*: no initializer") && Contains("near it: 'rotary.freq'"));
  options = {};
  options.parameters = {"nothing.of.the.kind"};
  CHECK_THAT(rolesOf(buffers(), options).error,
             Contains("--parameters nothing.of.the.kind: no floating-point initializer") &&
                 Contains("--list-parameters shows all names"));
  options = {};
  options.initRules = {{"fc.weght", "zeros"}};
  CHECK_THAT(rolesOf(buffers(), options).error,
             Contains("--init fc.weght=zeros: no parameter has a name like this; near it: 'fc.weight'"));
  options = {};
  options.constants = {"fc.*"};
  options.parameters = {"*.weight"};
  CHECK_THAT(rolesOf(buffers(), options).error,
             Contains("'fc.weight' is named by --parameters *.weight and by --constants fc.*: remove one of the two"));
  options = {};
  options.freeze = {"[a"};
  CHECK_THAT(rolesOf(buffers(), options).error, Contains("--freeze [a: "));

  auto patterns = NamePatterns::create("--freeze", {"*.weight", "fc.*", "odd[1].name"});
  REQUIRE(bool(patterns));
  CHECK(patterns->match("fc.weight") == std::optional<size_t>(1));   // the last one
  CHECK(patterns->match("odd[1].name") == std::optional<size_t>(2)); // to the letter
  CHECK(!patterns->match("fc2.bias"));
  CHECK(nearestNames("encoder.*.weigth", {"decoder.0.bias", "encoder.0.weight"}) ==
        std::vector<std::string>{"encoder.0.weight"});
}

TEST_CASE("BatchNorm of torch.export is trained beside a Dropout, unless it is frozen", "[import]") {
  CHECK(byBatch(batchNorm(false)));
  // In an export by TorchScript for training, 0 was meant.
  CHECK_FALSE(byBatch(batchNorm(true)));
  ModelBuilder model = batchNorm(true);
  sayKind(model, "bn1.running_mean", "BUFFER", "True");
  CHECK(byBatch(model));
  CHECK(rolesOf(model).of("bn1.running_mean") == "state: statistics of BatchNormalization");

  ImportOptions options;
  for (const char *pattern : {"*", "bn1", "bn?", "node_batch_norm_*"}) {
    options.freezeBatchNorm = {pattern};
    CHECK_FALSE(byBatch(model, options));
  }
  options.freezeBatchNorm = {"bn2"};
  CHECK(rolesOf(model, options).error == "--freeze-batchnorm bn2: no BatchNormalization has a name like this; near "
                                         "it: 'bn1'");
  CHECK_THAT(rolesOf(buffers(), options).error, Contains("--freeze-batchnorm bn2: no BatchNormalization"));
}

TEST_CASE("parameters that the exporter merged are trained apart again", "[import]") {
  ModelBuilder model;
  model.input("x", {2, 4}).weight("layers.0.weight", {4, 4}).weight("layers.0.norm", {4}).output("y").output("z");
  model.node("Identity", {"layers.0.weight"}, {"layers.1.weight"}, "i0");
  model.node("Identity", {"layers.0.norm"}, {"final.norm"}, "i1");
  model.node("Identity", {"layers.0.weight"}, {"head.weight"}, "i2");
  model.node("MatMul", {"x", "layers.0.weight"}, {"a"}, "m0").node("Mul", {"a", "layers.0.norm"}, {"b"}, "n0");
  model.node("MatMul", {"b", "layers.1.weight"}, {"c"}, "m1").node("Mul", {"c", "final.norm"}, {"y"}, "n1");
  model.node("MatMul", {"c", "head.weight"}, {"z"}, "m2");
  Roles roles = rolesOf(model);
  CHECK(roles.of("layers.1.weight") == "trained: kernel of MatMul");
  CHECK(roles.of("final.norm") == "trained guess: read by Mul");
  CHECK(roles.of("head.weight") == "none"); // as tied weights of an embedding and a head
  CHECK_THAT(roles.warnings, Contains("'layers.1.weight', 'final.norm' are trained apart again"));
  CHECK_THAT(roles.warnings,
             Contains("one parameter for 'head.weight' and 'layers.0.weight': they are trained as one"));

  // So are biases that BatchNorm was folded into: all zeros in a fresh network.
  ModelBuilder folded;
  folded.input("x", {2, 3, 4, 4}).weight("onnx::Conv_1", {3, 3, 1, 1}).weight("onnx::Conv_2", {3}).output("y");
  folded.weight("onnx::Conv_3", {3, 3, 1, 1}).node("Identity", {"onnx::Conv_2"}, {"onnx::Conv_4"}, "i");
  folded.node("Conv", {"x", "onnx::Conv_1", "onnx::Conv_2"}, {"a"}, "c0");
  folded.node("Conv", {"a", "onnx::Conv_3", "onnx::Conv_4"}, {"y"}, "c1");
  roles = rolesOf(folded);
  CHECK(roles.of("onnx::Conv_4") == "trained: bias of Conv");
  CHECK_THAT(roles.warnings, Contains("2 convolutions have biases that are not their modules' own"));

  // A file for training has only those of PyTorch.
  model.node("Dropout", {"x"}, {"w"}, "d").output("w");
  model.proto.mutable_opset_import(0)->set_version(11);
  roles = rolesOf(model);
  CHECK(roles.of("layers.1.weight") == "none");
  CHECK_THAT(roles.warnings, !Contains("apart"));
}

TEST_CASE("a BatchNorm that was folded is named", "[import]") {
  auto network = [](const char *kernel, const char *bias) {
    ModelBuilder model;
    model.input("x", {2, 3, 4, 4}).weight(kernel, {5, 3, 1, 1}).weight(bias, {5}).output("y");
    return model.node("Conv", {"x", kernel, bias}, {"y"});
  };
  CHECK(rolesOf(network("conv1.weight", "conv1.bias")).warnings.empty());
  CHECK_THAT(rolesOf(network("conv1.weight", "conv1.weight_bias")).warnings,
             Contains("1 convolution has biases that are not their modules' own ('conv1.weight_bias')"));
  CHECK_THAT(rolesOf(network("onnx::Conv_12", "onnx::Conv_13")).warnings, Contains("seems to have folded"));
  ModelBuilder model = network("w", "b");
  say(*model.graph().mutable_node(0), "pkg.torch.onnx.class_hierarchy",
      "['net.Net', 'torch.nn.modules.batchnorm.BatchNorm2d', 'aten.batch_norm.default']");
  CHECK_THAT(rolesOf(model).warnings, Contains("the exporter folded BatchNorm into the operators before it ('n')"));
}

TEST_CASE("a number that an operator must know is a constant, whoever else reads it", "[import]") {
  // One initializer is the value of a padding and the operand of others, as exporters merge equal numbers.
  auto model = [](bool pads) {
    ModelBuilder model;
    model.input("x", {2, 4}).weight("fc.weight", {4, 4}).weight("zero", {}).ints("pads", {0, 0, 0, 1});
    model.ints("classes", {4}).ints("shape", {2, 4}).node("MatMul", {"x", "fc.weight"}, {"a"}, "fc");
    model.node("Expand", {"zero", "shape"}, {"zeros"}, "expand").node("ReduceSum", {"zeros"}, {"b"}, "sum");
    model.node("Add", {"a", "b"}, {"c"}, "add");
    return model.node("Pad", {"c", "pads", pads ? "zero" : ""}, {"y"}, "pad").output("y");
  };
  CHECK(rolesOf(model(true)).of("zero") == "constant: a number that Pad must know");
  CHECK_THAT(rolesOf(model(false)).of("zero"), Contains("trained guess: read by "));

  ImportOptions trained;
  trained.parameters = {"zero"};
  CHECK_THAT(rolesOf(model(true), trained).error,
             Contains("constant_value (input 2) must be one number known at import"));

  ModelBuilder compared; // comparisons do not make a scalar of elementwise operators a parameter
  compared.input("x", {2, 4}).weight("fc.weight", {4, 4}).weight("limit", {}).output("y");
  compared.node("MatMul", {"x", "fc.weight"}, {"a"}).node("Less", {"a", "limit"}, {"below"}, "less");
  compared.node("Add", {"a", "limit"}, {"b"}, "add").node("Where", {"below", "a", "b"}, {"y"}, "where");
  CHECK(rolesOf(compared).of("limit") == "constant guess: a scalar that only elementwise operators read");
}

TEST_CASE("what was detached in PyTorch gets no gradient", "[import][exporter]") {
  ModelBuilder model;
  model.input("x", {2, 4}).weight("fc.weight", {4, 4}).output("y");
  model.node("MatMul", {"x", "fc.weight"}, {"h"}).node("Identity", {"h"}, {"d"}, "node_detach_1");
  auto add = [](ModelBuilder m) { return m.node("Add", {"h", "d"}, {"y"}).print(); };
  CHECK_THAT(add(model), !Contains("stops_gradient")); // a name says nothing
  auto *node = model.graph().mutable_node(1);
  auto made = [](const std::string &target, const std::string &operand) {
    return "%made : [num_users=1] = call_function[target=torch.ops.aten." + target + "](args = (%" + operand +
           ",), kwargs = {})";
  };
  say(*node, "pkg.torch.onnx.fx_node", made("alias.default", "detach_1"));
  CHECK_THAT(add(model), !Contains("stops_gradient"));
  node->mutable_metadata_props(0)->set_value(made("detach.default", "h"));
  CHECK_THAT(add(model), Contains("graph.reshape") && Contains("graph.stops_gradient"));
  // Other operators, which contain no detach(), are named, too.
  node->set_op_type("Relu");
  CHECK_THAT(add(model), !Contains("stops_gradient"));
}
