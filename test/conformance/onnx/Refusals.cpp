#include "test/conformance/onnx/Refusals.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tessera::test {
namespace {

constexpr Refusal kEmpty{
    "A result or a parameter without elements",
    "remove it from the file's outputs, or name it in `--constants`: there is nothing to compute or train"},
    kLists{"An input or output of the model is a list of tensors, or may be missing",
           "export the model with tensors; lists inside a model are taken apart"},
    kText{"Strings, and lists of words", "prepare text before the network; token ids are integers"},
    kPictures{"Files of images", "decode images before the network: `--data imagefolder:` does"},
    kTypes{
        "Element types that no kernel computes in: int16, wider unsigned integers, and what has less than 8 bits or is "
        "an 8-bit float",
        "cast to int32, int64 or float32 when exporting"},
    kShapes{"Which elements there are depends on the data, so that shapes are not known before the program runs",
            "keep such steps out of the file, after the network; use masks or TopK inside it"},
    kControl{"Which nodes run, or how often, depends on the data",
             "export with the condition or the number of turns fixed"},
    kRandom{"Random numbers outside training, which a test compares with another generator's",
            "export in inference mode, or train: `--train` draws them"},
    kOptimizers{"The optimizer is in the file", "export the network; `--optimizer` chooses the optimizer"},
    kClassical{"Classical learning: trees, tables of labels (ai.onnx.ml)", "run it beside the network"},
    kOpen{"It could be compiled, and is not built", "compose it of operators in the table above"};

struct Row {
  const Refusal *refusal;
  const char *operators; // separated by spaces; empty: any
  const char *message;   // part of the importer's message; empty: any
};

/// The first row that fits counts.
const Row kRows[] = {
    {&kOptimizers, "Adagrad Adam Momentum NesterovMomentum", ""},
    {&kClassical, "ArrayFeatureExtractor Binarizer LabelEncoder TreeEnsemble", ""},
    {&kText, "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer", ""},
    {&kText, "", "STRING"},
    {&kPictures, "ImageDecoder", ""},
    {&kLists, "OptionalGetElement OptionalHasElement", ""},
    {&kLists, "", "is not a tensor"},
    {&kShapes, "NonMaxSuppression Unique", ""},
    {&kShapes, "SplitToSequence", "must be known at import"},
    {&kLists, "SplitToSequence", ""},
    {&kControl, "If Loop Range", "known at import"},
    {&kRandom, "", "drawn at random"},
    {&kEmpty, "", "has no elements"},
    {&kEmpty, "", "without elements"},
    {&kTypes, "", "has the element type"},
    {&kTypes, "", "has the type"},
    {&kTypes, "", "a cast to"},
    {&kTypes, "QuantizeLinear DequantizeLinear", "must be int8 or uint8"},
    {&kTypes, "BitShift", "only uint8"},
    {&kOpen, "BitCast DequantizeLinear FlexAttention LinearAttention QuantizeLinear RoiAlign Scan", ""},
    {&kOpen, "ScatterElements ScatterND", "reduction="},
};

bool fits(const Row &row, const Outcome &outcome) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(row.operators).split(names, ' ', -1, false);
  return (names.empty() || llvm::is_contained(names, outcome.operatorName)) &&
         llvm::StringRef(outcome.reason).contains(row.message);
}

} // namespace

const Refusal *refusalOf(const Outcome &outcome) {
  for (const Row &row : kRows)
    if (fits(row, outcome))
      return row.refusal;
  return nullptr;
}

std::string unexplained(const std::vector<Outcome> &outcomes) {
  std::string names;
  for (const Outcome &o : outcomes)
    if (o.status == Status::Refused && !refusalOf(o))
      names += o.name + "\n";
  return names;
}

std::string refusalTable(const std::vector<Outcome> &outcomes) {
  std::map<const Refusal *, std::map<std::string, int>> found;
  for (const Outcome &o : outcomes)
    if (o.status == Status::Refused)
      ++found[refusalOf(o)][o.operatorName];
  std::string page = "| why | what helps | tests | of the operators |\n|---|---|---|---|\n";
  for (const Refusal *refusal : {&kTypes, &kText, &kLists, &kShapes, &kControl, &kRandom, &kEmpty, &kOptimizers,
                                 &kClassical, &kPictures, &kOpen}) {
    auto it = found.find(refusal);
    if (it == found.end())
      continue;
    int total = 0;
    std::string operators;
    for (const auto &[name, count] : it->second) {
      total += count;
      operators += (operators.empty() ? "" : ", ") + name + " (" + std::to_string(count) + ")";
    }
    page += std::string("| ") + refusal->why + " | " + refusal->helps + " | " + std::to_string(total) + " | " +
            operators + " |\n";
  }
  return page;
}

} // namespace tessera::test
