//===- Socket.h - TCP sockets ------------------------------------------------------------------===//
//
// All sockets are nonblocking, without Nagle's delay, closed on exec. Addresses are names or numbers, IPv4 or
// IPv6.
//
//   Result<Socket> listener = listenOn("10.0.0.1", 29500);
//   Result<Socket> socket = startConnecting("10.0.0.1", 29500);   // poll for POLLOUT, then connectError
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_SOCKET_H
#define TESSERA_RUNTIME_COMM_TCP_SOCKET_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

class Socket {
public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

private:
  int fd_;
};

/// Listens on this address only. Of several addresses that a name stands for, it takes the first that works. Port 0
/// takes any free port.
Result<Socket> listenOn(const std::string &address, uint16_t port);
/// Takes over a socket that listens already.
Result<Socket> adoptListener(int fd);
/// Begins to connect to the first address that a name stands for; later attempts take the others in turn.
Result<Socket> startConnecting(const std::string &address, uint16_t port, int attempt = 0);
/// The addresses that a name stands for; none if the name is unknown.
std::vector<std::string> numericAddresses(const std::string &address);
/// 0, or the errno with which connecting failed. An end that is connected with itself counts as failed.
int connectError(const Socket &socket);
/// Accepts a waiting connection and tells the address that it comes from. Returns an empty socket if there is none;
/// errno says why.
Socket acceptOne(const Socket &listener, std::string &address);

/// Addresses in numbers, without the port.
std::string localAddress(const Socket &socket);
std::string peerAddress(const Socket &socket);
uint16_t localPort(const Socket &socket);
/// "10.0.0.1:29500", "[::1]:29500".
std::string endpointText(const std::string &address, uint16_t port);

/// Transfers all bytes, waiting until `deadline` on the clock of monotonicSeconds().
Status sendAll(const Socket &socket, const void *data, size_t bytes, double deadline);
Status receiveAll(const Socket &socket, void *data, size_t bytes, double deadline);

double monotonicSeconds();
/// The time-out for poll: milliseconds until `deadline`, at least 0 and at most `most`.
int millisecondsUntil(double deadline, int most = 1000);

} // namespace tessera::rt

#endif
