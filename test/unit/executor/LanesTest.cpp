// Collectives beside kernels: they do run beside them, results are those of one step after the other, over threads and
// over TCP, and a failure on either side ends the run with its own message.
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanChecker.h"
#include "test/unit/executor/OnRanks.h"
#include "test/unit/plan/LanePlan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <thread>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;
using P = LanePlan;

namespace {

std::vector<plan::Plan> plansOf(uint32_t ranks, bool beside) {
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    plans.push_back(P::make(rank, ranks, beside, /*rows=*/64));
  REQUIRE(checkPlans(plans).message() == "");
  return plans;
}

/// The n-th all-reduce of a rank, from 0, calls this before it does anything.
using Hook = std::function<RtStatus(int n)>;

/// A communicator with a hook. The executor makes one of all ranks for itself, and then the group's.
class Hooked : public Communicator {
public:
  Hooked(std::unique_ptr<Communicator> inner, Hook hook) : inner_(std::move(inner)), hook_(std::move(hook)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  RtStatus allReduce(const void *in, void *out, size_t count, plan::DType dtype, Reducer reducer) override {
    if (dtype == plan::F32 && hook_) // the executor's own are of integers
      TESSERA_RETURN_IF_ERROR(hook_(n_++));
    return inner_->allReduce(in, out, count, dtype, reducer);
  }
  RtStatus allGather(std::span<const Rows> tensors, plan::DType dtype) override {
    return inner_->allGather(tensors, dtype);
  }
  RtStatus reduceScatter(std::span<const Rows> tensors, plan::DType dtype, Reducer reducer) override {
    return inner_->reduceScatter(tensors, dtype, reducer);
  }
  RtStatus broadcast(const void *in, void *out, size_t count, plan::DType dtype, int root) override {
    return inner_->broadcast(in, out, count, dtype, root);
  }
  RtStatus exchange(const void *in, const std::vector<Transfer> &sends, void *out,
                    const std::vector<Transfer> &receives, plan::DType dtype) override {
    return inner_->exchange(in, sends, out, receives, dtype);
  }
  RtStatus barrier() override { return inner_->barrier(); }

private:
  std::unique_ptr<Communicator> inner_;
  Hook hook_;
  int n_ = 0;
};

class HookedWorld : public World {
public:
  HookedWorld(World &inner, Hook hook) : inner_(inner), hook_(std::move(hook)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Result<std::unique_ptr<Communicator>> group(const std::vector<int> &ranks, int run) override {
    Result<std::unique_ptr<Communicator>> made = inner_.group(ranks, run);
    if (!made)
      return made.status();
    return std::unique_ptr<Communicator>(std::make_unique<Hooked>(std::move(*made), hook_));
  }
  void abort(const std::string &reason) override { inner_.abort(reason); }
  std::string aborted() override { return inner_.aborted(); }

private:
  World &inner_;
  Hook hook_;
};

using Use = std::function<void(Executor &)>;

/// Runs some steps on one rank and gives their outputs.
RtStatus steps(const plan::Plan &plan, World &world, const std::string &backend, const LoadOptions &options,
               std::vector<float> &result, const Use &before = nullptr, const Use &after = nullptr) {
  return withExecutor(plan, world, backend, options, [&](Executor &executor) {
    if (before)
      before(executor);
    result.clear();
    for (int step = 0; step < 5; ++step) {
      std::vector<float> x(64 * 4);
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = float((int(i) * 37 + int(plan.rank()) * 11 + step) % 23 - 11) / 7;
      TESSERA_RETURN_IF_ERROR(executor.feed(0, x.data()));
      TESSERA_RETURN_IF_ERROR(executor.run(0));
      std::vector<char> host;
      TESSERA_RETURN_IF_ERROR(executor.fetch(2, host));
      const auto *values = reinterpret_cast<const float *>(host.data());
      result.insert(result.end(), values, values + x.size());
    }
    if (after)
      after(executor);
    return RtStatus();
  });
}

/// What all ranks get, one after the other.
std::vector<float> onThreads(const std::vector<plan::Plan> &plans, const std::string &backend,
                             const LoadOptions &options = {}) {
  std::vector<std::vector<float>> results(plans.size());
  RtStatus status = runRanks(int(plans.size()), [&](World &world) {
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, backend, options, results[rank]);
  });
  REQUIRE(status.message() == "");
  std::vector<float> all;
  for (const std::vector<float> &result : results)
    all.insert(all.end(), result.begin(), result.end());
  return all;
}

RtStatus late(std::future_status status) {
  return status == std::future_status::ready ? RtStatus() : RtStatus::error("nothing ran beside");
}

constexpr std::chrono::seconds kLong(60);

} // namespace

TEST_CASE("collectives beside kernels give the bits of one step after the other") {
  for (const char *backend : {"reference", "cpu"})
    for (int threads : {1, 2})
      for (uint32_t ranks : {1u, 2u, 4u}) {
        INFO(backend << ", " << threads << " threads, " << ranks << " ranks");
        LoadOptions options;
        options.threads = threads;
        const std::vector<float> expected = onThreads(plansOf(ranks, false), backend, options);
        for (int trial = 0; trial < 5; ++trial)
          CHECK(onThreads(plansOf(ranks, true), backend, options) == expected);
        CHECK(std::any_of(expected.begin(), expected.end(), [](float v) { return v != 0; }));
      }
}

TEST_CASE("collectives beside kernels run over TCP") {
  const std::vector<plan::Plan> plans = plansOf(2, true);
  const std::vector<float> expected = onThreads(plansOf(2, false), "reference");
  std::vector<float> results[2];
  const std::vector<RtStatus> statuses = onTcp(2, 60, [&](World &world) {
    return steps(plans[size_t(world.rank())], world, "reference", {}, results[world.rank()]);
  });
  CHECK(statuses[0].message() == "");
  CHECK(statuses[1].message() == "");
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  CHECK(results[0] == expected);
}

TEST_CASE("kernels go on while a sum waits, and what must wait for it does") {
  const std::vector<plan::Plan> plans = plansOf(2, true);
  const std::vector<float> expected = onThreads(plansOf(2, false), "reference");
  std::vector<float> results[2];
  std::vector<StepDone> seen;
  int beside[2] = {};
  std::optional<double> waited[2];
  RtStatus status = runRanks(2, [&](World &world) {
    std::promise<void> made; // the second gradient, while the first one's sum has not begun
    HookedWorld hooked(world, [&](int n) {
      if (n == 0)
        TESSERA_RETURN_IF_ERROR(late(made.get_future().wait_for(kLong)));
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(2)); // for whoever does not wait
      return RtStatus();
    });
    bool first = true;
    auto watch = [&](Executor &executor) {
      auto note = [&, rank = world.rank()](const StepDone &done) {
        if (done.step == P::MAKE_2 && std::exchange(first, false))
          made.set_value();
        if (rank == 0)
          seen.push_back(done);
        return RtStatus();
      };
      executor.observe({note, /*beside=*/true});
      beside[world.rank()] = executor.collectivesBeside(0);
    };
    auto after = [&](Executor &executor) { waited[world.rank()] = executor.waitedSeconds(); };
    const auto rank = size_t(world.rank());
    return steps(plans[rank], hooked, "reference", {}, results[rank], watch, after);
  });
  for (int rank : {0, 1}) {
    CHECK(beside[rank] == 2);
    CHECK(waited[rank].value_or(0) > 0.002); // the last sum is on the rank's thread
  }
  CHECK(status.message() == "");
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  CHECK(results[0] == expected);
  REQUIRE(seen.size() == 5 * 8);
  std::vector<StepDone> run(seen.begin(), seen.begin() + 8);
  std::ranges::sort(run, {}, &StepDone::step);
  for (int s = 0; s < 8; ++s) {
    CHECK(run[size_t(s)].step == s);
    CHECK(run[size_t(s)].place == s);
  }
  CHECK(run[P::SUM_1].end > run[P::MAKE_2].end);
  CHECK(run[P::SUM_1].end <= run[P::REUSE].begin);
  CHECK(run[P::SUM_2].end <= run[P::UPDATE_2].begin);
}

TEST_CASE("who watches step by step sees one step after the other") {
  const std::vector<plan::Plan> plans = plansOf(2, true);
  const std::vector<float> expected = onThreads(plansOf(2, false), "reference");
  std::vector<float> results[2];
  std::vector<int> order;
  RtStatus status = runRanks(2, [&](World &world) {
    auto watch = [&](Executor &executor) {
      executor.observe([&, rank = world.rank()](const StepDone &done) {
        if (rank == 0)
          order.push_back(done.step);
        return RtStatus();
      });
    };
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, "reference", {}, results[rank], watch);
  });
  CHECK(status.message() == "");
  results[0].insert(results[0].end(), results[1].begin(), results[1].end());
  CHECK(results[0] == expected);
  order.resize(8);
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("a collective that fails beside kernels ends the run with its name") {
  for (int fails : {0, 1, 5}) { // the first sum, the second one, one of a later step
    INFO("all-reduce " << fails);
    const std::vector<plan::Plan> plans = plansOf(2, true);
    std::vector<float> results[2];
    RtStatus own;
    RtStatus status = runRanks(2, [&](World &world) {
      HookedWorld hooked(world, [&](int n) {
        return world.rank() == 1 && n == fails ? RtStatus::error("the cable was cut") : RtStatus();
      });
      const auto rank = size_t(world.rank());
      RtStatus mine = steps(plans[rank], hooked, "reference", {}, results[rank]);
      if (rank == 1)
        own = mine;
      return mine;
    });
    CHECK(status.message().find("the cable was cut") != std::string::npos);
    CHECK(own.message().find("program 'train': collective '") == 0);
    CHECK(own.message().find("the cable was cut") != std::string::npos);
  }
}

TEST_CASE("a rank that fails in its own steps leaves none of its sums behind") {
  const std::vector<plan::Plan> plans = plansOf(2, true);
  std::vector<float> results[2];
  RtStatus status = runRanks(2, [&](World &world) {
    HookedWorld hooked(world, [&](int n) {
      if (n == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(20)); // the failure comes while this is under way
      return RtStatus();
    });
    auto watch = [&](Executor &executor) {
      auto fail = [rank = world.rank()](const StepDone &done) {
        return rank == 0 && done.step == P::MAKE_2 ? RtStatus::error("no more") : RtStatus();
      };
      executor.observe({fail, /*beside=*/true});
    };
    const auto rank = size_t(world.rank());
    return steps(plans[rank], hooked, "reference", {}, results[rank], watch);
  });
  CHECK(status.message() == "rank 0: no more");
}

TEST_CASE("a lane that fails while its rank is among others says so to them") {
  const plan::Plan p = P::make(0, 2, true);
  for (bool among : {true, false}) {
    INFO("among " << among);
    std::promise<void> inside;
    std::promise<std::string> aborted;
    CommunicationLane lane(p, {[&](int, StepInTime) {
                                 inside.get_future().wait_for(kLong);
                                 return RtStatus::error("the cable was cut");
                               },
                               [&](const std::string &reason) { aborted.set_value(reason); }});
    CommunicationLane::Call call(lane, 0, 0, 8, 0);
    REQUIRE(call.before(P::MAKE_1, false).ok());
    call.after(P::MAKE_1); // the first sum begins
    REQUIRE(call.before(P::MAKE_2, among).ok());
    inside.set_value();
    if (among) {
      std::future<std::string> reason = aborted.get_future();
      REQUIRE(reason.wait_for(kLong) == std::future_status::ready);
      CHECK(reason.get() == "the cable was cut");
    }
    call.after(P::MAKE_2);
    CHECK(call.before(P::REUSE, false).message() == "the cable was cut");
    CHECK(call.stop("no more").message() == "the cable was cut");
  }
}

TEST_CASE("a rank that fails tells those that its lane waits for") {
  const plan::Plan p = P::make(0, 2, true);
  std::promise<std::string> aborted;
  std::future<std::string> reason = aborted.get_future();
  std::string told;
  std::promise<void> entered;
  CommunicationLane lane(p, {[&](int, StepInTime) { // others come here only once they know
                               entered.set_value();
                               if (reason.wait_for(kLong) == std::future_status::ready)
                                 told = reason.get();
                               return RtStatus::error("stopped: " + told);
                             },
                             [&](const std::string &why) { aborted.set_value(why); }});
  CommunicationLane::Call call(lane, 0, 0, 8, 0);
  REQUIRE(call.before(P::MAKE_1, false).ok());
  call.after(P::MAKE_1);
  entered.get_future().wait(); // the lane is in the first sum
  CHECK(call.stop("no more").message() == "");
  CHECK(told == "no more");
}

TEST_CASE("a lane goes on after calls that were left early") {
  const plan::Plan p = P::make(0, 2, true);
  std::vector<uint32_t> ran;
  CommunicationLane lane(p, {[&](int, StepInTime at) {
                               ran.push_back(at.step);
                               return RtStatus();
                             },
                             [](const std::string &) {}});
  for (int round = 0; round < 200; ++round) {
    CommunicationLane::Call call(lane, 0, 0, 8, 0);
    for (uint32_t s = 0; s < 8; ++s) {
      if (lane.runs(0, s))
        continue;
      if (round % 2 == 0 && s == uint32_t(round) % 8)
        break;
      REQUIRE(call.before(s, false).ok());
      call.after(s);
    }
    if (round % 2 == 0)
      continue; // a step failed
    REQUIRE(call.end().ok());
    REQUIRE(ran.size() >= 2);
    CHECK(std::vector(ran.end() - 2, ran.end()) == std::vector<uint32_t>{P::SUM_1, P::SUM_2});
    CHECK(call.done().size() == 2);
  }
}

TEST_CASE("a rank that waits for a sum beside its kernels says so") {
  const std::vector<plan::Plan> plans = plansOf(2, true);
  std::vector<float> results[2];
  RtStatus status = runRanks(2, [&](World &world) {
    Executor *mine = nullptr;
    HookedWorld hooked(world, [&](int n) {
      const auto until = std::chrono::steady_clock::now() + kLong;
      const std::string expected = "step 1, program 'train', 2 of 8: collective 'g1.sum'";
      while (world.rank() == 0 && n == 0 && mine->whereabouts() != expected)
        if (std::chrono::steady_clock::now() > until)
          return RtStatus::error(mine->whereabouts());
        else
          std::this_thread::yield();
      return RtStatus();
    });
    const auto rank = size_t(world.rank());
    return steps(plans[rank], hooked, "reference", {}, results[rank], [&](Executor &executor) { mine = &executor; });
  });
  CHECK(status.message() == "");
}
