#include "runtime/plan/Blocks.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tessera::rt {
Block wholeBlock(const std::vector<int64_t> &shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

Block blockOf(const plan::Plan &plan, const plan::Binding &binding) {
  return {toVector(binding.offset()), extentOf(plan, binding)};
}

bool isInside(const Block &block, const std::vector<int64_t> &global) {
  if (block.offset.size() != global.size() || block.shape.size() != global.size())
    return false;
  for (size_t d = 0; d < global.size(); ++d)
    if (block.offset[d] < 0 || block.shape[d] < 1 || block.shape[d] > global[d] ||
        block.offset[d] > global[d] - block.shape[d])
      return false;
  return true;
}

std::optional<Block> intersect(const Block &a, const Block &b) {
  // Of the blocks of hundreds of ranks nearly all are apart.
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (std::max(a.offset[d], b.offset[d]) >= std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]))
      return std::nullopt;
  Block common = a;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    common.offset[d] = std::max(a.offset[d], b.offset[d]);
    common.shape[d] = std::min(a.offset[d] + a.shape[d], b.offset[d] + b.shape[d]) - common.offset[d];
  }
  return common;
}

Status checkTiling(const std::vector<Block> &blocks, const std::vector<int64_t> &global) {
  // Axes cut dimension by dimension: the blocks are all combinations of the intervals of every
  // dimension. So it is enough that the intervals tile the dimensions and that no combination is
  // missing or there twice, which takes no comparison of pairs.
  __int128 covered = 0;
  for (const Block &block : blocks)
    covered += elementsOf(block.shape).value_or(0);
  if (covered < elementsOf(global).value_or(0))
    return Status::error("the blocks hold " + std::to_string(int64_t(covered)) + " elements of the global shape " +
                         shapeText(global));
  size_t combinations = 1;
  bool grid = std::set<Block>(blocks.begin(), blocks.end()).size() == blocks.size();
  for (size_t d = 0; d < global.size() && grid; ++d) {
    std::set<std::pair<int64_t, int64_t>> intervals;
    for (const Block &block : blocks)
      intervals.insert({block.offset[d], block.shape[d]});
    int64_t next = 0;
    for (auto [offset, size] : intervals) {
      grid &= offset == next;
      next = offset + size;
    }
    grid &= next == global[d] && intervals.size() <= blocks.size() / combinations;
    combinations *= intervals.size();
  }
  if (grid && combinations == blocks.size())
    return Status();
  return Status::error("the blocks of the global shape " + shapeText(global) +
                       " overlap, or are not cut dimension by dimension");
}

std::vector<Block> slabsOf(const Block &block, int64_t elements) {
  // A piece is whole in as many trailing dimensions as fit, and a run in the dimension before them.
  size_t split = block.shape.size();
  int64_t inner = 1;
  while (split > 0 && block.shape[split - 1] <= elements / inner)
    inner *= block.shape[--split];
  if (split == 0)
    return {block};
  const size_t d = split - 1;
  const int64_t run = std::max<int64_t>(1, elements / inner);
  std::vector<Block> slabs;
  Block slab = block;
  for (size_t i = 0; i < d; ++i)
    slab.shape[i] = 1;
  while (true) {
    for (int64_t at = 0; at < block.shape[d]; at += run) {
      slab.offset[d] = block.offset[d] + at;
      slab.shape[d] = std::min(run, block.shape[d] - at);
      slabs.push_back(slab);
    }
    size_t i = d;
    while (i > 0 && ++slab.offset[i - 1] == block.offset[i - 1] + block.shape[i - 1]) {
      slab.offset[i - 1] = block.offset[i - 1];
      --i;
    }
    if (i == 0)
      return slabs;
  }
}

void copyBlock(const void *from, const Block &source, void *to, const Block &target, uint64_t elementBytes) {
  std::optional<Block> common = intersect(source, target);
  if (!common)
    return;
  // Trailing dimensions that both blocks hold whole are copied in one run with the dimension before
  // them.
  size_t split = common->shape.size();
  int64_t run = 1;
  while (split > 0) {
    run *= common->shape[--split];
    if (common->shape[split] != source.shape[split] || common->shape[split] != target.shape[split])
      break;
  }
  const size_t bytes = size_t(run) * elementBytes;
  std::vector<int64_t> index(common->shape.size(), 0);
  auto place = [&](const Block &block) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d)
      at = at * block.shape[d] + common->offset[d] + index[d] - block.offset[d];
    return size_t(at) * elementBytes;
  };
  while (true) {
    std::memcpy(static_cast<char *>(to) + place(target), static_cast<const char *>(from) + place(source), bytes);
    size_t d = split;
    while (d > 0 && ++index[d - 1] == common->shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace tessera::rt
