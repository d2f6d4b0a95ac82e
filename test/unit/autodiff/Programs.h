// Programs from text, and random tensors, for the tests of this folder.
#ifndef TESSERA_TEST_UNIT_AUTODIFF_PROGRAMS_H
#define TESSERA_TEST_UNIT_AUTODIFF_PROGRAMS_H

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "test/support/Interpreter.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <random>

namespace tessera::test {

struct Program {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler;

  explicit Program(llvm::StringRef text)
      : handler(&context, [this](mlir::Diagnostic &d) {
          diagnostics += d.str() + "\n";
          return mlir::success();
        }) {
    context.loadDialect<graph::GraphDialect, dist::DistDialect, mlir::func::FuncDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    INFO(diagnostics);
    INFO(text.str());
    REQUIRE(module);
  }
  mlir::func::FuncOp func(llvm::StringRef name) {
    auto func = module->lookupSymbol<mlir::func::FuncOp>(name);
    REQUIRE(func);
    return func;
  }
  void verify() {
    bool ok = mlir::succeeded(mlir::verify(*module));
    INFO(diagnostics);
    REQUIRE(ok);
  }
};

inline std::vector<Tensor> run(mlir::func::FuncOp func, llvm::ArrayRef<Tensor> arguments) {
  auto results = interpret(func, arguments);
  if (!results)
    FAIL(llvm::toString(results.takeError()));
  return std::move(*results);
}

inline Tensor random(llvm::ArrayRef<int64_t> shape, double low, double high, std::mt19937_64 &engine) {
  std::uniform_real_distribution<double> uniform(low, high);
  Tensor t = Tensor::zeros(shape);
  for (double &x : t.data)
    x = uniform(engine);
  return t;
}

/// Norm of the difference over the norm of b (over 1 if that is smaller).
inline double distance(const Tensor &a, const Tensor &b) {
  REQUIRE(a.shape == b.shape);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    difference += (a.data[i] - b.data[i]) * (a.data[i] - b.data[i]);
    norm += b.data[i] * b.data[i];
  }
  return std::sqrt(difference) / std::max(1.0, std::sqrt(norm));
}

} // namespace tessera::test

#endif
