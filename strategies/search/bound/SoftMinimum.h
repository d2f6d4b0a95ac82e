//===- SoftMinimum.h - smooth stand-ins for the least of several numbers --------------------------------===//
//
// The soft minimum of x at a temperature T is -T log2(sum of 2^(-x / T)). It is at most the least x. Where all n are
// equal, it is T log2(n) below it. It has a derivative everywhere: the weights 2^(-x / T) / sum.
//
// Powers and logarithms are polynomials here, good to 1e-6, of operations that every processor rounds alike, so that a
// search takes the same course everywhere. This file's users are compiled without joined multiplication and addition.
//
// Example: the soft minimum of {3, 3} at the temperature 1 is 2, that of {3, 9} is 2.98.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_SOFTMINIMUM_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_SOFTMINIMUM_H

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tessera::strategies {

/// 2^x for x <= 0; what is below 2^-60 counts as that. Written so that loops over it become vectors.
inline double powerOfTwo(double x) {
  constexpr double kRound = 0x1.8p52; // adding it rounds to whole numbers, which are then the last bits
  constexpr double kLog = 0.6931471805599453;
  constexpr double kTerms[] = {1,
                               kLog,
                               kLog * kLog / 2,
                               kLog * kLog * kLog / 6,
                               kLog * kLog * kLog * kLog / 24,
                               kLog * kLog * kLog * kLog * kLog / 120,
                               kLog * kLog * kLog * kLog * kLog * kLog / 720};
  x = x < -60 ? -60 : x;
  const double whole = x + kRound;
  const double rest = x - (whole - kRound); // from -1/2 to 1/2
  double y = kTerms[6];
  for (int k = 5; k >= 0; --k)
    y = y * rest + kTerms[k];
  return std::bit_cast<double>(std::bit_cast<int64_t>(y) + (std::bit_cast<int64_t>(whole) << 52));
}

/// The logarithm to the base 2 of a normal number above 0.
inline double logOfTwo(double x) {
  constexpr double kScale = 2.8853900817779268; // 2 / log(2)
  int64_t bits = std::bit_cast<int64_t>(x), exponent = (bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double t = (m - 1) / (m + 1), square = t * t; // log(m) = 2 (t + t^3 / 3 + ...)
  return double(exponent) + kScale * t * (1 + square * (1.0 / 3 + square * (1.0 / 5 + square * (1.0 / 7))));
}

/// q[s] = the soft minimum over t of m[t][s] - p[t]. There is a row at least. `scratch` has room for a row.
void softMinPlus(const double *m, const double *p, size_t rows, size_t columns, double temperature, double *q,
                 double *scratch);

} // namespace tessera::strategies

#endif
