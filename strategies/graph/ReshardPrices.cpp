#include "strategies/graph/ReshardPrices.h"

#include "dialects/dist/Reshard.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/STLExtras.h"

namespace tessera::strategies {

ReshardPrices::ReshardPrices(const Mesh &mesh)
    : mesh_(mesh), hasSingle_(llvm::any_of(mesh.axes(), [](const dist::MeshAxis &axis) { return axis.size == 1; })) {}

int ReshardPrices::number(const Sharding &s) {
  auto [it, fresh] = numbers_.try_emplace(s, int(shardings_.size()));
  if (!fresh)
    return it->second;
  for (size_t id = 0; hasSingle_ && id < shardings_.size(); ++id)
    if (dist::sameSharding(mesh_, shardings_[id], s))
      return it->second = int(id);
  shardings_.push_back(s);
  return it->second;
}

int ReshardPrices::tensor(mlir::Value value) {
  const Shape shape = shapeOf(value);
  const int64_t bytes = elementBytes(value.getType());
  const dist::Wire wire = graph::sentAs(value);
  std::vector<int64_t> key = {bytes};
  key.insert(key.end(), shape.begin(), shape.end());
  if (wire)
    key.insert(key.end(), {-1, int64_t(wire.kind), wire.block, wire.rank, int64_t(wire.always)});
  auto [it, fresh] = tensorNumbers_.try_emplace(std::move(key), int(tensors_.size()));
  if (fresh)
    tensors_.push_back({shape, bytes, wire, {}, {}});
  return it->second;
}

ReshardPrices::Row ReshardPrices::row(int tensor, int from, const CostModel &model) {
  Tensor &of = tensors_[size_t(tensor)];
  auto rowOf = [&](Rows &rows) -> std::vector<Cost> & {
    if (size_t(from) >= rows.size())
      rows.resize(size_t(from) + 1);
    std::vector<Cost> &row = rows[size_t(from)];
    if (row.size() < shardings_.size())
      row.resize(shardings_.size(), kUnknown);
    return row;
  };
  return {*this, model, of, from, rowOf(of.costs), rowOf(of.leasts)};
}

Cost ReshardPrices::Row::find(int to, Price price) const {
  return (model_.*price)(tensor_.shape, tensor_.elementBytes, prices_.sharding(from_), prices_.sharding(to),
                         tensor_.wire);
}

} // namespace tessera::strategies
