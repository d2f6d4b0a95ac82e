//===- Node.h - one ONNX node, seen by its builder; the operator table ------------------------===//
//
// A row of the table maps an ONNX operator to a function that reads the node's inputs and
// attributes, builds graph operators and sets the node's outputs:
//
//   static void gemmLike(Node &node) {
//     Val y = node.b.matmul(node.in(0), node.in(1), node.attrInt("transA", 0) != 0);
//     node.out(0, node.b.add(y, node.in(2), "bias"));
//   }
//   {"GemmLike", 7, 21, gemmLike, ".kb", "no alpha"},
//
// An attribute of the node that its builder did not read is an error, so that the importer ignores nothing silently.
//
// The primary operator of a decomposition carries the node's name; the others carry it with "/suffix".
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_NODE_H
#define TESSERA_COMPILER_IMPORT_NODE_H

#include "compiler/import/GraphBuilder.h"
#include "compiler/import/ModelFile.h"

namespace tessera::compiler {

/// The function that is being built, as a node's builder sees it.
class FunctionState {
public:
  virtual ~FunctionState() = default;
  /// The i64 scalar argument that counts training steps.
  virtual mlir::Value step() = 0;
  /// The seed of random numbers, and a stream that no other node has.
  virtual uint64_t seed() const = 0;
  virtual int64_t nextStream() = 0;
  /// Whether this function is for training. Only then may BatchNorm and Dropout be in training mode.
  virtual bool training() const = 0;
  /// Whether nodes run in the mode that the file gives them, although this function is for inference.
  virtual bool literal() const = 0;
  /// Whether a BatchNormalization uses the statistics of the batch in this function. `marked`: the file puts it into
  /// training mode.
  virtual bool batchStatistics(const onnx::NodeProto &node, bool marked) const = 0;
  /// Whether `name` is a state (a running statistic of BatchNorm).
  virtual bool isState(llvm::StringRef name) const = 0;
  /// Reads the state's current value in this function, and sets its new one.
  virtual Val stateValue(llvm::StringRef name) = 0;
  virtual void setState(llvm::StringRef name, const Val &value) = 0;
  virtual bool isUsed(llvm::StringRef name) const = 0;
  /// In mode hybrid, where the file has the program of one rank, the mesh of the ranks; null in other modes.
  virtual const dist::Mesh *mesh() const = 0;
  /// Builds the nodes of a body (of If, Loop, Scan) in this function and returns the body's outputs. On failure it
  /// returns none, and the builder holds the error.
  virtual std::vector<Val> subgraph(GraphBuilder &builder, const onnx::GraphProto &graph,
                                    llvm::ArrayRef<Val> inputs) = 0;
};

/// The shortest decimal number that rounds to `value`: 0.1f gives 0.1, not 0.10000000149.
double shortestDecimal(float value);

class Node {
public:
  Node(const onnx::NodeProto &proto, int64_t opset, GraphBuilder &builder, FunctionState &function,
       const ModelFile &file, std::vector<Val> inputs);

  GraphBuilder &b;
  FunctionState &function;
  const int64_t opset;
  const onnx::NodeProto &proto;

  // Inputs. `in` fails if the input is missing or a sequence.
  int numInputs() const { return int(inputs_.size()); }
  bool has(int i) const { return i < numInputs() && bool(inputs_[i]); }
  Val in(int i);
  Val floatIn(int i); // fails unless it is floating point
  const std::vector<Val> &sequenceIn(int i);
  Val opt(int i) { return has(i) ? in(i) : Val(); }
  llvm::ArrayRef<Val> inputs() const { return inputs_; }
  /// The elements of an input that must be known at import. nullopt: it is not known, which is an error, or it is an
  /// optional input that is absent.
  std::optional<Shape> knownInts(int i, llvm::StringRef what);
  std::optional<double> knownFloat(int i,
                                   llvm::StringRef what); // a float32 as its shortest decimal

  // Attributes. A float is read as its shortest decimal, because exporters round Python's doubles to float32.
  bool hasAttr(llvm::StringRef name) const;
  int64_t attrInt(llvm::StringRef name, int64_t otherwise);
  double attrFloat(llvm::StringRef name, double otherwise);
  std::string attrString(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<Shape> attrInts(llvm::StringRef name);
  const onnx::TensorProto *attrTensor(llvm::StringRef name);
  std::optional<std::vector<float>> attrFloats(llvm::StringRef name);
  std::optional<std::vector<std::string>> attrStrings(llvm::StringRef name);
  const onnx::GraphProto *attrGraph(llvm::StringRef name);
  void ignoreAttr(llvm::StringRef name) { read_.insert(name.str()); }
  /// The axes, which are an attribute up to opset `lastAttr` and input `i` in later opsets; nullopt if there are none.
  std::optional<Shape> axesAttrOrInput(llvm::StringRef name, int64_t lastAttr, int i);

  /// Wraps a negative dimension number; fails outside [-rank, rank).
  int64_t axis(int64_t value, int64_t rank);
  Shape axes(llvm::ArrayRef<int64_t> values, int64_t rank); // sorted, no repetition

  // Outputs.
  bool wanted(int i) const; // has a name and is used
  void out(int i, Val value);
  llvm::ArrayRef<Val> outputs() const { return outputs_; }

  /// The outputs of a body, built in place.
  std::vector<Val> subgraph(const onnx::GraphProto &graph, llvm::ArrayRef<Val> inputs);

  Val fail(const llvm::Twine &message) { return b.fail(message); }
  bool failed() const { return b.failed(); }
  /// Fails if an attribute was not read.
  void checkAttributes();
  const ModelFile &file() const { return file_; }

private:
  const onnx::AttributeProto *find(llvm::StringRef name, onnx::AttributeProto::AttributeType type);

  const ModelFile &file_;
  std::vector<Val> inputs_;
  std::vector<Val> outputs_;
  std::set<std::string> read_;
};

using BuildFn = void (*)(Node &);

struct OpRow {
  llvm::StringLiteral name;
  int64_t since, until; // opsets of the model
  BuildFn build;
  /// The use of each operand, one character per operand. The last character also holds for all further operands.
  ///   . data   * a factor   t a mask, indices or anything else that no gradient reaches
  ///   c a number that must be known at import
  ///   > data that only moves to the result   / the same, a part of it
  ///   k kernel   b bias   e embedding table   s, o scale and offset of a normalisation
  ///   m, v running mean and variance   p another parameter
  llvm::StringLiteral operands;
  llvm::StringLiteral limits; // what is not supported; empty: everything is
};

// Families, one file each in ops/.
llvm::ArrayRef<OpRow> attentionOps();
llvm::ArrayRef<OpRow> constantOps();
llvm::ArrayRef<OpRow> controlOps();
llvm::ArrayRef<OpRow> convPoolOps();
llvm::ArrayRef<OpRow> einsumOps();
llvm::ArrayRef<OpRow> elementwiseOps();
llvm::ArrayRef<OpRow> functionOps();
llvm::ArrayRef<OpRow> gridSampleOps();
llvm::ArrayRef<OpRow> indexingOps();
llvm::ArrayRef<OpRow> lossOps();
llvm::ArrayRef<OpRow> matmulOps();
llvm::ArrayRef<OpRow> movementOps();
llvm::ArrayRef<OpRow> normOps();
llvm::ArrayRef<OpRow> poolIndicesOps();
llvm::ArrayRef<OpRow> quantizeOps();
llvm::ArrayRef<OpRow> randomOps();
llvm::ArrayRef<OpRow> recurrentOps();
llvm::ArrayRef<OpRow> reduceOps();
llvm::ArrayRef<OpRow> resizeOps();
llvm::ArrayRef<OpRow> sequenceOps();
llvm::ArrayRef<OpRow> signalOps();
llvm::ArrayRef<OpRow> windowOps();

/// The domain of the collectives that a program of mode hybrid contains.
inline constexpr llvm::StringLiteral kTesseraDomain = "ai.tessera";
llvm::ArrayRef<OpRow> collectiveOps();

/// All rows of the standard domain, by name.
const std::map<std::string, const OpRow *> &opTable();
/// The node's row, by domain and name; null: there is none.
const OpRow *findRow(const onnx::NodeProto &node);

} // namespace tessera::compiler

#endif
