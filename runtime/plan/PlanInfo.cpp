#include "runtime/plan/PlanInfo.h"

#include "runtime/support/Printable.h"

#include <algorithm>
#include <cctype>

namespace tessera::rt {
namespace {

std::string lower(std::string name, char underscore) {
  for (char &c : name)
    c = c == '_' ? underscore : char(std::tolower(static_cast<unsigned char>(c)));
  return name.empty() ? "?" : name;
}

} // namespace

std::string typeName(plan::DType type) { return lower(plan::DType_Name(type), '_'); }

bool isFloatType(plan::DType type) {
  return type == plan::F32 || type == plan::F64 || type == plan::F16 || type == plan::BF16;
}

std::string roleName(plan::Role role) { return lower(plan::Role_Name(role), ' '); }

std::string collectiveName(plan::CollectiveKind kind) { return lower(plan::CollectiveKind_Name(kind), '-'); }

std::string reductionName(plan::Reduction reduction) { return lower(plan::Reduction_Name(reduction), ' '); }

std::string quoted(const std::string &name) {
  size_t length = std::min<size_t>(name.size(), 120);
  while (length > 0 && length < name.size() && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80)
    --length; // a character is never cut in two
  return "'" + printable(std::string_view(name).substr(0, length)) + (length < name.size() ? "...'" : "'");
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::optional<int64_t> elementsOf(const std::vector<int64_t> &shape) {
  constexpr int64_t limit = int64_t(1) << 62;
  int64_t product = 1;
  for (int64_t size : shape) {
    if (size <= 0 || product > limit / size)
      return std::nullopt;
    product *= size;
  }
  return product;
}

std::vector<int64_t> extentOf(const plan::Plan &plan, const plan::Binding &binding) {
  return toVector(binding.extent_size() ? binding.extent() : plan.buffers(int(binding.buffer())).shape());
}

bool isEmpty(const std::vector<int64_t> &extent) { return std::find(extent.begin(), extent.end(), 0) != extent.end(); }

std::optional<uint64_t> bytesOf(const std::vector<int64_t> &shape, plan::DType type) {
  std::optional<int64_t> elements = elementsOf(shape);
  uint64_t each = bytesPerElement(type);
  uint64_t bytes = 0;
  if (!elements || each == 0 || __builtin_mul_overflow(uint64_t(*elements), each, &bytes))
    return std::nullopt;
  return bytes;
}

uint64_t bytesSent(const plan::Plan &plan, const plan::Collective &c) {
  const plan::Group &group = plan.groups(int(c.group()));
  const plan::Buffer &in = plan.buffers(int(c.input()));
  uint64_t n = uint64_t(group.ranks_size());
  std::vector<int64_t> shape = toVector(in.shape());
  uint64_t bytes = bytesOf(shape, in.dtype()).value_or(0);
  if (n < 2)
    return 0;
  auto me = size_t(std::find(group.ranks().begin(), group.ranks().end(), plan.rank()) - group.ranks().begin());
  switch (c.kind()) {
  case plan::ALL_REDUCE:
    return 2 * (bytes / n * (n - 1));
  case plan::ALL_GATHER:
    return bytes * (n - 1);
  case plan::REDUCE_SCATTER:
  case plan::ALL_TO_ALL:
    return bytes / n * (n - 1);
  case plan::PERMUTE:
    return c.sources_size() == int(n) && c.sources(int(me)) == me ? 0 : bytes;
  case plan::HALO: {
    uint64_t row = c.dim() < shape.size() ? bytes / uint64_t(shape[c.dim()]) : 0;
    return (me + 1 < n ? uint64_t(c.halo_lo()) * row : 0) + (me > 0 ? uint64_t(c.halo_hi()) * row : 0);
  }
  case plan::BROADCAST:
    return me == c.root() ? bytes : 0;
  case plan::EXCHANGE: {
    uint64_t sent = 0;
    for (const plan::PeerBox &box : c.sends())
      if (box.peer() != me)
        sent += bytesOf(toVector(box.shape()), in.dtype()).value_or(0);
    return sent;
  }
  default:
    return 0;
  }
}

std::vector<int> messagesOf(const plan::Program &program) {
  std::vector<int> first(size_t(program.steps_size()), -1);
  for (int s = 0; s < program.steps_size(); ++s) {
    if (!program.steps(s).has_collective() || first[size_t(s)] >= 0)
      continue;
    const uint32_t joined = followers(program.steps(s).collective());
    for (int member = s; member < program.steps_size() && uint32_t(member - s) <= joined; ++member)
      if (program.steps(member).has_collective())
        first[size_t(member)] = s;
  }
  return first;
}

std::vector<uint32_t> readsOf(const plan::Step &step) {
  if (step.has_collective())
    return {step.collective().input()};
  if (step.has_send())
    return {step.send().input()};
  return {step.kernel().inputs().begin(), step.kernel().inputs().end()};
}

std::vector<uint32_t> writesOf(const plan::Step &step) {
  if (step.has_collective())
    return {step.collective().output()};
  if (step.has_receive())
    return {step.receive().output()};
  return {step.kernel().outputs().begin(), step.kernel().outputs().end()};
}

int findProgram(const plan::Plan &plan, const std::string &name) {
  for (int p = 0; p < plan.programs_size(); ++p)
    if (plan.programs(p).name() == name)
      return p;
  return -1;
}

} // namespace tessera::rt
