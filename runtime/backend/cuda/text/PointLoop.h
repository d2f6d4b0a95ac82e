//===- PointLoop.h - loops over points, alone and several in one launch -----------------------------===//
//
//   PointLoop loop{{{"const float", "x"}, {"float", "y"}}, "y[i] = x[i] * 2.0f;\n"};
//   loop.source(1000)    // k(const float *x, float *y): for every i below 1000
//   loop.tableSource()   // k(const u64 *table): for every point of several such loops of other sizes and addresses
//
// A table says which they are:
//
//   number of loops · the first block of each · of each: its points, then the addresses of its parameters
//
// A block does pointsPerBlock() points of one loop. What is computed at a point does not depend on the form.
//
// Where element i of a parameter belongs to point i, and the body has it as `x[i]`, a thread does four or eight
// neighbouring points and moves their elements by one access, of up to 16 bytes. So it is where the elements of
// neighbouring points lie side by side otherwise, such as those of a bias:
//
//   PointLoop loop{{{"const u16", "x", true}, {"const u16", "b", true, "x1", "f1"}, ...}, "... x[i] + b[x1] ..."};
//   loop.firstIndices = ...;   // what f1 is, by `first`
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_TEXT_POINTLOOP_H
#define TESSERA_RUNTIME_BACKEND_CUDA_TEXT_POINTLOOP_H

#include "runtime/backend/cuda/text/Source.h"

#include <string>
#include <vector>

namespace tessera::rt::cuda {

/// A loop over fewer points has a thread for each: several points for a thread would leave the device idle.
constexpr int64_t kOnePointEach = 1024 * 1024;

struct PointLoop {
  struct Parameter {
    std::string type, name; // type: of what it points to
    // The body has it as name[place] alone. Those of the points from a multiple of `each` on are one access, at name +
    // firstPlace.
    bool together = false;
    std::string place = "i", firstPlace = "first";
    bool operator==(const Parameter &) const = default;
  };
  std::vector<Parameter> parameters;
  std::string body; // the code for point i
  IndexType index = {};
  bool apart = true;             // what is written through one parameter is not read through another
  int64_t each = 4;              // points of a thread: 4 or 8
  std::string firstIndices = {}; // code for what the firstPlaces name
  bool operator==(const PointLoop &) const = default;

  /// A kernel for blocks(points) blocks, whose arguments are the parameters.
  std::string source(int64_t points) const;
  uint32_t blocks(int64_t points) const;
  /// Of a loop that stands in a table. Blocks have 256 threads.
  int64_t pointsPerBlock() const { return each * 256; }
  /// A kernel whose argument is a table.
  std::string tableSource() const;
};

/// Copies a box between strided places: to[t] = from[f] for all points of `sizes`; parameters (from, to).
struct StridedCopy {
  Shape sizes, toStrides, fromStrides;
  uint64_t elementBytes = 4;
};
PointLoop stridedCopy(const StridedCopy &copy);
/// Sets elements that lie one behind the other to a value given by its bits; parameter (to).
PointLoop fill(int64_t points, uint64_t elementBytes, uint64_t bits);

} // namespace tessera::rt::cuda

#endif
