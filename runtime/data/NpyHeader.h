//===- NpyHeader.h - the header of a NumPy array file -----------------------------------------===//
//
// The .npy format, versions 1.0 to 3.0 (NumPy Enhancement Proposal 1): a magic string, the length
// of the header, and a Python dictionary as text, padded so that the data begins at a multiple of
// 64:
//
//   \x93NUMPY \x01\x00 v\x00 {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n
//
// Accepted are little-endian arrays in C order of the plan's element types; BF16 is '<V2' or '|V2',
// as the ml_dtypes package writes it. The parser takes hostile bytes: it never reads beyond `size`.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_NPYHEADER_H
#define TESSERA_RUNTIME_DATA_NPYHEADER_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::rt {

struct NpyHeader {
  plan::DType dtype = plan::DTYPE_INVALID; // DTYPE_INVALID for u2, u4 and u8
  uint64_t elementBytes = 0;
  std::vector<int64_t> shape; // empty: a scalar; a dimension may be 0
  uint64_t dataOffset = 0;    // where the first element lies
  uint64_t dataBytes = 0;     // of all elements
};

/// No file has more bytes than this in front of its data.
constexpr uint64_t kMostNpyHeader = 12 + 65536;

/// Parses the header at the start of a file, of which `size` bytes are given. With `ids`, the unsigned integers of
/// token files (u2, u4 and u8), which plans do not have, are accepted too.
Result<NpyHeader> parseNpyHeader(const char *data, uint64_t size, bool ids = false);

/// The bytes in front of the data of such an array (version 1.0, or 2.0 if the shape needs it).
std::string formatNpyHeader(plan::DType dtype, const std::vector<int64_t> &shape);

} // namespace tessera::rt

#endif
