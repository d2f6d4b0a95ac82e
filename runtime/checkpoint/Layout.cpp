#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Weights.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <set>

namespace tessera::rt {
namespace {

/// The number of blocks into which the ranks have cut every dimension.
std::vector<int64_t> splitOf(const std::vector<Block> &blocks, size_t dimensions) {
  std::vector<int64_t> split;
  for (size_t d = 0; d < dimensions; ++d) {
    std::set<int64_t> offsets;
    for (const Block &block : blocks)
      offsets.insert(block.offset[d]);
    split.push_back(int64_t(offsets.size()));
  }
  return split;
}

/// Numbers files in the order in which they are first named.
class Files {
public:
  explicit Files(Manifest &manifest) : manifest_(manifest) {}
  size_t called(const std::string &name) {
    auto [it, fresh] = numbers_.emplace(name, numbers_.size());
    if (fresh)
      manifest_.files.push_back({name, {}});
    return it->second;
  }
  size_t whole(TensorRole role) {
    return called(role == TensorRole::Optimizer ? "optimizer.safetensors" : "model.safetensors");
  }

private:
  Manifest &manifest_;
  std::map<std::string, size_t> numbers_;
};

} // namespace

std::string rankFile(int rank) { return "rank" + std::to_string(rank) + ".safetensors"; }

std::vector<Share> sharesOf(const BoundTensors &tensors) {
  std::vector<Share> shares;
  const std::span<const plan::Plan> plans = tensors.plans();
  std::vector<uint64_t> load(plans.size(), 0);
  for (int tensor = 0; tensor < tensors.plan().bindings_size(); ++tensor) {
    const plan::Binding &bound = tensors.binding(tensor);
    if (bound.role() != plan::PARAMETER && bound.role() != plan::STATE)
      continue;
    const plan::DType type = tensors.type(tensor);
    std::map<Block, std::vector<size_t>> holders;
    for (size_t rank = 0; rank < plans.size(); ++rank)
      if (const int binding = tensors.on(rank, tensor); binding >= 0) {
        Block block = blockOf(plans[rank], plans[rank].bindings(binding));
        if (!isEmpty(block.shape))
          holders[block].push_back(rank);
      }
    for (const auto &[block, ranks] : holders) {
      size_t rank = *std::min_element(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
        return std::pair(load[a], a) < std::pair(load[b], b);
      });
      load[rank] += bytesOf(block.shape, type).value_or(0);
      shares.push_back({tensor, block, int(rank)});
    }
  }
  return shares;
}

Manifest describe(const BoundTensors &tensors, const std::vector<Share> &shares, bool integrated,
                  const std::function<plan::DType(int tensor)> &typeOf) {
  const plan::Plan &plan = tensors.plan();
  Manifest manifest;
  manifest.producer = plan.producer();
  manifest.model = plan.model();
  manifest.modelHash = modelHash(plan);
  manifest.planId = plan.plan_id();
  manifest.leaves = plan.leaves();
  for (const plan::MeshAxis &axis : plan.mesh())
    manifest.mesh.push_back({axis.name(), axis.size()});
  Files files(manifest);
  for (size_t i = 0; i < shares.size();) {
    const int number = shares[i].tensor;
    const plan::Binding &bound = plan.bindings(number);
    Manifest::Tensor tensor;
    tensor.role = bound.role() == plan::PARAMETER ? TensorRole::Parameter
                  : isOptimizerState(plan, bound) ? TensorRole::Optimizer
                                                  : TensorRole::State;
    tensor.type = typeOf(number);
    tensor.shape = toVector(bound.global_shape());
    std::vector<Block> blocks;
    for (; i < shares.size() && shares[i].tensor == number; ++i) {
      blocks.push_back(shares[i].block);
      if (!integrated)
        tensor.pieces.push_back({files.called(rankFile(shares[i].rank)), shares[i].block});
    }
    if (integrated)
      tensor.pieces.push_back({files.whole(tensor.role), wholeBlock(tensor.shape)});
    tensor.split = splitOf(blocks, tensor.shape.size());
    manifest.tensors.emplace(bound.name(), std::move(tensor));
  }
  return manifest;
}

void layOutWhole(Manifest &manifest) {
  manifest.files.clear();
  Files files(manifest);
  for (auto &[name, tensor] : manifest.tensors)
    tensor.pieces = {{files.whole(tensor.role), wholeBlock(tensor.shape)}};
}

void layOutParts(Manifest &manifest, int parts) {
  manifest.files.clear();
  Files files(manifest);
  auto part = [&](int64_t i) { return files.called("part" + std::to_string(i) + ".safetensors"); };
  int64_t next = 0; // the file for the next tensor that cannot be cut
  for (auto &[name, tensor] : manifest.tensors) {
    tensor.pieces.clear();
    if (tensor.shape.empty() || tensor.shape[0] < parts) {
      tensor.pieces.push_back({part(next++ % parts), wholeBlock(tensor.shape)});
      continue;
    }
    const int64_t rows = (tensor.shape[0] + parts - 1) / parts;
    for (int64_t i = 0; i * rows < tensor.shape[0]; ++i) {
      Block block = wholeBlock(tensor.shape);
      block.offset[0] = i * rows;
      block.shape[0] = std::min(rows, tensor.shape[0] - i * rows);
      tensor.pieces.push_back({part(i), block});
    }
  }
}

} // namespace tessera::rt
