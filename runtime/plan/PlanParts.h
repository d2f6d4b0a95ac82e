//===- PlanParts.h - a plan's bytes, part by part ---------------------------------------------===//
//
// The plans of one mesh's ranks differ only in offsets of blocks, members of groups and a few
// attributes. A part that is byte for byte the same as in a plan that was found good is good as
// well, since equal bytes parse to equal messages. So the checker checks it once and not once per
// rank.
//
//   std::optional<PlanParts> a = partsOf(bytesOfRank0), b = partsOf(bytesOfRank1);
//   a->buffers == b->buffers;              // the same memory
//   a->steps[0][7] == b->steps[0][7];      // the same step
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_PLANPARTS_H
#define TESSERA_RUNTIME_PLAN_PLANPARTS_H

#include <optional>
#include <string_view>
#include <vector>

namespace tessera::rt {

struct PlanParts {
  std::vector<std::string_view> buffers;
  std::vector<std::vector<std::string_view>> steps; // by program
};

/// The parts of a serialised plan, as views of `bytes`; nothing if `bytes` is no plan.
std::optional<PlanParts> partsOf(std::string_view bytes);

} // namespace tessera::rt

#endif
