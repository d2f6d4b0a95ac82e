//===- Units.h - in which units factors are worth cutting ----------------------------------------===//
//
// Where a dimension consists of several factors, (h d), a cut of h into padded blocks cuts the dimension in units of d
// (Sharding.h). An operator that has this dimension as one factor, such as the product that makes it, sees no h. So
// that both can be cut alike, units travel from operator to operator, as axes do in propagation: from a dimension to
// the factor that it consists of, and from there to all dimensions that have the factor.
//
//   [s, 768] x [768, 768] -> [s, 768], reshaped to [s, 12, 64]:
//   the product's factor n has the unit 64, and so has dimension 1 of its weight.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_UNITS_H
#define TESSERA_STRATEGIES_SPACE_UNITS_H

#include "strategies/space/Program.h"

namespace tessera::strategies {

/// Fills the units of the program's classes. `classOf` gives access to the class with this number.
void findUnits(const Program &program, llvm::function_ref<OperatorClass &(int)> classOf);

/// The units above 1 in which a dimension that consists of `factors` is worth cutting, as the operator sees it.
llvm::SmallVector<int64_t, 2> dimensionUnits(const OperatorClass &cls, llvm::ArrayRef<int> factors);

/// The same of every dimension of an argument, for all its users: those units, ascending, in which some axes of the
/// mesh cut it into other blocks than the plain ones.
std::vector<llvm::SmallVector<int64_t, 2>> argumentUnits(const Program &program, const Mesh &mesh,
                                                         mlir::Value argument);

} // namespace tessera::strategies

#endif
