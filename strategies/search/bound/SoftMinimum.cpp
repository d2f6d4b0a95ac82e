#include "strategies/search/bound/SoftMinimum.h"

#include "strategies/search/bound/Dual.h"
#include "strategies/search/problem/Clones.h"

using namespace tessera::strategies;

TESSERA_CLONES static void addPowers(const double *row, double price, const double *least, double perDegree,
                                     size_t columns, double *__restrict sum) {
  for (size_t s = 0; s < columns; ++s)
    sum[s] += powerOfTwo((least[s] - (row[s] - price)) * perDegree);
}

void tessera::strategies::softMinPlus(const double *m, const double *p, size_t rows, size_t columns, double temperature,
                                      double *q, double *scratch) {
  minPlus(m, p, rows, columns, q);
  for (size_t s = 0; s < columns; ++s)
    scratch[s] = 0;
  const double perDegree = 1 / temperature;
  for (size_t t = 0; t < rows; ++t)
    addPowers(m + t * columns, p[t], q, perDegree, columns, scratch);
  for (size_t s = 0; s < columns; ++s)
    q[s] -= temperature * logOfTwo(scratch[s]);
}
