//===- VerifyPrograms.cpp - what holds at the end of phases 1 and 2 ------------------------------===//
//
// The verifiers check what later phases assume of whole programs. So an error in the importer, in training or in a
// transformation becomes one message at its place instead of a wrong plan.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/PassBases.h"
#include "dialects/graph/flow/Sections.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_VERIFYIMPORTEDPASS
#define GEN_PASS_DEF_VERIFYTRAININGPASS
#include "compiler/transform/Passes.h.inc"

namespace {

using Roles = ArrayRef<StringRef>;

/// The roles that a function's arguments and results may have.
struct Signature {
  SmallVector<StringRef> arguments, results;
};

Signature signatureOf(StringRef function) {
  if (function == "forward")
    return {{kInput, kStep, kParameter, kState}, {kOutput, kUpdate}};
  if (function == "train")
    return {{kStep, kInput, kTarget, kParameter, kState}, {kLoss, kUpdate, kLearningRate, kGradientNorm}};
  if (function == "eval")
    return {{kInput, kTarget, kParameter, kState}, {kOutput, kLoss, kCorrect, kPredictions}};
  return {{kInput, kParameter, kState}, {kOutput}};
}

bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

LogicalResult verifyBody(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return func.emitError("must have one block");
  for (Value argument : func.getArguments())
    if (!isStatic(argument.getType()))
      return func.emitError("has an argument that is no tensor of static shape: ") << argument.getType();
  for (Operation &op : func.getBody().front())
    for (Value result : op.getResults())
      if (!isStatic(result.getType()))
        return op.emitError("makes something that is no tensor of static shape");
  return success();
}

/// Checks that every argument has a role that the function may have, and a name that no other argument of the role has.
LogicalResult verifyArguments(func::FuncOp func, Roles roles) {
  llvm::StringSet<> seen;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    StringRef role = argRole(func, i), name = argName(func, i);
    if (!llvm::is_contained(roles, role))
      return func.emitError("argument ") << i << " has the role '" << role << "'; here there are "
                                         << llvm::join(roles, ", ");
    if (name.empty())
      return func.emitError("argument ") << i << " has no name";
    if (!seen.insert((role + "/" + name).str()).second)
      return func.emitError("has two arguments of the role ") << role << " called '" << name << "'";
  }
  return success();
}

/// Checks that every result has a role that the function may have, and that an update is the new value of exactly one
/// argument.
LogicalResult verifyResults(func::FuncOp func, Roles roles) {
  SmallVector<int> updated(func.getNumResults(), -1);
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    std::optional<unsigned> result = updateOf(func, i);
    if (!result)
      continue;
    StringRef role = argRole(func, i), name = argName(func, i);
    // Only @train changes parameters.
    if (role != kState && !(role == kParameter && func.getName() == "train"))
      return func.emitError("updates '") << name << "', whose role is " << role;
    if (*result >= func.getNumResults() || resultRole(func, *result) != kUpdate)
      return func.emitError("the new value of '") << name << "' is result " << *result << ", which is no update";
    if (updated[*result] >= 0)
      return func.emitError("result ") << *result << " is the new value of two arguments";
    if (func.getResultTypes()[*result] != func.getArgumentTypes()[i])
      return func.emitError("the new value of '")
             << name << "' has another type than the old one: " << func.getResultTypes()[*result] << ", not "
             << func.getArgumentTypes()[i];
    updated[*result] = int(i);
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    StringRef role = resultRole(func, i);
    if (!llvm::is_contained(roles, role))
      return func.emitError("result ") << i << " has the role '" << role << "'; here there are "
                                       << llvm::join(roles, ", ");
    if (role == kUpdate && updated[i] < 0)
      return func.emitError("result ") << i << " is an update, but of no argument";
  }
  return success();
}

LogicalResult verifyFunction(func::FuncOp func) {
  const Signature signature = signatureOf(func.getName());
  return success(succeeded(verifyBody(func)) && succeeded(verifyArguments(func, signature.arguments)) &&
                 succeeded(verifyResults(func, signature.results)) && succeeded(graph::verifySections(func)));
}

/// Checks that every function of the module is one of these and has its signature.
LogicalResult verifyFunctions(ModuleOp module, Roles names) {
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    if (!llvm::is_contained(names, func.getName()))
      return func.emitError("is no function of this phase; there are ") << llvm::join(names, ", ");
    if (failed(verifyFunction(func)))
      return failure();
  }
  return success();
}

LogicalResult verifyImported(ModuleOp module) {
  if (failed(verifyFunctions(module, {"forward", "infer"})))
    return failure();
  if (!module.lookupSymbol<func::FuncOp>("infer"))
    return emitError(module.getLoc(), "the module has no @infer");
  return success();
}

/// Checks that a parameter or state has the same type in all functions, because they share its memory when the plan
/// runs.
LogicalResult verifyShared(ModuleOp module) {
  llvm::StringMap<std::pair<Type, func::FuncOp>> known;
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StringRef role = argRole(func, i), name = argName(func, i);
      if (role != kParameter && role != kState)
        continue;
      Type type = func.getArgumentTypes()[i];
      auto [it, isNew] = known.try_emplace((role + "/" + name).str(), type, func);
      if (!isNew && it->second.first != type)
        return func.emitError("the ") << role << " '" << name << "' is " << type << ", but " << it->second.first
                                      << " in @" << it->second.second.getName();
    }
  return success();
}

LogicalResult verifyTraining(ModuleOp module) {
  if (failed(verifyFunctions(module, {"train", "eval", "infer"})) || failed(verifyShared(module)))
    return failure();
  if (auto train = module.lookupSymbol<func::FuncOp>("train")) {
    if (train.getNumArguments() == 0 || argRole(train, 0) != kStep)
      return train.emitError("must have the step as its first argument");
    auto losses =
        llvm::count_if(llvm::seq(train.getNumResults()), [&](unsigned i) { return resultRole(train, i) == kLoss; });
    if (losses != 1)
      return train.emitError("returns ") << losses << " losses";
  }
  WalkResult walk = module.walk([](Operation *op) {
    if (!isa<BatchNormOp, BatchNormGradOp, LogSoftmaxOp, LogSoftmaxGradOp>(op))
      return WalkResult::advance();
    op->emitError("is not decomposed: run graph-decompose-norms before this pass");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

struct VerifyImported : graph::VerifyPass<impl::VerifyImportedPassBase<VerifyImported>, verifyImported> {};
struct VerifyTraining : graph::VerifyPass<impl::VerifyTrainingPassBase<VerifyTraining>, verifyTraining> {};

} // namespace

} // namespace tessera::compiler
