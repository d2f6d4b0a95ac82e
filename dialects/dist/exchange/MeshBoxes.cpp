#include "dialects/dist/exchange/MeshBoxes.h"

#include <algorithm>
#include <map>

namespace tessera::dist {

using llvm::ArrayRef;
using llvm::SmallVector;

bool canCrossMeshes(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &sharding) {
  for (int64_t d = 0; d < sharding.rank(); ++d)
    if (sharding.isPadded(mesh, shape, d))
      return false;
  return !sharding.isPartial();
}

static int64_t elementsOf(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

std::vector<MeshBox> boxesBetween(ArrayRef<int64_t> shape, const Mesh &fromMesh, const Sharding &from,
                                  const Mesh &toMesh, const Sharding &to) {
  const SmallVector<int64_t> has = from.localShape(fromMesh, shape), wants = to.localShape(toMesh, shape);
  std::map<SmallVector<int64_t>, SmallVector<int64_t>> holders; // by begin of the block
  for (int64_t rank = 0; rank < fromMesh.numRanks(); ++rank)
    holders[from.offset(fromMesh, shape, rank)].push_back(rank);
  std::vector<int64_t> sent(size_t(fromMesh.numRanks()), 0); // elements
  std::vector<MeshBox> boxes;
  for (int64_t rank = 0; rank < toMesh.numRanks(); ++rank) {
    const SmallVector<int64_t> begin = to.offset(toMesh, shape, rank);
    for (const auto &[block, ranks] : holders) {
      MeshBox box;
      box.to = rank;
      for (size_t d = 0; d < shape.size(); ++d) {
        const int64_t low = std::max(begin[d], block[d]), high = std::min(begin[d] + wants[d], block[d] + has[d]);
        box.source.push_back(low - block[d]);
        box.target.push_back(low - begin[d]);
        box.shape.push_back(high - low);
      }
      if (std::any_of(box.shape.begin(), box.shape.end(), [](int64_t extent) { return extent <= 0; }))
        continue;
      box.from = *std::min_element(ranks.begin(), ranks.end(),
                                   [&](int64_t a, int64_t b) { return sent[size_t(a)] < sent[size_t(b)]; });
      sent[size_t(box.from)] += elementsOf(box.shape);
      boxes.push_back(std::move(box));
    }
  }
  return boxes;
}

std::vector<int64_t> numbersOf(ArrayRef<MeshBox> boxes) {
  std::vector<int64_t> numbers;
  for (const MeshBox &box : boxes) {
    numbers.insert(numbers.end(), {box.from, box.to});
    for (const SmallVector<int64_t> *part : {&box.source, &box.target, &box.shape})
      numbers.insert(numbers.end(), part->begin(), part->end());
  }
  return numbers;
}

std::vector<MeshBox> boxesIn(ArrayRef<int64_t> numbers, size_t rank) {
  const size_t each = 2 + 3 * rank;
  std::vector<MeshBox> boxes;
  if (numbers.size() % each != 0)
    return boxes;
  for (size_t at = 0; at < numbers.size(); at += each) {
    const ArrayRef<int64_t> row = numbers.slice(at, each);
    auto part = [&](size_t i) {
      const ArrayRef<int64_t> slice = row.slice(2 + i * rank, rank);
      return SmallVector<int64_t>(slice.begin(), slice.end());
    };
    boxes.push_back({row[0], row[1], part(0), part(1), part(2)});
  }
  return boxes;
}

} // namespace tessera::dist
