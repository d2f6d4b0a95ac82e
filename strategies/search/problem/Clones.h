//===- Clones.h - loops for the vector units at hand -------------------------------------------------===//
//
// TESSERA_CLONES before a function: it is compiled twice, and the machine's vector units decide at run time which of
// the two is called. The result is the same: the loops only compare, add and subtract.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define TESSERA_CLONES
#endif

#endif
