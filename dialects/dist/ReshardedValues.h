//===- ReshardedValues.h - which value is resharded how often, and who pays ----------------------===//
//
// A value is brought into each sharding once: whoever wants it so first pays, later readers share the copy. What is
// owed is paid where it arises, so that communication starts early; what only moves moves where it is read first, so
// that no second copy lives long. InsertReshards emits reshards by this book, the program's cost and the cost of a
// group's options price them by it.
//
//   ReshardedValues book(mesh);
//   book.want(v, have, wanted)    // {needed, first, copy 0}: the caller reshards
//   book.want(v, have, wanted)    // {needed, not first, copy 0}: the copy is there
//   book.want(v, have, have)      // not needed
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_RESHARDEDVALUES_H
#define TESSERA_DIALECTS_DIST_RESHARDEDVALUES_H

#include "dialects/dist/Reshard.h"

#include "llvm/ADT/DenseMap.h"

namespace tessera::dist {

class ReshardedValues {
public:
  explicit ReshardedValues(const Mesh &mesh) : mesh_(mesh) {}

  struct Want {
    bool needed = false, first = false;
    size_t copy = 0; // copies are numbered in the order in which they are made
  };
  /// `value` is only compared. `have` is the same for every call with one value.
  Want want(const void *value, const Sharding &have, const Sharding &wanted) {
    if (sameSharding(mesh_, have, wanted))
      return {};
    auto &copies = copies_[value];
    for (const auto &[sharding, copy] : copies)
      if (sameSharding(mesh_, sharding, wanted))
        return {true, false, copy};
    copies.push_back({wanted, count_});
    return {true, true, count_++};
  }

  /// Whether a reshard of what is handed on so stands behind the value's producer; otherwise before its first reader.
  static bool paidWhereMade(const Sharding &have) { return have.isPartial(); }

private:
  const Mesh &mesh_;
  llvm::DenseMap<const void *, llvm::SmallVector<std::pair<Sharding, size_t>, 2>> copies_; // looked up only
  size_t count_ = 0;
};

} // namespace tessera::dist

#endif
