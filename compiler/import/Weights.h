//===- Weights.h - parameters and states, outside the module ----------------------------------===//
//
// The module has only the names of its parameters and states; the WeightStore has their values, by name. A value is a
// string of bytes from the model file, a range of another file (ONNX external data), or an initialisation rule. Ranges
// are read and rules evaluated only when a caller asks for the value, so a store of many gigabytes needs memory for one
// tensor at a time.
//
//   WeightStore store;
//   store.add({"fc.weight", DType::F32, {10, 84}, InitRule{InitRule::Uniform, 0.1, seed}});
//   store.writeSafetensors("plan/weights.safetensors");
//
// runtime/support/InitialValues.h generates the random values. So a rank that gets the rule instead of the file makes
// the same values.
//
// File layout: https://github.com/huggingface/safetensors (8 bytes of header length, JSON, data).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_WEIGHTS_H
#define TESSERA_COMPILER_IMPORT_WEIGHTS_H

#include "compiler/import/Constant.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <variant>

namespace tessera::compiler {

/// A range of a file, already checked to lie inside the file.
struct FileRange {
  std::string path;
  uint64_t offset = 0;
};

struct InitRule {
  enum Kind { Constant, Uniform, Normal };
  Kind kind = Constant;
  double value = 0; // Constant: the value; Uniform: bound of [-value, value); Normal: standard deviation
  uint64_t seed = 0;

  static InitRule constant(double value) { return {Constant, value, 0}; }
};

struct Weight {
  std::string name;
  DType type = DType::F32;
  Shape shape;
  std::variant<std::string, FileRange, InitRule> source; // the string holds raw little-endian bytes

  uint64_t byteLength() const { return *elementCount(shape) * byteSize(type); }
  bool isGenerated() const { return std::holds_alternative<InitRule>(source); }
};

class WeightStore {
public:
  /// The name must be new.
  void add(Weight weight);
  bool contains(llvm::StringRef name) const { return index_.count(name); }
  const Weight *find(llvm::StringRef name) const;
  llvm::ArrayRef<Weight> weights() const { return weights_; }

  /// Hands the tensor's bytes to `sink` in order, in chunks of at most 4 MiB.
  static llvm::Error read(const Weight &weight, llvm::function_ref<llvm::Error(llvm::ArrayRef<char>)> sink);
  /// All bytes of one tensor.
  llvm::Expected<std::vector<char>> bytes(llvm::StringRef name) const;
  /// The bytes of all values that follow from rules.
  uint64_t generatedBytes() const;
  /// Writes beside `path` and renames when complete (rt::AtomicFile; `durable` as there). Without `generated`, values
  /// that follow from rules are left out.
  llvm::Error writeSafetensors(llvm::StringRef path, bool generated = true, bool durable = true) const;

private:
  std::vector<Weight> weights_;
  llvm::StringMap<size_t> index_;
};

/// How a parameter is used. The use decides its distribution if the file has no values.
enum class WeightUse { Kernel, Bias, NormScale, NormBias, Embedding, RunningMean, RunningVar, Other };

/// What an initialisation rule needs to know of a parameter.
///
/// The rules (`--init`) are "kaiming" (normal, gain sqrt 2, fan-in), "kaiming_uniform", "xavier" (uniform),
/// "xavier_normal", "torch" (PyTorch's module defaults: kernels and biases uniform in 1/sqrt(fan-in), embeddings normal
/// 1), "normal:STD", "zeros" and "ones". Under every rule norm scales and running variances start at 1, norm biases and
/// running means at 0. Biases start at 0, too, except under "torch". Under the rules that use a fan, embeddings start
/// as normal(0.02) (as normal(1) under "torch"), and so do parameters that no product reads.
struct InitContext {
  WeightUse use = WeightUse::Other;
  double fanIn = 1, fanOut = 1;
};
llvm::Expected<InitRule> makeInitRule(llvm::StringRef rule, const InitContext &context, uint64_t seed);

} // namespace tessera::compiler

#endif
