#include "test/conformance/comm/Suite.h"

#include <chrono>
#include <thread>

namespace tessera::rt::conformance {
namespace {

/// After a mismatch the members still agree on the next operation.
void stillWorks(Communicator &comm, Check &check) {
  std::vector<float> in(3000, 1), out(3000);
  check.ok(comm.allReduce(in.data(), out.data(), in.size(), plan::F32, plan::SUM), "after an error");
  check.that(out[2999] == float(comm.size()), "wrong result after an error");
}

/// One rank does something else. All ranks get an error that names both calls.
void mismatches(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm || comm->size() == 1)
    return;
  const bool odd = comm->rank() == comm->size() - 1;
  const std::string last = "rank " + std::to_string(comm->size() - 1);
  std::vector<float> in(20000, 1), out(20000 * comm->size());
  for (size_t count : {4u, 20000u}) {
    check.fails(comm->allReduce(in.data(), out.data(), odd ? count - 1 : count, plan::F32, plan::SUM),
                {"mismatch", last, std::to_string(count - 1), std::to_string(count)}, "another count");
    stillWorks(*comm, check);
    check.fails(comm->allReduce(in.data(), out.data(), count, odd ? plan::I32 : plan::F32, plan::SUM),
                {"mismatch", last, "I32", "F32"}, "another dtype");
    stillWorks(*comm, check);
    check.fails(comm->allReduce(in.data(), out.data(), count, plan::F32, odd ? plan::MAX : plan::SUM),
                {"mismatch", last, "MAX", "SUM"}, "another reduction");
    check.fails(odd ? comm->allGather(in.data(), out.data(), 1, count, plan::F32)
                    : comm->allReduce(in.data(), out.data(), count, plan::F32, plan::SUM),
                {"mismatch", last, "allGather", "allReduce"}, "another operation");
    check.fails(comm->broadcast(in.data(), out.data(), count, plan::F32, odd ? 1 : 0), {"mismatch", last, "broadcast"},
                "another root");
    stillWorks(*comm, check);
  }
  const std::vector<Rows> two = {{in.data(), out.data(), 1, 6}, {in.data() + 6, out.data() + 6 * comm->size(), 2, 3}},
                          other = {{in.data(), out.data(), 2, 3}, {in.data() + 6, out.data() + 6 * comm->size(), 1, 6}};
  check.fails(comm->allGather(odd ? std::span(two).first(1) : two, plan::F32),
              {"mismatch", last, "2 tensors with 12 F32", "1 x 6 F32"}, "fewer tensors");
  stillWorks(*comm, check);
  check.fails(comm->allGather(odd ? other : two, plan::F32),
              {"mismatch", last, "2 tensors with 12 F32 of other shapes"}, "other tensors");
  stillWorks(*comm, check);
  check.fails(odd ? comm->barrier() : comm->exchange(in.data(), {}, out.data(), {}, plan::F32),
              {"mismatch", last, "barrier", "exchange"}, "another operation");
  stillWorks(*comm, check);
}

/// One rank has bad arguments. Its error says what is wrong, and the others' errors name the rank.
void badArguments(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const bool bad = comm->rank() == 0;
  std::vector<float> in(16, 1), out(16 * comm->size());
  auto expect = [&](const Status &status, const std::string &detail, const std::string &what) {
    check.fails(status, {bad ? detail : "rank 0"}, what);
    stillWorks(*comm, check);
  };
  expect(comm->allReduce(in.data(), out.data(), 4, bad ? plan::DTYPE_INVALID : plan::F32, plan::SUM), "DTYPE_INVALID",
         "bad dtype");
  expect(comm->allReduce(in.data(), out.data(), 4, plan::F32, bad ? plan::NONE : plan::SUM), "NONE", "bad reduction");
  expect(comm->allGather(in.data(), out.data(), bad ? SIZE_MAX / 2 : 1, 16, plan::F32), "too large",
         "overflowing size");
  const std::vector<Rows> huge = {{in.data(), out.data(), SIZE_MAX, 2}, {in.data(), out.data(), 1, 1}},
                          good = {{in.data(), out.data(), 1, 2}, {in.data(), out.data() + 2 * comm->size(), 1, 1}};
  expect(comm->allGather(bad ? huge : good, plan::F32), "too large", "overflowing size of a list");
  expect(comm->broadcast(in.data(), out.data(), 4, plan::F32, bad ? 99 : 0), "root 99", "bad root");
  auto exchange = [&](Transfer send) {
    std::vector<Transfer> sends;
    if (bad)
      sends.push_back(std::move(send));
    return comm->exchange(in.data(), sends, out.data(), {}, plan::F32);
  };
  expect(exchange({comm->size(), {0, {1}, {1}}}), "member", "bad peer");
  expect(exchange({0, {0, {1, 2}, {1}}}), "malformed", "counts without strides");
  expect(exchange({0, {0, {-1}, {1}}}), "malformed", "negative count");
  expect(exchange({0, {-4, {1}, {1}}}), "malformed", "negative offset");
  expect(exchange({0, {0, {INT64_MAX, 4}, {1, 1}}}), "malformed", "overflowing count");
}

/// A send without a receiver, and a receive without a sender.
void exchangeMismatches(World &world, Check &check) {
  auto comm = everyone(world, check);
  if (!comm)
    return;
  const int n = comm->size(), me = comm->rank(), last = n - 1;
  std::vector<float> in(16, 1), out(16, 0);
  const std::vector<Transfer> none;
  const std::vector<Transfer> toLast = {{last, {0, {4}, {1}}}}, fromFirst = {{0, {0, {4}, {1}}}},
                              fiveFromFirst = {{0, {0, {5}, {1}}}};
  const std::string sender = "rank 0", receiver = "rank " + std::to_string(last);
  check.fails(comm->exchange(in.data(), me == 0 ? toLast : none, out.data(), none, plan::F32),
              {"exchange mismatch", sender, "more", receiver}, "unexpected send");
  stillWorks(*comm, check);
  check.fails(comm->exchange(in.data(), none, out.data(), me == last ? fromFirst : none, plan::F32),
              {"exchange mismatch", sender, "fewer", receiver}, "unserved receive");
  stillWorks(*comm, check);
  check.fails(
      comm->exchange(in.data(), me == 0 ? toLast : none, out.data(), me == last ? fiveFromFirst : none, plan::F32),
      {"exchange mismatch", "4 elements", "5"}, "another box size");
  stillWorks(*comm, check);
}

/// Ranks that disagree about a group.
void badGroups(World &world, Check &check) {
  const int n = world.size(), me = world.rank();
  auto status = [](const Result<std::unique_ptr<Communicator>> &r) { return r.status(); };
  check.fails(status(world.group(me == 0 ? std::vector<int>{} : std::vector<int>{me})), {"rank 0", "not in the group"},
              "empty group");
  check.fails(status(world.group(me == 0 ? std::vector<int>{0, n} : std::vector<int>{me})),
              {"rank 0", "no set of ranks"}, "rank beyond the world");
  check.fails(status(world.group({me, me})), {"rank 0", "no set of ranks"}, "rank named twice");
  if (n > 1) {
    check.fails(status(world.group(me == 0 ? std::vector<int>{0, 1} : std::vector<int>{me})),
                {"group mismatch", "rank 0", "rank 1"}, "one-sided group");
    check.fails(status(world.group({me, (me + 1) % n})),
                n == 2 ? std::vector<std::string>{"group mismatch", "[0, 1]", "[1, 0]"}
                       : std::vector<std::string>{"group mismatch"},
                "overlapping groups");
  }
  auto comm = everyone(world, check);
  if (comm)
    stillWorks(*comm, check);
}

/// The last rank gives up while the others wait in a collective of their own and in one with it.
void abortWakesAll(World &world, Check &check) {
  auto all = everyone(world, check);
  auto second = everyone(world, check);
  if (!all || !second)
    return;
  const std::string last = "rank " + std::to_string(world.size() - 1);
  std::vector<float> in(50000, 1), out(50000);
  check.ok(all->allReduce(in.data(), out.data(), in.size(), plan::F32, plan::SUM), "before");
  check.ok(world.openChannels(), "channels");
  if (world.rank() == world.size() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // the others are asleep by then
    world.abort("disk full");
  }
  if (world.size() > 2 && world.rank() == 0) // waits for a message of a rank that is there
    check.fails(world.receive(1, 5, out.data(), 4), {last, "disk full"}, "waiting for a message");
  Communicator &waiting = world.rank() % 2 ? *all : *second;
  check.fails(waiting.allReduce(in.data(), out.data(), in.size(), plan::F32, plan::SUM), {last, "disk full"},
              "waiting");
  check.fails(all->barrier(), {last, "disk full"}, "later call");
  if (world.size() > 1)
    check.fails(world.receive((world.rank() + 1) % world.size(), 5, out.data(), 4), {last, "disk full"},
                "later message");
  check.fails(world.group({world.rank()}).status(), {last, "disk full"}, "later group");
}

} // namespace

std::vector<Case> failureCases() {
  return {{"mismatches", mismatches},
          {"badArguments", badArguments},
          {"exchangeMismatches", exchangeMismatches},
          {"badGroups", badGroups}};
}

std::vector<Case> abortCases() { return {{"abortWakesAll", abortWakesAll}}; }

} // namespace tessera::rt::conformance
