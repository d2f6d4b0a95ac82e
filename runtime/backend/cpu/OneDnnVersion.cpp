#include "runtime/backend/cpu/OneDnnVersion.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// A family of kernels that is wrong from version `from` to before version `mended`.
struct Fault {
  DnnlVersion from, mended;
  const char *kernel;
  const char *implementation; // a part of its name
  bool (*concerns)(const ConvGeometry &);
};

const Fault kFaults[] = {
    // Weight gradients by AMX read beyond their operands: a crash with x [1, 1, 4, 1, 2] and a kernel [48, 1, 3, 3, 5] of
    // stride [2, 3, 5]. Which shapes do is not known.
    {{2, 0, 0}, {3, 0, 0}, "conv_weight_grad", "amx", [](const ConvGeometry &) { return true; }},
};

} // namespace

DnnlVersion dnnlVersion() {
  const dnnl_version_t *v = dnnl_version();
  return {v->major, v->minor, v->patch};
}

bool isFaulty(const DnnlVersion &version, const std::string &kernel, const std::string &implementation,
              const ConvGeometry &geometry) {
  return std::any_of(std::begin(kFaults), std::end(kFaults), [&](const Fault &fault) {
    return fault.from <= version && version < fault.mended && kernel == fault.kernel &&
           implementation.find(fault.implementation) != std::string::npos && fault.concerns(geometry);
  });
}

} // namespace tessera::rt
