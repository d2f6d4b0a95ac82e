//===- Messages.h - which collectives share a message --------------------------------------------===//
//
// Collectives of one kind, group, reduction and element type may be sent as one message, which starts up once. A
// message is sent when the last of its members is ready, so joining delays the others. The pass marks the local program
// by this choice, and the report prices the program under the chosen strategies by it.
//
// Members are of one section (Sections.h). All-reduces lie side by side: each element of the result depends on the same
// element of the operands alone, so they are one tensor. Reduce-scatters and all-gathers are a list: a rank's blocks of
// several tensors are no neighbours wherever these lie, so processes pack them for each other rank, which takes a copy;
// ranks that share memory and devices pack nothing.
//
//   MessageRule rule = {.most = kAnySize, .cost = {collective, packing}, .times = times};     // in ns
//   std::vector<std::vector<int>> messages = chooseMessages(flow, senders, rule);      // steps of flow
//   MessageFlow sent(flow, messages);                                        // a message is one step
//
// The choice is made for a time line on which kernels run one after the other, messages run beside them, one at a time,
// and each waits for what it reads. A message that ends late holds up all kernels that need it, so it has a time by
// which it must have ended. Members of one kind that must be sent one after the other are of different layers; in each
// layer messages are runs of members in the order of execution. Of the choices under which the step ends earliest, the
// one with the fewest messages is proposed. What is proposed for all layers and kinds together is tried on the time
// line, and what would make the step end later is left out, unless ranks stand still in every message. For them joining
// is never slower, since a message never takes more time than its members would take one after the other.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_FLOW_MESSAGES_H
#define TESSERA_DIALECTS_GRAPH_FLOW_MESSAGES_H

#include "dialects/dist/Reshard.h"
#include "dialects/graph/flow/DataFlow.h"

#include <limits>

namespace tessera::graph {

struct LoopedFlow;

/// The attribute of a dist.collective that is a member of a message: a number, equal for all members of one message of
/// a function.
inline constexpr llvm::StringLiteral kMessageAttr = "dist.message";
/// The attribute of a dist.collective that runs beside kernels (plan.proto, Resource).
inline constexpr llvm::StringLiteral kBesideAttr = "dist.beside";

/// The time that one run of a local operator is predicted to take: i64, ns. A loop has that of its members, a member of
/// a message its part. Operators that take no time have none. On a stage's function: when each of its calls begins.
inline constexpr llvm::StringLiteral kPredictedAttr = "graph.predicted_ns";

/// How the collectives of a local function are sent, and what its operators take.
struct SentCollectives {
  std::vector<std::vector<mlir::Operation *>> messages; // those of two members and more
  std::vector<mlir::Operation *> beside;                // run beside kernels
  std::vector<std::vector<mlir::Operation *>> turns;    // which operators come first, second, ...; empty: see Order.h
  std::vector<std::pair<mlir::Operation *, int64_t>> times = {}; // kPredictedAttr, of operators that take any
};

/// A collective as a step of a program.
struct Sender {
  int step;
  dist::Collective collective;
  mlir::Type element;
};

inline constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();

/// What may share a message, and where its members lie.
enum class Membership {
  None,       // it is sent alone
  SideBySide, // operands one behind the other, and results at the same distances
  List,       // anywhere
};
Membership membershipOf(dist::CollectiveKind kind);
/// The same of one collective: a sum with a wire is sent alone.
inline Membership membershipOf(const dist::Collective &collective) {
  return collective.wire ? Membership::None : membershipOf(collective.kind);
}

/// What messages take.
struct MessageCost {
  dist::CollectiveCost collective; // ns, of one that is sent alone, or of as many bytes
  double packing = 0;              // ns for each byte of the whole tensors in a list
};

struct MessageRule {
  int64_t most = 0; // bytes of a message that is joined, of whole tensors; 0: nothing is joined
  MessageCost cost;
  llvm::ArrayRef<int64_t> times; // of every step in ns, 0 for collectives; empty: members wait as long as `most` allows
  int64_t room = kAnySize;       // bytes that may live at once, without values that are kept
  bool inLine = false;           // ranks stand still in every message, so that none makes another one later
};

/// Lists of steps, two or more each, in the order of execution. No member depends on another one. Where more than
/// `room` would live at once, messages are smaller (MessageMemory.h).
std::vector<std::vector<int>> chooseMessages(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                             const MessageRule &rule);

/// Messages in place of others, lists of one included.
struct MessageMove {
  std::vector<std::vector<int>> from, to;
};
/// What could be sent otherwise, by one message or two of one kind: one is cut in two, hands its first or last member
/// to the one before or behind it, is joined with it, or hands any member to any other. What is to be tried first comes
/// first, and no more than `most` are returned. Messages may wait for each other after it (MessageFlow::circular).
std::vector<MessageMove> messageMoves(const DataFlow &flow, llvm::ArrayRef<Sender> senders,
                                      llvm::ArrayRef<std::vector<int>> messages,
                                      size_t most = std::numeric_limits<size_t>::max());
/// `messages` after a move.
std::vector<std::vector<int>> moved(std::vector<std::vector<int>> messages, const MessageMove &move);

/// The bytes of the largest message; 0: there is none.
int64_t largestMessage(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages);

/// The bytes of the whole tensor, which a rank has before a scatter and after a gather.
int64_t wholeBytes(const Sender &sender);
/// The time in ns of a joined message of so many bytes that is otherwise like `one`.
double messageCost(const Sender &one, int64_t bytes, const MessageCost &cost);
/// The time of one message in ns. Requires members that may share one.
double messageCost(llvm::ArrayRef<const Sender *> members, const MessageCost &cost);
/// The bytes that are packed for it: those of the whole tensors in a list of two or more.
int64_t packedBytes(llvm::ArrayRef<const Sender *> members);

/// The collectives of a function. `stepOf`: the step of every operator; -1 for those that have none.
std::vector<Sender> sendersOf(const FunctionFlow &program, llvm::ArrayRef<int> stepOf, const dist::Mesh &mesh);
/// Messages of steps of `looped`, which is made of the program, as operators.
std::vector<std::vector<mlir::Operation *>> operatorsOf(const FunctionFlow &program, const LoopedFlow &looped,
                                                        llvm::ArrayRef<std::vector<int>> messages);
/// The collectives of a local function that `rule`, which has no times, joins.
std::vector<std::vector<mlir::Operation *>> joinedCollectives(mlir::func::FuncOp func, const dist::Mesh &mesh,
                                                              const MessageRule &rule);
/// The members of the messages that a function is marked with (kMessageAttr), by step of its flow.
std::vector<std::vector<int>> markedMessages(const FunctionFlow &program);

/// A program in which every message is one step, in dependence order.
struct MessageFlow {
  MessageFlow(const DataFlow &flow, llvm::ArrayRef<std::vector<int>> messages);

  DataFlow flow;                         // has the values of the program
  std::vector<std::vector<int>> members; // for each step of `flow` the steps of the program in it
  bool circular = false;                 // some messages wait for each other, and both others are empty
};

} // namespace tessera::graph

#endif
