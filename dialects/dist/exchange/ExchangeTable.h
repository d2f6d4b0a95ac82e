//===- ExchangeTable.h - the exchanges between even cuts, for every shape at once ------------------===//
//
// Which exchanges there are, and which fraction of the tensor each of their messages is, depends only on the ways in
// which the mesh's axes cut every dimension evenly. So tensors of many shapes share a table. It is made for their
// smallest common form: dimension d has the greatest common divisor of the extent and the number of ranks.
//
//   Mesh a=2,b=4: [768, 2304], [1024, 64] and [8, 8] have the form [8, 8]; [768, 3] has [8, 1].
//
// An exchange of the table costs as much as that of a tensor whose elements are so much larger.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_EXCHANGE_EXCHANGETABLE_H
#define TESSERA_DIALECTS_DIST_EXCHANGE_EXCHANGETABLE_H

#include "dialects/dist/exchange/Exchange.h"

#include <map>

namespace tessera::dist {

class ExchangeTable {
public:
  struct Entry {
    size_t target;                  // targets() in the order in which they were first met
    Collective exchange;            // of a tensor of the form; without boxes
    std::optional<Collective> fold; // and what follows it
  };

  /// The form of a shape.
  static Shape form(const Mesh &mesh, llvm::ArrayRef<int64_t> shape);

  /// `axes`: those longer than 1.
  ExchangeTable(const Mesh &mesh, Shape form, llvm::ArrayRef<int> axes);

  /// The exchanges that may be worth their price from a sharding that canExchange, to blocks that are no larger: a
  /// gather behind an exchange makes them larger in fewer messages. None on large meshes, and where there are very many
  /// ways to cut. The reference is valid until the next call.
  const std::vector<Entry> &from(const Sharding &sharding);
  const std::vector<Sharding> &targets() const { return targets_; }

private:
  void listCuts(Sharding &cuts, int64_t dim);
  std::vector<Entry> makeFrom(const Sharding &from);

  const Mesh &mesh_;
  const Shape form_;
  const AxisList axes_;
  std::vector<Sharding> cuts_; // all even ones, without what is partial
  std::vector<Sharding> targets_;
  std::map<Sharding, size_t> numbers_; // of targets
  std::map<Sharding, std::vector<Entry>> entries_;
};

} // namespace tessera::dist

#endif
