//===- ProgramBuilder.h - builds a function from clones of another one's operators ---------------===//
//
// The caller first declares the arguments and creates the function. Then it adds clones of the source's operators, new
// operators and results. `finish` completes the function:
//
//   ProgramBuilder program(forward, "train");
//   program.addArguments(kInput);                              // those of @forward, as they are
//   unsigned state = program.addArgument(type, kState, "momentum/w");
//   func::FuncOp train = program.create(kStep);
//   program.cloneBody();
//   program.addUpdate(state, value);                           // a result, and graph.update on the argument
//   program.finish();
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_PROGRAMBUILDER_H
#define TESSERA_COMPILER_TRAINING_PROGRAMBUILDER_H

#include "dialects/graph/GraphOrigin.h"

#include "mlir/IR/IRMapping.h"

namespace tessera::compiler {

class ProgramBuilder {
public:
  ProgramBuilder(mlir::func::FuncOp source, llvm::StringRef name) : source_(source), name_(name.str()) {}

  mlir::func::FuncOp source() const { return source_; }

  // Functions to call before create().

  /// Appends the source's arguments of one role.
  void addArguments(llvm::StringRef role);
  /// Appends an argument that the source does not have, and returns its index. If the source has an argument of the
  /// wanted name, an apostrophe is appended to the new one.
  unsigned addArgument(mlir::Type type, llvm::StringRef role, const llvm::Twine &wanted);
  void setArgumentType(unsigned i, mlir::Type type) { arguments_[i].type = type; }

  /// Creates the function before the source, without operators. The source's argument of the role `step` is mapped to
  /// the new function's first argument; empty: there is none.
  mlir::func::FuncOp create(llvm::StringRef step);

  // Functions to call before or after create().

  unsigned numArguments() const { return unsigned(arguments_.size()); }
  mlir::Type argumentType(unsigned i) const { return arguments_[i].type; }
  llvm::StringRef argumentName(unsigned i) const;
  mlir::Attribute argumentAttr(unsigned i, llvm::StringRef name) const { return arguments_[i].attrs.get(name); }
  void setArgumentAttr(unsigned i, llvm::StringRef name, mlir::Attribute value) {
    arguments_[i].attrs.set(name, value);
  }

  // Functions to call after create().

  mlir::func::FuncOp function() const { return func_; }
  mlir::Value argument(unsigned i) { return func_.getArgument(i); }
  /// Appends clones of the source's operators.
  void cloneBody();
  /// The clone of a value of the source.
  mlir::Value clone(mlir::Value v) const { return mapping_.lookup(v); }
  /// Replaces a value of the source in the clones.
  void map(mlir::Value source, mlir::Value value) { mapping_.map(source, value); }

  void addResult(mlir::Value value, llvm::StringRef role, llvm::StringRef name);
  /// Adds the new value of an argument.
  void addUpdate(unsigned argument, mlir::Value value);
  /// Sets types and attributes, and removes operators that nothing uses.
  void finish();

private:
  struct Slot {
    mlir::Type type;
    mlir::NamedAttrList attrs;
    mlir::Value from; // argument: the source's argument that it replaces; result: the value returned
  };

  mlir::func::FuncOp source_, func_;
  std::string name_;
  mlir::IRMapping mapping_;
  llvm::SmallVector<Slot> arguments_, results_;
};

} // namespace tessera::compiler

#endif
