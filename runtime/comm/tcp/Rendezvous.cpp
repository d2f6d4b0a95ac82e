#include "runtime/comm/tcp/Rendezvous.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <poll.h>
#include <thread>
#include <unistd.h>

namespace tessera::rt {
namespace {

/// The head of rank 0's answer. The table of ranks or an error message follows it.
struct Answer {
  uint32_t failed = 0, bytes = 0;
  uint8_t session[16] = {};
};
struct TableEntry {
  char address[64] = {}, host[64] = {};
  uint32_t port = 0, reserved = 0;
};
constexpr uint32_t kMostText = 4096;
/// After one rank turned out unfit to take part, the others have so long to report whether they
/// can.
constexpr double kGraceSeconds = 3;
constexpr size_t kMostRejections = 5;
constexpr double kAnswerSeconds = 5;

std::string hostName() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Hello helloOf(const TcpOptions &options) {
  Hello hello;
  hello.ranks = uint32_t(options.ranks);
  hello.rank = uint32_t(options.rank);
  hello.group = Hello::kRendezvous;
  setField(hello.host, sizeof hello.host, hostName());
  setField(hello.plan, sizeof hello.plan, options.plan);
  return hello;
}

std::string secondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

/// Collects on rank 0 the ranks that have arrived.
class Gathering {
public:
  Gathering(const TcpOptions &options, const Hello &mine)
      : options_(options), mine_(mine), peers_(options.ranks), sockets_(options.ranks) {
    peers_[0] = {0, fieldText(mine.host, sizeof mine.host), options.address, options.port};
  }

  void met(const Hello &theirs, Socket socket) {
    const TcpPeer peer = {int(std::min<uint32_t>(theirs.rank, INT32_MAX)), fieldText(theirs.host, sizeof theirs.host),
                          fieldText(theirs.address, sizeof theirs.address), uint16_t(theirs.port)};
    auto object = [&](const std::string &what) {
      objections_.push_back(peerText(peer) + " " + what);
      refused_.push_back(std::move(socket));
    };
    const std::string plan = fieldText(theirs.plan, sizeof theirs.plan);
    if (theirs.group != Hello::kRendezvous)
      return; // it belongs to another job
    if (theirs.ranks != mine_.ranks)
      return object("counts " + std::to_string(theirs.ranks) + " ranks, rank 0 counts " + std::to_string(mine_.ranks));
    if (theirs.rank == 0 || theirs.rank >= mine_.ranks)
      return object(theirs.rank == 0 ? "claims to be rank 0 as well" : "is none of " + std::to_string(mine_.ranks));
    if (sockets_[theirs.rank])
      return object("is there twice, also on " + peers_[theirs.rank].host);
    if (theirs.port == 0 || theirs.port > UINT16_MAX)
      return object("names no port");
    if (plan != options_.plan)
      object("has the plan " + (plan.empty() ? "(none)" : plan) + ", rank 0 has " + options_.plan +
             ": all ranks need the same plan directory");
    else
      sockets_[theirs.rank] = std::move(socket);
    here_ += peers_[theirs.rank].port == 0;
    peers_[theirs.rank] = peer;
  }

  void rejected(const Stranger &stranger) {
    // Port scanners and the like are only counted: they would crowd real ranks out of the message.
    if (!stranger.heard)
      ++silent_;
    else if (const std::string text = stranger.address + ": " + stranger.status.message();
             rejections_.size() < kMostRejections &&
             std::find(rejections_.begin(), rejections_.end(), text) == rejections_.end())
      rejections_.push_back(text);
  }

  bool complete() const { return here_ == options_.ranks - 1; }
  bool objected() const { return !objections_.empty(); }

  /// Sends all ranks the table, or the reason why there is none.
  Status finish(Meeting &meeting) {
    Status status;
    if (objected())
      status = Status::error(join(objections_, "; "));
    else if (!complete())
      status = missing();
    fillRandom(meeting.hello.session, sizeof meeting.hello.session);
    Answer answer;
    std::memcpy(answer.session, meeting.hello.session, sizeof answer.session);
    std::string body = status.message().substr(0, kMostText);
    if (status)
      for (const TcpPeer &peer : peers_) {
        TableEntry entry;
        setField(entry.address, sizeof entry.address, peer.address);
        setField(entry.host, sizeof entry.host, peer.host);
        entry.port = peer.port;
        body.append(reinterpret_cast<const char *>(&entry), sizeof entry);
      }
    answer.failed = !status.ok();
    answer.bytes = uint32_t(body.size());
    body.insert(0, reinterpret_cast<const char *>(&answer), sizeof answer);
    const double deadline = monotonicSeconds() + kAnswerSeconds;
    for (std::vector<Socket> *list : {&sockets_, &refused_})
      for (const Socket &socket : *list)
        if (socket) // if a rank died meanwhile, its watch notices it
          (void)sendAll(socket, body.data(), body.size(), deadline).ok();
    if (!status) {
      // Gives the ranks time to read the error before this process ends.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return status;
    }
    meeting.peers = peers_;
    return Status();
  }

private:
  static std::string join(const std::vector<std::string> &parts, const char *between) {
    std::string text;
    for (const std::string &part : parts)
      text += (text.empty() ? "" : between) + part;
    return text;
  }

  Status missing() const {
    std::vector<std::string> absent;
    for (int r = 1; r < options_.ranks; ++r)
      if (peers_[r].port == 0)
        absent.push_back(std::to_string(r));
    std::vector<std::string> away = rejections_;
    if (silent_ > 0)
      away.push_back(silent_ == 1 ? "a connection that did not say who it was"
                                  : std::to_string(silent_) + " connections that did not say who they were");
    return Status::error((absent.size() == 1 ? "rank " : "ranks ") + join(absent, ", ") + " of " +
                         std::to_string(options_.ranks) + (absent.size() == 1 ? " is" : " are") + " missing after " +
                         secondsText(options_.rendezvousTimeout) +
                         (away.empty() ? "" : " (turned away: " + join(away, "; ") + ")"));
  }

  const TcpOptions &options_;
  const Hello &mine_;
  std::vector<TcpPeer> peers_;
  std::vector<Socket> sockets_, refused_;
  std::vector<std::string> objections_, rejections_;
  int here_ = 0, silent_ = 0;
};

Result<Meeting> lead(const TcpOptions &options) {
  Meeting meeting;
  Result<Socket> listener =
      options.listener >= 0 ? adoptListener(options.listener) : listenOn(options.address, options.port);
  if (!listener)
    return listener.status();
  meeting.listener = std::move(*listener);
  meeting.hello = helloOf(options);
  Gathering gathering(options, meeting.hello);
  double deadline = monotonicSeconds() + options.rendezvousTimeout;
  Acceptor acceptor(meeting.listener, meeting.hello, options.secret, deadline, size_t(options.ranks));
  bool objected = false;
  while (!gathering.complete() && monotonicSeconds() < deadline) {
    std::vector<pollfd> polled;
    acceptor.addTo(polled);
    poll(polled.data(), polled.size(), millisecondsUntil(deadline, 200));
    acceptor.advance([&](const Hello &theirs, Socket socket) { gathering.met(theirs, std::move(socket)); },
                     [&](const Stranger &stranger) { gathering.rejected(stranger); });
    if (gathering.objected() && !std::exchange(objected, true))
      deadline = std::min(deadline, monotonicSeconds() + kGraceSeconds);
  }
  TESSERA_RETURN_IF_ERROR(gathering.finish(meeting));
  return meeting;
}

/// Connects to rank 0, again and again until it listens, and takes part in the rendezvous.
Result<Meeting> follow(const TcpOptions &options) {
  Meeting meeting;
  meeting.hello = helloOf(options);
  const double deadline = monotonicSeconds() + options.rendezvousTimeout;
  std::string error;
  Socket connection;
  for (int attempt = 0;; ++attempt) {
    if (monotonicSeconds() > deadline)
      return Status::error("rank 0 could not be reached in " + secondsText(options.rendezvousTimeout) +
                           (error.empty() ? "" : ": " + error));
    Result<Socket> socket = startConnecting(options.address, options.port, attempt);
    error = socket.status().message();
    if (socket) {
      pollfd entry = {socket->fd(), POLLOUT, 0};
      int ready = 0;
      const double patience = std::min(deadline, monotonicSeconds() + kAnswerSeconds);
      while (ready <= 0 && monotonicSeconds() < patience)
        ready = poll(&entry, 1, millisecondsUntil(patience));
      const int code = ready > 0 ? connectError(*socket) : ETIMEDOUT;
      if (code == 0) {
        // The other ranks reach this rank on this address, unless the options give another.
        const std::string own = options.listenAddress.empty() ? localAddress(*socket) : options.listenAddress;
        if (!meeting.listener) {
          Result<Socket> listener = listenOn(own, 0);
          if (!listener)
            return listener.status();
          meeting.listener = std::move(*listener);
        }
        setField(meeting.hello.address, sizeof meeting.hello.address, localAddress(meeting.listener));
        meeting.hello.port = localPort(meeting.listener);
        Handshake handshake(std::move(*socket), Handshake::Connecting, meeting.hello, options.secret, deadline);
        while (handshake.running()) {
          pollfd one = {handshake.fd(), handshake.events(), 0};
          poll(&one, 1, millisecondsUntil(deadline, 200));
          handshake.advance();
        }
        if (handshake.status()) {
          connection = handshake.takeSocket();
          break;
        }
        error = handshake.status().message();
        if (error.find("secret") != std::string::npos || error.find("version") != std::string::npos ||
            error.find("no rank") != std::string::npos)
          return Status::error(error);
      } else {
        error = std::strerror(code);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // Rank 0 waits equally long for the other ranks, and it may have started later.
  const double patience = deadline + options.rendezvousTimeout + kAnswerSeconds;
  Answer answer;
  Status heard = receiveAll(connection, &answer, sizeof answer, patience);
  if (!heard)
    return Status::error("rank 0 has ended before all ranks were there (" + heard.message() + ")");
  const uint64_t whole = uint64_t(options.ranks) * sizeof(TableEntry);
  if (answer.failed ? answer.bytes > kMostText : answer.bytes != whole)
    return Status::error("rank 0 sends an answer of a wrong size");
  std::string body(answer.bytes, '\0');
  TESSERA_RETURN_IF_ERROR(receiveAll(connection, body.data(), body.size(), patience).context("the answer of rank 0"));
  if (answer.failed)
    return Status::error(fieldText(body.data(), body.size()));
  std::memcpy(meeting.hello.session, answer.session, sizeof answer.session);
  for (int r = 0; r < options.ranks; ++r) {
    TableEntry entry;
    std::memcpy(&entry, body.data() + size_t(r) * sizeof entry, sizeof entry);
    meeting.peers.push_back({r, fieldText(entry.host, sizeof entry.host),
                             fieldText(entry.address, sizeof entry.address), uint16_t(entry.port)});
  }
  // Rank 0 is reached by the address that has worked, whatever address it tells.
  meeting.peers[0].address = peerAddress(connection);
  meeting.peers[0].port = options.port;
  return meeting;
}

} // namespace

Result<Meeting> meet(const TcpOptions &options) {
  Result<Meeting> meeting = options.rank == 0 ? lead(options) : follow(options);
  if (!meeting)
    return meeting.status().context("rendezvous at " + endpointText(options.address, options.port));
  return meeting;
}

} // namespace tessera::rt
