//===- ForwardPass.h - the forward pass of a function as a problem of stages -----------------------===//
//
// Nodes are the operators of the forward pass. Each bears what the backward pass does for it, too: a gradient belongs
// to the forward operator that it is a gradient of, its home. What is left of the backward pass goes where the largest
// of what it reads has its home. Parameters and their states count where they are read first.
//
//   ForwardPass forward(func);
//   std::vector<int> steps;                                             // by node
//   strategies::StageProblem problem = forward.problem(times, costs, steps);
//
// Before a function is one rank's, its values have other sizes on a rank: set them in `parts` first.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_FORWARDPASS_H
#define TESSERA_COMPILER_PIPELINE_FORWARDPASS_H

#include "compiler/pipeline/PlaceOperators.h"
#include "compiler/pipeline/ProgramParts.h"
#include "strategies/pipeline/stages/StageProblem.h"

namespace tessera::compiler {

class ForwardPass {
public:
  static constexpr int kNone = -1;

  explicit ForwardPass(mlir::func::FuncOp func);

  ProgramParts parts;

  mlir::Operation *operatorOf(int s) const { return parts.program.operators[size_t(s)]; }
  /// Whether the step is a node.
  bool isForward(int s) const { return parts.forward[size_t(s)] && !parts.free[size_t(s)]; }
  /// For what is not forward and no update the forward step to which it belongs; kNone: none.
  int homeOf(int s) const { return homes_[size_t(s)]; }
  const llvm::SmallVector<int, 2> &readersOf(int value) const { return readers_[size_t(value)]; }
  /// The forward steps that read a value, also behind what runs once before the body.
  void collectReaders(int value, llvm::SmallVectorImpl<int> &found) const;
  /// The parameter for which an argument is kept: itself, or the one that the readers of a state update.
  std::string parameterOf(unsigned argument) const;

  /// The stage that the step was given, by the model file or a strategy file; kNone: none.
  int givenTo(int s, const PipelineCosts &costs) const;

  /// Every node with its times for one micro-batch and its memory, for the places and the limit of `costs`. `times`: of
  /// each step when it runs once. Sets the steps of the nodes. Where the backward pass computes again, a cut inside of
  /// what is computed again as one would move much of it to the earlier stage; `anywhere` allows such cuts.
  strategies::StageProblem problem(llvm::ArrayRef<strategies::Cost> times, const PipelineCosts &costs,
                                   std::vector<int> &steps, bool anywhere = false) const;

private:
  void findHomes();
  std::vector<bool> findWeights() const;
  void addValues(strategies::StageProblem &problem, llvm::ArrayRef<int> node, int s) const;
  void addBackward(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const;
  void addArguments(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const;
  void addAverages(strategies::StageProblem &problem, llvm::ArrayRef<int> node) const;

  mutable mlir::func::FuncOp func_; // a handle, whose functions are not const
  std::vector<llvm::SmallVector<int, 2>> readers_;
  std::vector<int> homes_; // by step
};

} // namespace tessera::compiler

#endif
