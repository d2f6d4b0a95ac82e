//===- Undominated.h - the options that can be in a best answer ------------------------------------===//
//
// Exact, and once for equal nodes:
//
//   partners    An option goes that is forbidden, or that on some edge no option of the other end may stand beside.
//   dominated   An option goes if another one of the node is never worse, whatever the neighbours choose, and takes no
//               more memory at any time (Goldstein's dead-end elimination, Biophys. J. 1994).
//
// Nodes are equal that share costs, bytes, states and tables.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_WIDE_UNDOMINATED_H
#define TESSERA_STRATEGIES_SEARCH_WIDE_UNDOMINATED_H

#include "strategies/space/WideGraph.h"

namespace tessera::strategies {

/// The options that have partners.
Kept withPartners(const WideGraph &wide, double &work);

/// A node without an option: nothing is allowed. `protect`: options by node that stay if they have partners (an
/// answer that is known), or empty. Adds the elementary steps that it took to `work`. Nodes are divided among
/// `threads`.
Kept undominated(const WideGraph &wide, const std::vector<int32_t> &protect, double &work, int threads = 1);

/// The same where only `kept` options are left: what neighbours and other readers of a share can no longer choose does
/// not count.
Kept undominatedAmong(const WideGraph &wide, Kept kept, const std::vector<int32_t> &protect, double &work);

} // namespace tessera::strategies

#endif
