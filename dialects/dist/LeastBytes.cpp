#include "dialects/dist/LeastBytes.h"

#include <algorithm>

namespace tessera::dist {

std::optional<double> leastBytes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                 const Sharding &from, const Sharding &to) {
  if (mesh.size(to.partial) > 1)
    return std::nullopt;
  const int64_t terms = mesh.size(from.partial), ranks = mesh.numRanks();
  double wanted = 0, held = 0; // elements, over all ranks; held: of those that the same rank wants
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto at = to.offset(mesh, shape, rank), size = to.extent(mesh, shape, rank);
    const auto had = from.offset(mesh, shape, rank), extent = from.extent(mesh, shape, rank);
    double all = 1, both = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t begin = std::max(at[d], had[d]), end = std::min(at[d] + size[d], had[d] + extent[d]);
      all *= double(size[d]);
      both *= double(std::max<int64_t>(0, end - begin));
    }
    wanted += all;
    held += both;
  }
  double messages = wanted - held;
  if (terms > 1) {
    double elements = 1;
    for (int64_t d : shape)
      elements *= double(d);
    messages = elements * double(terms - 2) + wanted;
  }
  return messages * double(elementBytes) / double(ranks);
}

} // namespace tessera::dist
