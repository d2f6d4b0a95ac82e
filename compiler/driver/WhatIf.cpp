// --what-if: the same program on clusters of other sizes.
#include "compiler/driver/Compiler.h"

namespace tessera {

llvm::Error Compiler::predictOne(ModuleOp module, ClusterPrediction &cluster) {
  strategies::AssignOptions assign = options_.assign;
  llvm::Expected<strategies::Topology> topology = assign.topology.withNodes(cluster.nodes);
  if (!topology)
    return topology.takeError();
  assign.topology = std::move(*topology);
  if (cluster.nodes > 1) {
    if (assign.mesh.findAxis("node") >= 0)
      return llvm::createStringError("--what-if adds an axis 'node' to the mesh, but %s has one",
                                     assign.mesh.str().c_str());
    auto mesh = dist::Mesh::parse("node=" + std::to_string(cluster.nodes) + "," + assign.mesh.str());
    if (!mesh)
      return mesh.takeError();
    assign.mesh = std::move(*mesh);
  }
  cluster.mesh = assign.mesh.str();
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  if (options_.recompute != "none") {
    CompileResult result;
    Placed placed;
    llvm::Error e = placeBest(module, assign, compiler::EmitOptions(), result, placed);
    if (e) {
      cluster.error = llvm::toString(std::move(e));
      return llvm::Error::success();
    }
    const strategies::FunctionReport &step = result.report.functions.front();
    cluster.predicted = step.total();
    cluster.communication = step.communication;
    cluster.memory = int64_t(result.memory.arenaBytes);
    cluster.recompute = result.recompute;
    cluster.fits = true;
    return llvm::Error::success();
  }
  OwningOpRef<ModuleOp> local(module.clone());
  AssignReport report;
  if (llvm::Error e = strategies::assignStrategies(*local, assign, report)) {
    cluster.error = llvm::toString(std::move(e));
    return llvm::Error::success();
  }
  if (report.functions.empty())
    return llvm::createStringError("the model has no function");
  cluster.predicted = report.functions.front().total();
  cluster.communication = report.functions.front().communication;
  strategies::CostModel model(assign.mesh, assign.topology, assign.profile);
  if (llvm::Error e = partition(*local, options_.fuse, /*dumpPhases=*/false, model))
    return e;
  llvm::Expected<MemoryReport> memory = compiler::planMemory(*local, compiler::EmitOptions());
  if (!memory)
    return memory.takeError();
  cluster.memory = int64_t(memory->arenaBytes);
  cluster.fits = cluster.memory <= report.memoryLimit;
  return llvm::Error::success();
}

llvm::Expected<std::vector<ClusterPrediction>> Compiler::predict(llvm::ArrayRef<int64_t> nodes) {
  llvm::Expected<compiler::ImportedModel> imported = prepare();
  if (!imported)
    return imported.takeError();
  std::vector<ClusterPrediction> list;
  for (int64_t n : nodes) {
    list.emplace_back();
    list.back().nodes = n;
    if (llvm::Error e = predictOne(*imported->module, list.back()))
      return e;
    phase(std::to_string(n) + (n == 1 ? " node" : " nodes"));
  }
  return list;
}

} // namespace tessera
