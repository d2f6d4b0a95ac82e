// A convolution whose sum a loop adds to 16-bit numbers from memory adds to them itself, where nobody misses them.
#include "test/unit/device/JoinedProgram.h"

#include "runtime/backend/cuda/join/AddingConvs.h"

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

using Operands = std::vector<uint32_t>;

/// Where two branches meet: z = -x, a convolution's gradient t is added to z and rounded, and a loop goes on from
/// there. All numbers are small integers, so that no order of additions matters.
struct Meeting : JoinedProgram {
  const Shape shape = {2, 4, 5, 5};
  uint32_t x, z, dy, w, t, y, sums;
  plan::Expression *loop = nullptr;

  explicit Meeting(plan::DType type = plan::BF16, int64_t filters = 4, bool rounds = true) : JoinedProgram(3, {}) {
    x = integers(shape, type);
    dy = integers({2, filters, 5, 5}, type);
    w = integers({filters, 4, 1, 1}, type);
    z = p.buffer(type, shape);
    t = p.buffer(plan::F32, shape);
    y = p.buffer(type, shape); // bound tensors would lie plain, and the convolution's result would be a copy
    wanted.push_back(y);
    sums = output({4});
    // Another reader of x wants the channels last, as in a network.
    p.kernel("conv", {x, integers({4, 4, 1, 1}, type)}, {p.buffer(type, shape)}, attributes());
    p.kernel("neg", {x}, {z});
    Attributes gradient = attributes();
    gradient["input_sizes"] = Shape{5, 5};
    gradient["wide"] = int64_t(1);
    p.kernel("conv_input_grad", {dy, w}, {t}, gradient);
    loop = p.kernel("fused", {t, z}, {y, sums}).mutable_expression();
    for (auto *s :
         {loop->mutable_domain(), loop->add_input_views()->mutable_shape(), loop->add_input_views()->mutable_shape()})
      for (int64_t n : shape)
        s->Add(n);
    add("cast", {1}, plan::F32);   // 2
    add("add", {0, 2}, plan::F32); // 3
    add("cast", {3}, type);        // 4
    if (rounds) {
      plan::Attribute &a = *loop->mutable_code(2)->add_attributes();
      a.set_name("rounds");
      a.set_i(1);
    }
    add("relu", {4}, type);      // 5
    add("cast", {5}, plan::F32); // 6
    result(5, shape);
    result(6, {1, 4, 1, 1}).set_reduction(plan::SUM);
  }
  static Attributes attributes() {
    return {{"strides", Shape{1, 1}}, {"dilations", Shape{1, 1}}, {"pads", Shape{0, 0, 0, 0}}, {"groups", int64_t(1)}};
  }
  uint32_t integers(const Shape &s, plan::DType type) {
    const uint32_t b = p.buffer(type, s);
    for (int64_t i = elementCount(s); i > 0; --i)
      inputs[b].push_back(double(random() % 9) - 4);
    return b;
  }
  void add(const char *op, const Operands &operands, plan::DType type) {
    plan::Instruction &i = *loop->add_code();
    i.set_op(op);
    for (uint32_t o : operands)
      i.add_operands(o);
    i.set_type(type);
  }
  plan::Result &result(uint32_t value, const Shape &view) {
    plan::Result &r = *loop->add_results();
    r.set_value(value);
    for (int64_t n : view)
      r.add_shape(n);
    return r;
  }
  /// Whether the convolution adds. What the program makes is what its steps make one by one.
  bool adds(const LoadOptions &options = {}) {
    places(options);
    std::vector<std::string> steps;
    p.run("cuda", inputs, wanted, options, &steps);
    bool found = false;
    for (const std::string &step : steps)
      found = found || step.find("added to what is there") != std::string::npos;
    return found;
  }
};

} // namespace

TEST_CASE("a convolution adds to the gradient that a loop would add it to") {
  for (const plan::DType type : {plan::BF16, plan::F16}) {
    Meeting m(type);
    CHECK(m.adds());
    // The sum in F32 is never written.
    const Values t = m.p.run("cuda", m.inputs, {m.t})[0];
    CHECK(t == Values(t.size(), 0));
    // A second run adds to what its own steps have made.
    std::vector<Values> once = m.p.run("cuda", m.inputs, m.wanted);
    CHECK(once == m.p.run("reference", m.inputs, m.wanted));
  }
}

TEST_CASE("loops behind the sums of such a loop stay in its kernel") {
  Meeting m;
  const uint32_t mean = m.output({4});
  m.p.kernel("neg", {m.sums}, {mean});
  CHECK(m.adds());
  CHECK(m.places() == std::vector<size_t>{0, 1, 2, 4, 4});
}

TEST_CASE("a convolution stays apart where its sum, or what it would be added to, is read elsewhere") {
  Meeting sum;
  sum.p.kernel("neg", {sum.t}, {sum.output(sum.shape)});
  CHECK_FALSE(sum.adds());
  for (const bool behind : {false, true}) {
    Meeting addend;
    addend.p.kernel("neg", {addend.z}, {addend.output(addend.shape, plan::BF16)});
    if (!behind) // before the loop
      addend.p.plan().mutable_programs(0)->mutable_steps()->SwapElements(3, 4);
    CHECK_FALSE(addend.adds());
  }
  Meeting kept;
  kept.wanted.push_back(kept.z);
  plan::Binding &binding = *kept.p.plan().add_bindings();
  binding.set_role(plan::OUTPUT);
  binding.set_buffer(kept.z);
  CHECK_FALSE(kept.adds());
}

TEST_CASE("a convolution stays apart where the loop does something else") {
  Meeting unrounded(plan::BF16, 4, false);
  CHECK_FALSE(unrounded.adds());
  Meeting twice; // the sum is read a second time
  twice.add("neg", {0}, plan::F32);
  twice.result(7, twice.shape);
  twice.p.plan().mutable_programs(0)->mutable_steps(3)->mutable_kernel()->add_outputs(twice.output(twice.shape));
  CHECK_FALSE(twice.adds());
  Meeting wide; // the addition is read before it is rounded
  wide.add("neg", {3}, plan::F32);
  wide.result(7, wide.shape);
  wide.p.plan().mutable_programs(0)->mutable_steps(3)->mutable_kernel()->add_outputs(wide.output(wide.shape));
  CHECK_FALSE(wide.adds());
}

TEST_CASE("a convolution that the library refuses stays apart, with its loop") {
  Meeting refused(plan::BF16, 3); // the emulator's every third
  CHECK_FALSE(refused.adds());
}

TEST_CASE("a convolution adds nothing that was made for several turns of its section") {
  Meeting m;
  plan::Program &program = *m.p.plan().mutable_programs(0);
  // z is made once, the rest runs twice.
  program.add_section_ends(2);
  program.add_section_ends(4);
  for (uint32_t section : {0U, 1U, 1U})
    program.add_calls()->set_section(section);
  CHECK_FALSE(m.adds());
}

TEST_CASE("what is left of a loop reads the addition from memory") {
  Meeting m;
  const plan::Kernel &loop = m.p.plan().programs(0).steps(3).kernel();
  const plan::Kernel rest = cuda::withoutSum(loop, {0, 1, 4});
  REQUIRE(rest.inputs_size() == 1);
  CHECK(rest.inputs(0) == m.z);
  const plan::Expression &e = rest.expression();
  CHECK(e.input_views_size() == 1);
  REQUIRE(e.code_size() == 2);
  CHECK(e.code(0).op() == "relu");
  CHECK(e.code(0).operands(0) == 0);
  CHECK(e.code(1).operands(0) == 1);
  CHECK(e.results(0).value() == 1);
  CHECK(e.results(1).value() == 2);
}
