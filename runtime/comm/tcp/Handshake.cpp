#include "runtime/comm/tcp/Handshake.h"

#include "runtime/support/Printable.h"

#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

namespace tessera::rt {

void setField(char *field, size_t size, const std::string &text) {
  std::memset(field, 0, size);
  text.copy(field, size - 1);
}

std::string fieldText(const char *field, size_t size) {
  return printable(std::string_view(field, strnlen(field, size)));
}

void fillRandom(void *bytes, size_t count) {
  auto *at = static_cast<char *>(bytes);
  while (count > 0) {
    const ssize_t got = getrandom(at, count, 0);
    if (got > 0)
      at += got, count -= size_t(got);
  }
}

Handshake::Handshake(Socket socket, Role role, const Hello &mine, const std::string &secret, double deadline)
    : socket_(std::move(socket)), role_(role), mine_(mine), secret_(secret), deadline_(deadline),
      connected_(role == Accepting) {
  fillRandom(mine_.challenge, sizeof mine_.challenge);
  if (role == Accepting) {
    mine_.port = 0;
    for (auto *field : {&mine_.address, &mine_.host, &mine_.plan})
      std::memset(*field, 0, sizeof *field);
    return; // the end that connects speaks first
  }
  out_.assign(reinterpret_cast<const char *>(&mine_), sizeof mine_);
}

short Handshake::events() const {
  if (!connected_)
    return POLLOUT;
  return static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT));
}

void Handshake::fail(const std::string &why) {
  running_ = false;
  status_ = Status::error(why);
}

Digest Handshake::proof(Role role, const Hello &own, const Hello &other) const {
  std::string text(1, char(role));
  text.append(reinterpret_cast<const char *>(&own), sizeof own);
  text.append(reinterpret_cast<const char *>(&other), sizeof other);
  return hmacSha256(secret_, text);
}

bool Handshake::flush() {
  while (connected_ && !out_.empty()) {
    const ssize_t sent = send(socket_.fd(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent > 0)
      out_.erase(0, size_t(sent));
    else if (errno == EAGAIN)
      break;
    else if (errno != EINTR) {
      fail(std::strerror(errno));
      return false;
    }
  }
  return true;
}

void Handshake::advance() {
  if (!running_)
    return;
  if (!connected_) {
    pollfd entry = {socket_.fd(), POLLOUT, 0};
    if (poll(&entry, 1, 0) > 0) {
      if (int error = connectError(socket_)) {
        refused_ = true;
        return fail(std::strerror(error));
      }
      connected_ = true;
    }
  }
  if (!flush())
    return;
  // Receives the other end's Hello, then its proof.
  while (connected_ && received_ < sizeof(Hello) + sizeof(Digest)) {
    const bool hello = received_ < sizeof(Hello);
    const size_t end = hello ? sizeof(Hello) : sizeof(Hello) + sizeof(Digest);
    char *into = hello ? reinterpret_cast<char *>(&theirs_) + received_
                       : reinterpret_cast<char *>(theirProof_.data()) + received_ - sizeof(Hello);
    const ssize_t got = recv(socket_.fd(), into, end - received_, 0);
    if (got == 0) // also where the other end has no room for it now: each sends its proof before it judges the other's
      return fail("the connection was closed");
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN)
      break;
    if (got < 0)
      return fail(std::strerror(errno));
    received_ += size_t(got);
    if (received_ != sizeof(Hello))
      continue;
    const Hello pattern;
    // The other end is told who this rank is, even if this end refuses it.
    if (role_ == Accepting && std::memcmp(theirs_.magic, pattern.magic, sizeof pattern.magic) == 0) {
      out_.assign(reinterpret_cast<const char *>(&mine_), sizeof mine_);
      if (!flush())
        return;
    }
    if (std::memcmp(theirs_.magic, pattern.magic, sizeof pattern.magic) != 0)
      return fail("the other end is no rank of Tessera");
    heard_ = true;
    if (theirs_.byteOrder != pattern.byteOrder)
      return fail("the other end is a machine of another byte order");
    if (theirs_.version != pattern.version)
      return fail("the other end is another version of Tessera (protocol " + std::to_string(theirs_.version) +
                  ", here " + std::to_string(pattern.version) + ")");
    const Digest own = proof(role_, mine_, theirs_);
    out_.append(reinterpret_cast<const char *>(own.data()), own.size());
    return advance();
  }
  if (received_ == sizeof(Hello) + sizeof(Digest) && out_.empty()) {
    if (!sameDigest(theirProof_, proof(role_ == Accepting ? Connecting : Accepting, theirs_, mine_)))
      return fail("the other end has another secret");
    running_ = false;
    return;
  }
  if (monotonicSeconds() > deadline_)
    fail("no answer in time");
}

} // namespace tessera::rt
