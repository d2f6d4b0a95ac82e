#include "runtime/checkpoint/BlockTables.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tessera::rt {
namespace {

using Json = BlockTables::Json;

constexpr size_t kMostDimensions = 32;

std::optional<int64_t> number(const Json &json) {
  constexpr uint64_t most = uint64_t(1) << 53; // what every JSON reader keeps exact
  if (json.is_number_unsigned() && json.get<uint64_t>() <= most)
    return int64_t(json.get<uint64_t>());
  return std::nullopt;
}

/// A list of at most `most` numbers.
std::optional<std::vector<int64_t>> numbers(const Json &json, size_t most) {
  if (!json.is_array() || json.size() > most)
    return std::nullopt;
  std::vector<int64_t> values;
  for (const Json &element : json) {
    const std::optional<int64_t> value = number(element);
    if (!value)
      return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

/// Calls f(block) for all blocks between the cuts, the last dimension fastest.
template <typename F> void forEachBlock(const std::vector<std::vector<int64_t>> &cuts, const F &f) {
  std::vector<size_t> at(cuts.size(), 0);
  Block block{std::vector<int64_t>(cuts.size()), std::vector<int64_t>(cuts.size())};
  for (;;) {
    for (size_t d = 0; d < cuts.size(); ++d) {
      block.offset[d] = cuts[d][at[d]];
      block.shape[d] = cuts[d][at[d] + 1] - cuts[d][at[d]];
    }
    f(block);
    size_t d = cuts.size();
    while (d > 0 && ++at[d - 1] + 1 == cuts[d - 1].size())
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

/// How many blocks there are between the cuts; none if there are more than any checkpoint has files.
std::optional<size_t> countBlocks(const std::vector<std::vector<int64_t>> &cuts) {
  size_t count = 1;
  for (const std::vector<int64_t> &cut : cuts)
    if (count *= cut.size() - 1; count > kMaxCheckpointFiles)
      return std::nullopt;
  return count;
}

/// From 0 to the dimension's size, which is not 0, each cut behind the one before.
bool isCut(const std::vector<int64_t> &cut, int64_t size) {
  return cut.size() >= 2 && cut.front() == 0 && cut.back() == size &&
         std::adjacent_find(cut.begin(), cut.end(), std::greater_equal<>()) == cut.end();
}

template <typename Table, typename Numbers, typename Entry>
size_t numberOf(Table &table, Numbers &numbers, const Entry &entry) {
  auto [it, fresh] = numbers.emplace(entry, table.size());
  if (fresh)
    table.push_back(entry);
  return it->second;
}

} // namespace

Result<BlockTables> BlockTables::of(const Json &manifest) {
  BlockTables tables;
  const auto cuts = manifest.find("cuts"), places = manifest.find("places");
  if (cuts == manifest.end() && places == manifest.end())
    return tables;
  const Status bad = Status::error("its tables of blocks are no tables");
  if (cuts == manifest.end() || places == manifest.end() || !cuts->is_array() || !places->is_array())
    return bad;
  for (const Json &entry : *cuts) {
    if (!entry.is_array() || entry.size() > kMostDimensions)
      return bad;
    auto &dimensions = tables.cuts_.emplace_back();
    for (const Json &dimension : entry) {
      std::optional<std::vector<int64_t>> cut = numbers(dimension, kMaxCheckpointFiles + 1);
      if (!cut || cut->size() < 2)
        return bad;
      dimensions.push_back(std::move(*cut));
    }
  }
  for (const Json &entry : *places) {
    std::optional<std::vector<int64_t>> files = numbers(entry, kMaxCheckpointFiles);
    if (!files || std::set<int64_t>(files->begin(), files->end()).size() != files->size())
      return bad;
    tables.places_.push_back(std::move(*files));
  }
  return tables;
}

bool BlockTables::write(const Manifest::Tensor &tensor, Json &entry) {
  std::vector<std::vector<int64_t>> cuts;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    std::vector<int64_t> &cut = cuts.emplace_back();
    for (const Manifest::Piece &piece : tensor.pieces)
      cut.push_back(piece.block.offset[d]);
    std::sort(cut.begin(), cut.end());
    cut.erase(std::unique(cut.begin(), cut.end()), cut.end());
    cut.push_back(tensor.shape[d]);
    if (!isCut(cut, tensor.shape[d]))
      return false;
  }
  std::vector<size_t> order(tensor.pieces.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return tensor.pieces[a].block.offset < tensor.pieces[b].block.offset; });
  if (countBlocks(cuts) != order.size())
    return false;
  std::vector<int64_t> files;
  bool fits = true;
  forEachBlock(cuts, [&](const Block &block) {
    const Manifest::Piece &piece = tensor.pieces[order[files.size()]];
    fits &= piece.block == block;
    files.push_back(int64_t(piece.file));
  });
  if (!fits)
    return false;
  entry["cuts"] = numberOf(cuts_, cutNumbers_, cuts);
  entry["places"] = numberOf(places_, placeNumbers_, files);
  return true;
}

void BlockTables::writeTables(Json &manifest) const {
  manifest["cuts"] = cuts_;
  manifest["places"] = places_;
}

Result<std::vector<Manifest::Piece>> BlockTables::read(const Json &entry, const std::vector<int64_t> &shape,
                                                       size_t files) const {
  auto at = [&](const char *name, size_t most) -> std::optional<size_t> {
    const auto member = entry.find(name);
    const std::optional<int64_t> index = member == entry.end() ? std::nullopt : number(*member);
    return index && uint64_t(*index) < most ? std::optional(size_t(*index)) : std::nullopt;
  };
  const std::optional<size_t> cut = at("cuts", cuts_.size()), place = at("places", places_.size());
  if (!cut || !place)
    return Status::error("has no blocks, and none that the manifest's tables name");
  const std::vector<std::vector<int64_t>> &cuts = cuts_[*cut];
  const std::vector<int64_t> &places = places_[*place];
  bool tiles = cuts.size() == shape.size();
  for (size_t d = 0; tiles && d < shape.size(); ++d)
    tiles = isCut(cuts[d], shape[d]);
  if (!tiles || countBlocks(cuts) != places.size())
    return Status::error("has cuts that do not fit its shape, or another number of files than of blocks");
  if (std::any_of(places.begin(), places.end(), [&](int64_t file) { return uint64_t(file) >= files; }))
    return Status::error("has a block that lies in no file");
  std::vector<Manifest::Piece> pieces;
  pieces.reserve(places.size());
  forEachBlock(cuts, [&](const Block &block) { pieces.push_back({size_t(places[pieces.size()]), block}); });
  return pieces;
}

} // namespace tessera::rt
