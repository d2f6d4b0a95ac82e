#include "tools/page/Arena.h"

#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tessera {

namespace {

enum Kind { Parameter, State, Constant, Outside, Activation, kKinds };
constexpr const char *kKindNames[kKinds] = {"parameter", "state", "constant", "input or output", "activation"};
constexpr size_t kLargest = 20; // so many of the buffers at the peak are listed

struct Life {
  int64_t first = INT64_MAX, last = -1;
  Kind kind = Activation;
  void covers(int64_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
};

class ArenaReader {
public:
  explicit ArenaReader(const plan::Plan &plan)
      : plan_(plan), program_(plan.programs(0)), order_(program_), end_(program_.steps_size() - 1),
        lives_(size_t(plan.buffers_size())) {}

  Json read() {
    follow();
    bind();
    share();
    Json buffers = Json::array();
    std::vector<int64_t> change(size_t(end_) + 2);
    std::vector<std::pair<const Life *, uint64_t>> shown;
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      const Life &life = lives_[size_t(b)];
      const plan::Buffer &buffer = plan_.buffers(b);
      if (life.last < life.first || buffer.alias_of_plus_one())
        continue;
      const std::vector<int64_t> shape = rt::toVector(buffer.shape());
      const uint64_t bytes = rt::bytesOf(shape, buffer.dtype()).value_or(0);
      buffers.push_back(Json::array({buffer.name(), int(life.kind), rt::typeName(buffer.dtype()), shape,
                                     buffer.offset(), bytes, life.first, life.last}));
      change[size_t(life.first)] += int64_t(bytes);
      change[size_t(life.last) + 1] -= int64_t(bytes);
      shown.emplace_back(&life, bytes);
    }
    for (const auto &[step, kind, bytes] : shared_) {
      change[size_t(step)] -= int64_t(bytes);
      change[size_t(step) + 1] += int64_t(bytes);
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    change.pop_back();
    const int64_t peak = std::max_element(change.begin(), change.end()) - change.begin();
    std::vector<size_t> at;
    Json kinds = Json::array(), byKind = Json::object();
    for (const char *name : kKindNames) {
      kinds.push_back(name);
      byKind[name] = 0;
    }
    for (size_t i = 0; i < shown.size(); ++i)
      if (shown[i].first->first <= peak && peak <= shown[i].first->last) {
        at.push_back(i);
        Json &sum = byKind[kKindNames[shown[i].first->kind]];
        sum = sum.get<uint64_t>() + shown[i].second;
      }
    for (const auto &[step, kind, bytes] : shared_)
      if (step == peak)
        byKind[kKindNames[kind]] = byKind[kKindNames[kind]].get<uint64_t>() - bytes;
    std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) { return shown[a].second > shown[b].second; });
    at.resize(std::min(at.size(), kLargest));
    return {{"arena_bytes", plan_.arena_bytes()},
            {"program", program_.name()},
            {"kinds", std::move(kinds)},
            {"steps", steps()},
            {"sections", sections()},
            {"buffers", std::move(buffers)},
            {"live_bytes", change},
            {"peak_step", peak},
            {"at_peak", std::move(byKind)},
            {"largest_at_peak", at}};
  }

private:
  /// The buffer that a view shows.
  uint32_t rootOf(uint32_t buffer) const {
    for (int depth = 0; depth < 64 && plan_.buffers(int(buffer)).alias_of_plus_one(); ++depth)
      buffer = plan_.buffers(int(buffer)).alias_of_plus_one() - 1;
    return buffer;
  }
  Life &lifeOf(uint32_t buffer) { return lives_[rootOf(buffer)]; }

  /// Where a step writes over what it reads for the last time, the bytes count once.
  void share() {
    auto end = [&](const plan::Buffer &b) {
      return b.offset() + rt::bytesOf(rt::toVector(b.shape()), b.dtype()).value_or(0);
    };
    for (int s = 0; s <= end_; ++s) {
      std::set<std::pair<uint32_t, uint32_t>> pairs;
      auto add = [&](uint32_t input, uint32_t output) {
        if (lifeOf(input).last == s && lifeOf(output).first == s && rootOf(input) != rootOf(output))
          pairs.emplace(rootOf(input), rootOf(output));
      };
      const plan::Step &step = program_.steps(s);
      for (uint32_t input : step.kernel().inputs())
        for (uint32_t output : step.kernel().outputs())
          add(input, output);
      if (step.has_collective())
        add(step.collective().input(), step.collective().output());
      for (const auto &[input, output] : pairs) {
        const plan::Buffer &a = plan_.buffers(int(input)), &b = plan_.buffers(int(output));
        const uint64_t from = std::max(a.offset(), b.offset()), to = std::min(end(a), end(b));
        if (from < to)
          shared_.push_back({s, lives_[input].kind, to - from});
      }
    }
  }

  void follow() {
    for (const rt::Section &section : order_.sections()) {
      std::set<uint32_t> written; // in this section so far
      for (uint32_t s = section.begin; s < section.end; ++s) {
        auto reads = [&](uint32_t b) {
          lifeOf(b).covers(s);
          if (section.calls > 1 && !written.contains(rootOf(b))) { // the next call reads it, too
            lifeOf(b).covers(section.begin);
            lifeOf(b).covers(section.end - 1);
          }
        };
        auto writes = [&](uint32_t b) {
          lifeOf(b).covers(s);
          written.insert(rootOf(b));
        };
        const plan::Step &step = program_.steps(int(s));
        if (step.has_collective()) {
          reads(step.collective().input());
          writes(step.collective().output());
        }
        if (step.has_send())
          reads(step.send().input());
        if (step.has_receive())
          writes(step.receive().output());
        std::ranges::for_each(step.kernel().inputs(), reads);
        std::ranges::for_each(step.kernel().outputs(), writes);
      }
    }
  }

  /// What lives across steps, comes from outside before the first step, or is read after the last.
  void bind() {
    for (int b = 0; b < plan_.buffers_size(); ++b) {
      const plan::Buffer &buffer = plan_.buffers(b);
      if (!buffer.persistent() || buffer.alias_of_plus_one())
        continue;
      lives_[size_t(b)] = {0, end_, buffer.constant().empty() ? State : Constant};
    }
    for (const plan::Binding &binding : plan_.bindings()) {
      Life &life = lifeOf(binding.buffer());
      if (binding.role() == plan::PARAMETER || binding.role() == plan::STATE) {
        life.kind = binding.role() == plan::PARAMETER ? Parameter : State;
      } else if (binding.program() == program_.name() && life.last >= life.first) {
        const bool read =
            binding.role() == plan::INPUT || binding.role() == plan::TARGET || binding.role() == plan::STEP;
        life.covers(read ? 0 : end_);
        if (life.kind == Activation)
          life.kind = Outside;
      }
    }
  }

  Json steps() const {
    Json steps = Json::array();
    for (const plan::Step &step : program_.steps())
      steps.push_back(Json::array({step.name(), step.has_collective() ? rt::collectiveName(step.collective().kind())
                                                : step.has_send()     ? "send"
                                                : step.has_receive()  ? "receive"
                                                                      : step.kernel().name()}));
    return steps;
  }

  Json sections() const {
    Json sections = Json::array();
    for (const rt::Section &section : order_.sections())
      sections.push_back(Json::array({section.begin, section.end - section.begin, section.calls}));
    return sections;
  }

  const plan::Plan &plan_;
  const plan::Program &program_;
  const rt::TimeOrder order_;
  const int64_t end_; // the last step
  std::vector<Life> lives_;
  struct Shared {
    int64_t step;
    Kind kind; // of the buffer that ends
    uint64_t bytes;
  };
  std::vector<Shared> shared_;
};

} // namespace

Json arenaJson(const plan::Plan &plan) {
  if (plan.programs_size() == 0 || plan.programs(0).steps_size() == 0)
    return {{"arena_bytes", plan.arena_bytes()},
            {"steps", Json::array()},
            {"sections", Json::array()},
            {"buffers", Json::array()}};
  return ArenaReader(plan).read();
}

} // namespace tessera
