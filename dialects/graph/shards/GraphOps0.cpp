// The generated definitions of the first quarter of the operators, and the dialect's registration. The other quarters
// are in GraphOps1.cpp to GraphOps3.cpp, so that they compile in parallel.
#include "dialects/graph/Graph.h"

#define GET_OP_DEFS_0
#include "dialects/graph/GraphOps.cpp.inc"
