//===- Messages.h - point-to-point messages between the members of a group -----------------------===//
//
// A transport between processes implements this interface; MessageCommunicator makes the collectives of it. A round
// collects nonblocking sends and receives and completes them together; rounds with different tags may be under way at
// once.
//
//   std::unique_ptr<MessageRound> round = group.round(1);
//   TESSERA_RETURN_IF_ERROR(round->receive(from, buffer, bytes));
//   TESSERA_RETURN_IF_ERROR(round->send(to, data, bytes));
//   TESSERA_RETURN_IF_ERROR(round->wait());
//
// Messages between two members match in the order in which they are posted. Both ends post those of all tags in one
// order, so a transport may ignore tags. The caller leaves buffers alone until wait() returns, and does not use the
// group again after an error.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MESSAGES_H
#define TESSERA_RUNTIME_COMM_MESSAGES_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <memory>

namespace tessera::rt {

class MessageRound {
public:
  virtual ~MessageRound() = default;
  /// `peer` is another member: its index in the group.
  virtual Status send(int peer, const void *data, size_t bytes) = 0;
  virtual Status receive(int peer, void *data, size_t bytes) = 0;
  /// Completes all messages that were posted since the last wait.
  virtual Status wait() = 0;
};

/// Calls `receive(peer)` and then `send(peer)` for all others of `n` members. Each member begins with its neighbour, so
/// that the messages are spread over all.
template <typename Receive, typename Send> Status withOthers(int self, int n, Receive receive, Send send) {
  for (int step = 1; step < n; ++step)
    TESSERA_RETURN_IF_ERROR(receive((self + n - step) % n));
  for (int step = 1; step < n; ++step)
    TESSERA_RETURN_IF_ERROR(send((self + step) % n));
  return Status();
}

class MessageGroup {
public:
  virtual ~MessageGroup() = default;
  virtual int rank() const = 0; // this rank's index in the group
  virtual int size() const = 0;
  virtual std::unique_ptr<MessageRound> round(int tag) = 0;
  /// Gathers short records of equal size: member m's `in` goes to `out + m * bytes` of all members.
  virtual Status allGather(const void *in, void *out, size_t bytes) = 0;
  virtual Status broadcast(void *data, size_t bytes, int root) = 0;
};

} // namespace tessera::rt

#endif
