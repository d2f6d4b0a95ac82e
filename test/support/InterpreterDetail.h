//===- InterpreterDetail.h - shared by the parts of the interpreter ------------------------------===//
#ifndef TESSERA_TEST_SUPPORT_INTERPRETERDETAIL_H
#define TESSERA_TEST_SUPPORT_INTERPRETERDETAIL_H

#include "dialects/dist/DistOps.h"
#include "test/support/Interpreter.h"

#include <map>
#include <string>

namespace tessera::test::detail {

/// One evaluation of one operator.
struct Call {
  mlir::Operation *op;
  mlir::DictionaryAttr attributes;
  llvm::ArrayRef<const Tensor *> in;
  std::vector<Tensor> out; // zeros of the results' shapes

  int64_t integer(llvm::StringRef name, int64_t otherwise = 0) const;
  double real(llvm::StringRef name) const;
  bool flag(llvm::StringRef name) const;
  llvm::SmallVector<int64_t> list(llvm::StringRef name) const;
  /// Whether operand i / result i holds integers (or booleans).
  bool integerOperand(unsigned i) const;
  mlir::Type resultElement(unsigned i = 0) const;
};

using Evaluate = void (*)(Call &);
using Table = std::map<std::string, Evaluate>; // by mnemonic

void addElementwise(Table &table); // InterpreterElementwise.cpp
void addData(Table &table);        // InterpreterData.cpp
void addNetwork(Table &table);     // InterpreterNetwork.cpp

/// Returns results by rank (InterpreterCollectives.cpp).
llvm::Expected<std::vector<Tensor>> interpretCollective(dist::CollectiveOp op, llvm::ArrayRef<const Tensor *> operands);

/// Calls fn(index) for every index of the shape, in row-major order.
template <typename Fn> void forEach(llvm::ArrayRef<int64_t> shape, Fn fn) {
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t extent : shape)
    if (extent == 0)
      return;
  while (true) {
    fn(llvm::ArrayRef<int64_t>(index));
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

/// Position of an index in a tensor of the shape.
inline int64_t offset(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> index) {
  int64_t result = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    result = result * shape[d] + index[d];
  return result;
}

/// The element of x that `index` of a (broadcast) result reads.
inline double broadcastAt(const Tensor &x, llvm::ArrayRef<int64_t> index) {
  int64_t position = 0;
  size_t lead = index.size() - x.shape.size();
  for (size_t d = 0; d < x.shape.size(); ++d)
    position = position * x.shape[d] + (x.shape[d] == 1 ? 0 : index[lead + d]);
  return x.data[size_t(position)];
}

} // namespace tessera::test::detail

#endif
