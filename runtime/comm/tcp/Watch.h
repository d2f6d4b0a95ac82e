//===- Watch.h - who is still there ---------------------------------------------------------------===//
//
// A thread with a connection to every other rank. It sends a sign of life every second (or more often, for a
// short timeout) and listens to the others'. The world has stopped for a reason as soon as
//
//   - a connection ends without a farewell: that rank was killed or has crashed,
//   - a rank was not heard of for the timeout: it was stopped, or the network is cut,
//   - a rank aborts, or says that it found one of these.
//
// Only the first reason counts. Before this rank ends, it tells that reason to every rank that it can reach.
//
//   Watch watch(me, peers, std::move(sockets), 10);
//   ... poll watch.wakeFd() beside one's own connections: readable once the world has stopped ...
//   watch.reason();                       // "rank 3 (on b) has died: its connections were closed"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_COMM_TCP_WATCH_H
#define TESSERA_RUNTIME_COMM_TCP_WATCH_H

#include "runtime/comm/tcp/PeerConnections.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tessera::rt {

class Watch {
public:
  /// `sockets` by rank; that of `me` is empty.
  Watch(int me, std::vector<TcpPeer> peers, std::vector<Socket> sockets, double timeout);
  /// Tells the other ranks that this rank leaves, or why it has stopped.
  ~Watch();

  void abort(const std::string &reason);
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }
  std::string reason();
  /// A caller whose own connection with `peer` broke gets the reason here. The reason may take a moment to arrive; if
  /// none does, the reason is that `what` happened to that rank. A rank that has left stops only the groups that it was
  /// in.
  std::string reasonFor(const TcpPeer &peer, const std::string &what);
  int wakeFd() const { return wake_.fd(); }
  const std::vector<TcpPeer> &peers() const { return peers_; }

private:
  struct Link {
    Socket socket;
    double heard = 0;
    std::string in, out;
  };

  void run();
  void read(size_t rank);
  void write(Link &link);
  void take(size_t rank, uint32_t kind, std::string text);
  void tellSilent(double time);
  void stop(const std::string &reason);
  void farewell();

  const int me_;
  const std::vector<TcpPeer> peers_;
  const double timeout_, interval_;
  std::vector<Link> links_;
  Socket wake_;   // an event counter, readable once the world has stopped
  Socket attend_; // an event counter, readable when the thread has something to do
  std::atomic<bool> stopped_ = false, leaving_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string reason_;
  std::vector<bool> left_; // by rank: it has said farewell
  std::thread thread_;
};

} // namespace tessera::rt

#endif
