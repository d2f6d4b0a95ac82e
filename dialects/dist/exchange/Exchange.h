//===- Exchange.h - boxes from any rank to any rank ----------------------------------------------===//
//
// An exchange moves a tensor from any sharding in even blocks to any other by index intersection: every rank receives,
// of each block that meets its own, what they have in common, from the nearest rank that holds it, and keeps what it
// has. So no element is sent twice, where a list of collectives may send it several times.
//
//   Mesh a=2,b=4; [8] from "[a+b]" to "[b+a]": rank (a, b) holds element 4a + b and wants element 2b + a. One exchange,
//   in which six ranks send one element each.
//
// Sums that it pays are exchanged term by term. Ranks receive one term behind the other along dimension 0, and a Fold
// adds them:
//
//   [8] from "[-] sum(a)" to "[a+b]": { Exchange: 8 -> 2 (two terms of one element), Fold dim 0: 2 -> 1 }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_EXCHANGE_EXCHANGE_H
#define TESSERA_DIALECTS_DIST_EXCHANGE_EXCHANGE_H

#include "dialects/dist/Reshard.h"

namespace tessera::dist {

/// One message: a box of `shape` that begins at `source` in the input of `from` and goes to `target` in the output of
/// `to`. Where the two ranks are one, it is a copy.
struct ExchangeBox {
  int64_t from, to; // ranks of the mesh
  llvm::ArrayRef<int64_t> source, target, shape;
  int64_t elements() const;
};

/// The numbers of Collective::boxes that one message of a tensor of `rank` dimensions takes.
inline size_t numbersPerBox(size_t rank) { return 2 + 3 * rank; }
/// Visits the messages of an exchange, of which Collective::boxes has whole ones.
void forEachBox(const Collective &exchange, llvm::function_ref<void(const ExchangeBox &)> visit);

/// Whether an exchange can begin and end at this sharding: it has a dimension and no padding.
bool canExchange(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &sharding);
/// The exchange from one sharding to another that canReshard allows; both canExchange. If it pays sums over n ranks,
/// its localOut holds n terms along dimension 0. Its axes are those along which something moves; none if all copies are
/// local.
Collective makeExchange(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to);
/// The sum over the terms that makeExchange leaves, or nothing if there is one term.
std::optional<Collective> makeFold(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from,
                                   const Sharding &to);

/// Collective::loads of these boxes.
std::vector<RankLoad> rankLoads(const Mesh &mesh, const Collective &exchange);

} // namespace tessera::dist

#endif
