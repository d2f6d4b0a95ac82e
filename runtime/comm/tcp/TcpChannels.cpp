#include "runtime/comm/tcp/TcpChannels.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 46; // as an arena

/// The parts of a message behind its first `moved` bytes; returns their number.
int pieces(void *header, size_t headerBytes, std::vector<std::byte> &bytes, size_t moved, iovec *parts) {
  int count = 0;
  if (moved < headerBytes)
    parts[count++] = {static_cast<std::byte *>(header) + moved, headerBytes - moved};
  const size_t done = moved > headerBytes ? moved - headerBytes : 0;
  if (done < bytes.size())
    parts[count++] = {bytes.data() + done, bytes.size() - done};
  return count;
}

} // namespace

TcpChannels::TcpChannels(std::shared_ptr<Watch> watch, std::vector<Socket> sockets, int me)
    : watch_(std::move(watch)), links_(sockets.size()), attend_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (size_t r = 0; r < sockets.size(); ++r)
    if (r != size_t(me))
      links_[r].socket = std::move(sockets[r]);
  thread_ = std::thread([this] { run(); });
}

TcpChannels::~TcpChannels() {
  leaving_ = true;
  const uint64_t one = 1;
  (void)!::write(attend_.fd(), &one, sizeof one);
  thread_.join();
}

Status TcpChannels::send(int peer, uint32_t channel, const void *data, size_t bytes) {
  if (watch_->stopped())
    return Status::error("sending stopped: " + watch_->reason());
  Message message;
  message.header.channel = channel;
  message.header.bytes = bytes;
  const auto *from = static_cast<const std::byte *>(data);
  message.bytes.assign(from, from + bytes);
  {
    std::lock_guard lock(mutex_);
    links_[size_t(peer)].queue.push_back(std::move(message));
  }
  const uint64_t one = 1;
  (void)!::write(attend_.fd(), &one, sizeof one);
  return Status();
}

Status TcpChannels::receive(int peer, uint32_t channel, void *data, size_t bytes) {
  return box_.take(peer, channel, data, bytes, [&] {
    return watch_->reasonFor(watch_->peers()[size_t(peer)], "has died: its connection was closed");
  });
}

bool TcpChannels::pending() {
  std::lock_guard lock(mutex_);
  for (const Link &link : links_)
    if (link.socket && (link.out || !link.queue.empty()))
      return true;
  return false;
}

/// Makes the next message the one that is written; false if there is none.
bool TcpChannels::nextOut(Link &link) {
  if (link.out)
    return true;
  std::lock_guard lock(mutex_);
  if (link.queue.empty())
    return false;
  link.out = std::move(link.queue.front());
  link.queue.pop_front();
  return true;
}

/// The rank has gone, or its connection broke. The watch knows which; whoever waits for it asks there.
void TcpChannels::end(size_t peer) {
  links_[peer].socket = Socket();
  links_[peer].out.reset();
  box_.close(int(peer));
}

void TcpChannels::write(size_t peer) {
  Link &link = links_[peer];
  while (link.socket && nextOut(link)) {
    iovec parts[2];
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = size_t(pieces(&link.out->header, sizeof(Header), link.out->bytes, link.out->moved, parts));
    const ssize_t sent = sendmsg(link.socket.fd(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN)
      return;
    if (sent < 0)
      return end(peer);
    link.out->moved += size_t(sent);
    if (link.out->whole())
      link.out.reset();
  }
}

void TcpChannels::read(size_t peer) {
  Link &link = links_[peer];
  while (link.socket) {
    Message &in = link.in;
    iovec parts[2];
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = size_t(pieces(&in.header, sizeof(Header), in.bytes, in.moved, parts));
    const ssize_t got = recvmsg(link.socket.fd(), &message, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      return;
    if (got <= 0)
      return end(peer);
    const bool headed = in.moved >= sizeof(Header);
    in.moved += size_t(got);
    if (!headed && in.moved >= sizeof(Header)) {
      if (in.header.magic != Header().magic || in.header.bytes > kMostBytes) {
        watch_->abort(peerText(watch_->peers()[peer]) + " sends what is no message");
        return end(peer);
      }
      in.bytes.resize(in.header.bytes);
    }
    if (in.moved < sizeof(Header) || !in.whole())
      continue;
    box_.put(int(peer), in.header.channel, std::move(in.bytes));
    in = Message();
  }
}

void TcpChannels::run() {
  std::vector<pollfd> polled;
  std::vector<size_t> ranks;
  while (!watch_->stopped() && (!leaving_ || pending())) {
    polled.assign({{attend_.fd(), POLLIN, 0}, {watch_->wakeFd(), POLLIN, 0}});
    ranks.clear();
    for (size_t r = 0; r < links_.size(); ++r)
      if (links_[r].socket) {
        polled.push_back({links_[r].socket.fd(), static_cast<short>(POLLIN | (links_[r].out ? POLLOUT : 0)), 0});
        ranks.push_back(r);
      }
    poll(polled.data(), polled.size(), -1);
    uint64_t count;
    (void)!::read(attend_.fd(), &count, sizeof count);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i + 2].revents)
        read(ranks[i]);
      write(ranks[i]);
    }
  }
  if (watch_->stopped())
    box_.fail(watch_->reason());
}

} // namespace tessera::rt
