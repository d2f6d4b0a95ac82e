// The TCP transport beyond the conformance suite: how ranks meet, and how they notice that one is gone.
#include "runtime/comm/tcp/TcpWorld.h"
#include "runtime/comm/tcp/Handshake.h"
#include "runtime/comm/tcp/Rendezvous.h"
#include "runtime/comm/tcp/Watch.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace tessera::rt;

namespace {

/// A free port that no other test takes: the process number is in it, and it lies below those that the
/// system gives to connections.
uint16_t freePort() {
  static uint16_t next = uint16_t(4000 + getpid() % 180 * 32); // half of them are used
  while (!listenOn("127.0.0.1", ++next)) {
  }
  return next;
}

TcpOptions optionsFor(int rank, int ranks, uint16_t port) {
  TcpOptions options;
  options.rank = rank;
  options.ranks = ranks;
  options.address = "127.0.0.1";
  options.port = port;
  options.plan = "0123456789abcdef";
  options.rendezvousTimeout = 20;
  return options;
}

/// Starts a world for each of the options, in threads, and returns their statuses.
std::vector<Status> meetAll(const std::vector<TcpOptions> &options) {
  std::vector<Status> results(options.size());
  std::vector<std::unique_ptr<World>> worlds(options.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < options.size(); ++i)
    threads.emplace_back([&, i] {
      Result<std::unique_ptr<World>> world = createTcpWorld(options[i]);
      results[i] = world.status();
      if (world)
        worlds[i] = std::move(*world);
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

bool says(const Status &status, const std::string &part) {
  UNSCOPED_INFO("'" << status.message() << "' should say '" << part << "'");
  return !status.ok() && status.message().find(part) != std::string::npos;
}

/// Two connected sockets.
std::pair<Socket, Socket> connected() {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

std::string awaited(Watch &watch, double seconds) {
  const double deadline = monotonicSeconds() + seconds;
  while (watch.reason().empty() && monotonicSeconds() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return watch.reason();
}

} // namespace

TEST_CASE("control characters in another machine's name do not reach the terminal", "[tcp]") {
  char field[64];
  setField(field, sizeof field, "knoten-ü");
  CHECK(fieldText(field, sizeof field) == "knoten-ü");
  setField(field, sizeof field, "a\x1b[2J\n\x9b\xff\u009b");
  CHECK(fieldText(field, sizeof field) == "a\\x1b[2J\\x0a\\x9b\\xff\\xc2\\x9b");
}

TEST_CASE("ranks with one secret meet, also on IPv6") {
  for (const char *address : {"127.0.0.1", "localhost", "::1"}) {
    if (!listenOn(address, 0))
      continue; // no IPv6 here
    const uint16_t port = freePort();
    std::vector<TcpOptions> options;
    for (int r = 0; r < 3; ++r) {
      options.push_back(optionsFor(r, 3, port));
      options.back().address = address;
      options.back().secret = "a secret";
    }
    for (const Status &status : meetAll(options)) {
      INFO(address << " " << status.message());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("a rank with another secret is turned away, and the others hear who is missing") {
  const uint16_t port = freePort();
  std::vector<TcpOptions> options;
  for (int r = 0; r < 3; ++r) {
    options.push_back(optionsFor(r, 3, port));
    options.back().secret = r == 2 ? "guess" : "a secret";
    options.back().rendezvousTimeout = 3;
  }
  const std::vector<Status> results = meetAll(options);
  CHECK(says(results[0], "rank 2 of 3 is missing"));
  CHECK(says(results[0], "turned away: 127.0.0.1: the other end has another secret"));
  CHECK(says(results[1], "rank 2 of 3 is missing"));
  CHECK(says(results[2], "another secret"));
}

TEST_CASE("the rank with another plan is named on all ranks") {
  const uint16_t port = freePort();
  std::vector<TcpOptions> options;
  for (int r = 0; r < 3; ++r)
    options.push_back(optionsFor(r, 3, port));
  options[2].plan = "fedcba9876543210";
  for (const Status &status : meetAll(options)) {
    CHECK(says(status, "rank 2 (on "));
    CHECK(says(status, "has the plan fedcba9876543210, rank 0 has 0123456789abcdef"));
  }
}

TEST_CASE("another number of ranks, and a rank that is there twice, are errors on all") {
  uint16_t port = freePort();
  std::vector<TcpOptions> options = {optionsFor(0, 2, port), optionsFor(1, 3, port)};
  for (const Status &status : meetAll(options))
    CHECK(says(status, "rank 1 "));
  port = freePort();
  options = {optionsFor(0, 3, port), optionsFor(1, 3, port), optionsFor(1, 3, port)};
  for (const Status &status : meetAll(options))
    CHECK(says(status, "is there twice"));
}

TEST_CASE("missing ranks are listed when the time is over; without rank 0 its address is named") {
  uint16_t port = freePort();
  std::vector<TcpOptions> options = {optionsFor(0, 5, port), optionsFor(3, 5, port)};
  for (TcpOptions &o : options)
    o.rendezvousTimeout = 0.5;
  for (const Status &status : meetAll(options))
    CHECK(says(status, "ranks 1, 2, 4 of 5 are missing after 0.5 s"));
  port = freePort();
  options = {optionsFor(1, 2, port)};
  options[0].rendezvousTimeout = 0.3;
  const std::vector<Status> alone = meetAll(options);
  CHECK(says(alone[0], "127.0.0.1:" + std::to_string(port)));
  CHECK(says(alone[0], "Connection refused"));
}

TEST_CASE("an address of another machine, or one in use, is an error of rank 0") {
  TcpOptions options = optionsFor(0, 2, freePort());
  options.address = "192.0.2.1"; // TEST-NET-1
  CHECK(says(createTcpWorld(options).status(), "cannot listen on 192.0.2.1:"));
  Result<Socket> taken = listenOn("127.0.0.1", 0);
  CHECK(says(createTcpWorld(optionsFor(0, 2, localPort(*taken))).status(), "in use"));
}

TEST_CASE("an end that is connected with itself has met nobody, and leaves the port") {
  Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  own.sin_port = htons(freePort());
  auto *address = reinterpret_cast<sockaddr *>(&own);
  REQUIRE(bind(socket.fd(), address, sizeof own) == 0);
  REQUIRE(connect(socket.fd(), address, sizeof own) == 0);
  CHECK(connectError(socket) == ECONNREFUSED);
  socket = Socket();
  CHECK(listenOn("127.0.0.1", ntohs(own.sin_port)));
}

TEST_CASE("a name may stand for several addresses, of which rank 0 has one") {
  const uint16_t port = freePort();
  std::vector<TcpOptions> options = {optionsFor(0, 3, port), optionsFor(1, 3, port), optionsFor(2, 3, port)};
  options[1].address = options[2].address = "localhost"; // ::1 first, where there is one
  for (const Status &status : meetAll(options)) {
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("strangers that send nothing or nonsense do not keep ranks from meeting") {
  const uint16_t port = freePort();
  std::vector<Socket> strangers;
  std::thread noise([&] {
    const double end = monotonicSeconds() + 0.5;
    while (monotonicSeconds() < end && strangers.size() < 200) {
      if (Result<Socket> socket = startConnecting("127.0.0.1", port)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (connectError(*socket) == 0 && strangers.size() % 2) {
          const std::string nonsense(strangers.size() * 7, char(strangers.size()));
          (void)!::send(socket->fd(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL);
        }
        strangers.push_back(std::move(*socket));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::vector<TcpOptions> options;
  for (int r = 0; r < 3; ++r)
    options.push_back(optionsFor(r, 3, port));
  for (const Status &status : meetAll(options)) {
    INFO(status.message());
    CHECK(status.ok());
  }
  noise.join();
}

TEST_CASE("ranks meet beside two thousand connections that say nothing") {
  rlimit limit;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const size_t silent = std::min<size_t>(2000, size_t(limit.rlim_max) - 200); // the rest is for the ranks
  const uint16_t port = freePort();
  std::vector<TcpOptions> options;
  for (int r = 0; r < 3; ++r) {
    options.push_back(optionsFor(r, 3, port));
    options.back().secret = "a secret";
  }
  Status first;
  std::unique_ptr<World> world;
  std::thread leader([&] {
    Result<std::unique_ptr<World>> made = createTcpWorld(options[0]);
    first = made.status();
    if (made)
      world = std::move(*made);
  });
  std::vector<Socket> strangers;
  while (strangers.size() < silent) {
    Result<Socket> socket = startConnecting("127.0.0.1", port);
    REQUIRE(socket);
    pollfd entry = {socket->fd(), POLLOUT, 0};
    if (poll(&entry, 1, 1000) > 0 && connectError(*socket) == 0)
      strangers.push_back(std::move(*socket));
  }
  for (const Status &status : meetAll({options[1], options[2]})) {
    INFO(status.message());
    CHECK(status.ok());
  }
  leader.join();
  INFO(first.message());
  CHECK(first.ok());
}

TEST_CASE("the accepting end tells strangers neither plan nor host, and sends nothing before they do") {
  auto [a, b] = connected();
  Hello hello;
  setField(hello.plan, sizeof hello.plan, "0123456789abcdef");
  setField(hello.host, sizeof hello.host, "hosta");
  setField(hello.address, sizeof hello.address, "10.0.0.1");
  hello.port = 29500;
  Handshake rank(std::move(a), Handshake::Accepting, hello, "a secret", monotonicSeconds() + 20);
  rank.advance();
  char heard[sizeof(Hello) + sizeof(Digest)];
  CHECK(::recv(b.fd(), heard, sizeof heard, 0) < 0);
  const Hello stranger;
  REQUIRE(::send(b.fd(), &stranger, sizeof stranger, 0) == sizeof stranger);
  rank.advance();
  CHECK(rank.running());
  REQUIRE(::recv(b.fd(), heard, sizeof heard, 0) == sizeof heard);
  const std::string_view text(heard, sizeof heard);
  for (const char *told : {"0123456789abcdef", "hosta", "10.0.0.1"})
    CHECK(text.find(told) == text.npos);
}

TEST_CASE("a watch tells apart ranks that died, that left and that are silent") {
  const std::vector<TcpPeer> peers = {{0, "a", "", 0}, {1, "b", "", 0}, {2, "b", "", 0}};
  auto sockets = [](Socket one, Socket two) {
    std::vector<Socket> list(3);
    list[1] = std::move(one);
    list[2] = std::move(two);
    return list;
  };
  SECTION("died") {
    auto [a, b] = connected();
    auto [c, d] = connected();
    Watch watch(0, peers, sockets(std::move(a), std::move(c)), 10);
    d = Socket();
    // The connection is closed, or reset if a sign of life was not read.
    CHECK(awaited(watch, 5).find("rank 2 (on b) has died: its connection ") == 0);
  }
  SECTION("left") {
    auto [a, b] = connected();
    auto [c, d] = connected();
    Watch watch(0, peers, sockets(std::move(a), std::move(c)), 10);
    const uint32_t leave[2] = {2, 0};
    REQUIRE(::send(b.fd(), leave, sizeof leave, 0) == sizeof leave);
    b = Socket();
    CHECK(awaited(watch, 0.3).empty());
    CHECK(watch.reasonFor(peers[1], "is unknown") == "rank 1 has left");
  }
  SECTION("silent, alone or together") {
    auto [a, b] = connected();
    auto [c, d] = connected();
    Watch watch(0, peers, sockets(std::move(a), std::move(c)), 0.5);
    const std::string reason = awaited(watch, 5);
    CHECK(reason.find("rank 1 (on b) and rank 2 (on b) gave no sign of life for 0.5 s") == 0);
  }
  SECTION("says that another has failed, or what is no message") {
    auto [a, b] = connected();
    auto [c, d] = connected();
    Watch watch(0, peers, sockets(std::move(a), std::move(c)), 10);
    std::string news(8, '\0');
    const uint32_t header[2] = {3, 12};
    std::memcpy(news.data(), header, 8);
    news += "rank 7 \n died";
    REQUIRE(::send(b.fd(), news.data(), 8 + 12, 0) == 20);
    CHECK(awaited(watch, 5) == "rank 7 \\x0a die");
  }
  SECTION("a message of a size that none has") {
    auto [a, b] = connected();
    auto [c, d] = connected();
    Watch watch(0, peers, sockets(std::move(a), std::move(c)), 10);
    const uint32_t header[2] = {3, UINT32_MAX};
    REQUIRE(::send(b.fd(), header, sizeof header, 0) == sizeof header);
    CHECK(awaited(watch, 5) == "rank 1 (on b) sends what is no message");
  }
}
