#include "strategies/modes/Passes.h"

#include "dialects/dist/DistDialect.h"

using namespace mlir;

namespace tessera::strategies {

namespace {

struct AssignStrategiesPass : PassWrapper<AssignStrategiesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AssignStrategiesPass)

  AssignStrategiesPass() = default;
  AssignStrategiesPass(const AssignStrategiesPass &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const override { return "assign-strategies"; }
  llvm::StringRef getDescription() const override {
    return "Gives every operator a strategy and every argument and result a sharding";
  }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<dist::DistDialect>(); }

  void runOnOperation() override {
    if (llvm::Error e = run()) {
      getOperation().emitError() << llvm::toString(std::move(e));
      signalPassFailure();
    }
  }

  llvm::Error run() {
    AssignOptions options;
    options.mode = mode;
    llvm::Expected<Mesh> parsed = Mesh::parse(mesh);
    if (!parsed)
      return parsed.takeError();
    options.mesh = std::move(*parsed);
    llvm::Expected<Topology> machine = Topology::load(topology);
    if (!machine)
      return machine.takeError();
    options.topology = std::move(*machine);
    if (!strategy.empty()) {
      llvm::Expected<UserStrategies> user = UserStrategies::load(strategy);
      if (!user)
        return user.takeError();
      options.user = std::move(*user);
    }
    if (!memory.empty()) {
      llvm::Expected<int64_t> bytes = parseBytes(memory);
      if (!bytes)
        return bytes.takeError();
      options.memoryLimit = *bytes;
    }
    AssignReport report;
    return assignStrategies(getOperation(), options, report);
  }

  Option<std::string> mesh{*this, "mesh", llvm::cl::desc("mesh, for example data=2,model=2"), llvm::cl::init("1")};
  Option<std::string> mode{*this, "mode", llvm::cl::desc("data, semi-auto or auto"), llvm::cl::init("data")};
  Option<std::string> strategy{*this, "strategy", llvm::cl::desc("file with strategies")};
  Option<std::string> topology{*this, "topology", llvm::cl::desc("preset or file"), llvm::cl::init("cpu")};
  Option<std::string> memory{*this, "memory", llvm::cl::desc("bytes per rank, for example 16GiB")};
};

} // namespace

std::unique_ptr<Pass> createAssignStrategiesPass() { return std::make_unique<AssignStrategiesPass>(); }

void registerAssignPasses() { PassRegistration<AssignStrategiesPass>(); }

} // namespace tessera::strategies
