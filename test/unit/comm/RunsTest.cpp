// What crosses the slow link when members are in runs, counted on a transport of mailboxes.
#include "runtime/comm/Mailbox.h"
#include "runtime/comm/MessageCommunicator.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

using namespace tessera::rt;

namespace {

struct Wires {
  Wires(int size, int run) : run(run), boxes(size_t(size)) {}
  const int run;
  std::vector<Mailbox> boxes;
  std::atomic<size_t> across = 0; // bytes from one run to another
};

class BoxRound : public MessageRound {
public:
  BoxRound(Wires &wires, int rank, int tag) : wires_(wires), rank_(rank), tag_(tag) {}
  Status send(int peer, const void *data, size_t bytes) override {
    if (peer / wires_.run != rank_ / wires_.run)
      wires_.across += bytes;
    const auto *from = static_cast<const std::byte *>(data);
    wires_.boxes[size_t(peer)].put(rank_, uint32_t(tag_), std::vector<std::byte>(from, from + bytes));
    return Status();
  }
  Status receive(int peer, void *data, size_t bytes) override {
    expected_.push_back({peer, data, bytes});
    return Status();
  }
  Status wait() override {
    for (const auto &[peer, data, bytes] : expected_)
      TESSERA_RETURN_IF_ERROR(
          wires_.boxes[size_t(rank_)].take(peer, uint32_t(tag_), data, bytes, [] { return std::string("left"); }));
    expected_.clear();
    return Status();
  }

private:
  struct Expected {
    int peer;
    void *data;
    size_t bytes;
  };
  Wires &wires_;
  const int rank_, tag_;
  std::vector<Expected> expected_;
};

class BoxGroup : public MessageGroup {
public:
  BoxGroup(Wires &wires, int rank) : wires_(wires), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return int(wires_.boxes.size()); }
  std::unique_ptr<MessageRound> round(int tag) override { return std::make_unique<BoxRound>(wires_, rank_, tag); }
  /// The records of calls, which are not counted.
  Status allGather(const void *in, void *out, size_t bytes) override {
    const auto *from = static_cast<const std::byte *>(in);
    for (int m = 0; m < size(); ++m)
      wires_.boxes[size_t(m)].put(rank_, kRecords, std::vector<std::byte>(from, from + bytes));
    for (int m = 0; m < size(); ++m)
      TESSERA_RETURN_IF_ERROR(wires_.boxes[size_t(rank_)].take(m, kRecords, static_cast<std::byte *>(out) + m * bytes,
                                                               bytes, [] { return std::string("left"); }));
    return Status();
  }
  Status broadcast(void *, size_t, int) override { return Status::error("not used"); }

private:
  static constexpr uint32_t kRecords = 100;
  Wires &wires_;
  const int rank_;
};

/// The bytes that cross when eight members in runs of four call `use`, where the communicator knows of runs of `run`.
template <typename Use> size_t bytesAcross(int run, Use use) {
  constexpr int kMembers = 8;
  Wires wires(kMembers, 4);
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int m = 0; m < kMembers; ++m)
    threads.emplace_back([&, m] {
      MessageCommunicator comm(std::make_unique<BoxGroup>(wires, m), {0, 1, 2, 3, 4, 5, 6, 7}, run);
      failed += !use(comm).ok();
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(failed == 0);
  return wires.across;
}

} // namespace

TEST_CASE("between runs each byte of a collective is sent by one member of a run") {
  constexpr size_t kCount = 1 << 20, kBytes = kCount * sizeof(float), kBlock = kBytes / 8;
  auto allReduce = [](Communicator &comm) {
    std::vector<float> data(kCount, 1);
    return comm.allReduce(data.data(), data.data(), kCount, tessera::plan::F32, tessera::plan::SUM);
  };
  auto allGather = [](Communicator &comm) {
    std::vector<float> in(kCount / 8, 1), out(kCount);
    return comm.allGather(in.data(), out.data(), 1, kCount / 8, tessera::plan::F32);
  };
  auto reduceScatter = [](Communicator &comm) {
    std::vector<float> in(kCount, 1), out(kCount / 8);
    return comm.reduceScatter(in.data(), out.data(), 1, kCount / 8, tessera::plan::F32, tessera::plan::SUM);
  };
  // A run sends half of its sums and then half of the results. Otherwise every member does.
  CHECK(bytesAcross(4, allReduce) == 2 * kBytes);
  CHECK(bytesAcross(1, allReduce) == 4 * 2 * kBytes);
  // Every member sends its block to one member of the other run, or to all four.
  CHECK(bytesAcross(4, allGather) == 8 * kBlock);
  CHECK(bytesAcross(1, allGather) == 4 * 8 * kBlock);
  CHECK(bytesAcross(4, reduceScatter) == 8 * kBlock);
  CHECK(bytesAcross(1, reduceScatter) == 4 * 8 * kBlock);
}
