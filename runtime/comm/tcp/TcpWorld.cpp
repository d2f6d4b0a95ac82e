#include "runtime/comm/tcp/TcpWorld.h"

#include "runtime/comm/Groups.h"
#include "runtime/comm/MessageCommunicator.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/comm/tcp/TcpChannels.h"
#include "runtime/comm/tcp/TcpMessages.h"

#include <algorithm>
#include <sys/resource.h>

namespace tessera::rt {
namespace {

// Every mesh of connections in a world has a number. Those of groups follow these two.
constexpr uint32_t kWatchMesh = 0, kWorldMesh = 1, kFirstGroup = 2;

class TcpWorld : public World {
public:
  TcpWorld(Meeting meeting, const TcpOptions &options)
      : meeting_(std::move(meeting)), secret_(options.secret), timeout_(options.rendezvousTimeout) {}

  Status open(double peerTimeout) {
    auto none = [] { return std::string(); };
    Result<std::vector<Socket>> sockets = connect(kWatchMesh, meeting_.peers, none);
    if (!sockets)
      return sockets.status();
    watch_ = std::make_shared<Watch>(rank(), meeting_.peers, std::move(*sockets), peerTimeout);
    sockets = connect(kWorldMesh, meeting_.peers, [&] { return watch_->reason(); });
    if (!sockets)
      return sockets.status();
    everyone_ = createTcpGroup(watch_, meeting_.peers, std::move(*sockets), rank());
    return Status();
  }

  int rank() const override { return int(meeting_.hello.rank); }
  int size() const override { return int(meeting_.hello.ranks); }

  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) override {
    // A list is sent as its length and its ranks. There is room for one rank more than a right list
    // can have, so that a list which is too long shows a rank that it names twice.
    const auto n = size_t(size());
    std::vector<int> mine(n + 2, -1), all((n + 2) * n);
    mine[0] = int(std::min(ranks.size(), n + 1));
    std::copy_n(ranks.begin(), mine[0], mine.begin() + 1);
    TESSERA_RETURN_IF_ERROR(everyone_->allGather(mine.data(), all.data(), mine.size() * sizeof(int)));
    std::vector<std::vector<int>> lists(n);
    for (size_t r = 0; r < n; ++r) {
      const int *entry = all.data() + r * (n + 2);
      lists[r].assign(entry + 1, entry + 1 + std::clamp(entry[0], 0, size() + 1));
    }
    TESSERA_RETURN_IF_ERROR(checkGroups(lists));
    TESSERA_RETURN_IF_ERROR(checkRun(ranks.size(), run));
    std::vector<TcpPeer> peers;
    for (int member : ranks)
      peers.push_back(meeting_.peers[size_t(member)]);
    Result<std::vector<Socket>> sockets = connect(nextGroup_++, peers, [&] { return watch_->reason(); });
    if (!sockets)
      return sockets.status();
    const auto me = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
    return std::unique_ptr<Communicator>(std::make_unique<MessageCommunicator>(
        createTcpGroup(watch_, std::move(peers), std::move(*sockets), int(me)), ranks, run));
  }

  Status openChannels() override {
    if (channels_)
      return Status();
    Result<std::vector<Socket>> sockets = connect(nextGroup_++, meeting_.peers, [&] { return watch_->reason(); });
    if (!sockets)
      return sockets.status();
    channels_ = std::make_unique<TcpChannels>(watch_, std::move(*sockets), rank());
    return Status();
  }
  Status send(int peer, uint32_t channel, const void *data, size_t bytes) override {
    return channels_->send(peer, channel, data, bytes);
  }
  Status receive(int peer, uint32_t channel, void *data, size_t bytes) override {
    return channels_->receive(peer, channel, data, bytes);
  }

  void abort(const std::string &reason) override { watch_->abort(reason); }
  std::string aborted() override { return watch_->reason(); }

private:
  Result<std::vector<Socket>> connect(uint32_t group, const std::vector<TcpPeer> &peers,
                                      const std::function<std::string()> &stopped) {
    Hello hello = meeting_.hello;
    hello.group = group;
    return connectPeers(meeting_.listener, peers, hello, secret_, monotonicSeconds() + timeout_, stopped);
  }

  Meeting meeting_;
  const std::string secret_;
  const double timeout_;
  std::shared_ptr<Watch> watch_; // communicators may outlive the world
  std::unique_ptr<MessageGroup> everyone_;
  std::unique_ptr<TcpChannels> channels_; // null: not opened
  uint32_t nextGroup_ = kFirstGroup;
};

/// Every group has a connection to each other member, which together may be more than the usual
/// limit of 1024 files.
void raiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

} // namespace

Result<std::unique_ptr<World>> createTcpWorld(const TcpOptions &options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks)
    return Status::error("there is no rank " + std::to_string(options.rank) + " of " + std::to_string(options.ranks));
  raiseFileLimit();
  Result<Meeting> meeting = meet(options);
  if (!meeting)
    return meeting.status();
  auto world = std::make_unique<TcpWorld>(std::move(*meeting), options);
  TESSERA_RETURN_IF_ERROR(world->open(options.peerTimeout));
  return std::unique_ptr<World>(std::move(world));
}

} // namespace tessera::rt
