//===- Clones.h - loops for the vector units at hand -------------------------------------------------===//
//
// TESSERA_CLONES before a function: it is compiled for several vector units, and those of the machine decide at run
// time which is called. The result is the same: the loops only compare, add, subtract, divide, and multiply by powers
// of two, which a joined multiplication and addition does not round otherwise.
//
// Lanes are for what compilers do not turn into vectors by themselves, such as the least of a list.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_CLONES_H

#include <cstddef>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define TESSERA_CLONES
#endif

namespace tessera::strategies {

constexpr std::size_t kLanes = 8;
using Lanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;

} // namespace tessera::strategies

#endif
