#include "test/conformance/comm/Suite.h"

#include <algorithm>

namespace tessera::rt::conformance {
namespace {

/// Byte i of message `number` from one rank to another on a channel.
std::byte contents(int from, int to, uint32_t channel, int number, size_t i) {
  return std::byte(size_t(from) * 7 + size_t(to) * 13 + channel * 31 + size_t(number) * 101 + i * 3 + i / 251);
}

std::vector<std::byte> message(int from, int to, uint32_t channel, int number, size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i)
    made[i] = contents(from, to, channel, number, i);
  return made;
}

void send(World &world, Check &check, int to, uint32_t channel, int number, size_t bytes) {
  std::vector<std::byte> data = message(world.rank(), to, channel, number, bytes);
  check.ok(world.send(to, channel, data.data(), bytes), "send");
  std::fill(data.begin(), data.end(), std::byte(0xee)); // the sender's again
}

void receive(World &world, Check &check, int from, uint32_t channel, int number, size_t bytes) {
  std::vector<std::byte> data(bytes);
  check.ok(world.receive(from, channel, data.data(), bytes), "receive");
  check.that(data == message(from, world.rank(), channel, number, bytes),
             "message " + std::to_string(number) + " of " + std::to_string(bytes) + " bytes from rank " +
                 std::to_string(from) + " on channel " + std::to_string(channel) + " has wrong contents");
}

/// All ranks send to all others on two channels, and receive the channels in another order than they were sent in.
void orderPerChannel(World &world, Check &check) {
  check.ok(world.openChannels(), "channels");
  check.ok(world.openChannels(), "channels once more");
  const int n = world.size(), me = world.rank();
  constexpr int kMessages = 5;
  for (int number = 0; number < kMessages; ++number)
    for (int peer = 0; peer < n; ++peer)
      for (uint32_t channel : {3u, 32767u})
        if (peer != me)
          send(world, check, peer, channel, number, size_t(100 + number * 17));
  for (uint32_t channel : {32767u, 3u})
    for (int peer = n - 1; peer >= 0; --peer)
      for (int number = 0; peer != me && number < kMessages; ++number)
        receive(world, check, peer, channel, number, size_t(100 + number * 17));
}

/// Neighbours in a ring send each other messages of 0 B to 8 MiB in both directions before anyone receives.
void allSizesBothWays(World &world, Check &check) {
  const int n = world.size(), me = world.rank();
  if (n == 1)
    return;
  const std::vector<size_t> sizes = {0, 1, 63, 4096, 100001, 1 << 20, 8 << 20, 0, 5};
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  for (size_t i = 0; i < sizes.size(); ++i) {
    send(world, check, next, 0, int(i), sizes[i]);
    send(world, check, before, 1, int(i), sizes[i]);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    receive(world, check, before, 0, int(i), sizes[i]);
    receive(world, check, next, 1, int(i), sizes[i]);
  }
}

/// A chain passes many messages on, with collectives between.
void manyMessages(World &world, Check &check) {
  auto comm = everyone(world, check);
  const int n = world.size(), me = world.rank();
  if (!comm || n == 1)
    return;
  for (int number = 0; number < 400; ++number) {
    const size_t bytes = size_t(number) * 37 % 3000;
    if (me > 0)
      receive(world, check, me - 1, 2, number, bytes);
    if (me + 1 < n)
      send(world, check, me + 1, 2, number, bytes);
    if (number % 100 == 99)
      check.ok(comm->barrier(), "barrier");
  }
}

/// Another size than was sent is an error; the message behind it is received.
void anotherSize(World &world, Check &check) {
  const int n = world.size(), me = world.rank();
  if (n == 1)
    return;
  const int next = (me + 1) % n, before = (me + n - 1) % n;
  for (size_t expected : {11u, 13u}) {
    send(world, check, next, 6, 0, 12);
    send(world, check, next, 6, 1, 40);
    std::vector<std::byte> data(64);
    check.fails(world.receive(before, 6, data.data(), expected),
                {"rank " + std::to_string(before) + " sent 12 bytes on channel 6", std::to_string(expected)},
                "another size");
    receive(world, check, before, 6, 1, 40);
  }
}

} // namespace

std::vector<Case> messageCases() {
  return {{"orderPerChannel", orderPerChannel},
          {"allSizesBothWays", allSizesBothWays},
          {"manyMessages", manyMessages},
          {"anotherSize", anotherSize}};
}

} // namespace tessera::rt::conformance
