#include "dialects/graph/Graph.h"

#define GET_OP_DEFS_2
#include "dialects/graph/GraphOps.cpp.inc"
