//===- CheckStages.h - what the stages of a pipeline send each other ---------------------------===//
//
// Internal to the checker. Runs the sends, receives and collectives of all ranks against each other in time: sends
// never wait, receives wait for their message, collectives for all members. What a rank does next depends on nothing
// but its own list, so one such run stands for every timing: if it ends, no run hangs.
//
//   rank 2: step 7 'h.receive' of program 'train' receives from rank 0 on channel 3: 4 times in a run, where that rank
//   sends 3 times
//   the ranks wait for each other for ever: rank 0: step 9 'g.receive' ... receives from rank 1 on channel 4; ...
//
// Ranks of one stage mostly do the same with the same places of other stages. Then one rank of each stage stands for
// all. Otherwise, and where stages have meshes of their own, all ranks are run. Both take time in proportion to the
// messages of these ranks.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_CHECKSTAGES_H
#define TESSERA_RUNTIME_PLAN_CHECKSTAGES_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/Status.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class StageMessages {
public:
  /// The plans of all ranks in order. Each passed checkPlan, and those of a stage have the same steps.
  void add(const plan::Plan &plan);
  /// `groups` by rank.
  Status finish(const std::vector<std::vector<plan::Group>> &groups) const;

private:
  friend class StageRun;
  using Contents = std::pair<std::vector<int64_t>, plan::DType>; // shape and type

  enum class Kind { Send, Receive, Meet };
  struct Event {
    Kind kind = Kind::Meet;
    uint32_t step = 0;
    uint32_t number = 0; // the channel; of a collective the group
    std::string name;
  };
  /// The events of a program, the same on all ranks of a stage.
  struct Flow {
    std::string program;
    TimeOrder order;
    std::vector<std::vector<Event>> sections;
  };
  /// One message of a send or a receive on one rank.
  struct End {
    uint32_t peer = 0, contents = 0;
    bool operator==(const End &) const = default;
  };
  /// By program, section, event: the messages of a rank. Mostly there is one.
  using Ends = std::vector<std::vector<std::vector<std::vector<End>>>>;

  void addFlows(const plan::Plan &plan);
  Ends endsOf(const plan::Plan &plan);
  uint32_t numberOf(const Contents &contents);

  Stages stages_;
  std::vector<std::vector<Flow>> flows_; // by stage, program
  std::vector<Ends> ends_;               // by rank
  std::map<Contents, uint32_t> numbers_;
  std::vector<const Contents *> contents_; // by number
  bool alike_ = true;                      // every rank of a stage does the same with the same places of other stages
};

} // namespace tessera::rt

#endif
