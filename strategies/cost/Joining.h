//===- Joining.h - which collectives the compiler joins, by the cost model ------------------------===//
//
// What graph::chooseMessages needs: the times of kernels and messages, and the memory that is left. The report and the
// pass dist-join-collectives both ask here, so that what is priced is what is emitted.
//
//   JoinOptions options = cantFail(parseJoin("auto"));
//   std::vector<std::vector<int>> messages = chooseMessages(model, looped, costs, senders, options, persistent);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_JOINING_H
#define TESSERA_STRATEGIES_COST_JOINING_H

#include "dialects/graph/Fusion.h"
#include "dialects/graph/Messages.h"
#include "strategies/cost/CostModel.h"

namespace tessera::strategies {

struct JoinOptions {
  int64_t most = 0;   // bytes of a joined message; 0: every collective is sent alone
  bool timed = true;  // join only what makes the step no later; else whatever fits in a message
  int64_t memory = 0; // bytes of a rank; 0: as many as it takes
  bool operator==(const JoinOptions &) const = default;
};

/// "auto", "off", or the bytes of a message at most, such as "25MiB".
llvm::Expected<JoinOptions> parseJoin(llvm::StringRef text);

/// The messages of a program, by step of `looped`. `costs`: of the kernels, by step of the program from which `looped`
/// is made. `persistent`: bytes of parameters and states.
std::vector<std::vector<int>> chooseMessages(const CostModel &model, const graph::LoopedFlow &looped,
                                             llvm::ArrayRef<Cost> costs, llvm::ArrayRef<graph::Sender> senders,
                                             const JoinOptions &options, int64_t persistent);

/// What each of the members pays of their message: parts by their bytes, which add up to its time.
std::vector<Cost> shareMessage(const CostModel &model, llvm::ArrayRef<const graph::Sender *> members);

} // namespace tessera::strategies

#endif
