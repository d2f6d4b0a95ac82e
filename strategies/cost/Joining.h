//===- Joining.h - how the compiler sends collectives, by the cost model --------------------------===//
//
// Which collectives share a message, and which run beside kernels: what graph::chooseMessages and overlap() need of the
// cost model is the times of kernels and messages, and the memory that is left. The report and the pass
// dist-join-collectives both ask here, so that what is priced is what is emitted.
//
//   JoinOptions options = cantFail(parseJoin("auto"));
//   options.overlap = Overlapping::Auto;
//   SentProgram sent = sendProgram(model, {looped, costs, senders, parts, persistent}, options);
//   sent.messages                      // by step of `looped`
//   if (sent.beside) ...               // some of them run beside kernels
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_JOINING_H
#define TESSERA_STRATEGIES_COST_JOINING_H

#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Messages.h"
#include "strategies/cost/CostModel.h"
#include "strategies/overlap/Overlap.h"

namespace tessera::strategies {

/// Whether collectives run beside kernels: never, always where there is memory for it, or where the program is
/// predicted to take less time.
enum class Overlapping { Off, On, Auto };

struct JoinOptions {
  int64_t most = 0;   // bytes of a joined message; 0: every collective is sent alone
  bool timed = true;  // join only what makes the step no later; else whatever fits in a message
  int64_t memory = 0; // bytes of a rank; 0: as many as it takes
  Overlapping overlap = Overlapping::Off;
  bool operator==(const JoinOptions &) const = default;

  bool joins() const { return most != 0; }
  /// Whether all collectives are sent alone and in line, whatever the program is.
  bool none() const { return !joins() && overlap == Overlapping::Off; }
};

/// "auto", "off", or the bytes of a message at most, such as "25MiB".
llvm::Expected<JoinOptions> parseJoin(llvm::StringRef text);

/// "auto", "on" or "off".
llvm::Expected<Overlapping> parseOverlap(llvm::StringRef text);

/// A program that is sent.
struct ProgramToSend {
  const graph::LoopedFlow &looped;
  llvm::ArrayRef<Cost> costs;            // of the kernels, by step of the program from which `looped` is made
  llvm::ArrayRef<graph::Sender> senders; // by step of `looped`
  int64_t parts = 1;                     // micro-batches
  int64_t persistent = 0;                // bytes of parameters and states
};

struct SentProgram {
  std::vector<std::vector<int>> messages; // by step of `looped`
  std::optional<Overlap> beside;          // of MessageFlow(looped.flow, messages); nothing: all run in line
};
SentProgram sendProgram(const CostModel &model, const ProgramToSend &program, const JoinOptions &options);

/// The time that the program takes at least, however its collectives are joined and whatever runs beside kernels.
Cost leastTime(const CostModel &model, const ProgramToSend &program);

/// Whether a large message may delay kernels beside it by less than its time, so that there is something to hide.
bool mayHide(const CostModel &model);

/// What a program takes whose collectives run beside kernels.
struct BesideCost {
  Cost predicted = 0, exposed = 0; // the whole; of it what no kernel hides
  int64_t messages = 0;            // that run beside kernels
  static BesideCost of(const Overlap &overlap);
};

/// The most bytes that live at once, without values that are kept. `sent`: of MessageFlow(looped.flow, how.messages).
int64_t peakBytes(const graph::DataFlow &sent, const SentProgram &how);

/// What each of the members pays of their message: parts by their bytes, which add up to its time.
std::vector<Cost> shareMessage(const CostModel &model, llvm::ArrayRef<const graph::Sender *> members);

} // namespace tessera::strategies

#endif
