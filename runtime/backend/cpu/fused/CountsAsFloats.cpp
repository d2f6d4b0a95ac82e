#include "runtime/backend/cpu/fused/CountsAsFloats.h"

#include <map>

namespace tessera::rt {
namespace {

constexpr int64_t kFloats = 1 << 24; // F32 has all integers up to here

/// Whether only comparisons for equality with something else read each value.
std::vector<bool> onlyCompared(const ExpressionCode &e) {
  std::vector<bool> only(e.valueCount(), true);
  for (const Instr &instr : e.code)
    for (uint32_t k = 0; k < instr.arity; ++k)
      if (instr.op != Op::Eq || instr.operands[0] == instr.operands[1])
        only[instr.operands[k]] = false;
  for (const ExpressionResult &result : e.results)
    only[result.value] = false;
  return only;
}

bool isSmall(const Instr &iota, const Shape &domain) {
  return iota.op == Op::Iota && iota.type == plan::I64 && iota.start > -kFloats && iota.start < kFloats &&
         domain[iota.dim] < kFloats - iota.start;
}

} // namespace

ExpressionCode withCountsAsFloats(const ExpressionCode &code) {
  const std::vector<bool> compared = onlyCompared(code);
  const uint32_t inputs = uint32_t(code.inputs.size());
  std::vector<bool> counts(code.valueCount(), false);
  bool any = false;
  for (uint32_t v = inputs; v < code.valueCount(); ++v)
    any |= counts[v] = compared[v] && isSmall(code.code[v - inputs], code.domain);
  if (!any)
    return code;

  ExpressionCode made{code.domain, code.inputs, {}, code.results};
  auto add = [&](Instr instr) {
    made.code.push_back(std::move(instr));
    return made.valueCount() - 1;
  };
  std::vector<uint32_t> place(code.valueCount()); // where a value is in `made`
  for (uint32_t v = 0; v < inputs; ++v)
    place[v] = v;
  for (uint32_t v = inputs; v < code.valueCount(); ++v)
    if (counts[v]) {
      Instr iota = code.code[v - inputs];
      iota.type = plan::F32;
      place[v] = add(std::move(iota));
    }
  std::map<uint32_t, uint32_t> floats; // of what is compared with them
  auto asFloat = [&](uint32_t v) {
    if (counts[v])
      return place[v];
    auto [known, isNew] = floats.try_emplace(v);
    if (isNew) {
      Instr cast;
      cast.op = Op::Cast;
      cast.operands[0] = place[v];
      cast.arity = 1;
      known->second = add(std::move(cast));
    }
    return known->second;
  };
  for (uint32_t v = inputs; v < code.valueCount(); ++v) {
    if (counts[v])
      continue;
    Instr instr = code.code[v - inputs];
    const bool narrow = instr.op == Op::Eq && (counts[instr.operands[0]] || counts[instr.operands[1]]);
    for (uint32_t k = 0; k < instr.arity; ++k)
      instr.operands[k] = narrow ? asFloat(instr.operands[k]) : place[instr.operands[k]];
    place[v] = add(std::move(instr));
  }
  for (ExpressionResult &result : made.results)
    result.value = place[result.value];
  return made;
}

} // namespace tessera::rt
