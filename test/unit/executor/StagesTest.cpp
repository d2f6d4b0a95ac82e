// Two stages that run micro-batches one after another compute what the same program does on one rank, whatever the
// order of calls, over threads and over TCP; and whoever watches a run sees its sends and receives.
#include "runtime/executor/GlobalTensors.h"
#include "runtime/launch/Launcher.h"
#include "test/unit/executor/OnRanks.h"
#include "test/unit/plan/StagePlan.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <set>

using namespace tessera::rt;
namespace plan = tessera::plan;
using RtStatus = tessera::rt::Status;

namespace {

using Use = std::function<RtStatus(Executor &)>;
using Values = std::map<std::string, std::vector<float>>; // w0, w1 and losses

constexpr int kSteps = 2;

/// Rows of the batch of a step.
std::vector<float> rowsOf(const plan::Plan &plan, const plan::Binding &binding, int step) {
  const plan::Buffer &buffer = plan.buffers(int(binding.buffer()));
  std::vector<float> rows;
  for (int64_t i = binding.offset(0) * 2; i < (binding.offset(0) + buffer.shape(0)) * 2; ++i)
    rows.push_back(float((i * 5 + step + (binding.role() == plan::TARGET ? 3 : 0)) % 3 - 1));
  return rows;
}

RtStatus steps(const plan::Plan &plan, World &world, const std::string &backend, const LoadOptions &options,
               Values &values, const Use &use = nullptr) {
  return withExecutor(plan, world, backend, options, [&](Executor &executor) {
    if (use)
      TESSERA_RETURN_IF_ERROR(use(executor));
    for (int step = 0; step < kSteps; ++step) {
      for (int b = 0; b < plan.bindings_size(); ++b)
        if (plan.bindings(b).role() == plan::INPUT || plan.bindings(b).role() == plan::TARGET)
          TESSERA_RETURN_IF_ERROR(executor.feed(b, rowsOf(plan, plan.bindings(b), step).data()));
      TESSERA_RETURN_IF_ERROR(executor.run(0));
      for (int b = 0; b < plan.bindings_size(); ++b)
        if (plan.bindings(b).role() == plan::STATE || plan.bindings(b).role() == plan::LOSS) {
          std::vector<char> host;
          TESSERA_RETURN_IF_ERROR(executor.fetch(b, host));
          const bool wide = executor.heldType(b) == plan::F64;
          std::vector<float> &to = values[plan.bindings(b).name()];
          for (size_t i = 0; i < host.size() / (wide ? 8 : 4); ++i)
            to.push_back(wide ? float(reinterpret_cast<const double *>(host.data())[i])
                              : reinterpret_cast<const float *>(host.data())[i]);
        }
    }
    return RtStatus();
  });
}

/// What all ranks have; ranks that have the same tensor must agree.
Values onThreads(const std::vector<plan::Plan> &plans, const std::string &backend, const LoadOptions &options = {},
                 const Use &use = nullptr) {
  std::vector<Values> results(plans.size());
  RtStatus status = runRanks(int(plans.size()), [&](World &world) {
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, backend, options, results[rank], use);
  });
  INFO(status.message());
  REQUIRE(status.ok());
  Values all;
  for (const Values &values : results)
    for (const auto &[name, value] : values)
      CHECK(all.emplace(name, value).first->second == value);
  return all;
}

} // namespace

TEST_CASE("a pipeline computes what one rank does") {
  for (const char *backend : {"reference", "cpu"})
    for (uint32_t width : {1u, 2u})
      for (bool oneByOne : {true, false})
        for (int parts : {2, 4, 5})
          for (bool widen : {false, true}) {
            INFO(backend << ", " << width << " ranks a stage, " << parts << " micro-batches, "
                         << (oneByOne ? "1f1b" : "gpipe") << (widen ? ", float64" : ""));
            LoadOptions options;
            options.widen = widen;
            const StagePlan made{width, parts, oneByOne};
            const Values expected = onThreads({made.sequential()}, backend, options);
            CHECK(onThreads(made.plans(), backend, options) == expected);
            REQUIRE(expected.at("loss").size() == kSteps);
            CHECK(expected.at("loss")[0] != expected.at("loss")[1]);
            CHECK(expected.at("w0")[0] != 1);
          }
}

TEST_CASE("stages of different numbers of ranks compute what one rank does") {
  for (const char *backend : {"reference", "cpu"})
    for (auto [width, behind] : {std::pair(1u, 2u), {2u, 1u}, {4u, 1u}, {2u, 3u}, {4u, 2u}})
      for (bool widen : {false, true}) {
        INFO(backend << ", " << width << " and " << behind << " ranks" << (widen ? ", float64" : ""));
        LoadOptions options;
        options.widen = widen;
        const StagePlan made{width, 4, true, behind};
        CHECK(onThreads(made.plans(), backend, options) == onThreads({made.sequential()}, backend, options));
      }
}

/// Rank 0 sends a part of its columns to each of three ranks of the next stage, and nothing by a second send.
static plan::Plan columns(uint32_t rank) {
  PlanBuilder b(rank, 4, "infer");
  b.plan.mutable_mesh(0)->set_size(rank == 0 ? 1 : 3);
  b.plan.clear_groups();
  b.plan.set_stages(2);
  b.plan.set_version(9);
  b.plan.add_stage_ranks(1);
  b.plan.add_stage_ranks(3);
  const uint32_t held = b.buffer("x", {3, rank == 0 ? 6 : 2});
  auto add = [&](auto *boxes, uint32_t peer, int64_t begin) {
    plan::PeerBox *box = boxes->Add();
    box->set_peer(peer);
    box->add_offset(0), box->add_offset(begin);
    box->add_shape(3), box->add_shape(2);
  };
  if (rank == 0) {
    b.bind(plan::INPUT, "x", held, {3, 6}, {0, 0});
    plan::Send *send = b.step("x.send")->mutable_send();
    send->set_input(held);
    for (uint32_t peer : {3u, 1u, 2u})
      add(send->mutable_boxes(), peer, int64_t(peer - 1) * 2);
    b.step("nothing.send")->mutable_send()->set_input(held);
  } else {
    plan::Receive *receive = b.step("x.receive")->mutable_receive();
    receive->set_output(held);
    add(receive->mutable_boxes(), 0, 0);
    b.bind(plan::OUTPUT, "y", held, {3, 6}, {0, int64_t(rank - 1) * 2});
  }
  return b.plan;
}

TEST_CASE("a rank sends boxes of a buffer to several ranks") {
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < 4; ++rank)
    plans.push_back(columns(rank));
  CHECK(checkPlans(plans).message() == "");
  for (const char *backend : {"reference", "cpu"}) {
    std::vector<std::vector<float>> got(4);
    RtStatus status = runRanks(4, [&](World &world) {
      const auto rank = size_t(world.rank());
      return withExecutor(plans[rank], world, backend, {}, [&](Executor &executor) {
        std::vector<float> x(18);
        for (size_t i = 0; i < x.size(); ++i)
          x[i] = float(i);
        if (rank == 0)
          TESSERA_RETURN_IF_ERROR(executor.feed(0, x.data()));
        TESSERA_RETURN_IF_ERROR(executor.run(0));
        if (rank == 0) {
          CHECK(executor.peerCall(0, 0)->peers() == std::vector<uint32_t>{3, 1, 2});
          CHECK(executor.peerCall(0, 0)->bytes() == 18 * 4);
          CHECK(executor.peerCall(0, 1)->bytes() == 0);
          return RtStatus();
        }
        std::vector<char> host;
        TESSERA_RETURN_IF_ERROR(executor.fetch(0, host));
        got[rank].assign(reinterpret_cast<const float *>(host.data()),
                         reinterpret_cast<const float *>(host.data()) + 6);
        return RtStatus();
      });
    });
    CHECK(status.message() == "");
    CHECK(got[1] == std::vector<float>{0, 1, 6, 7, 12, 13});
    CHECK(got[2] == std::vector<float>{2, 3, 8, 9, 14, 15});
    CHECK(got[3] == std::vector<float>{4, 5, 10, 11, 16, 17});
  }
}

TEST_CASE("a pipeline runs over TCP") {
  const uint32_t behind = GENERATE(0u, 1u);
  const StagePlan made{2, 4, true, behind};
  const std::vector<plan::Plan> plans = made.plans();
  const Values expected = onThreads({made.sequential()}, "reference");
  std::vector<Values> results(plans.size());
  const std::vector<RtStatus> statuses = onTcp(int(plans.size()), 20, [&](World &world) {
    const auto rank = size_t(world.rank());
    return steps(plans[rank], world, "reference", {}, results[rank]);
  });
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    CHECK(statuses[rank].message() == "");
    for (const auto &[name, value] : results[rank])
      CHECK(value == expected.at(name));
  }
}

TEST_CASE("who watches a pipeline sees its sends and receives") {
  const StagePlan made{1, 4, true};
  std::mutex mutex;
  std::set<std::string> where;
  std::map<std::string, int> seen;
  const Values watched = onThreads(made.plans(), "reference", {}, [&](Executor &executor) {
    executor.observe([&](const StepDone &done) {
      const plan::Step &step = executor.plan().programs(0).steps(done.step);
      if (executor.peerCall(0, done.step)) {
        CHECK(executor.communicates(0, done.step));
        CHECK(executor.loaded().describe(0, uint32_t(done.step)) ==
              (step.has_send() ? "reference: send" : "reference: receive"));
        std::lock_guard lock(mutex);
        ++seen[step.name()];
        if (done.index == 1)
          where.insert(executor.whereabouts());
      }
      return RtStatus();
    });
    return RtStatus();
  });
  CHECK(watched == onThreads({made.sequential()}, "reference"));
  CHECK(seen ==
        std::map<std::string, int>{
            {"e.receive", 8}, {"e.send", 8}, {"h.receive", 8}, {"h.send", 8}, {"loss.receive", 2}, {"loss.send", 2}});
  CHECK(where.contains("step 1, program 'train', micro-batch 2 of 4, 4 of 10: send 'h.send' to rank 1"));
  CHECK(where.contains("step 1, program 'train', micro-batch 2 of 4, 4 of 17: receive 'h.receive' from rank 0"));
}

TEST_CASE("a stage that fails wakes the ones that wait for it") {
  std::vector<plan::Plan> plans = StagePlan{1, 4, true}.plans();
  RtStatus status = runRanks(2, [&](World &world) -> RtStatus {
    Values values;
    return steps(plans[size_t(world.rank())], world, "reference", {}, values, [&](Executor &executor) {
      executor.observe([&](const StepDone &done) {
        return world.rank() == 0 && done.index == 2 ? RtStatus::error("the disk is full") : RtStatus();
      });
      return RtStatus();
    });
  });
  CHECK(status.message().find("the disk is full") != std::string::npos);
}

TEST_CASE("a plan of stages needs a backend that runs them") {
  const std::vector<plan::Plan> plans = StagePlan{1, 4, true}.plans();
  for (const char *name : {"reference", "cpu", "null"}) {
    auto backend = createBackend(name);
    auto loaded = (*backend)->load(plans[0], {});
    REQUIRE(loaded.ok());
    const auto begin = reinterpret_cast<uintptr_t>((*loaded)->addressAt(7, 0));
    CHECK(reinterpret_cast<uintptr_t>((*loaded)->addressAt(7, 1)) == begin + 64);
    CHECK(reinterpret_cast<uintptr_t>((*loaded)->addressAt(7, 2)) == begin);
    CHECK((*loaded)->addressAt(0, 1) == (*loaded)->address(0));
  }
}
