#include "compiler/hybrid/Passes.h"

#include "compiler/hybrid/Complete.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/PassBases.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_HYBRIDANNOTATEPASS
#define GEN_PASS_DEF_HYBRIDCOMPLETEPASS
#include "compiler/hybrid/Passes.h.inc"

namespace {

/// A pass that runs `Work` with the options of its constructor, or with those of its file.
template <typename Base, llvm::Error (*Work)(ModuleOp, const HybridOptions &)>
struct HybridPass : graph::FalliblePass<Base> {
  using graph::FalliblePass<Base>::FalliblePass;
  explicit HybridPass(HybridOptions options) : given_(std::move(options)) {}

  llvm::Error run() override {
    if (given_)
      return Work(this->getOperation(), *given_);
    const dist::Mesh mesh = dist::getMesh(this->getOperation());
    auto options = this->file.empty() ? HybridOptions::none(mesh) : HybridOptions::load(this->file, mesh);
    return options ? Work(this->getOperation(), *options) : options.takeError();
  }

private:
  std::optional<HybridOptions> given_;
};

struct HybridAnnotate : HybridPass<impl::HybridAnnotatePassBase<HybridAnnotate>, annotate> {
  using HybridPass::HybridPass;
};
struct HybridComplete : HybridPass<impl::HybridCompletePassBase<HybridComplete>, complete> {
  using HybridPass::HybridPass;
};

} // namespace

std::unique_ptr<Pass> createHybridAnnotatePass(HybridOptions options) {
  return std::make_unique<HybridAnnotate>(std::move(options));
}
std::unique_ptr<Pass> createHybridCompletePass(HybridOptions options) {
  return std::make_unique<HybridComplete>(std::move(options));
}

} // namespace tessera::compiler
