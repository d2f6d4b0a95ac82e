#include "test/conformance/onnx/OperatorsPage.h"

#include "compiler/import/OnnxImport.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "test/conformance/onnx/Refusals.h"
#include "test/conformance/onnx/Results.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

namespace tessera::test {
namespace {

/// The operators of the ai.onnx domain, opset 21, and those that older opsets had.
constexpr llvm::StringLiteral kOnnxOperators =
    "Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool "
    "BatchNormalization Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
    "BlackmanWindow Cast CastLike Ceil Celu CenterCropPad Clip Col2Im Compress Concat "
    "ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumSum "
    "DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum "
    "Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm "
    "GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample "
    "GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If "
    "ImageDecoder InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less "
    "LessOrEqual Log LogSoftmax Loop LpNormalization LpPool MatMul MatMulInteger Max MaxPool "
    "MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul "
    "Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional "
    "OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul "
    "QuantizeLinear RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence "
    "RoiAlign Round STFT Scan Scatter ScatterElements ScatterND Selu SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
    "Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss Softplus "
    "Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat StringNormalizer "
    "StringSplit Sub Sum Tan Tanh TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu "
    "Unique Unsqueeze Upsample Where Xor";

struct Counts {
  size_t passed = 0, refused = 0, failed = 0;
  std::set<std::string> becomes;
};

std::string cell(llvm::StringRef text) { // '|' would end the cell
  std::string result;
  for (char c : text)
    result += c == '|' ? "\\|" : std::string(1, c);
  return result;
}

/// Every graph operator with its rule: the text of its declaration, or the rule of an example.
std::string ruleTable(const std::string &examples) {
  mlir::MLIRContext context;
  context.loadDialect<mlir::func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  context.allowUnregisteredDialects();
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(examples, mlir::ParserConfig(&context));
  if (!module)
    return "";
  std::map<std::string, std::string> rules;
  module->walk([&](dist::ShardingRuleOpInterface op) {
    std::string text = op.getRuleText().str(), name = op->getName().stripDialect().str();
    if (text == "custom") {
      auto rule = op.getShardingRule();
      if (!rule)
        return llvm::consumeError(rule.takeError());
      text = rule->str() + " (an example)";
    }
    rules.emplace(name, text);
  });
  std::string page = "| graph operator | rule |\n|---|---|\n";
  for (const auto &[name, text] : rules)
    page += "| `" + name + "` | `" + cell(text) + "` |\n";
  return page;
}

} // namespace

std::string operatorsPage(const std::vector<Outcome> &outcomes, const std::string &examples) {
  std::map<std::string, Counts> counts;
  size_t bound = 0;
  for (const Outcome &o : outcomes) {
    Counts &c = counts[o.operatorName];
    if (o.status == Status::Passed) {
      ++c.passed;
      bound += !o.bound.empty();
      // Constants are part of every decomposition.
      for (const auto &[name, rule] : o.rules)
        if (name != "constant")
          c.becomes.insert(name);
    } else if (o.status == Status::Refused) {
      ++c.refused;
    } else {
      ++c.failed;
    }
  }
  std::map<std::string, compiler::SupportedOperator> supported;
  for (const auto &row : compiler::supportedOperators())
    supported.emplace(row.name, row);

  std::string page = "# Operators\n\n"
                     "This page is generated; `onnx_node_test` writes it (`--update`), and a test "
                     "holds it against the program.\n\n"
                     "## ONNX operators\n\n"
                     "Types: float32, float64, float16, bfloat16, int64, int32, int8, uint8 and bool, "
                     "as far as ONNX defines the operator for them.\n"
                     "Tests are those of the ONNX project's backend node tests (Debian's "
                     "libonnx-testdata), run through compiler and runtime on the\nbackends "
                     "`reference` and `cpu`: " +
                     summary(outcomes);
  page += "An operator that must know an operand at import gets it in " + std::to_string(bound) +
          " of the passing tests as an initializer, as exporters\nwrite it. Tests are counted "
          "under the operator they are for, also where ONNX's function body stands in its place.\n\n";
  page += "| operator | opsets | not supported of it, or needed | becomes | passed | refused | "
          "failed |\n|---|---|---|---|---|---|---|\n";
  llvm::SmallVector<llvm::StringRef> names;
  kOnnxOperators.split(names, ' ');
  std::set<std::string> all;
  for (llvm::StringRef name : names)
    all.insert(name.str());
  for (const auto &[name, row] : supported)
    all.insert(name);
  for (const std::string &name : all) {
    auto row = supported.find(name);
    if (row == supported.end())
      continue;
    const Counts &c = counts[name];
    std::string becomes;
    for (const std::string &op : c.becomes)
      becomes += (becomes.empty() ? "`" : " `") + op + "`";
    page += "| " + name + " | " + std::to_string(row->second.since) + "-" + std::to_string(row->second.until) + " | " +
            cell(row->second.limits) + " | " + becomes + " | " + std::to_string(c.passed) + " | " +
            std::to_string(c.refused) + " | " + std::to_string(c.failed) + " |\n";
  }
  page += "\nWhy " + std::to_string(countOf(outcomes, Status::Refused)) +
          " tests are refused (`test/conformance/onnx/node_results.txt` has the message for each):\n\n" +
          refusalTable(outcomes) +
          "\nOperators that are not supported (with the number of tests that are refused for it):\n\n";
  std::string list;
  for (const std::string &name : all)
    if (!supported.count(name)) {
      size_t refused = counts[name].refused;
      list += (list.empty() ? "" : ", ") + name + (refused ? " (" + std::to_string(refused) + ")" : "");
    }
  page += list + ".\n\n";
  page += "## Graph operators and their sharding rules\n\n"
          "The notation is that of `dialects/dist/ShardingRule.h`; `{...}` gives extents of an "
          "example where the rule depends on\nattributes or shapes. The dialects' reference is "
          "generated from TableGen: build the target `reference`.\n\n";
  return page + ruleTable(examples);
}

} // namespace tessera::test
