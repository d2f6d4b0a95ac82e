//===- PlaceBuffers.cpp - the offset of every buffer in the arena --------------------------------===//
//
// Persistent buffers come first, one after the other. Behind them is one region that the values of all programs share;
// programs do not run at the same time. A result takes the place of an operand that is read for the last time, where
// the kernel allows it. What a chain of loops uses keeps its place until the chain has ended, where that takes hardly
// more memory (LoopChains.h).
//
// Operands of one message of all-reduces lie side by side, and so do its results: all in the places of the operands, or
// all elsewhere. Those of a list of gathers or scatters lie anywhere, but no result lies where another one of its
// operands or results is.
//
// A collective beside kernels may be under way until one of them waits for it. So long its operand and result keep
// their places.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/emit/Arena.h"
#include "compiler/emit/LoopChains.h"
#include "compiler/emit/PlanLayout.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Sections.h"
#include "runtime/support/BytesText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace tessera::compiler {

namespace {

/// The part of the arena that chains of loops may take more. A loss and its gradient are such a chain, often at the
/// peak, with a few single numbers beside rows of a gigabyte.
constexpr uint64_t kLittle = uint64_t(1) << 14;

/// The times of a program: `begin`, when it gets its inputs, one per step, and `end`, when its outputs are read.
struct Span {
  int64_t begin, end;
  int64_t step(size_t s) const { return begin + 1 + int64_t(s); }
};

/// Steps [first, last] of a program that are sent as one message.
struct Message {
  size_t program, first, last;
};

class Slots {
public:
  explicit Slots(PlanLayout &layout) : layout_(layout), slot_(layout.buffers.size(), -1) {}

  void run() {
    int64_t time = 0;
    for (const LayoutProgram &program : layout_.programs) {
      spans_.push_back({time, time + 1 + int64_t(program.steps.size())});
      time = spans_.back().end + 1;
    }
    findFrames();
    findMessages();
    findLandings();
    findLifetimes();
    for (size_t p = 0; p < layout_.programs.size(); ++p)
      assign(p);
    place();
    report();
  }

private:
  bool transient(int root) const { return !layout_.buffers[root].persistent && layout_.buffers[root].frame < 0; }

  /// What one section of the body leaves for a later one lies in a frame, for each micro-batch that is between them.
  /// Everything else that the body makes lives within one call of a section.
  void findFrames() {
    for (const LayoutProgram &program : layout_.programs) {
      if (program.chunks == 0) // the body is one section
        continue;
      std::map<int, std::set<size_t>> uses; // by root buffer: the sections
      for (size_t s = 0; s < program.steps.size(); ++s)
        for (const auto *list : {&program.steps[s].inputs, &program.steps[s].outputs})
          for (int b : *list)
            uses[layout_.root(b)].insert(program.sectionOf(s));
      for (const LayoutBinding &binding : layout_.bindings)
        if (binding.program == program.name)
          uses.erase(layout_.root(binding.buffer));
      for (const auto &[root, sections] : uses)
        if (transient(root) && *sections.begin() > 0 && *sections.rbegin() + 1 < program.sectionEnds.size() &&
            sections.size() > 1)
          layout_.buffers[root].frame = frameOf(program, sections, layout_.buffers[root].bytes());
    }
  }

  /// Adds bytes to the frame of what these sections use. The buffer's offset in it is known when the frame has its own.
  int frameOf(const LayoutProgram &program, const std::set<size_t> &sections, uint64_t bytes) {
    const size_t first = *sections.begin();
    const std::vector<size_t> last = lastOf(program, sections);
    for (LayoutFrame &frame : layout_.frames)
      if (frame.program == program.name && frame.first == first && frame.last == last) {
        frame.bytes += aligned(bytes);
        return int(&frame - layout_.frames.data());
      }
    layout_.frames.push_back({program.name, first, last, 0, aligned(bytes), slotsBetween(program, first, last)});
    return int(layout_.frames.size()) - 1;
  }

  /// Those of the sections that run before no other of them in every order.
  static std::vector<size_t> lastOf(const LayoutProgram &program, const std::set<size_t> &sections) {
    auto at = [&](size_t place) { return graph::sectionAt(place, program.chunks); };
    std::vector<size_t> last;
    for (size_t one : sections)
      if (llvm::none_of(sections, [&](size_t other) { return graph::surelyBefore(at(one), at(other)); }))
        last.push_back(one);
    return last;
  }

  /// The most micro-batches for which the first section has run and one of the last ones has not ended.
  static uint32_t slotsBetween(const LayoutProgram &program, size_t first, llvm::ArrayRef<size_t> last) {
    uint32_t most = 1;
    SmallVector<uint32_t> ended(last.size(), 0);
    for (auto [section, index] : program.calls)
      if (section == first)
        most = std::max(most, index + 1 - *llvm::min_element(ended));
      else if (const auto *it = llvm::find(last, section); it != last.end())
        ended[size_t(it - last.begin())] = index + 1;
    return most;
  }

  void touch(int buffer, int64_t time) {
    int root = layout_.root(buffer);
    if (!transient(root))
      return;
    first_[root] = first_[root] < 0 ? time : std::min(first_[root], time);
    last_[root] = std::max(last_[root], time);
  }

  /// Runs of steps with the same number whose buffers may be placed so.
  void findMessages() {
    messageOf_.assign(layout_.buffers.size(), -1);
    for (size_t p = 0; p < layout_.programs.size(); ++p) {
      std::vector<LayoutStep> &steps = layout_.programs[p].steps;
      for (size_t s = 0, end; s < steps.size(); s = end) {
        end = s + 1;
        if (steps[s].message < 0)
          continue;
        if (isList(steps[s])) {
          end = listEnd(steps, s);
          steps[s].joined = int(end - s - 1);
          if (steps[s].joined > 0)
            messages_.push_back({p, s, end - 1});
          continue;
        }
        if (!mayJoin(steps[s]))
          continue;
        const int number = int(messages_.size());
        claim(steps[s], number);
        while (end < steps.size() && steps[end].message == steps[s].message && mayJoin(steps[end]))
          claim(steps[end++], number);
        if (end == s + 1) { // it is sent alone
          messageOf_[layout_.root(steps[s].inputs.front())] = messageOf_[steps[s].outputs.front()] = -1;
          continue;
        }
        steps[s].joined = int(end - s - 1);
        messages_.push_back({p, s, end - 1});
      }
    }
  }

  static bool isList(const LayoutStep &step) {
    auto collective = cast<dist::CollectiveOp>(step.op);
    return graph::membershipOf(collective.getCollectiveKind()) == graph::Membership::List;
  }

  /// The end of the list that begins with step s: what one of its members writes, no other one uses.
  size_t listEnd(ArrayRef<LayoutStep> steps, size_t s) const {
    std::set<int> read, written; // root buffers
    size_t end = s;
    for (; end < steps.size() && steps[end].message == steps[s].message; ++end) {
      const int in = layout_.root(steps[end].inputs.front()), out = layout_.root(steps[end].outputs.front());
      if (written.count(in) || written.count(out) || read.count(out))
        break;
      read.insert(in);
      written.insert(out);
    }
    return end;
  }

  /// Whether operand and result have memory that is theirs alone, and belong to no message yet.
  bool mayJoin(const LayoutStep &step) const {
    const int in = layout_.root(step.inputs.front()), out = step.outputs.front();
    return transient(in) && transient(out) && layout_.buffers[in].kind != "input" && layout_.buffers[out].alias < 0 &&
           messageOf_[in] < 0 && messageOf_[out] < 0 && layout_.buffers[in].bytes() == layout_.buffers[out].bytes();
  }

  void claim(const LayoutStep &step, int message) {
    messageOf_[layout_.root(step.inputs.front())] = message;
    messageOf_[step.outputs.front()] = message;
  }

  /// For each collective beside kernels the first step that waits for it or for one behind it, or the last of the
  /// section, by whose end all have ended. They run one after the other, so who waits for one waits for those before.
  void findLandings() {
    landings_.resize(layout_.programs.size());
    for (size_t p = 0; p < layout_.programs.size(); ++p) {
      const LayoutProgram &program = layout_.programs[p];
      if (llvm::none_of(program.steps, [](const LayoutStep &step) { return step.beside; }))
        continue;
      landings_[p].assign(program.steps.size(), 0);
      std::map<int, size_t> users; // by root buffer: the first kernel behind, of its section, that reads or writes it
      size_t landing = 0;
      for (size_t s = program.steps.size(), section = SIZE_MAX; s-- > 0;) {
        const LayoutStep &step = program.steps[s];
        if (program.sectionOf(s) != section) {
          section = program.sectionOf(s);
          landing = s;
          users.clear();
        }
        if (step.beside) {
          for (int b : step.outputs)
            if (auto user = users.find(layout_.root(b)); user != users.end())
              landing = std::min(landing, user->second);
          landings_[p][s] = landing;
          continue;
        }
        for (const auto *list : {&step.inputs, &step.outputs})
          for (int b : *list)
            users[layout_.root(b)] = s;
      }
    }
  }

  /// From now on, the places of a step's operands and results are taken until it has surely ended.
  void holdBeside(size_t p, size_t s) {
    const LayoutStep &step = layout_.programs[p].steps[s];
    if (!step.beside)
      return;
    for (const auto *list : {&step.inputs, &step.outputs})
      for (int b : *list)
        if (const int root = layout_.root(b); transient(root))
          blocks_[size_t(slot_[root])].last =
              std::max(blocks_[size_t(slot_[root])].last, spans_[p].step(landings_[p][s]));
  }

  void findLifetimes() {
    first_.assign(layout_.buffers.size(), -1);
    last_.assign(layout_.buffers.size(), -1);
    for (size_t p = 0; p < layout_.programs.size(); ++p) {
      const LayoutProgram &program = layout_.programs[p];
      for (size_t s = 0; s < program.steps.size(); ++s) {
        for (int b : program.steps[s].inputs)
          touch(b, spans_[p].step(s));
        for (int b : program.steps[s].outputs)
          touch(b, spans_[p].step(s));
      }
      keepForBody(p);
      // Operands of a message live until the last of its results is made, and all results from the first on.
      for (const Message &message : messages_)
        if (message.program == p)
          for (size_t s = message.first; s <= message.last; ++s)
            for (size_t at : {message.first, message.last}) {
              touch(program.steps[s].inputs.front(), spans_[p].step(at));
              touch(program.steps[s].outputs.front(), spans_[p].step(at));
            }
      for (const LayoutBinding &binding : layout_.bindings)
        if (binding.program == program.name)
          touch(binding.buffer,
                layout_.buffers[binding.buffer].kind == "input" && isFed(binding) ? spans_[p].begin : spans_[p].end);
    }
  }

  /// What is there before the body and used in it lives until its last step, since every micro-batch uses it.
  void keepForBody(size_t p) {
    const LayoutProgram &program = layout_.programs[p];
    if (!program.hasSections() || program.bodyBegin() == program.bodyEnd())
      return;
    const int64_t first = spans_[p].step(program.bodyBegin()), last = spans_[p].step(program.bodyEnd() - 1);
    std::vector<int> fed;
    for (const LayoutBinding &binding : layout_.bindings)
      if (binding.program == program.name && isFed(binding))
        fed.push_back(layout_.root(binding.buffer));
    auto keep = [&](int buffer) {
      const int root = layout_.root(buffer);
      if (transient(root) && (first_[root] < first || llvm::is_contained(fed, root)))
        last_[root] = std::max(last_[root], last);
    };
    for (size_t s = program.bodyBegin(); s < program.bodyEnd(); ++s) {
      for (int b : program.steps[s].inputs)
        keep(b);
      for (int b : program.steps[s].outputs)
        keep(b);
    }
  }

  static bool isFed(const LayoutBinding &binding) {
    return binding.role == "input" || binding.role == "target" || binding.role == "step";
  }

  /// Gives every value of a program a slot: a new one, or that of a value that the producing step reads for the last
  /// time.
  void assign(size_t p) {
    const LayoutProgram &program = layout_.programs[p];
    for (const LayoutBinding &binding : layout_.bindings)
      if (binding.program == program.name && isFed(binding))
        open(layout_.root(binding.buffer));
    for (size_t s = 0; s < program.steps.size(); ++s) {
      const LayoutStep &step = program.steps[s];
      if (step.joined > 0) {
        const size_t last = s + size_t(step.joined);
        assignMessage(program, s, spans_[p].step(last));
        for (; s < last; ++s)
          holdBeside(p, s);
        holdBeside(p, last);
        continue;
      }
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        int root = layout_.root(step.outputs[o]);
        if (!transient(root) || slot_[root] >= 0)
          continue;
        const int from = placeFor(step, int(o), root, spans_[p].step(s));
        if (from >= 0)
          take(from, root, spans_[p].step(s));
        else
          open(root);
      }
      holdBeside(p, s);
    }
  }

  /// Gives the results of a message the slots of its operands, or all of them slots of their own.
  void assignMessage(const LayoutProgram &program, size_t first, int64_t now) {
    const size_t last = first + size_t(program.steps[first].joined);
    if (isList(program.steps[first])) {
      for (size_t s = first; s <= last; ++s)
        open(layout_.root(program.steps[s].outputs.front()));
      return;
    }
    bool inPlace = true;
    std::vector<size_t> &from = rows_.emplace_back();
    for (size_t s = first; s <= last; ++s) {
      const LayoutStep &step = program.steps[s];
      from.push_back(size_t(slot_[layout_.root(step.inputs.front())]));
      inPlace &= placeFor(step, 0, step.outputs.front(), now) >= 0;
    }
    if (!inPlace)
      rows_.emplace_back();
    for (size_t s = first; s <= last; ++s) {
      const int root = program.steps[s].outputs.front();
      if (inPlace) {
        take(slot_[layout_.root(program.steps[s].inputs.front())], root, now);
      } else {
        open(root);
        rows_.back().push_back(size_t(slot_[root]));
      }
    }
  }

  void open(int root) {
    if (slot_[root] >= 0 || !transient(root))
      return;
    slot_[root] = int(blocks_.size());
    blocks_.push_back({layout_.buffers[root].bytes(), first_[root], last_[root]});
    takenAt_.push_back(-1);
    slotMessage_.push_back(messageOf_[root]);
  }

  /// A slot lies in at most one row.
  bool fitsRow(int slot, int root) const {
    return messageOf_[root] < 0 || slotMessage_[slot] < 0 || slotMessage_[slot] == messageOf_[root];
  }

  /// The slot of an operand whose place the result may take; -1: none.
  int placeFor(const LayoutStep &step, int o, int root, int64_t now) const {
    for (int input : step.inputs) {
      int dying = layout_.root(input);
      if (!transient(dying) || slot_[dying] < 0 || blocks_[slot_[dying]].last != now || last_[dying] != now ||
          takenAt_[slot_[dying]] == now || layout_.buffers[dying].bytes() != layout_.buffers[root].bytes() ||
          !fitsRow(slot_[dying], root))
        continue;
      // The step may read the slot through several views. The kernel must allow the sharing for each of them.
      bool allowed = true;
      for (size_t i = 0; i < step.inputs.size(); ++i)
        if (int other = layout_.root(step.inputs[i]); transient(other) && slot_[other] == slot_[dying])
          allowed &= mayShare(layout_, step, int(i), o);
      if (allowed)
        return slot_[dying];
    }
    return -1;
  }

  void take(int slot, int root, int64_t now) {
    slot_[root] = slot;
    blocks_[slot].last = last_[root];
    takenAt_[slot] = now;
    if (messageOf_[root] >= 0)
      slotMessage_[slot] = messageOf_[root];
  }

  void place() {
    uint64_t end = 0;
    for (LayoutBuffer &buffer : layout_.buffers)
      if (buffer.persistent && buffer.alias < 0) {
        buffer.offset = end;
        end += aligned(buffer.bytes());
      }
    const size_t values = blocks_.size();
    // Nothing else lies in a frame, since a plan's frames are there for all its programs.
    for (const LayoutFrame &frame : layout_.frames)
      blocks_.push_back({frame.bytes * frame.slots, 0, spans_.back().end});
    ArenaLayout layout = layOut(blocks_, rows_);
    // Where that leaves gaps, at least what is small keeps its place: then no large result lies over single numbers.
    const uint64_t more = layout.bytes / kLittle;
    std::vector<int64_t> until = untilChainsEnd();
    for (const uint64_t largest : {UINT64_MAX, more}) {
      for (size_t b = 0; b < blocks_.size(); ++b)
        if (blocks_[b].bytes > largest)
          until[b] = 0;
      ArenaLayout kept = layOut(keepLonger(blocks_, until, more), rows_);
      if (kept.bytes > layout.bytes + more)
        continue;
      layout = std::move(kept);
      break;
    }
    std::vector<uint64_t> filled;
    for (size_t f = 0; f < layout_.frames.size(); ++f)
      filled.push_back(layout_.frames[f].offset = end + layout.offsets[values + f]);
    for (LayoutBuffer &buffer : layout_.buffers)
      if (buffer.frame >= 0) {
        buffer.offset = filled[size_t(buffer.frame)];
        filled[size_t(buffer.frame)] += aligned(buffer.bytes());
      }
    for (size_t b = 0; b < layout_.buffers.size(); ++b)
      if (slot_[b] >= 0)
        layout_.buffers[b].offset = end + layout.offsets[slot_[b]];
    for (LayoutBuffer &buffer : layout_.buffers)
      if (buffer.alias >= 0)
        buffer.offset = layout_.buffers[buffer.alias].offset + buffer.shift;
    layout_.arenaBytes = end + aligned(layout.bytes);
    layout_.report.activationBytes = aligned(layout.bytes);
  }

  /// By block: when the last of the chains of loops that use it ends; 0: none uses it.
  std::vector<int64_t> untilChainsEnd() const {
    std::vector<int64_t> until(blocks_.size(), 0);
    for (size_t p = 0; p < layout_.programs.size(); ++p) {
      const LayoutProgram &program = layout_.programs[p];
      const std::vector<size_t> ends = chainEnds(layout_, program);
      for (size_t s = 0; s < program.steps.size(); ++s)
        for (const auto *list : {&program.steps[s].inputs, &program.steps[s].outputs})
          for (int b : *list)
            if (const int slot = slot_[layout_.root(b)]; slot >= 0 && ends[s] > s)
              until[size_t(slot)] = std::max(until[size_t(slot)], spans_[p].step(ends[s]));
    }
    return until;
  }

  void report() {
    MemoryReport &report = layout_.report;
    report.arenaBytes = layout_.arenaBytes;
    int64_t peak = 0;
    report.activationBound = peakLoad(blocks_, &peak);
    for (size_t p = 0; p < spans_.size(); ++p)
      if (peak >= spans_[p].begin && peak <= spans_[p].end) {
        const std::vector<LayoutStep> &steps = layout_.programs[p].steps;
        report.peakProgram = layout_.programs[p].name;
        int64_t s = peak - spans_[p].begin - 1;
        report.peakStep = s < 0 ? "the start" : s < int64_t(steps.size()) ? steps[s].name : "the end";
      }
    for (size_t b = 0; b < layout_.buffers.size(); ++b) {
      const LayoutBuffer &buffer = layout_.buffers[b];
      if (buffer.alias >= 0)
        continue;
      if (buffer.persistent) {
        (buffer.kind == "parameter" ? report.parameterBytes
         : buffer.kind == "state"   ? report.stateBytes
                                    : report.constantBytes) += buffer.bytes();
      } else if (buffer.frame < 0 && !(first_[b] <= peak && peak <= last_[b])) {
        continue;
      }
      report.atPeak.push_back({buffer.name, buffer.kind,
                               buffer.bytes() * (buffer.frame >= 0 ? layout_.frames[size_t(buffer.frame)].slots : 1)});
    }
    llvm::stable_sort(report.atPeak, [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  }

  PlanLayout &layout_;
  std::vector<Span> spans_;
  std::vector<int64_t> first_, last_;         // by root buffer
  std::vector<int> slot_;                     // by root buffer
  std::vector<Block> blocks_;                 // by slot
  std::vector<int64_t> takenAt_;              // by slot: when a result last took the place
  std::vector<std::vector<size_t>> landings_; // by program, step: see findLandings; empty: nothing runs beside kernels
  std::vector<Message> messages_;
  std::vector<int> messageOf_;            // by root buffer: the message that reads or makes it; -1: none
  std::vector<int> slotMessage_;          // by slot: the message that it is a part of; -1: none
  std::vector<std::vector<size_t>> rows_; // slots that lie side by side
};

} // namespace

void placeBuffers(PlanLayout &layout) { Slots(layout).run(); }

std::string MemoryReport::str(size_t items) const {
  std::string text;
  raw_string_ostream out(text);
  out << "arena " << bytesText(double(arenaBytes)) << ": parameters " << bytesText(double(parameterBytes))
      << ", states " << bytesText(double(stateBytes)) << ", constants " << bytesText(double(constantBytes))
      << ", activations " << bytesText(double(activationBytes)) << " (at least " << bytesText(double(activationBound))
      << " by any layout), most of them at '" << peakStep << "' of " << peakProgram;
  for (size_t i = 0; i < atPeak.size() && i < items; ++i)
    out << (i == 0 ? "; the largest there: " : ", ") << bytesText(double(atPeak[i].bytes)) << " " << atPeak[i].kind
        << " '" << atPeak[i].name << "'";
  return text;
}

} // namespace tessera::compiler
