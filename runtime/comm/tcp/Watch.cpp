#include "runtime/comm/tcp/Watch.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

struct Header {
  uint32_t kind, bytes;
};
enum Kind : uint32_t { Alive = 1, Leave = 2, Stop = 3 };
constexpr size_t kMostText = 2048;
/// How long a rank that ends waits until the others have received its last message, and how long a rank that finds a
/// broken connection waits for the reason.
constexpr double kFarewellSeconds = 1, kNewsSeconds = 2;

std::string message(Kind kind, const std::string &text = "") {
  const std::string body = text.substr(0, kMostText);
  const Header header = {kind, uint32_t(body.size())};
  return std::string(reinterpret_cast<const char *>(&header), sizeof header) + body;
}

void raise(const Socket &event) {
  const uint64_t one = 1;
  (void)!::write(event.fd(), &one, sizeof one);
}

Socket eventCounter() { return Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

} // namespace

Watch::Watch(int me, std::vector<TcpPeer> peers, std::vector<Socket> sockets, double timeout)
    : me_(me), peers_(std::move(peers)), timeout_(timeout), interval_(std::min(1.0, timeout / 5)),
      links_(peers_.size()), wake_(eventCounter()), attend_(eventCounter()), left_(peers_.size()) {
  for (size_t r = 0; r < links_.size(); ++r) {
    links_[r].socket = std::move(sockets[r]);
    links_[r].heard = monotonicSeconds();
  }
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  leaving_ = true;
  raise(attend_);
  thread_.join();
}

std::string Watch::reason() {
  std::lock_guard lock(mutex_);
  return reason_;
}

void Watch::stop(const std::string &reason) {
  std::lock_guard lock(mutex_);
  if (!reason_.empty())
    return;
  reason_ = reason;
  stopped_.store(true, std::memory_order_release);
  raise(wake_);
  raise(attend_);
  changed_.notify_all();
}

void Watch::abort(const std::string &reason) { stop("rank " + std::to_string(me_) + " aborted: " + reason); }

std::string Watch::reasonFor(const TcpPeer &peer, const std::string &what) {
  const auto rank = size_t(peer.rank);
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(kNewsSeconds),
                      [&] { return !reason_.empty() || left_[rank]; });
    if (reason_.empty() && left_[rank])
      return "rank " + std::to_string(peer.rank) + " has left";
  }
  stop(peerText(peer) + " " + what);
  return reason();
}

void Watch::take(size_t rank, uint32_t kind, std::string text) {
  if (kind == Stop)
    return stop(fieldText(text.data(), text.size()));
  if (kind == Leave) {
    std::lock_guard lock(mutex_);
    left_[rank] = true;
    changed_.notify_all();
  }
}

void Watch::read(size_t rank) {
  Link &link = links_[rank];
  char buffer[4096];
  while (true) {
    const ssize_t got = recv(link.socket.fd(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      break;
    if (got <= 0) {
      const std::string how = got == 0 ? "was closed" : std::string("broke: ") + std::strerror(errno);
      link.socket = Socket();
      if (!left_[rank]) // written by this thread alone
        stop(peerText(peers_[rank]) + " has died: its connection " + how);
      return;
    }
    link.heard = monotonicSeconds();
    link.in.append(buffer, size_t(got));
    while (link.in.size() >= sizeof(Header)) {
      Header header;
      std::memcpy(&header, link.in.data(), sizeof header);
      if (header.kind < Alive || header.kind > Stop || header.bytes > kMostText) {
        stop(peerText(peers_[rank]) + " sends what is no message");
        link.socket = Socket();
        return;
      }
      if (link.in.size() < sizeof header + header.bytes)
        break;
      take(rank, header.kind, link.in.substr(sizeof header, header.bytes));
      link.in.erase(0, sizeof header + header.bytes);
    }
  }
}

void Watch::write(Link &link) {
  while (link.socket && !link.out.empty()) {
    const ssize_t sent = send(link.socket.fd(), link.out.data(), link.out.size(), MSG_NOSIGNAL);
    if (sent > 0)
      link.out.erase(0, size_t(sent));
    else if (errno != EINTR)
      break; // no room or broken; the next read tells which
  }
}

void Watch::tellSilent(double time) {
  std::vector<const TcpPeer *> silent;
  bool late = false;
  for (size_t r = 0; r < links_.size(); ++r) {
    if (!links_[r].socket)
      continue;
    late |= time - links_[r].heard > timeout_;
    // A cut network silences several ranks, whose last signs of life came one after another. So ranks that are nearly
    // late are named with the one that is.
    if (time - links_[r].heard > timeout_ - 2 * interval_)
      silent.push_back(&peers_[r]);
  }
  if (!late)
    return;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g s", timeout_);
  stop(peersText(silent) + " gave no sign of life for " + seconds +
       (silent.size() == 1 ? ": it was stopped, or" : ": they were stopped, or") +
       " the network to it is cut (seen by rank " + std::to_string(me_) + ")");
}

void Watch::run() {
  double last = monotonicSeconds(), nextSign = last;
  bool told = false;
  while (!leaving_) {
    std::vector<pollfd> polled = {{attend_.fd(), POLLIN, 0}};
    std::vector<size_t> ranks;
    for (size_t r = 0; r < links_.size(); ++r)
      if (links_[r].socket) {
        polled.push_back(
            {links_[r].socket.fd(), static_cast<short>(POLLIN | (links_[r].out.empty() ? 0 : POLLOUT)), 0});
        ranks.push_back(r);
      }
    poll(polled.data(), polled.size(), millisecondsUntil(nextSign));
    uint64_t count;
    (void)!::read(attend_.fd(), &count, sizeof count);
    const double time = monotonicSeconds();
    // If this process was suspended itself, as when the whole job is, it could not receive. Then others are not silent.
    if (time - last > 2 * interval_ + 1)
      for (Link &link : links_)
        link.heard = std::max(link.heard, time - interval_);
    last = time;
    for (size_t i = 0; i < ranks.size(); ++i)
      if (polled[i + 1].revents)
        read(ranks[i]);
    if (!stopped())
      tellSilent(time);
    if (stopped() && !told) {
      told = true;
      for (Link &link : links_)
        link.out += message(Stop, reason());
    } else if (time >= nextSign) {
      nextSign = time + interval_;
      for (Link &link : links_)
        if (link.out.empty()) // a rank that does not read its connection gets no further signs
          link.out = message(Alive);
    }
    for (Link &link : links_)
      write(link);
  }
  if (!told)
    for (Link &link : links_)
      link.out += stopped() ? message(Stop, reason()) : message(Leave);
  farewell();
}

/// A connection that is closed before all of its input is read is reset, and a reset may overtake the last message. So
/// this waits until the others have closed their ends, but only for a moment.
void Watch::farewell() {
  const double deadline = monotonicSeconds() + kFarewellSeconds;
  for (Link &link : links_) {
    write(link);
    if (link.socket)
      shutdown(link.socket.fd(), SHUT_WR);
  }
  while (monotonicSeconds() < deadline) {
    std::vector<pollfd> polled;
    for (Link &link : links_) {
      char buffer[4096];
      ssize_t got = 1;
      while (link.socket && got > 0)
        got = recv(link.socket.fd(), buffer, sizeof buffer, 0);
      if (link.socket && (got == 0 || (errno != EAGAIN && errno != EINTR)))
        link.socket = Socket();
      if (link.socket)
        polled.push_back({link.socket.fd(), POLLIN, 0});
    }
    if (polled.empty())
      return;
    poll(polled.data(), polled.size(), millisecondsUntil(deadline));
  }
}

} // namespace tessera::rt
