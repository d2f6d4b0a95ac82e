//===- MessageMembers.h - collectives that may share a message, in time ------------------------------===//
//
// A message waits for the last of its members, and holds up what needs any of them. So of every collective that may be
// a member it is known when it is ready and what comes behind it, if kernels run one after the other.
//
//   std::vector<const Sender *> members = membersOf(flow, senders);    // of all kinds
//   const MessageFlow sent(flow, {});                                  // with the messages that are chosen already
//   MemberTimes times(sent, membersOfOneKind, rule.times);
//   for (const std::vector<Member> &layer : times.layers()) ...        // none of a layer depends on another one
//
// This header is private to the choice of messages.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_MESSAGEMEMBERS_H
#define TESSERA_DIALECTS_GRAPH_FLOW_MESSAGEMEMBERS_H

#include "dialects/graph/flow/Messages.h"

namespace tessera::graph {

/// The senders that may be members. Of those that lie side by side, operands and results have memory of their own,
/// which can be placed freely. What another sender makes is no operand of theirs, since it could not lie beside its
/// neighbours of both messages.
std::vector<const Sender *> membersOf(const DataFlow &flow, llvm::ArrayRef<Sender> senders);

/// Whether two collectives could be one, but for what depends on what.
bool alike(const Sender &a, const Sender &b);

/// A collective that may be a member, on the time line of kernels that run one after the other.
struct Member {
  const Sender *sender;
  int64_t bytes;
  double ready;      // when the kernels before it are done; of a list, those that it needs
  double behind = 0; // what kernels that depend on it take
  int depth = 0;     // the most members of its kind that must be sent one after the other behind it
  double alone = 0;  // the time of a message of its own
};

/// The collectives of one kind in the order of execution.
class MemberTimes {
public:
  MemberTimes(const MessageFlow &flow, llvm::ArrayRef<const Sender *> senders, llvm::ArrayRef<int64_t> times)
      : flow_(flow), times_(times) {
    arrange(senders);
  }

  /// Members of equal depth, none of which depends on another one. Whatever is joined in each of them, nothing waits
  /// for itself, since what a member depends on has a larger depth.
  std::vector<std::vector<Member>> layers() const;
  /// What all kernels take.
  double total() const { return total_; }

private:
  void arrange(llvm::ArrayRef<const Sender *> senders);
  void findBehind(llvm::ArrayRef<int> order, llvm::ArrayRef<int> memberOf, llvm::ArrayRef<int> places);
  double timeOf(int merged) const;

  const MessageFlow &flow_;
  llvm::ArrayRef<int64_t> times_;
  std::vector<Member> members_;
  double total_ = 0;
};

} // namespace tessera::graph

#endif
