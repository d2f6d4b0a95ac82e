#include "runtime/session/IdLimit.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::rt {
namespace {

/// The buffer whose bytes an alias shares.
uint32_t original(const plan::Plan &plan, uint32_t buffer) {
  while (uint32_t next = plan.buffers(static_cast<int>(buffer)).alias_of_plus_one())
    buffer = next - 1;
  return buffer;
}

/// Whether a fused kernel's result is its input i where that is not negative: the input itself, or
/// select(input < 0, anything, input).
bool handsOn(const plan::Expression &e, uint32_t value, uint32_t input) {
  auto inputs = static_cast<uint32_t>(e.input_views_size());
  auto code = [&](uint32_t v) -> const plan::Instruction & { return e.code(static_cast<int>(v - inputs)); };
  while (value >= inputs) {
    const plan::Instruction &select = code(value);
    if (select.op() != "select" || select.operands_size() != 3 || select.operands(0) < inputs)
      return false;
    const plan::Instruction &less = code(select.operands(0));
    if (less.op() != "lt" || less.operands_size() != 2 || less.operands(0) != input || less.operands(1) < inputs)
      return false;
    const plan::Instruction &zero = code(less.operands(1));
    if (zero.op() != "constant" || zero.immediate() != 0)
      return false;
    value = select.operands(2);
  }
  return value == input;
}

/// The outputs of a kernel that hold values of `ids`, unchanged.
void follow(const plan::Kernel &kernel, const std::set<uint32_t> &ids, const plan::Plan &plan,
            std::vector<uint32_t> &outputs) {
  for (int i = 0; i < kernel.inputs_size(); ++i) {
    if (!ids.count(original(plan, kernel.inputs(i))))
      continue;
    if (kernel.name() == "slice")
      outputs.push_back(kernel.outputs(0));
    if (kernel.name() == "fused")
      for (int o = 0; o < kernel.outputs_size(); ++o)
        if (handsOn(kernel.expression(), kernel.expression().results(o).value(), static_cast<uint32_t>(i)))
          outputs.push_back(kernel.outputs(o));
  }
}

int64_t attribute(const plan::Kernel &kernel, const char *name) {
  for (const plan::Attribute &a : kernel.attributes())
    if (a.name() == name)
      return a.i();
  return 0;
}

} // namespace

int64_t idLimit(const plan::Plan &plan, int program, int binding) {
  std::set<uint32_t> ids = {original(plan, plan.bindings(binding).buffer())};
  std::map<uint32_t, int> tables; // buffers that hold parameters: the binding
  for (int b = 0; b < plan.bindings_size(); ++b)
    if (plan.bindings(b).role() == plan::PARAMETER)
      tables[original(plan, plan.bindings(b).buffer())] = b;
  int64_t limit = 0;
  for (const plan::Step &step : plan.programs(program).steps()) {
    std::vector<uint32_t> written, made; // everything, and what of it holds ids
    int table = -1;
    if (step.has_collective()) {
      const plan::Collective &c = step.collective();
      const uint32_t from = original(plan, c.input());
      written.push_back(c.output());
      if (ids.count(from) && c.reduction() == plan::NONE && c.kind() != plan::HALO)
        made.push_back(c.output());
      if (auto found = tables.find(from); found != tables.end())
        table = found->second;
    } else {
      const plan::Kernel &kernel = step.kernel();
      written.assign(kernel.outputs().begin(), kernel.outputs().end());
      follow(kernel, ids, plan, made);
      if (kernel.name() == "gather" && ids.count(original(plan, kernel.inputs(1))))
        if (auto found = tables.find(original(plan, kernel.inputs(0))); found != tables.end()) {
          const plan::Binding &parameter = plan.bindings(found->second);
          const int64_t axis = attribute(kernel, "axis");
          if (axis >= 0 && axis < parameter.global_shape_size()) {
            const int64_t rows = parameter.global_shape(static_cast<int>(axis));
            limit = limit == 0 ? rows : std::min(limit, rows);
          }
        }
    }
    for (uint32_t buffer : written) {
      ids.erase(original(plan, buffer));
      // An update of a parameter leaves it the parameter that it is.
      if (table >= 0)
        tables[original(plan, buffer)] = table;
    }
    for (uint32_t buffer : made)
      ids.insert(original(plan, buffer));
  }
  return limit;
}

} // namespace tessera::rt
