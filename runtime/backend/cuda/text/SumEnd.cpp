#include "runtime/backend/cuda/text/SumEnd.h"

#include <algorithm>

namespace tessera::rt::cuda {

static bool isRead(const PointLoop::Parameter &p) { return p.type.starts_with("const "); }

std::string SumEnd::source() const {
  std::string signature, code;
  auto add = [&](const PointLoop::Parameter &p, const std::string &name, bool apart) {
    signature += (signature.empty() ? "" : ", ") + p.type + (apart ? " *__restrict__ " : " *") + name;
  };
  // A loop reads results through pointers of its own.
  for (const PointLoop::Parameter &p : parameters)
    add(p, p.name, (loops.empty() || isRead(p)) && std::find(meeting.begin(), meeting.end(), p.name) == meeting.end());
  for (size_t l = 0; l < loops.size(); ++l) {
    code += "{\n";
    for (size_t p = 0; p < loops[l].parameters.size(); ++p) {
      const PointLoop::Parameter &own = loops[l].parameters[p];
      const std::string name = "e" + std::to_string(l) + "_" + std::to_string(p);
      add(own, name, false);
      code += own.type + " *" + own.name + " = " + name + ";\n";
    }
    code += loops[l].body + "}\n";
  }
  if (counts)
    signature += ", u32 *counters";
  return prelude() + declarations + "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(block) + ", " +
         std::to_string(resident) + ") k(" + signature + ") {\n" + before + code + after + "}\n";
}

} // namespace tessera::rt::cuda
