//===- PlaceBuffers.cpp - where every buffer lies ------------------------------------------------===//
//
// Persistent buffers first, one after the other; behind them one region that all programs' values share.
// Programs do not run at the same time, so their values live at different times. A result takes its dying
// operand's place where the kernel allows it.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/emit/Arena.h"
#include "compiler/emit/PlanLayout.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace llvm;

namespace tessera::compiler {

namespace {

/// Times of a program: `begin` (it is fed), one per step, `end` (it is read).
struct Span {
  int64_t begin, end;
  int64_t step(size_t s) const { return begin + 1 + int64_t(s); }
};

class Slots {
public:
  explicit Slots(PlanLayout &layout) : skeleton_(layout), slot_(layout.buffers.size(), -1) {}

  void run() {
    int64_t time = 0;
    for (const LayoutProgram &program : skeleton_.programs) {
      spans_.push_back({time, time + 1 + int64_t(program.steps.size())});
      time = spans_.back().end + 1;
    }
    findLifetimes();
    for (size_t p = 0; p < skeleton_.programs.size(); ++p)
      assign(p);
    place();
    report();
  }

private:
  bool transient(int root) const { return !skeleton_.buffers[root].persistent; }

  void touch(int buffer, int64_t time) {
    int root = skeleton_.root(buffer);
    if (!transient(root))
      return;
    first_[root] = first_[root] < 0 ? time : std::min(first_[root], time);
    last_[root] = std::max(last_[root], time);
  }

  void findLifetimes() {
    first_.assign(skeleton_.buffers.size(), -1);
    last_.assign(skeleton_.buffers.size(), -1);
    for (size_t p = 0; p < skeleton_.programs.size(); ++p) {
      const LayoutProgram &program = skeleton_.programs[p];
      for (size_t s = 0; s < program.steps.size(); ++s) {
        for (int b : program.steps[s].inputs)
          touch(b, spans_[p].step(s));
        for (int b : program.steps[s].outputs)
          touch(b, spans_[p].step(s));
      }
      for (const LayoutBinding &binding : skeleton_.bindings)
        if (binding.program == program.name)
          touch(binding.buffer,
                skeleton_.buffers[binding.buffer].kind == "input" && isFed(binding) ? spans_[p].begin : spans_[p].end);
    }
  }

  static bool isFed(const LayoutBinding &binding) {
    return binding.role == "input" || binding.role == "target" || binding.role == "step";
  }

  /// Gives every value of a program a slot, its own or one whose value dies in the step that makes it.
  void assign(size_t p) {
    const LayoutProgram &program = skeleton_.programs[p];
    for (const LayoutBinding &binding : skeleton_.bindings)
      if (binding.program == program.name && isFed(binding))
        open(skeleton_.root(binding.buffer));
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const LayoutStep &step = program.steps[s];
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        int root = skeleton_.root(step.outputs[o]);
        if (!transient(root) || slot_[root] >= 0)
          continue;
        if (!takePlace(step, int(o), root, spans_[p].step(s)))
          open(root);
      }
    }
  }

  void open(int root) {
    if (slot_[root] >= 0 || !transient(root))
      return;
    slot_[root] = int(blocks_.size());
    blocks_.push_back({skeleton_.buffers[root].bytes(), first_[root], last_[root]});
    takenAt_.push_back(-1);
  }

  bool takePlace(const LayoutStep &step, int o, int root, int64_t now) {
    for (int input : step.inputs) {
      int dying = skeleton_.root(input);
      if (!transient(dying) || slot_[dying] < 0 || blocks_[slot_[dying]].last != now || last_[dying] != now ||
          takenAt_[slot_[dying]] == now || skeleton_.buffers[dying].bytes() != skeleton_.buffers[root].bytes())
        continue;
      // Every view through which the step reads the place must allow it.
      bool allowed = true;
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (int other = skeleton_.root(step.inputs[i]); transient(other) && slot_[other] == slot_[dying])
          allowed &= mayShare(skeleton_, step, int(i), o);
      if (!allowed)
        continue;
      slot_[root] = slot_[dying];
      blocks_[slot_[root]].last = last_[root];
      takenAt_[slot_[root]] = now;
      return true;
    }
    return false;
  }

  void place() {
    uint64_t end = 0;
    auto sizeUp = [&](uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
    for (LayoutBuffer &buffer : skeleton_.buffers)
      if (buffer.persistent && buffer.alias < 0) {
        buffer.offset = end;
        end += sizeUp(buffer.bytes());
      }
    ArenaLayout layout = layOut(blocks_);
    for (size_t b = 0; b < skeleton_.buffers.size(); ++b)
      if (slot_[b] >= 0)
        skeleton_.buffers[b].offset = end + layout.offsets[slot_[b]];
    for (LayoutBuffer &buffer : skeleton_.buffers)
      if (buffer.alias >= 0)
        buffer.offset = skeleton_.buffers[buffer.alias].offset;
    skeleton_.arenaBytes = end + sizeUp(layout.bytes);
    skeleton_.report.activationBytes = sizeUp(layout.bytes);
  }

  void report() {
    MemoryReport &report = skeleton_.report;
    report.arenaBytes = skeleton_.arenaBytes;
    int64_t peak = 0;
    report.activationBound = peakLoad(blocks_, &peak);
    for (size_t p = 0; p < spans_.size(); ++p)
      if (peak >= spans_[p].begin && peak <= spans_[p].end) {
        const std::vector<LayoutStep> &steps = skeleton_.programs[p].steps;
        report.peakProgram = skeleton_.programs[p].name;
        int64_t s = peak - spans_[p].begin - 1;
        report.peakStep = s < 0 ? "the start" : s < int64_t(steps.size()) ? steps[s].name : "the end";
      }
    for (size_t b = 0; b < skeleton_.buffers.size(); ++b) {
      const LayoutBuffer &buffer = skeleton_.buffers[b];
      if (buffer.alias >= 0)
        continue;
      if (buffer.persistent) {
        (buffer.kind == "parameter" ? report.parameterBytes
         : buffer.kind == "state"   ? report.stateBytes
                                    : report.constantBytes) += buffer.bytes();
      } else if (!(first_[b] <= peak && peak <= last_[b])) {
        continue;
      }
      report.atPeak.push_back({buffer.name, buffer.kind, buffer.bytes()});
    }
    llvm::stable_sort(report.atPeak, [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  }

  PlanLayout &skeleton_;
  std::vector<Span> spans_;
  std::vector<int64_t> first_, last_; // by root buffer
  std::vector<int> slot_;             // by root buffer
  std::vector<Block> blocks_;         // by slot
  std::vector<int64_t> takenAt_;      // by slot: when a result last took the place
};

std::string sizeText(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = double(bytes);
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < std::size(units)) {
    size /= 1024;
    ++unit;
  }
  std::string text;
  raw_string_ostream(text) << llvm::format(unit ? "%.2f " : "%.0f ", size) << units[unit];
  return text;
}

} // namespace

void placeBuffers(PlanLayout &layout) { Slots(layout).run(); }

std::string MemoryReport::str(size_t items) const {
  std::string text;
  raw_string_ostream out(text);
  out << "arena " << sizeText(arenaBytes) << ": parameters " << sizeText(parameterBytes) << ", states "
      << sizeText(stateBytes) << ", constants " << sizeText(constantBytes) << ", activations "
      << sizeText(activationBytes) << " (at least " << sizeText(activationBound) << " by any layout), most of them at '"
      << peakStep << "' of " << peakProgram;
  for (size_t i = 0; i < atPeak.size() && i < items; ++i)
    out << "\n  " << sizeText(atPeak[i].bytes) << "  " << atPeak[i].kind << " '" << atPeak[i].name << "'";
  return text;
}

} // namespace tessera::compiler
