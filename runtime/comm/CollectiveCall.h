//===- CollectiveCall.h - what a rank asks of its group --------------------------------------===//
//
// The signature of one collective call. Members compare signatures before they touch data, so that
// a rank that calls something else, or the same with another count or dtype, is an error on all
// members rather than a hang or silent garbage:
//
//   "collective mismatch: rank 0 calls allReduce of 16 F32 (SUM),
//    rank 2 calls allGather of 1 x 4 F32"
//
// Plain data: a transport between processes sends it as bytes.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_COLLECTIVECALL_H
#define TESSERA_RUNTIME_COMM_COLLECTIVECALL_H

#include "runtime/comm/Communicator.h"

#include <span>

namespace tessera::rt {

enum class CallKind : int32_t { AllReduce, AllGather, ReduceScatter, Broadcast, Exchange, Barrier };

struct Call {
  CallKind kind = CallKind::Barrier;
  int32_t dtype = 0;     // plan::DType
  int32_t reduction = 0; // plan::Reduction
  int32_t root = 0;      // broadcast
  uint64_t outer = 1;    // allGather, reduceScatter
  uint64_t inner = 0;    // elements per row; the count of allReduce and broadcast
  int32_t invalid = 0;   // 1: this rank's arguments are bad; all members return an error
  int32_t reserved = 0;

  bool operator==(const Call &) const = default;
};

std::string describeCall(const Call &call);
const char *callName(CallKind kind);

/// Fills a Call and says what is wrong with this rank's arguments; then `call.invalid` is set and
/// the call must still be shown to the other members, who would wait otherwise.
Status checkCall(Call &call, int members);
Status checkTransfers(Call &call, int members, const std::vector<Transfer> &sends,
                      const std::vector<Transfer> &receives);

/// All members made the same, valid call. Every member computes the same answer. `ranks` are the
/// world ranks of the members, for the message.
Status checkAgreement(std::span<const Call *const> calls, std::span<const int> ranks);

} // namespace tessera::rt

#endif
