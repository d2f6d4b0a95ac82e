#include "runtime/comm/tcp/Socket.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tessera::rt {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<Addresses> resolve(const std::string &address, uint16_t port, int flags) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  if (int code = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found))
    return Status::error(address + ": " + gai_strerror(code));
  return Addresses(found, freeaddrinfo);
}

Status systemError(const std::string &what) { return Status::error(what + ": " + std::strerror(errno)); }

Socket socketFor(const addrinfo &info) {
  return Socket(::socket(info.ai_family, info.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void prepare(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

/// Where nobody listens on a port of this machine, the system may give that very port to the end
/// that connects. TCP then connects the end with itself (RFC 9293, 3.5, simultaneous open).
bool isOwnPeer(int fd) {
  sockaddr_storage own = {}, peer = {};
  socklen_t ownLength = sizeof own, peerLength = sizeof peer;
  return getsockname(fd, reinterpret_cast<sockaddr *>(&own), &ownLength) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &peerLength) == 0 && ownLength == peerLength &&
         std::memcmp(&own, &peer, ownLength) == 0;
}

std::string addressText(const sockaddr_storage &address, socklen_t length) {
  char host[NI_MAXHOST] = "";
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), length, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "";
  return host;
}

} // namespace

Socket::~Socket() {
  if (fd_ >= 0)
    close(fd_);
}

Result<Socket> listenOn(const std::string &address, uint16_t port) {
  Result<Addresses> addresses = resolve(address, port, 0);
  if (!addresses)
    return addresses.status().context("cannot listen");
  // A name may have addresses of a family that this machine lacks, so the first one that works is
  // taken.
  Status failure;
  for (const addrinfo *one = addresses->get(); one; one = one->ai_next) {
    Socket socket = socketFor(*one);
    const int yes = 1;
    // With this option a run can take the port of a run that has just ended.
    if (socket && setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(socket.fd(), one->ai_addr, one->ai_addrlen) == 0 && listen(socket.fd(), 4096) == 0)
      return socket;
    if (failure.ok())
      failure = systemError("cannot listen on " + endpointText(address, port));
  }
  return failure;
}

Result<Socket> adoptListener(int fd) {
  Socket socket(fd);
  int listening = 0;
  socklen_t length = sizeof listening;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || !listening ||
      fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return Status::error("descriptor " + std::to_string(fd) + " is no listening socket");
  return socket;
}

Result<Socket> startConnecting(const std::string &address, uint16_t port, int attempt) {
  Result<Addresses> addresses = resolve(address, port, 0);
  if (!addresses)
    return addresses.status();
  std::vector<const addrinfo *> all;
  for (const addrinfo *one = addresses->get(); one; one = one->ai_next)
    all.push_back(one);
  const addrinfo &to = *all[size_t(attempt) % all.size()];
  Socket socket = socketFor(to);
  if (!socket)
    return systemError("socket");
  prepare(socket.fd());
  if (connect(socket.fd(), to.ai_addr, to.ai_addrlen) != 0 && errno != EINPROGRESS)
    return Status::error(std::strerror(errno));
  return socket;
}

std::vector<std::string> numericAddresses(const std::string &address) {
  std::vector<std::string> texts;
  Result<Addresses> addresses = resolve(address, 0, 0);
  for (const addrinfo *one = addresses ? addresses->get() : nullptr; one; one = one->ai_next) {
    char host[NI_MAXHOST] = "";
    if (getnameinfo(one->ai_addr, one->ai_addrlen, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
      texts.push_back(host);
  }
  return texts;
}

int connectError(const Socket &socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0)
    return errno;
  if (error == 0 && isOwnPeer(socket.fd())) {
    // The socket is reset when it is closed, so that its port is free at once for the rank that
    // should listen there.
    const linger none = {1, 0};
    setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return ECONNREFUSED;
  }
  return error;
}

Socket acceptOne(const Socket &listener, std::string &address) {
  sockaddr_storage from = {};
  socklen_t length = sizeof from;
  Socket socket(accept4(listener.fd(), reinterpret_cast<sockaddr *>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket)
    return socket;
  prepare(socket.fd());
  address = addressText(from, length);
  return socket;
}

std::string localAddress(const Socket &socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr *>(&address), &length) != 0)
    return "";
  return addressText(address, length);
}

std::string peerAddress(const Socket &socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getpeername(socket.fd(), reinterpret_cast<sockaddr *>(&address), &length) != 0)
    return "";
  return addressText(address, length);
}

uint16_t localPort(const Socket &socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr *>(&address), &length) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

std::string endpointText(const std::string &address, uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

Status sendAll(const Socket &socket, const void *data, size_t bytes, double deadline) {
  const char *at = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket.fd(), at, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent, bytes -= size_t(sent);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR)
      return Status::error(std::strerror(errno));
    if (monotonicSeconds() > deadline)
      return Status::error("the other end did not read in time");
    pollfd entry = {socket.fd(), POLLOUT, 0};
    poll(&entry, 1, millisecondsUntil(deadline));
  }
  return Status();
}

Status receiveAll(const Socket &socket, void *data, size_t bytes, double deadline) {
  char *at = static_cast<char *>(data);
  while (bytes > 0) {
    const ssize_t got = recv(socket.fd(), at, bytes, 0);
    if (got > 0) {
      at += got, bytes -= size_t(got);
      continue;
    }
    if (got == 0)
      return Status::error("the connection was closed");
    if (errno != EAGAIN && errno != EINTR)
      return Status::error(std::strerror(errno));
    if (monotonicSeconds() > deadline)
      return Status::error("no answer in time");
    pollfd entry = {socket.fd(), POLLIN, 0};
    poll(&entry, 1, millisecondsUntil(deadline));
  }
  return Status();
}

double monotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int millisecondsUntil(double deadline, int most) {
  const double left = std::ceil((deadline - monotonicSeconds()) * 1e3);
  return int(std::clamp(left, 0.0, double(most)));
}

} // namespace tessera::rt
