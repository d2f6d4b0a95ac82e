//===- LeastBytes.h - how few bytes a reshard can do with --------------------------------------------===//
//
// A bound for any algorithm, on any links: what the planner's collectives send is never less.
//
//   Mesh data=2,model=2; [8, 6] float32 from "[data, -]" to "[-, data]":
//   every rank wants 8 x 3 elements and holds half of them: 48 bytes, which is what the all-to-all sends
//
// Where nothing is partial, a rank must receive what it wants and does not hold. Where n ranks hold the terms of an
// element that k ranks want, n - 1 messages pass before the first rank has the sum, since the term of every other rank
// leaves it, and k - 1 after it, since each of the others still lacks something: n + k - 2 in all.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_LEASTBYTES_H
#define TESSERA_DIALECTS_DIST_LEASTBYTES_H

#include "dialects/dist/Sharding.h"

namespace tessera::dist {

/// The fewest bytes that a rank sends, on the average of all ranks, to get a tensor of the global shape from one
/// sharding to the other. Nothing where the target is partial: there is no bound then.
std::optional<double> leastBytes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                 const Sharding &from, const Sharding &to);

} // namespace tessera::dist

#endif
