//===- ClusterOptions.h - what a cluster can choose, and what each choice costs ------------------===//
//
// An option of a cluster is a strategy of its head; those of the followers follow through the rules. Its
// cost is everything that happens inside the cluster: kernels, the operators' own collectives, reshards
// between members. Memory traffic is counted as fusion will leave it: a value that only followers of the same
// cluster read, point by point, is never written.
//
// Options of equal clusters (the blocks of a network) are computed once.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_ASSIGN_CLUSTEROPTIONS_H
#define TESSERA_STRATEGIES_ASSIGN_CLUSTEROPTIONS_H

#include "strategies/assign/Clusters.h"
#include "strategies/assign/UserMapping.h"

#include <map>
#include <memory>

namespace tessera::strategies {

struct ClusterOption {
  Sharding arg;                     // of an argument cluster
  std::vector<Strategy> strategies; // per operator of the cluster
  std::vector<int64_t> transient; // and what reshards and collectives around it take while it runs
  Cost cost = 0;                  // of everything inside the cluster
  Cost compute = 0;               // the kernels' part of it
  Cost growing = 0;               // the part of it that grows with the batch
};

using ClusterOptions = std::vector<ClusterOption>;

class OptionBuilder {
public:
  /// `fixed` may be null. Keeps at most `maxOptions` per cluster.
  OptionBuilder(const FunctionPlan &plan, const Clusters &clusters, const CostModel &model,
                const BatchDependence &batch, const FixedStrategies *fixed, size_t maxOptions);

  /// Not empty. `pinned`: the only sharding that an argument may have; null: any.
  std::shared_ptr<const ClusterOptions> options(int cluster, const Sharding *pinned);

private:
  const std::vector<Strategy> &headStrategies(int op);
  std::vector<Strategy> prune(const OperatorClass &cls, std::vector<Strategy> all) const;
  ClusterOption derive(const Cluster &cluster, const Sharding *arg, const Strategy *head) const;
  Strategy followerStrategy(const OperatorInfo &info, int followed,
                            llvm::ArrayRef<const Sharding *> known) const;
  bool isVirtual(int cluster, mlir::Value value) const;
  std::vector<int64_t> key(int cluster) const;
  uint64_t paddable(int arg) const;
  bool owesOfSource(int op, const Strategy &strategy) const;

  const FunctionPlan &plan_;
  const Program &program_;
  const Clusters &clusters_;
  const CostModel &model_;
  const BatchDependence &batch_;
  const FixedStrategies *fixed_;
  size_t maxOptions_;
  std::map<int, std::vector<Strategy>> byClass_; // pruned, by class id
  std::map<int, std::vector<Strategy>> byOp_;    // of fixed operators
  std::map<std::vector<int64_t>, std::shared_ptr<const ClusterOptions>> byKey_;
};

} // namespace tessera::strategies

#endif
