//===- Divide.h - what collectives take at least, however they are divided into messages ----------===//
//
// Few messages have few starts, but begin late, and much waits for each of them. So a bound needs both. Over all ways
// to divide a few collectives of one link into messages, and all orders of these, it is the least of
//
//   (1 - slowing) * time + slowing * starts
//
// It holds for any division of all collectives of the link. These few are divided somehow then, too, and every schedule
// keeps these rules:
//   - A link has one message at a time. When a message begins, the one before it has ended. All kernels ahead of its
//     collectives and of those sent before have run, one after the other, none before its own head.
//   - It takes the longest start of its collectives, and what each of them adds.
//   - Until it ends, no kernel has run that waits for its collectives or for those still to be sent. They run behind
//     it, one after the other, each with its tail behind it.
//   - A collective is sent behind those that it waits for.
//
// There may be other collectives that share no message whose start is counted elsewhere, unless one of these few is in
// it. Either one of them has a message without any of these few, whose start counts. Or each of them shares one with
// some of these few: if its head is behind the begin of a message, it is sent with a later one, and kernels that wait
// for it follow. The bound is the lesser of the two.
//
// Dynamic programming over the sets that have been sent finds it. A set has several labels, of which none is better in
// all. Where they are too many, two become one that is no worse than either, so that the result stays a bound.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_OVERLAP_DIVIDE_H
#define TESSERA_STRATEGIES_OVERLAP_DIVIDE_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::strategies {

/// Collectives of a DividedLink, as bits.
using CollectiveSet = uint32_t;

/// Times are in ns.
struct DividedCollective {
  int64_t start = 0;       // of a message with this one alone
  int64_t adds = 0;        // to the time of any message
  int64_t head = 0;        // the earliest begin of a message that has it
  int64_t tail = 0;        // from the end of that message to the end of everything
  bool isCounted = false;  // its own start is counted elsewhere. Two such are in different messages
  int64_t paid = 0;        // of another one: the longest start counted elsewhere of what may share its message
  CollectiveSet waits = 0; // for these
};

inline constexpr size_t kNoOther = std::numeric_limits<size_t>::max();

struct DividedKernel {
  int64_t duration = 0;
  int64_t head = 0;         // its earliest begin
  int64_t tail = 0;         // from its end to the end of everything
  CollectiveSet before = 0; // those that wait for it
  CollectiveSet behind = 0; // those that it waits for
  size_t other = kNoOther;  // the first of the others that it waits for
};

/// Another collective, which shares no message that has a start counted elsewhere but with these few.
struct OtherCollective {
  int64_t start = 0; // as above
  int64_t head = 0;
  int64_t tail = 0;
};

struct DividedLink {
  std::vector<DividedCollective> collectives; // at most kMostDivided
  std::vector<OtherCollective> others;        // the latest head first
  std::vector<DividedKernel> kernels;
  int64_t least = 0;  // what everything takes at least, however it is divided
  double slowing = 0; // from 0 to 1
};

/// The work grows as 3 to the power of their number.
inline constexpr size_t kMostDivided = 8;

/// In ns; starts are those that are not counted elsewhere.
double leastDivided(const DividedLink &link);

} // namespace tessera::strategies

#endif
