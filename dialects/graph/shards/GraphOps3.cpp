#include "dialects/graph/Graph.h"

#define GET_OP_DEFS_3
#include "dialects/graph/GraphOps.cpp.inc"
