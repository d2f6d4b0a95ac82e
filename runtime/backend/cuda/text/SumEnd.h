//===- SumEnd.h - the kernel that ends sums, and loops over the results behind it ---------------------===//
//
// A reduction ends in a kernel in which one thread adds up what is left of each result and stores it. What is computed
// from each result alone, such as the coefficients that a normalisation has for each channel, follows in that thread:
//
//   SumEnd end{{{"const double", "in0"}, {"float", "out0"}}, "... { double total0 = ...; out0[i] = total0;\n", "}\n"};
//   end.loops.push_back({{{"const float", "in0"}, {"float", "out0"}}, "out0[i] = in0[i] * 0.5f;\n"});
//   end.source()   // k(const double *in0, float *out0, const float *e0_0, float *e0_1)
//
// A loop reads what stands in memory, also what the thread has just stored there, and the sums total0, total1, ... as
// they are before they are rounded.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_TEXT_SUMEND_H
#define TESSERA_RUNTIME_BACKEND_CUDA_TEXT_SUMEND_H

#include "runtime/backend/cuda/text/PointLoop.h"

#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// The most sums of a kernel: each takes up to 2 KiB of shared memory, of which a block has 48 KiB.
constexpr size_t kMostSums = 16;

struct SumEnd {
  std::vector<PointLoop::Parameter> parameters; // results are called out0, out1, ...
  std::string before; // the kernel's code until a thread has stored the result number i, of the type `index`
  std::string after;  // ends what `before` began
  IndexType index = {};
  std::vector<PointLoop> loops = {};     // over as many points as there are results, one after the other
  bool counts = false;                   // `before` counts blocks in u32 *counters
  bool alone = false;                    // all blocks have ended before a thread stores a result
  int64_t block = 256;                   // threads
  int64_t resident = 1;                  // blocks for which a multiprocessor has registers
  std::string declarations = {};         // in front of the kernel
  std::vector<std::string> meeting = {}; // parameters whose memory is seen through another one, too

  /// The kernel. Its arguments are the parameters, then those of each loop, then the counters.
  std::string source() const;
};

} // namespace tessera::rt::cuda

#endif
