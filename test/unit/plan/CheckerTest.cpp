// Every check of the plan checker fires: each case spoils one thing of a good plan.
#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanParts.h"
#include "test/unit/plan/TrainingPlan.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

struct Case {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message; // a part of it
};

plan::Buffer &buf(plan::Plan &p, int b) { return *p.mutable_buffers(b); }
plan::Step &step(plan::Plan &p, int s) { return *p.mutable_programs(0)->mutable_steps(s); }
plan::Kernel &kernel(plan::Plan &p, int s) { return *step(p, s).mutable_kernel(); }
plan::Collective &coll(plan::Plan &p, int s) { return *step(p, s).mutable_collective(); }
plan::Expression &expr(plan::Plan &p) { return *kernel(p, UPDATE).mutable_expression(); }
plan::Binding &bind(plan::Plan &p, int b) { return *p.mutable_bindings(b); }

/// The box of the whole buffer, with `more` rows in dimension 0.
void setExtent(plan::Plan &p, int b, int64_t more) {
  bind(p, b).mutable_extent()->CopyFrom(buf(p, int(bind(p, b).buffer())).shape());
  bind(p, b).set_extent(0, bind(p, b).extent(0) + more);
}

/// Moves step `from` to the end.
void postpone(plan::Plan &p, int from) {
  auto *steps = p.mutable_programs(0)->mutable_steps();
  for (int s = from; s + 1 < steps->size(); ++s)
    steps->SwapElements(s, s + 1);
}

const std::vector<Case> kOneRank = {
    {"version", [](auto &p) { p.set_version(12); }, "format version 12"},
    {"version of products that add leaves",
     [](auto &p) {
       kernel(p, UPDATE).set_name("matmul");
       kernel(p, UPDATE).add_attributes()->set_name("leaves");
     },
     "uses what version 6 has brought"},
    {"version of gradients of weights that add leaves",
     [](auto &p) {
       kernel(p, UPDATE).set_name("conv_weight_grad");
       kernel(p, UPDATE).add_attributes()->set_name("leaves");
     },
     "uses what version 11 has brought"},
    {"version of parts", [](auto &p) { kernel(p, UPDATE).add_attributes()->set_name("operand_parts"); },
     "uses what version 8 has brought"},
    {"version of dropout", [](auto &p) { kernel(p, UPDATE).add_attributes()->set_name("keep_scale"); },
     "uses what version 10 has brought"},
    {"version of runs", [](auto &p) { p.mutable_groups(0)->set_run(1); }, "uses what version 7 has brought"},
    {"runs that do not divide a group",
     [](auto &p) {
       p.set_version(7);
       p.mutable_groups(0)->set_run(3);
     },
     "which runs of 3 do not divide"},
    {"version of trees", [](auto &p) { coll(p, GRADIENT_SUM).set_tree(true); }, "uses what version 3 has brought"},
    {"a tree without sums",
     [](auto &p) {
       p.set_version(3);
       coll(p, GATHER).set_tree(true);
     },
     "adds nothing"},
    {"mesh axis of 0", [](auto &p) { p.mutable_mesh(0)->set_size(0); }, "number of ranks invalid"},
    {"mesh too large", [](auto &p) { p.mutable_mesh(0)->set_size(100000); }, "ranks invalid"},
    {"mesh axes of one name", [](auto &p) { *p.add_mesh() = p.mesh(0); }, "two mesh axes"},
    {"rank outside", [](auto &p) { p.mutable_mesh(0)->set_size(1); }, "outside the mesh"},
    {"arena", [](auto &p) { p.set_arena_bytes(uint64_t(1) << 60); }, "is not possible"},
    {"weights elsewhere", [](auto &p) { p.set_weights_file("../w"); }, "beside the plan"},
    {"weights up", [](auto &p) { p.set_weights_file(".."); }, "beside the plan"},
    {"group twice", [](auto &p) { p.mutable_groups(0)->set_ranks(0, 1); }, "twice"},
    {"group outside", [](auto &p) { p.mutable_groups(0)->set_ranks(0, 7); }, "outside the mesh"},
    {"group empty", [](auto &p) { p.mutable_groups(0)->clear_ranks(); }, "empty"},
    {"group of others",
     [](auto &p) {
       p.mutable_groups(0)->clear_ranks();
       p.mutable_groups(0)->add_ranks(0);
     },
     "does not contain the rank itself"},
    {"programs of one name", [](auto &p) { p.add_programs()->set_name("train"); }, "two programs"},

    {"no type", [](auto &p) { buf(p, X).set_dtype(plan::DTYPE_INVALID); }, "element type"},
    {"unknown type", [](auto &p) { buf(p, X).set_dtype(static_cast<plan::DType>(99)); },
     "element type"},
    {"too many dimensions",
     [](auto &p) {
       for (int i = 0; i < 40; ++i)
         buf(p, X).add_shape(1);
     },
     "dimensions, more than"},
    {"negative size", [](auto &p) { buf(p, X).set_shape(0, -4); }, "not positive or overflow"},
    {"zero size", [](auto &p) { buf(p, X).set_shape(0, 0); }, "not positive or overflow"},
    {"overflow",
     [](auto &p) {
       buf(p, X).set_shape(0, int64_t(1) << 61);
       buf(p, X).set_shape(1, int64_t(1) << 61);
     },
     "not positive or overflow"},
    {"overflow of bytes",
     [](auto &p) {
       buf(p, X).set_shape(0, int64_t(1) << 61);
       buf(p, X).set_shape(1, 2);
       buf(p, X).set_dtype(plan::F64);
     },
     "not positive or overflow"},
    {"unaligned", [](auto &p) { buf(p, X).set_offset(4); }, "not a multiple of 64"},
    {"beyond the arena", [](auto &p) { buf(p, X).set_offset(1 << 20); }, "outside the arena"},
    {"offset near 2^64", [](auto &p) { buf(p, X).set_offset(~uint64_t(63)); }, "outside the arena"},
    {"constant of another size", [](auto &p) { buf(p, LR).set_constant("12"); },
     "constant contents"},
    {"constant not persistent", [](auto &p) { buf(p, LR).set_persistent(false); },
     "constant but not persistent"},
    {"alias of nothing", [](auto &p) { buf(p, ZFLAT).set_alias_of_plus_one(999); },
     "does not exist"},
    {"alias of itself", [](auto &p) { buf(p, ZFLAT).set_alias_of_plus_one(ZFLAT + 1); },
     "alias of itself"},
    {"alias elsewhere", [](auto &p) { p.set_version(5), buf(p, ZFLAT).set_alias_of_plus_one(GRAD + 1); },
     "another type, or bytes outside it"},
    {"alias that begins before", [](auto &p) { p.set_version(5), buf(p, ZFLAT).set_offset(buf(p, Z).offset() - 64); },
     "another type, or bytes outside it"},
    {"alias that ends behind", [](auto &p) { p.set_version(5), buf(p, ZFLAT).set_shape(0, 9); },
     "another type, or bytes outside it"},
    {"alias of another type", [](auto &p) { buf(p, ZFLAT).set_dtype(plan::I32); },
     "another type, or bytes outside it"},
    {"part of another buffer in an old version", [](auto &p) { buf(p, ZFLAT).set_shape(0, 1); },
     "but uses what version 5"},
    {"alias with contents",
     [](auto &p) {
       buf(p, LOSS).set_constant("1234");
       buf(p, LOSS).set_persistent(true);
     },
     "alias and a constant"},
    {"alias that lives longer", [](auto &p) { buf(p, ZFLAT).set_persistent(true); },
     "of which it is an alias, is not"},
    {"over a persistent buffer", [](auto &p) { buf(p, GRAD).set_offset(p.buffers(W).offset()); },
     "which is persistent"},
    {"persistent over another",
     [](auto &p) {
       buf(p, GRAD).set_persistent(true), buf(p, GRAD).set_offset(p.buffers(X).offset());
     },
     "which is persistent"},

    {"no role", [](auto &p) { bind(p, 0).set_role(plan::ROLE_INVALID); }, "no valid role"},
    {"bound to nothing", [](auto &p) { bind(p, 0).set_buffer(999); }, "does not exist"},
    {"box of another rank", [](auto &p) { bind(p, 0).add_global_shape(1); },
     "number of dimensions"},
    {"box with a short offset", [](auto &p) { bind(p, 0).clear_offset(); }, "number of dimensions"},
    {"box outside", [](auto &p) { bind(p, 0).set_offset(0, 5); }, "outside the global shape"},
    {"box before", [](auto &p) { bind(p, 0).set_offset(0, -1); }, "outside the global shape"},
    {"box near 2^63", [](auto &p) { bind(p, 0).set_offset(0, INT64_MAX); },
     "outside the global shape"},
    {"extent of another rank", [](auto &p) { bind(p, 0).add_extent(1); }, "number of dimensions"},
    {"extent beyond the buffer", [](auto &p) { setExtent(p, 0, 1); }, "cannot hold the extent"},
    {"negative extent", [](auto &p) { setExtent(p, 0, -100); }, "cannot hold the extent"},
    {"global shape overflows", [](auto &p) { bind(p, 0).set_global_shape(0, INT64_MAX); },
     "is not possible"},
    {"unknown program", [](auto &p) { bind(p, 0).set_program("eval"); }, "does not exist"},
    {"parameter not persistent", [](auto &p) { buf(p, W).set_persistent(false); },
     "not persistent"},
    {"input is constant", [](auto &p) { bind(p, 1).set_buffer(LR); }, "constant"},
    {"step is no integer", [](auto &p) { bind(p, 1).set_buffer(PART); }, "has the type f32"},
    {"loss is no scalar", [](auto &p) { bind(p, 4).set_role(plan::LOSS); }, "not a scalar"},
    {"loss is an integer", [](auto &p) { bind(p, 5).set_buffer(STEP_COUNT); }, "has the type i64"},
    {"parameter without file", [](auto &p) { p.clear_weights_file(); }, "no weight file"},
    {"input with initial values", [](auto &p) { bind(p, 0).mutable_initial(); },
     "which only parameters and states have"},
    {"endless initial value", [](auto &p) { bind(p, 3).mutable_initial()->set_value(INFINITY); },
     "no valid rule"},
    {"unknown rule of initial values",
     [](auto &p) { bind(p, 3).mutable_initial()->set_kind(plan::Initial::Kind(9)); },
     "no valid rule"},
    {"name bound twice",
     [](auto &p) {
       bind(p, 3).set_role(plan::PARAMETER);
       bind(p, 3).set_name("w");
     },
     "bound twice"},
    {"buffer bound twice", [](auto &p) { bind(p, 3).set_buffer(W); }, "already belongs"},
    {"ordinal twice",
     [](auto &p) {
       *p.add_bindings() = p.bindings(0);
       bind(p, 6).set_name("x2");
     },
     "taken twice"},
    {"limit of numbers that are no integers", [](auto &p) { bind(p, 0).set_id_limit(9); },
     "only inputs and targets of integers"},
    {"limit of a step", [](auto &p) { bind(p, 1).set_id_limit(9); }, "only inputs and targets of integers"},
    {"negative limit", [](auto &p) { bind(p, 0).set_id_limit(-1); }, "has the limit -1"},
    {"a logged tensor", [](auto &p) { bind(p, 3).set_log_as("momentum"); }, "only states that are scalars"},
    {"a logged loss", [](auto &p) { bind(p, 5).set_log_as("loss"); }, "only states that are scalars"},
    {"ordinals with a gap", [](auto &p) { bind(p, 0).set_ordinal(1); }, "are not 0 to 0"},
    {"two losses",
     [](auto &p) {
       *p.add_bindings() = p.bindings(5);
       bind(p, 6).set_name("loss2");
       bind(p, 6).set_ordinal(1);
     },
     "has two of these"},

    {"empty step", [](auto &p) { step(p, RELU).clear_kernel(); }, "does nothing"},
    {"nameless kernel", [](auto &p) { kernel(p, RELU).clear_name(); }, "without a name"},
    {"reads no buffer", [](auto &p) { kernel(p, RELU).set_inputs(0, 999); }, "does not exist"},
    {"writes no buffer", [](auto &p) { kernel(p, RELU).set_outputs(0, 999); }, "does not exist"},
    {"writes a constant", [](auto &p) { kernel(p, REDUCE).set_outputs(0, LR); },
     "which is a constant"},
    {"no result", [](auto &p) { kernel(p, RELU).clear_outputs(); }, "without a result"},
    {"attribute without value",
     [](auto &p) { kernel(p, GRADIENT).mutable_attributes(0)->clear_value(); }, "has no value"},
    {"attributes out of order",
     [](auto &p) { kernel(p, GRADIENT).mutable_attributes(0)->set_name("z"); }, "out of order"},
    {"expression of another kernel", [](auto &p) { kernel(p, RELU).mutable_expression(); },
     "only 'fused' may"},
    {"fused without expression", [](auto &p) { kernel(p, UPDATE).clear_expression(); },
     "has no expression"},
    {"in place where it cannot", [](auto &p) { kernel(p, RELU).set_name("softmax"); },
     "cannot do in place"},
    {"half over its input", [](auto &p) { buf(p, GRAD).set_offset(p.buffers(X).offset()); },
     "cannot do in place"},
    {"in place under a reduction",
     [](auto &p) { expr(p).mutable_results(0)->set_reduction(plan::SUM); }, "cannot do in place"},
    {"results overlap", [](auto &p) { kernel(p, MATMUL).add_outputs(Z); }, "overlap"},

    {"domain", [](auto &p) { expr(p).set_domain(0, 0); }, "is not possible"},
    {"views missing", [](auto &p) { expr(p).mutable_input_views()->RemoveLast(); },
     "one view per input"},
    {"results missing", [](auto &p) { expr(p).clear_results(); }, "one view per input"},
    {"view of another rank", [](auto &p) { expr(p).mutable_input_views(0)->add_shape(1); },
     "does not fit the domain"},
    {"view of another size", [](auto &p) { expr(p).mutable_input_views(0)->set_shape(0, 2); },
     "does not fit the domain"},
    {"view of another count", [](auto &p) { expr(p).mutable_input_views(0)->set_shape(0, 1); },
     "another number of elements"},
    {"instruction without type", [](auto &p) { expr(p).mutable_code(0)->clear_type(); },
     "no valid type"},
    {"instruction reads ahead", [](auto &p) { expr(p).mutable_code(0)->set_operands(0, 3); },
     "which comes later"},
    {"instruction unknown", [](auto &p) { expr(p).mutable_code(0)->set_op("matmul"); },
     "no elementwise operator"},
    {"instruction arity", [](auto &p) { expr(p).mutable_code(0)->add_operands(0); },
     "operands, not 2"},
    {"iota without dimension",
     [](auto &p) {
       expr(p).mutable_code(0)->set_op("iota");
       expr(p).mutable_code(0)->clear_operands();
     },
     "attribute 'dim'"},
    {"result of no value", [](auto &p) { expr(p).mutable_results(0)->set_value(5); },
     "does not exist"},
    {"result view", [](auto &p) { expr(p).mutable_results(0)->set_shape(0, 7); }, "does not fit"},

    {"collective of no kind", [](auto &p) { coll(p, GATHER).set_kind(plan::COLLECTIVE_INVALID); },
     "no valid kind"},
    {"no group", [](auto &p) { coll(p, GATHER).set_group(5); }, "which does not exist"},
    {"collective reads nothing", [](auto &p) { coll(p, GATHER).set_input(999); }, "does not exist"},
    {"collective writes a constant", [](auto &p) { coll(p, LOSS_SUM).set_output(LR); },
     "which is a constant"},
    {"gather along no dimension", [](auto &p) { coll(p, GATHER).set_dim(2); }, "does not have"},
    {"gather of another shape", [](auto &p) { coll(p, GATHER).set_dim(1); },
     "follows from the input"},
    {"collective converts", [](auto &p) { buf(p, OUT).set_dtype(plan::I32); }, "different types"},
    {"all-reduce without reduction", [](auto &p) { coll(p, GRADIENT_SUM).clear_reduction(); },
     "has no reduction"},
    {"gather with reduction", [](auto &p) { coll(p, GATHER).set_reduction(plan::SUM); },
     "has a reduction"},
    {"scatter that does not divide",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::REDUCE_SCATTER);
       coll(p, GRADIENT_SUM).set_dim(0);
     },
     "does not divide"},
    {"all-to-all that does not divide",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::ALL_TO_ALL);
       coll(p, GRADIENT_SUM).set_split_dim(0);
       coll(p, GRADIENT_SUM).set_dim(1);
     },
     "does not divide"},
    {"permute of no permutation",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::PERMUTE);
       coll(p, GRADIENT_SUM).add_sources(1);
       coll(p, GRADIENT_SUM).add_sources(1);
     },
     "no permutation"},
    {"halo too wide",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::HALO);
       coll(p, GRADIENT_SUM).set_halo_lo(4);
     },
     "wider than"},
    {"halo negative",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::HALO);
       coll(p, GRADIENT_SUM).set_halo_hi(-1);
     },
     "negative"},
    {"root outside",
     [](auto &p) {
       coll(p, GRADIENT_SUM).set_kind(plan::BROADCAST);
       coll(p, GRADIENT_SUM).set_root(2);
     },
     "not in the group"},
    {"collective in place",
     [](auto &p) {
       coll(p, LOSS_SUM).set_kind(plan::BROADCAST);
       coll(p, LOSS_SUM).clear_reduction();
     },
     "overlaps the input"},

    {"read before written", [](auto &p) { kernel(p, MATMUL).set_inputs(0, OUT); },
     "which nothing has written"},
    {"written too late", [](auto &p) { postpone(p, REDUCE); }, "which nothing has written"},
    {"overwritten",
     [](auto &p) {
       kernel(p, REDUCE).set_inputs(0, Y); // relu put z in its place
     },
     "which buffer 6 'z' has overwritten"},
    {"overwritten in part",
     [](auto &p) {
       // part takes the first bytes of y, which relu then reads
       buf(p, PART).set_offset(p.buffers(Y).offset());
       buf(p, LOSS).set_offset(p.buffers(Y).offset());
       kernel(p, REDUCE).set_inputs(0, X);
       p.mutable_programs(0)->mutable_steps()->SwapElements(RELU, REDUCE);
     },
     "which buffer 10 'part' has overwritten"},
    {"feeds collide", [](auto &p) { buf(p, STEP_COUNT).set_offset(p.buffers(X).offset()); },
     "feeding program 'train'"},
    {"output is gone at the end",
     [](auto &p) {
       buf(p, OUT).set_offset(p.buffers(LOSS).offset());
       p.set_arena_bytes(p.arena_bytes() + 64);
     },
     "the end of program 'train'"},
};

const std::vector<Case> kAllRanks = {
    {"other compilation", [](auto &p) { p.set_plan_id("1"); }, "different compilations"},
    {"other mesh", [](auto &p) { p.mutable_mesh(0)->set_name("model"); }, "differ in mesh"},
    {"other weights", [](auto &p) { p.set_weights_file("w"); }, "weight file"},
    {"more groups", [](auto &p) { *p.add_groups() = p.groups(0); }, "has 2"},
    {"other group order", [](auto &p) { p.mutable_groups(0)->mutable_ranks()->SwapElements(0, 1); },
     "group 0 is not the same"},
    {"other runs",
     [](auto &p) {
       p.set_version(7);
       p.mutable_groups(0)->set_run(1);
     },
     "group 0 is not the same"},
    {"another program", [](auto &p) { p.add_programs()->set_name("eval"); }, "numbers of programs"},
    {"fewer steps", [](auto &p) { p.mutable_programs(0)->mutable_steps()->RemoveLast(); }, "7 steps"},
    {"another step", [](auto &p) { step(p, RELU).set_name("gelu"); }, "rank 0 does '/fc/Relu'"},
    {"another kernel", [](auto &p) { kernel(p, RELU).set_name("neg"); }, "in another way"},
    {"kernel instead of collective", [](auto &p) { step(p, GRADIENT_SUM).mutable_kernel()->set_name("neg"); },
     "in another way"},
    {"swapped collectives",
     [](auto &p) { p.mutable_programs(0)->mutable_steps()->SwapElements(GRADIENT_SUM, LOSS_SUM); }, "rank 0 does"},
    {"another kind", [](auto &p) { coll(p, GRADIENT_SUM).set_kind(plan::PERMUTE); }, "differs in kind"},
    {"another reduction", [](auto &p) { coll(p, GRADIENT_SUM).set_reduction(plan::MAX); }, "differs in reduction"},
    {"another order",
     [](auto &p) {
       p.set_version(3);
       coll(p, GRADIENT_SUM).set_tree(true);
     },
     "differs in the order of its sums"},
    {"another shape", [](auto &p) { coll(p, GRADIENT_SUM).set_input(LR); }, "differs in shape"},
    {"another type", [](auto &p) { buf(p, GRAD).set_dtype(plan::I32); }, "element type"},
    {"another dimension", [](auto &p) { coll(p, GATHER).set_dim(1); }, "differs in dimension"},
    {"another group", [](auto &p) { coll(p, GATHER).set_group(1); }, "different groups"},
    {"fewer bindings", [](auto &p) { p.mutable_bindings()->RemoveLast(); }, "numbers of bindings"},
    {"another name", [](auto &p) { bind(p, 2).set_name("v"); }, "is not the same on rank 0"},
    {"another fill", [](auto &p) { bind(p, 3).set_fill(9); }, "is not the same on rank 0"},
    {"replica marked primary", [](auto &p) { bind(p, 2).set_primary(true); }, "holds a replica"},
    {"nobody primary", [](auto &p) { bind(p, 0).set_primary(false); }, "not marked primary"},
    {"hole",
     [](auto &p) {
       bind(p, 0).set_offset(0, 0);
       bind(p, 0).set_primary(false);
     },
     "blocks hold 12 elements"},
    {"padding where there are elements", [](auto &p) { setExtent(p, 0, -1); }, "blocks hold"},
    {"boxes overlap", [](auto &p) { bind(p, 0).set_offset(0, 2); }, "overlap"},
};

} // namespace

TEST_CASE("good plans pass") {
  for (uint32_t ranks : {1u, 2u, 4u}) {
    std::vector<plan::Plan> plans = trainingPlans(ranks);
    for (const plan::Plan &p : plans) {
      INFO(checkPlan(p).message());
      CHECK(checkPlan(p).ok());
    }
    INFO(checkPlans(plans).message());
    CHECK(checkPlans(plans).ok());
  }
}

TEST_CASE("every spoiled plan of one rank is refused for its reason") {
  for (const Case &c : kOneRank) {
    plan::Plan p = trainingPlan(1, 2);
    c.spoil(p);
    tessera::rt::Status status = checkPlan(p);
    INFO(c.name << ": " << status.message());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(c.message) != std::string::npos);
    CHECK(status.message().find("rank 1") == 0);
  }
}

TEST_CASE("plans that do not fit together are refused for their reason") {
  for (const Case &c : kAllRanks) {
    std::vector<plan::Plan> plans = trainingPlans(2);
    c.spoil(plans[1]);
    tessera::rt::Status status = checkPlans(plans);
    INFO(c.name << ": " << status.message());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("a plan is refused for its reason however much of it is like the first rank's") {
  for (const auto *cases : {&kOneRank, &kAllRanks})
    for (const Case &c : *cases) {
      std::vector<plan::Plan> plans = trainingPlans(2);
      c.spoil(plans[1]);
      PlansChecker checker;
      CHECK(checker.add(plans[0], serialize(plans[0])).ok());
      tessera::rt::Status alone = checkPlan(plans[1]);
      tessera::rt::Status status = checker.add(plans[1], serialize(plans[1]));
      if (status.ok())
        status = checker.finish();
      INFO(c.name << ": " << status.message());
      if (!alone.ok())
        CHECK(status.message() == alone.message());
      else
        CHECK(status.message().find(c.message) != std::string::npos);
    }
}

TEST_CASE("a step is not the same where its buffers or groups are others") {
  // The change of one part makes another part wrong.
  std::vector<plan::Plan> plans = trainingPlans(2);
  auto message = [&](const plan::Plan &second) {
    PlansChecker checker;
    REQUIRE(checker.add(plans[0], serialize(plans[0])).ok());
    return checker.add(second, serialize(second)).message();
  };
  plan::Plan alone = plans[1];
  alone.mutable_groups(0)->clear_ranks();
  alone.mutable_groups(0)->add_ranks(1);
  CHECK(message(alone).find("follows from the input") != std::string::npos);
  plan::Plan flat = plans[1];
  buf(flat, OUT).clear_shape();
  buf(flat, OUT).add_shape(16);
  CHECK(message(flat) == checkPlan(flat).message());
  plan::Plan moved = plans[1]; // reads where the first rank's was written
  buf(moved, GRAD).set_offset(moved.buffers(Y).offset());
  CHECK(message(moved) == checkPlan(moved).message());
  plan::Plan fed = plans[1];
  bind(fed, 0).set_buffer(Y);
  CHECK(message(fed) == checkPlan(fed).message());
  CHECK_FALSE(message(fed).empty());
}

TEST_CASE("the parts of a plan lie in its bytes") {
  const plan::Plan plan = trainingPlan(1, 2);
  const std::string bytes = serialize(plan);
  std::optional<PlanParts> parts = partsOf(bytes);
  REQUIRE(parts);
  REQUIRE(parts->buffers.size() == size_t(plan.buffers_size()));
  for (int b = 0; b < plan.buffers_size(); ++b)
    CHECK(parts->buffers[size_t(b)] == plan.buffers(b).SerializeAsString());
  REQUIRE(parts->steps.size() == 1);
  REQUIRE(parts->steps[0].size() == size_t(plan.programs(0).steps_size()));
  for (int s = 0; s < plan.programs(0).steps_size(); ++s)
    CHECK(parts->steps[0][size_t(s)] == plan.programs(0).steps(s).SerializeAsString());
  CHECK_FALSE(partsOf(bytes.substr(0, bytes.size() - 1)));
  CHECK_FALSE(partsOf("\x07"));
  CHECK(partsOf("")->buffers.empty());
}

TEST_CASE("a wrong number or order of plans is refused") {
  std::vector<plan::Plan> plans = trainingPlans(2);
  CHECK(checkPlans({}).message() == "there are no plans");
  CHECK(checkPlans({plans[0]}).message().find("2 ranks, but there are 1") != std::string::npos);
  std::swap(plans[0], plans[1]);
  CHECK(checkPlans(plans).message().find("says that it is for rank 1") != std::string::npos);
}

TEST_CASE("boxes need not lie on a lattice") {
  // 3 + 5 rows
  std::vector<plan::Plan> plans;
  for (uint32_t rank : {0u, 1u}) {
    PlanBuilder b(rank, 2);
    b.bind(plan::INPUT, "x", b.buffer("x", {rank ? 5 : 3}), {8}, {rank ? 3 : 0});
    plans.push_back(b.plan);
  }
  CHECK(checkPlans(plans).ok());
  plans[1].mutable_bindings(0)->set_offset(0, 2);
  CHECK(checkPlans(plans).message().find("overlap") != std::string::npos);
}
