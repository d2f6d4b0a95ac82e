//===- Templates.h - kernels written as text with names for the constants --------------------------===//
//
// Kernels whose shape is fixed are written out once; constants of the call are put in front of them as
// definitions.
//
//   withConstants({{"N", "12u"}, {"T", "float"}}, "...")   =>   "#define N 12u\n#define T float\n..."
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_TEXT_TEMPLATES_H
#define TESSERA_RUNTIME_BACKEND_CUDA_TEXT_TEMPLATES_H

#include "runtime/backend/cuda/text/Source.h"

#include <utility>

namespace tessera::rt::cuda {

using Constants = std::vector<std::pair<std::string, std::string>>;

inline std::string withConstants(const Constants &constants, const char *text) {
  std::string source = prelude();
  for (const auto &[name, value] : constants)
    source += "#define " + name + " " + value + "\n";
  return source + text;
}

inline std::string wide(int64_t v) { return std::to_string(v) + "LL"; }

} // namespace tessera::rt::cuda

#endif
