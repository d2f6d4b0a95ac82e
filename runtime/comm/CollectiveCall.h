//===- CollectiveCall.h - what a rank asks of its group --------------------------------------===//
//
// The signature of one collective call. Members compare signatures before they touch data. If a rank calls something
// else, or the same with another count or dtype, all members return an error instead of hanging or computing garbage:
//
//   "collective mismatch: rank 0 calls allReduce of 16 F32 (SUM),
//    rank 2 calls allGather of 1 x 4 F32"
//
// A Call is plain data, which transports between processes send as bytes.
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
  int32_t tree = 0;      // 1: sums are a tree (Reduce.h)
  // allGather, reduceScatter of another number of tensors than one: `outer` is 1, `inner` counts the elements of all.
  uint32_t tensors = 1;
  int32_t run = 1;     // of members whose sums are added (Reduce.h); calls that reduce nothing have 1
  uint64_t shapes = 0; // a hash of what the tensors' outer and inner are

  bool operator==(const Call &) const = default;
};

/// A gather or scatter of tensors.
Call callOf(CallKind kind, std::span<const Rows> tensors, plan::DType dtype, Reducer reducer = plan::NONE);

std::string describeCall(const Call &call);
const char *callName(CallKind kind);

/// Fills `call` and returns an error if this rank's arguments are bad. `call.invalid` is then set. The call must still
/// be shown to the other members, since they would wait for it otherwise.
Status checkCall(Call &call, int members);
Status checkTransfers(Call &call, int members, const std::vector<Transfer> &sends,
                      const std::vector<Transfer> &receives);

/// Checks that all members made the same, valid call. Every member computes the same answer. `ranks` are the world
/// ranks of the members, for the message.
Status checkAgreement(std::span<const Call *const> calls, std::span<const int> ranks);

} // namespace tessera::rt

#endif
