//===- ReshardedValues.h - which values are resharded, how often and where -------------------------===//
//
// A value is resharded to each sharding once. Its first reader of that sharding is charged for the reshard, and later
// readers share the copy. A partial value is reduced right behind its producer, so that communication starts early. A
// value that is not partial is resharded before its first reader, so that the copy does not live long. InsertReshards
// emits reshards by these rules, and the cost of a program and of a group's options is computed by them.
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
  /// Records that a reader wants `value`, which has the sharding `have`, as `wanted`. `value` identifies it and is
  /// never dereferenced. `have` must be the same in every call with one value.
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

  /// Whether a reshard of a value with this sharding stands behind its producer. If not, it stands before its first
  /// reader.
  static bool paidWhereMade(const Sharding &have) { return have.isPartial(); }

private:
  const Mesh &mesh_;
  llvm::DenseMap<const void *, llvm::SmallVector<std::pair<Sharding, size_t>, 2>> copies_; // looked up only
  size_t count_ = 0;
};

} // namespace tessera::dist

#endif
