#include "runtime/comm/tcp/TcpMessages.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace tessera::rt {
namespace {

struct Header {
  uint32_t magic = 0x54535341, number = 0;
  uint64_t bytes = 0;
};

/// A message that is not complete. `*open` counts such messages of its round.
struct Operation {
  char *data;
  size_t bytes;
  size_t *open;
};

/// One direction of a connection. Its messages follow one another.
struct Direction {
  std::deque<Operation> queue;
  Header header;    // of the first message
  size_t moved = 0; // bytes of the first message that were moved, its header included
  uint32_t number = 0;

  void post(Operation operation) {
    ++*operation.open;
    queue.push_back(operation);
  }
  /// The rest of the first message as pieces of memory; returns their number.
  int pieces(iovec *parts) {
    const Operation &first = queue.front();
    int count = 0;
    if (moved < sizeof header)
      parts[count++] = {reinterpret_cast<char *>(&header) + moved, sizeof header - moved};
    const size_t done = moved > sizeof header ? moved - sizeof header : 0;
    parts[count++] = {first.data + done, first.bytes - done};
    return count;
  }
  bool advance(size_t bytes) {
    moved += bytes;
    if (moved < sizeof header + queue.front().bytes)
      return false;
    --*queue.front().open;
    queue.pop_front();
    moved = 0;
    ++number;
    return true;
  }
};

struct Lane {
  Socket socket;
  Direction out, in;
};

class TcpGroup : public MessageGroup {
public:
  TcpGroup(std::shared_ptr<Watch> watch, std::vector<TcpPeer> peers, std::vector<Socket> sockets, int me)
      : watch_(std::move(watch)), peers_(std::move(peers)), lanes_(peers_.size()), me_(me) {
    for (size_t i = 0; i < sockets.size(); ++i)
      lanes_[i].socket = std::move(sockets[i]);
  }

  int rank() const override { return me_; }
  int size() const override { return int(lanes_.size()); }
  std::unique_ptr<MessageRound> round(int tag) override;

  Status allGather(const void *in, void *out, size_t bytes) override {
    const std::unique_ptr<MessageRound> exchange = round(0);
    char *to = static_cast<char *>(out);
    for (int step = 1; step < size(); ++step) {
      const int from = (me_ + size() - step) % size();
      TESSERA_RETURN_IF_ERROR(exchange->receive(from, to + size_t(from) * bytes, bytes));
    }
    for (int step = 1; step < size(); ++step)
      TESSERA_RETURN_IF_ERROR(exchange->send((me_ + step) % size(), in, bytes));
    std::memcpy(to + size_t(me_) * bytes, in, bytes);
    return exchange->wait();
  }

  Status broadcast(void *data, size_t bytes, int root) override {
    const std::unique_ptr<MessageRound> exchange = round(0);
    if (me_ != root)
      TESSERA_RETURN_IF_ERROR(exchange->receive(root, data, bytes));
    for (int step = 1; me_ == root && step < size(); ++step)
      TESSERA_RETURN_IF_ERROR(exchange->send((me_ + step) % size(), data, bytes));
    return exchange->wait();
  }

  Status postSend(int peer, const void *data, size_t bytes, size_t &open) {
    TESSERA_RETURN_IF_ERROR(failed_);
    // Once the world has stopped, nothing is sent: a member that does not know it yet would take it for a call.
    if (watch_->stopped())
      return fail(watch_->reason());
    Direction &out = lanes_[size_t(peer)].out;
    out.post({static_cast<char *>(const_cast<void *>(data)), bytes, &open});
    bool moved = false;
    return out.queue.size() == 1 ? push(size_t(peer), moved) : Status();
  }
  void postReceive(int peer, void *data, size_t bytes, size_t &open) {
    lanes_[size_t(peer)].in.post({static_cast<char *>(data), bytes, &open});
  }

  /// Moves data in all directions until this round is complete.
  Status complete(const size_t &open) {
    while (failed_.ok()) {
      if (watch_->stopped())
        return fail(watch_->reason());
      bool moved = false;
      for (size_t i = 0; i < lanes_.size(); ++i) {
        if (!lanes_[i].out.queue.empty())
          TESSERA_RETURN_IF_ERROR(push(i, moved));
        if (!lanes_[i].in.queue.empty())
          TESSERA_RETURN_IF_ERROR(pull(i, moved));
      }
      if (open == 0)
        return Status();
      if (!moved)
        sleep();
    }
    return failed_;
  }

private:
  /// After an error nothing is moved any more, since rounds end while their messages are still under way.
  Status fail(const std::string &reason) { return failed_ = Status::error("stopped: " + reason); }

  Status push(size_t peer, bool &moved) {
    Lane &lane = lanes_[peer];
    while (!lane.out.queue.empty()) {
      if (lane.out.moved == 0)
        lane.out.header = {Header().magic, lane.out.number, lane.out.queue.front().bytes};
      iovec parts[2];
      msghdr message = {};
      message.msg_iov = parts;
      message.msg_iovlen = size_t(lane.out.pieces(parts));
      const ssize_t sent = sendmsg(lane.socket.fd(), &message, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR)
        continue;
      if (sent < 0 && errno == EAGAIN)
        return Status();
      if (sent < 0)
        return broken(peer, errno);
      moved = true;
      lane.out.advance(size_t(sent));
    }
    return Status();
  }

  Status pull(size_t peer, bool &moved) {
    Lane &lane = lanes_[peer];
    Direction &in = lane.in;
    while (!in.queue.empty()) {
      iovec parts[2];
      msghdr message = {};
      message.msg_iov = parts;
      message.msg_iovlen = size_t(in.pieces(parts));
      const ssize_t got = recvmsg(lane.socket.fd(), &message, 0);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0 && errno == EAGAIN)
        return Status();
      if (got <= 0)
        return broken(peer, got == 0 ? 0 : errno);
      moved = true;
      // No more than the expected bytes are read: a header that says otherwise is caught before its message
      // counts as complete.
      if (in.moved + size_t(got) >= sizeof(Header) &&
          (in.header.magic != Header().magic || in.header.number != in.number ||
           in.header.bytes != in.queue.front().bytes)) {
        watch_->abort(peerText(peers_[peer]) + " sent another message than was agreed on (" +
                      std::to_string(in.header.bytes) + " bytes, expected " + std::to_string(in.queue.front().bytes) +
                      ")");
        return fail(watch_->reason());
      }
      in.advance(size_t(got));
    }
    return Status();
  }

  Status broken(size_t peer, int error) {
    const std::string how = error == 0 ? "was closed" : std::string("broke: ") + std::strerror(error);
    return Status::error("stopped: " + watch_->reasonFor(peers_[peer], "has died: its connection " + how));
  }

  void sleep() {
    polled_.assign(1, {watch_->wakeFd(), POLLIN, 0});
    for (const Lane &lane : lanes_) {
      const int events = (lane.in.queue.empty() ? 0 : POLLIN) | (lane.out.queue.empty() ? 0 : POLLOUT);
      if (events)
        polled_.push_back({lane.socket.fd(), static_cast<short>(events), 0});
    }
    poll(polled_.data(), polled_.size(), -1);
  }

  const std::shared_ptr<Watch> watch_;
  const std::vector<TcpPeer> peers_;
  std::vector<Lane> lanes_;
  const int me_;
  Status failed_;
  std::vector<pollfd> polled_;
};

class TcpRound : public MessageRound {
public:
  explicit TcpRound(TcpGroup &group) : group_(group) {}
  // Neither end transfers empty messages.
  Status send(int peer, const void *data, size_t bytes) override {
    return bytes == 0 ? Status() : group_.postSend(peer, data, bytes, open_);
  }
  Status receive(int peer, void *data, size_t bytes) override {
    if (bytes > 0)
      group_.postReceive(peer, data, bytes, open_);
    return Status();
  }
  Status wait() override { return group_.complete(open_); }

private:
  TcpGroup &group_;
  size_t open_ = 0; // messages of this round that are not complete
};

std::unique_ptr<MessageRound> TcpGroup::round(int) { return std::make_unique<TcpRound>(*this); }

} // namespace

std::unique_ptr<MessageGroup> createTcpGroup(std::shared_ptr<Watch> watch, std::vector<TcpPeer> peers,
                                             std::vector<Socket> sockets, int me) {
  return std::make_unique<TcpGroup>(std::move(watch), std::move(peers), std::move(sockets), me);
}

} // namespace tessera::rt
