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

/// Listens on this address alone, of several that a name stands for on the first that can be had. Port 0: any that is
/// free.
Result<Socket> listenOn(const std::string &address, uint16_t port);
/// Takes over a socket that listens already.
Result<Socket> adoptListener(int fd);
/// To the first of the addresses that a name stands for; later attempts take the others in turn.
Result<Socket> startConnecting(const std::string &address, uint16_t port, int attempt = 0);
/// What a name stands for; nothing where it is not known.
std::vector<std::string> numericAddresses(const std::string &address);
/// 0, or the errno with which connecting failed; an end that is connected with itself has failed.
int connectError(const Socket &socket);
/// A connection that waits, and from which address it is; or an empty socket, and errno says why.
Socket acceptOne(const Socket &listener, std::string &address);

/// Numeric, without the port.
std::string localAddress(const Socket &socket);
std::string peerAddress(const Socket &socket);
uint16_t localPort(const Socket &socket);
/// "10.0.0.1:29500", "[::1]:29500".
std::string endpointText(const std::string &address, uint16_t port);

/// All of it, waiting until `deadline` on the clock of monotonicSeconds().
Status sendAll(const Socket &socket, const void *data, size_t bytes, double deadline);
Status receiveAll(const Socket &socket, void *data, size_t bytes, double deadline);

double monotonicSeconds();
/// For poll: milliseconds until `deadline`, at least 0, at most `most`.
int millisecondsUntil(double deadline, int most = 1000);

} // namespace tessera::rt

#endif
