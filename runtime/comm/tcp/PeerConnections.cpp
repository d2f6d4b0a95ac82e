#include "runtime/comm/tcp/PeerConnections.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tessera::rt {
namespace {

/// How many unknown connections are kept at once, beside those that are expected.
constexpr size_t kStrangers = 64;
constexpr double kRetrySeconds = 0.01;

struct Outgoing {
  size_t peer;
  std::unique_ptr<Handshake> handshake; // null: between two attempts
  double retryAt = 0;
  std::string error;
};

} // namespace

std::string peerText(const TcpPeer &peer) {
  return "rank " + std::to_string(peer.rank) + (peer.host.empty() ? "" : " (on " + peer.host + ")");
}

std::string peersText(const std::vector<const TcpPeer *> &peers) {
  std::string text;
  for (size_t i = 0; i < peers.size(); ++i)
    text += (i == 0 ? "" : i + 1 == peers.size() ? " and " : ", ") + peerText(*peers[i]);
  return text;
}

void Acceptor::addTo(std::vector<pollfd> &polled) const {
  polled.push_back({listener_.fd(), POLLIN, 0});
  for (const Guest &guest : guests_)
    polled.push_back({guest.handshake->fd(), guest.handshake->events(), 0});
}

void Acceptor::makeRoom() {
  auto oldest = std::find_if(guests_.begin(), guests_.end(), [](const Guest &g) { return !g.handshake->heard(); });
  if (oldest == guests_.end())
    oldest = guests_.begin();
  removed_.push_back({oldest->address, Status::error("no answer in time"), oldest->handshake->heard()});
  guests_.erase(oldest);
}

void Acceptor::accept() {
  const size_t room = most_ + kStrangers;
  // The loop is bounded, so that accepted connections make progress even if many new ones come.
  for (size_t i = 0; i < room; ++i) {
    std::string address;
    Socket socket = acceptOne(listener_, address);
    if (!socket && (errno == EMFILE || errno == ENFILE) && !guests_.empty()) {
      makeRoom();
      continue;
    }
    if (!socket)
      return;
    const double time = monotonicSeconds();
    auto handshake = std::make_unique<Handshake>(std::move(socket), Handshake::Accepting, hello_, secret_,
                                                 std::min(deadline_, time + kHandshakeSeconds));
    handshake->advance(); // an end that has sent its Hello already does not count as silent
    if (guests_.size() >= room)
      makeRoom();
    guests_.push_back({std::move(handshake), std::move(address), time + kHelloSeconds});
  }
}

void Acceptor::advance(const std::function<void(const Hello &, Socket)> &met,
                       const std::function<void(const Stranger &)> &rejected) {
  accept();
  const double time = monotonicSeconds();
  for (Guest &guest : guests_) {
    guest.handshake->advance();
    const bool late = guest.handshake->running() && !guest.handshake->heard() && time > guest.helloBy;
    if (guest.handshake->running() && !late)
      continue;
    const std::unique_ptr<Handshake> done = std::move(guest.handshake);
    if (late)
      removed_.push_back({guest.address, Status::error("no answer in time"), false});
    else if (done->status())
      met(done->theirs(), done->takeSocket());
    else
      removed_.push_back({guest.address, done->status(), done->heard()});
  }
  std::erase_if(guests_, [](const Guest &guest) { return !guest.handshake; });
  for (const Stranger &stranger : std::exchange(removed_, {}))
    rejected(stranger);
}

Result<std::vector<Socket>> connectPeers(const Socket &listener, const std::vector<TcpPeer> &peers, const Hello &hello,
                                         const std::string &secret, double deadline,
                                         const std::function<std::string()> &stopped) {
  std::vector<Socket> sockets(peers.size());
  const int me = int(hello.rank);
  std::vector<Outgoing> outgoing;
  size_t missing = 0;
  for (size_t i = 0; i < peers.size(); ++i) {
    missing += peers[i].rank != me;
    if (peers[i].rank < me)
      outgoing.push_back({i, nullptr, 0, ""});
  }
  Acceptor acceptor(listener, hello, secret, deadline, peers.size());
  // Both ends notice when one of them is still at another group, or belongs to another job. The connection is then
  // retried.
  auto sameGroup = [&](const Hello &theirs) {
    return theirs.group == hello.group && theirs.ranks == hello.ranks &&
           std::memcmp(theirs.session, hello.session, sizeof hello.session) == 0;
  };
  auto take = [&](const Hello &theirs, Socket socket) {
    if (!sameGroup(theirs))
      return;
    for (size_t i = 0; i < peers.size(); ++i)
      if (peers[i].rank == int(theirs.rank) && peers[i].rank > me && !sockets[i]) {
        sockets[i] = std::move(socket);
        --missing;
        return;
      }
  };
  while (missing > 0) {
    if (std::string reason = stopped(); !reason.empty())
      return Status::error(reason);
    const double time = monotonicSeconds();
    if (time > deadline) {
      std::vector<const TcpPeer *> absent;
      std::string why;
      for (size_t i = 0; i < peers.size(); ++i)
        if (peers[i].rank != me && !sockets[i])
          absent.push_back(&peers[i]);
      for (const Outgoing &o : outgoing)
        if (why.empty() && !sockets[o.peer])
          why = o.error;
      return Status::error("no connection in time with " + peersText(absent) + (why.empty() ? "" : ": " + why));
    }
    std::vector<pollfd> polled;
    acceptor.addTo(polled);
    double wake = std::min(deadline, time + 0.2);
    for (Outgoing &o : outgoing) {
      if (sockets[o.peer])
        continue;
      if (!o.handshake && time >= o.retryAt) {
        const TcpPeer &peer = peers[o.peer];
        Result<Socket> socket = startConnecting(peer.address, peer.port);
        if (!socket)
          o.error = socket.status().message(), o.retryAt = time + kRetrySeconds;
        else
          o.handshake = std::make_unique<Handshake>(std::move(*socket), Handshake::Connecting, hello, secret, deadline);
      }
      if (o.handshake)
        polled.push_back({o.handshake->fd(), o.handshake->events(), 0});
      else
        wake = std::min(wake, o.retryAt);
    }
    poll(polled.data(), polled.size(), millisecondsUntil(wake));
    acceptor.advance(take, [](const Stranger &) {});
    for (Outgoing &o : outgoing) {
      if (!o.handshake)
        continue;
      o.handshake->advance();
      if (o.handshake->running())
        continue;
      const std::unique_ptr<Handshake> done = std::move(o.handshake);
      if (done->status() && sameGroup(done->theirs()) && int(done->theirs().rank) == peers[o.peer].rank) {
        sockets[o.peer] = done->takeSocket();
        --missing;
        continue;
      }
      o.error = done->status() ? "it is not ready" : done->status().message();
      o.retryAt = monotonicSeconds() + kRetrySeconds;
    }
  }
  return sockets;
}

} // namespace tessera::rt
