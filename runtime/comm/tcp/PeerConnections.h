//===- PeerConnections.h - connections between all members of a group ---------------------------===//
//
// Of two members the one with the higher world rank connects, the other accepts. Strangers on the listener are
// turned away and stop nobody.
//
//   Result<std::vector<Socket>> sockets = connectPeers(listener, peers, hello, secret, deadline);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_PEERCONNECTIONS_H
#define TESSERA_RUNTIME_COMM_TCP_PEERCONNECTIONS_H

#include "runtime/comm/tcp/Handshake.h"

#include <functional>
#include <memory>
#include <poll.h>

namespace tessera::rt {

struct TcpPeer {
  int rank = 0; // in the world
  std::string host, address;
  uint16_t port = 0;
};

/// "rank 3 (on host b)".
std::string peerText(const TcpPeer &peer);
/// "ranks 2, 3 (on host b) and 5".
std::string peersText(const std::vector<const TcpPeer *> &peers);

/// A connection whose handshake failed.
struct Stranger {
  std::string address;
  Status status;
  bool heard = false; // it has sent its Hello
};

/// Accepts connections and takes them through their handshakes, up to `most` and some strangers at once. A connection
/// must send a whole Hello within kHelloSeconds. Where there is no room for a new one, the oldest is closed that has
/// sent no Hello. So silent connections, however many, delay nobody. A rank whose connection is closed connects again.
class Acceptor {
public:
  static constexpr double kHelloSeconds = 2, kHandshakeSeconds = 10;

  Acceptor(const Socket &listener, const Hello &hello, const std::string &secret, double deadline, size_t most)
      : listener_(listener), hello_(hello), secret_(secret), deadline_(deadline), most_(most) {}

  /// Adds the descriptors to wait for.
  void addTo(std::vector<pollfd> &polled) const;
  /// Continues all handshakes. Calls `met` with the Hello and the connection of every end that proved to know the
  /// secret.
  void advance(const std::function<void(const Hello &, Socket)> &met,
               const std::function<void(const Stranger &)> &rejected);

private:
  struct Guest {
    std::unique_ptr<Handshake> handshake; // null: the handshake is over
    std::string address;
    double helloBy;
  };
  void accept();
  /// Closes the oldest connection without a Hello, or the oldest of all.
  void makeRoom();

  const Socket &listener_;
  const Hello hello_;
  const std::string secret_;
  const double deadline_;
  const size_t most_;
  std::vector<Guest> guests_; // in the order in which they came
  std::vector<Stranger> removed_;
};

/// The connections in the order of `peers`, with an empty socket for this rank. `hello` names the group and this rank.
/// `stopped` may end the wait early by returning a reason.
Result<std::vector<Socket>> connectPeers(const Socket &listener, const std::vector<TcpPeer> &peers, const Hello &hello,
                                         const std::string &secret, double deadline,
                                         const std::function<std::string()> &stopped);

} // namespace tessera::rt

#endif
