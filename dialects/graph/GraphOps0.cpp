// Operator definitions, first quarter, and the dialect's registration (the shards compile side by
// side).
#include "dialects/graph/Graph.h"

#define GET_OP_DEFS_0
#include "dialects/graph/GraphOps.cpp.inc"
