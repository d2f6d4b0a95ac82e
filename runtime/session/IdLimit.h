//===- IdLimit.h - which ids a program's input may hold ---------------------------------------===//
//
// A token outside the vocabulary gives a row of zeros, and a run that learns nothing says nothing. What
// a program takes from a parameter by the values of an input bounds these values:
//
//   idLimit(plan, findProgram(plan, "train"), idsBinding) == 50257    // an embedding [50257, 768]
//
// Followed are the steps that hand an index on as it is: slices, collectives, reshapes, and the
// importer's wrapping of negative indices. 0: nothing is known.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SESSION_IDLIMIT_H
#define TESSERA_RUNTIME_SESSION_IDLIMIT_H

#include "runtime/plan/plan.pb.h"

#include <cstdint>

namespace tessera::rt {

/// `plan` passed the checker; `binding` is one of its inputs or targets.
int64_t idLimit(const plan::Plan &plan, int program, int binding);

} // namespace tessera::rt

#endif
