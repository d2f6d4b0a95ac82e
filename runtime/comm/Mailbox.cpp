#include "runtime/comm/Mailbox.h"

#include <cstring>

namespace tessera::rt {

void Mailbox::put(int from, uint32_t channel, std::vector<std::byte> message) {
  {
    std::lock_guard lock(mutex_);
    messages_[{from, channel}].push_back(std::move(message));
  }
  changed_.notify_all();
}

Status Mailbox::take(int from, uint32_t channel, void *data, size_t bytes, const std::function<std::string()> &closed) {
  std::vector<std::byte> message;
  {
    std::unique_lock lock(mutex_);
    std::deque<std::vector<std::byte>> &queue = messages_[{from, channel}];
    changed_.wait(lock, [&] { return !reason_.empty() || !queue.empty() || closed_.contains(from); });
    if (!reason_.empty())
      return Status::error("receiving stopped: " + reason_);
    if (queue.empty()) {
      lock.unlock();
      return Status::error("receiving stopped: " + closed());
    }
    message = std::move(queue.front());
    queue.pop_front();
  }
  TESSERA_RETURN_IF_ERROR(checkMessageSize(from, channel, message.size(), bytes));
  if (bytes > 0)
    std::memcpy(data, message.data(), bytes);
  return Status();
}

void Mailbox::close(int from) {
  {
    std::lock_guard lock(mutex_);
    closed_.insert(from);
  }
  changed_.notify_all();
}

void Mailbox::fail(const std::string &reason) {
  {
    std::lock_guard lock(mutex_);
    if (reason_.empty())
      reason_ = reason;
  }
  changed_.notify_all();
}

Status checkMessageSize(int from, uint32_t channel, size_t sent, size_t expected) {
  if (sent == expected)
    return Status();
  return Status::error("rank " + std::to_string(from) + " sent " + std::to_string(sent) + " bytes on channel " +
                       std::to_string(channel) + ", where " + std::to_string(expected) + " are expected");
}

} // namespace tessera::rt
