//===- Handshake.h - two ranks meet on a connection ----------------------------------------------===//
//
// Both ends send who they are (Hello, with a random challenge), then the proof that they know the shared
// secret: HMAC-SHA256 over their role, their own Hello and the other's. Without a secret the key is empty; one
// end with and one without do not meet. The end that accepts says nothing before it has a whole Hello, and its own
// Hello then names neither host nor plan nor address: whoever connects may be a stranger. Nothing is allocated on a
// stranger's word: all messages have fixed sizes. The machine never blocks, so that a stranger who says nothing stops
// nobody else.
//
//   Handshake handshake(std::move(socket), Handshake::Connecting, hello, secret, deadline);
//   while (handshake.running()) {
//     ... poll handshake.fd() for handshake.events(), until its deadline ...
//     handshake.advance();
//   }
//   if (handshake.status()) use(handshake.theirs(), handshake.takeSocket());
//
// What follows on the connection is neither encrypted nor signed.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_HANDSHAKE_H
#define TESSERA_RUNTIME_COMM_TCP_HANDSHAKE_H

#include "runtime/comm/tcp/Socket.h"
#include "runtime/support/Sha256.h"

#include <vector>

namespace tessera::rt {

/// Who an end is, in the form in which it is sent: plain data without gaps.
struct Hello {
  char magic[8] = {'T', 'e', 's', 's', 'e', 'r', 'a', '\n'};
  uint32_t version = 1, byteOrder = 0x01020304;
  uint32_t ranks = 0, rank = 0;
  uint32_t group = 0;       // the group that meets; kRendezvous: the world itself
  uint32_t port = 0;        // the port on which this rank listens
  char address[64] = {};    // and its address
  char host[64] = {};       // its machine's name, for messages
  char plan[64] = {};       // plan_id; these four are empty where the end accepts
  uint8_t session[16] = {}; // chosen by rank 0, so that connections of another job do not match
  uint8_t challenge[32] = {};

  static constexpr uint32_t kRendezvous = UINT32_MAX;
};
static_assert(sizeof(Hello) == 272);

/// Writes text to a field of fixed size, cut where it does not fit; and reads it back in printable form (Printable.h).
void setField(char *field, size_t size, const std::string &text);
std::string fieldText(const char *field, size_t size);
void fillRandom(void *bytes, size_t count);

class Handshake {
public:
  enum Role : uint8_t { Connecting = 'c', Accepting = 'a' };
  Handshake(Socket socket, Role role, const Hello &mine, const std::string &secret, double deadline);

  bool running() const { return running_; }
  /// Whether the other end has sent its Hello. It is not proven yet.
  bool heard() const { return heard_; }
  int fd() const { return socket_.fd(); }
  short events() const;
  double deadline() const { return deadline_; }
  void advance();
  /// The outcome once the handshake runs no more. `refused` means that nobody listened there (yet).
  const Status &status() const { return status_; }
  bool refused() const { return refused_; }
  const Hello &theirs() const { return theirs_; }
  Socket takeSocket() { return std::move(socket_); }

private:
  void fail(const std::string &why);
  /// Sends as much as the socket takes; false where that failed.
  bool flush();
  Digest proof(Role role, const Hello &own, const Hello &other) const;

  Socket socket_;
  const Role role_;
  Hello mine_, theirs_;
  const std::string secret_;
  const double deadline_;
  bool running_ = true, connected_, refused_ = false, heard_ = false;
  Status status_;
  std::string out_;
  size_t received_ = 0;
  Digest theirProof_{};
};

} // namespace tessera::rt

#endif
