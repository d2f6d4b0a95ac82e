//===- Clones.h - loops for the vector units at hand -------------------------------------------------===//
//
// TESSERA_CLONES before a function: it is compiled for several vector units, and those of the machine decide at run
// time which is called. The result is the same: the loops only compare, add, subtract, divide, and multiply by powers
// of two, which a joined multiplication and addition does not round otherwise.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TESSERA_CLONES
#endif

#endif
