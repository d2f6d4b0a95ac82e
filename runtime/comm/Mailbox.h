//===- Mailbox.h - messages that wait for their receiver ------------------------------------------===//
//
// What was sent to one rank and not received yet, in order by sender and channel. Transports put messages in from any
// thread; the rank's thread takes them out.
//
//   box.put(2, 7, std::move(bytes));                                  // from rank 2 on channel 7
//   box.take(2, 7, data, size, [] { return "rank 2 has left"; });     // waits for it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_MAILBOX_H
#define TESSERA_RUNTIME_COMM_MAILBOX_H

#include "runtime/support/Status.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class Mailbox {
public:
  void put(int from, uint32_t channel, std::vector<std::byte> message);
  /// Waits for the next message from this rank on this channel, which must have this size. An error if the world has
  /// stopped, or the sender is closed and nothing of it is left; then `closed` says why.
  Status take(int from, uint32_t channel, void *data, size_t bytes, const std::function<std::string()> &closed);
  /// Nothing more comes from this rank.
  void close(int from);
  /// The world has stopped for this reason: whoever waits gets an error, now and later.
  void fail(const std::string &reason);

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, uint32_t>, std::deque<std::vector<std::byte>>> messages_; // by sender and channel
  std::set<int> closed_;
  std::string reason_;
};

/// An error unless a message has the size that its receiver expects.
Status checkMessageSize(int from, uint32_t channel, size_t sent, size_t expected);

} // namespace tessera::rt

#endif
