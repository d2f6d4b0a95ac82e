//===- TcpChannels.h - messages between two ranks by TCP --------------------------------------------===//
//
// A thread with a connection to every other rank. It writes what is queued and reads whatever comes into a mailbox. So
// a message is on its way while both ranks compute, and two ranks that send to each other never wait for each other.
//
//   TcpChannels channels(watch, std::move(sockets), me);
//   channels.send(2, 7, data, bytes);          // copies
//   channels.receive(2, 8, data, bytes);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_TCPCHANNELS_H
#define TESSERA_RUNTIME_COMM_TCP_TCPCHANNELS_H

#include "runtime/comm/Mailbox.h"
#include "runtime/comm/tcp/Watch.h"

#include <optional>

namespace tessera::rt {

class TcpChannels {
public:
  /// `sockets` by rank; that of `me` is empty.
  TcpChannels(std::shared_ptr<Watch> watch, std::vector<Socket> sockets, int me);
  /// Returns once everything that was sent is on its way, or the world has stopped.
  ~TcpChannels();

  Status send(int peer, uint32_t channel, const void *data, size_t bytes);
  Status receive(int peer, uint32_t channel, void *data, size_t bytes);

private:
  struct Header {
    uint32_t magic = 0x54534348, channel = 0;
    uint64_t bytes = 0;
  };
  /// A message on its way, and how much of its header and bytes has moved.
  struct Message {
    Header header;
    std::vector<std::byte> bytes;
    size_t moved = 0;
    bool whole() const { return moved == sizeof header + bytes.size(); }
  };
  struct Link {
    Socket socket;
    std::deque<Message> queue; // guarded by mutex_; the members below are the thread's
    std::optional<Message> out;
    Message in;
  };

  void run();
  /// Whether something is left to send.
  bool pending();
  bool nextOut(Link &link);
  void write(size_t peer);
  void read(size_t peer);
  void end(size_t peer);

  const std::shared_ptr<Watch> watch_;
  std::vector<Link> links_;
  Mailbox box_;
  Socket attend_; // an event counter, readable when the thread has something to do
  std::mutex mutex_;
  std::atomic<bool> leaving_ = false;
  std::thread thread_;
};

} // namespace tessera::rt

#endif
