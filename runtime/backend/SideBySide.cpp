#include "runtime/backend/SideBySide.h"

#include <algorithm>

namespace tessera::rt {
namespace {

/// Whether one writes what the other reads or writes.
bool conflict(const KernelCall &a, const KernelCall &b) {
  auto writesInto = [](const KernelCall &writer, const std::vector<TensorView> &views) {
    return std::ranges::any_of(writer.outputs, [&](const TensorView &written) {
      return std::ranges::any_of(views, [&](const TensorView &view) { return overlap(written, view); });
    });
  };
  return writesInto(a, b.inputs) || writesInto(a, b.outputs) || writesInto(b, a.inputs);
}

/// Whether two steps may run at once, wherever a call of their section finds the operands.
bool independent(const SingleStep &a, const SingleStep &b) {
  if (a.section != b.section || a.calls.size() != b.calls.size())
    return false;
  for (size_t v = 0; v < a.calls.size(); ++v)
    if (conflict(a.calls[v], b.calls[v]))
      return false;
  return true;
}

} // namespace

std::vector<uint32_t> countSideBySide(const std::vector<SingleStep> &steps) {
  std::vector<uint32_t> counts(steps.size(), 1);
  for (size_t first = 0; first < steps.size(); first += counts[first]) {
    if (!steps[first].single)
      continue;
    auto joins = [&](size_t next) {
      return next < steps.size() && steps[next].single &&
             std::all_of(steps.begin() + ptrdiff_t(first), steps.begin() + ptrdiff_t(next),
                         [&](const SingleStep &before) { return independent(before, steps[next]); });
    };
    while (joins(first + counts[first]))
      counts[first + counts[first]++] = 0;
  }
  return counts;
}

} // namespace tessera::rt
