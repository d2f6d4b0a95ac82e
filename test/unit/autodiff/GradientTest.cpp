// Every gradient rule against central differences in double precision.
#include "GradientChecking.h"

#include "compiler/autodiff/Gradient.h"
#include "compiler/autodiff/GradientRules.h"

#include <set>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

void unary(const std::string &op, Range range = {-2, 2}) {
  INFO(op);
  check(program(op, {"3x5xf64"}, "3x5xf64"), {range});
}
void binary(const std::string &op, Range a = {-2, 2}, Range b = {-2, 2}) {
  INFO(op);
  check(program(op, {"2x3x4xf64", "2x3x4xf64"}, "2x3x4xf64"), {a, b});
  check(program(op, {"2x3x4xf64", "3x1xf64"}, "2x3x4xf64"), {a, b}); // stretched: leading and inner
  check(program(op, {"1x4xf64", "3x4xf64"}, "3x4xf64"), {a, b});
  check(program(op, {"f64", "2x3xf64"}, "2x3xf64"), {a, b});
  // One operand used twice.
  check("func.func @f(%x: tensor<4xf64>) -> tensor<4xf64> {\n %y = graph." + op +
            " %x, %x : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>\n return %y : "
            "tensor<4xf64>\n}",
        {{std::max(a.low, b.low), std::min(a.high, b.high)}});
}

} // namespace

TEST_CASE("gradients of unary operators") {
  for (const rt::ElementwiseFunction &f : rt::elementwiseFunctions())
    if (isDifferentiableUnary(f))
      unary(std::string(f.name), rangeOf(f));
  unary("sign");
  unary("floor", {0.1, 0.9});
  unary("ceil", {0.1, 0.9});
  unary("round", {0.1, 0.4});
}

TEST_CASE("gradients of binary operators") {
  binary("add");
  binary("sub");
  binary("mul");
  binary("div", {-2, 2}, {0.5, 2});
  binary("pow", {0.5, 2}, {-1.5, 2});
  binary("mod", {5.1, 5.9}, {2.05, 2.45});
}

TEST_CASE("gradients of max and min") {
  for (std::string op : {"max", "min"}) {
    check(program(op, {"2x3x4xf64", "2x3x4xf64"}, "2x3x4xf64"));
    check(program(op, {"2x3x4xf64", "3x1xf64"}, "2x3x4xf64"));
    for (std::string bound : {"0.5", "-0.5"})
      for (std::string order : {"%c, %x", "%x, %c"}) {
        std::string types = order[1] == 'c' ? "tensor<f64>, tensor<9xf64>" : "tensor<9xf64>, tensor<f64>";
        check("func.func @f(%x: tensor<9xf64>) -> tensor<9xf64> {\n %c = graph.constant dense<" + bound +
              "> : tensor<f64>\n %y = graph." + op + " " + order + " : (" + types +
              ") -> tensor<9xf64>\n return %y : tensor<9xf64>\n}");
      }
  }
}

TEST_CASE("gradients of a power with a constant exponent") {
  for (std::string exponent : {"2.0", "3.0", "1.0", "0.0", "0.5", "-1.5"})
    check("func.func @f(%x: tensor<5xf64>) -> tensor<5xf64> {\n %e = graph.constant dense<" + exponent +
              "> : tensor<f64>\n %y = graph.pow %x, %e : (tensor<5xf64>, tensor<f64>) -> "
              "tensor<5xf64>\n return %y : tensor<5xf64>\n}",
          {{0.5, 2}});
}

TEST_CASE("gradients of selections and conversions") {
  check(
      R"(func.func @f(%i: tensor<6xi64>, %a: tensor<2x6xf64>, %b: tensor<1xf64>) -> tensor<2x6xf64> {
    %one = graph.constant dense<1> : tensor<i64>
    %c = graph.eq %i, %one : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
    %y = graph.select %c, %a, %b : (tensor<6xi1>, tensor<2x6xf64>, tensor<1xf64>) -> tensor<2x6xf64>
    return %y : tensor<2x6xf64>
  })");
  check(R"(func.func @f(%a: tensor<6xf64>) -> tensor<6xf64> {
    %n = graph.cast %a : (tensor<6xf64>) -> tensor<6xf32>
    %m = graph.mul %n, %n : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %y = graph.cast %m : (tensor<6xf32>) -> tensor<6xf64>
    return %y : tensor<6xf64>
  })");
  check(R"(func.func @f(%a: tensor<6xf64>) -> tensor<6xf64> {
    %n = graph.cast %a : (tensor<6xf64>) -> tensor<6xi64>
    %m = graph.cast %n : (tensor<6xi64>) -> tensor<6xf64>
    %y = graph.mul %m, %a : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xf64>
    return %y : tensor<6xf64>
  })",
        {{1.1, 1.9}});
}

TEST_CASE("gradients of data movement") {
  check(program("broadcast", {"3x1xf64"}, "2x3x4xf64"));
  check(program("broadcast", {"f64"}, "2x3xf64"));
  check(program("reshape", {"3x4xf64"}, "2x6xf64"));
  check(program("transpose", {"2x3x4xf64"}, "4x2x3xf64", "perm = array<i64: 2, 0, 1>"));
  check(program("slice", {"5x7xf64"}, "2x3xf64",
                "starts = array<i64: 1, 0>, limits = array<i64: 5, 6>, strides = array<i64: 3, 2>"));
  check(program("slice", {"5x7xf64"}, "4x3xf64",
                "starts = array<i64: 1, 4>, limits = array<i64: 5, 7>, strides = array<i64: 1, 1>"));
  check(program("pad", {"2x3xf64"}, "6x9xf64",
                "lo = array<i64: 1, 0>, hi = array<i64: 3, 2>, inner = array<i64: 0, 2>, value = 1.5 : "
                "f64"));
  check(program("concat", {"2x3xf64", "2x1xf64", "2x4xf64"}, "2x8xf64", "dim = 1 : i64"));
  check(program("gather", {"4x3xf64", "2x5xi64"}, "2x5x3xf64", "axis = 0 : i64"));
  check(program("gather", {"2x4x3xf64", "5xi64"}, "2x5x3xf64", "axis = 1 : i64"));
  check(program("scatter_add", {"5xi64", "2x5x3xf64"}, "2x4x3xf64", "axis = 1 : i64, size = 4 : i64"));
  // One part of the table per batch; take_along_axis.
  check(program("gather", {"2x3x4x2xf64", "2x5xi64"}, "2x3x5x2xf64", "axis = 2 : i64, batch_dims = 1 : i64"));
  check(program("gather", {"2x3x4xf64", "2x3x2xi64"}, "2x3x2xf64", "axis = 2 : i64, batch_dims = 2 : i64"));
  check(program("scatter_add", {"2x5xi64", "2x3x5x2xf64"}, "2x3x4x2xf64",
                "axis = 2 : i64, size = 4 : i64, batch_dims = 1 : i64"));
}

TEST_CASE("gradients of reductions") {
  for (std::string op : {"reduce_sum", "reduce_max", "reduce_min"}) {
    check(program(op, {"2x3x4xf64"}, "3xf64", "dims = array<i64: 0, 2>, keepdims = false"));
    check(program(op, {"2x3x4xf64"}, "2x1x4xf64", "dims = array<i64: 1>, keepdims = true"));
    check(program(op, {"2x3xf64"}, "f64", "dims = array<i64: 0, 1>, keepdims = false"));
  }
}

TEST_CASE("equal maxima share the gradient") {
  Program p(R"(func.func @f(%x: tensor<4xf64>) -> tensor<f64> {
    %y = graph.reduce_max %x {dims = array<i64: 0>, keepdims = false} : (tensor<4xf64>) -> tensor<f64>
    return %y : tensor<f64>
  })");
  func::FuncOp f = p.func("f");
  graph::OpWriter b(f);
  Operation *terminator = f.getBody().front().getTerminator();
  Value y = terminator->getOperand(0);
  auto g = llvm::cantFail(
      compiler::differentiate(b, compiler::Seed{y, b.constant(y.getType(), 1.0)}, Value(f.getArgument(0))));
  terminator->setOperands(g);
  f.setFunctionType(FunctionType::get(&p.context, f.getArgumentTypes(), {g[0].getType()}));
  CHECK(run(f, {Tensor::of({4}, {1, 3, 3, 2})})[0].data == std::vector<double>{0, 0.5, 0.5, 0});
}

TEST_CASE("gradients of matrix products") {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      std::string flags =
          std::string("transpose_a = ") + (ta ? "true" : "false") + ", transpose_b = " + (tb ? "true" : "false");
      std::string a = ta ? "5x3xf64" : "3x5xf64", b = tb ? "4x5xf64" : "5x4xf64";
      INFO(flags);
      check(program("matmul", {a, b}, "3x4xf64", flags));
      check(program("matmul", {"2x" + a, b}, "2x3x4xf64", flags));
      check(program("matmul", {a, "2x" + b}, "2x3x4xf64", flags));
      check(program("matmul", {"2x1x" + a, "3x" + b}, "2x3x3x4xf64", flags));
      check(program("matmul", {"2x3x" + a, "1x1x" + b}, "2x3x3x4xf64", flags));
    }
}

TEST_CASE("gradients of convolutions") {
  auto attributes = [](std::string strides, std::string pads, std::string dilations, int groups) {
    return "strides = array<i64: " + strides + ">, pads = array<i64: " + pads +
           ">, dilations = array<i64: " + dilations + ">, groups = " + std::to_string(groups) + " : i64";
  };
  check(program("conv", {"2x3x5x5xf64", "4x3x3x3xf64"}, "2x4x5x5xf64", attributes("1, 1", "1, 1, 1, 1", "1, 1", 1)));
  // The stride leaves a remainder that no output reads. Pads are unequal, and the kernel is dilated.
  check(program("conv", {"1x2x6x7xf64", "3x2x3x2xf64"}, "1x3x3x3xf64", attributes("2, 3", "1, 0, 0, 2", "1, 2", 1)));
  check(program("conv", {"1x4x5x5xf64", "6x2x2x2xf64"}, "1x6x2x2xf64", attributes("2, 2", "0, 0, 0, 0", "1, 1", 2)));
  check(program("conv", {"2x2x7xf64", "3x2x3xf64"}, "2x3x4xf64", attributes("2", "1, 1", "1", 1)));

  std::string sizes = ", input_sizes = array<i64: ";
  check(program("conv_input_grad", {"1x3x3x3xf64", "3x2x3x3xf64"}, "1x2x6x6xf64",
                attributes("2, 2", "1, 1, 1, 1", "1, 1", 1) + sizes + "6, 6>"));
  check(program("conv_input_grad", {"1x3x3x3xf64", "3x2x2x2xf64"}, "1x2x6x7xf64",
                attributes("2, 2", "0, 0, 0, 0", "1, 1", 1) + sizes + "6, 7>"));
  // Terms beyond the border are dropped.
  check(program("conv_input_grad", {"1x2x4x4xf64", "2x1x3x3xf64"}, "1x1x5x8xf64",
                attributes("2, 2", "1, 1, 0, 0", "1, 1", 1) + sizes + "5, 8>"));
  // Some elements are farther than a stride from every term.
  check(program("conv_input_grad", {"1x2x3x3xf64", "2x1x2x2xf64"}, "1x1x8x9xf64",
                attributes("1, 2", "0, 0, 0, 0", "1, 1", 1) + sizes + "8, 9>"));
  check(program("conv_input_grad", {"1x4x3x3xf64", "4x1x2x2xf64"}, "1x2x4x4xf64",
                attributes("1, 1", "0, 0, 0, 0", "1, 1", 2) + sizes + "4, 4>"));
}

TEST_CASE("gradients of pooling") {
  check(program("max_pool", {"2x2x5x5xf64"}, "2x2x3x3xf64",
                "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
                "dilations = array<i64: 1, 1>"));
  check(program("max_pool", {"1x2x7xf64"}, "1x2x3xf64",
                "kernel = array<i64: 2>, strides = array<i64: 2>, pads = array<i64: 0, 0>, "
                "dilations = array<i64: 2>"));
  for (std::string include : {"true", "false"})
    check(program("avg_pool", {"2x2x5x5xf64"}, "2x2x3x3xf64",
                  "kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, "
                  "include_pad = " +
                      include));
}

TEST_CASE("gradients of softmax and normalisation") {
  for (std::string op : {"softmax", "log_softmax"}) {
    check(program(op, {"3x4xf64"}, "3x4xf64", "dim = 1 : i64"));
    check(program(op, {"2x3x4xf64"}, "2x3x4xf64", "dim = 1 : i64"));
  }
  check(R"(func.func @f(%x: tensor<3x2x2x2xf64>, %s: tensor<2xf64>, %b: tensor<2xf64>)
      -> tensor<3x2x2x2xf64> {
    %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64}
      : (tensor<3x2x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
      -> (tensor<3x2x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
    return %y : tensor<3x2x2x2xf64>
  })");
}

TEST_CASE("gradients of attention") {
  auto attributes = [](const std::string &more) { return "scale = 0.4 : f64" + more; };
  const std::string causal = ", causal = true, outside = -1.0 : f64";
  for (const std::string &mask : {std::string(), causal, causal + ", start = 2 : i64", causal + ", start = -1 : i64"}) {
    check(program("attention", {"2x2x3x4xf64", "2x2x5x4xf64", "2x2x5x3xf64"}, "2x2x3x3xf64", attributes(mask)));
    // Queries are grouped, rows stand before heads, and there is no batch.
    check(program("attention", {"2x4x3x4xf64", "2x2x5x4xf64", "2x2x5x3xf64"}, "2x4x3x3xf64", attributes(mask)));
    check(program("attention", {"2x3x4x2xf64", "2x5x2x2xf64", "2x5x2x3xf64"}, "2x3x4x3xf64",
                  attributes(mask + ", rows_first = true")));
    check(program("attention", {"2x3x2xf64", "2x3x2xf64", "2x3x2xf64"}, "2x3x2xf64", attributes(mask)));
  }
  // The bias has no gradient, since it comes from integers.
  for (std::string bias : {"2x1x1x5", "3x5", "2x2x3x5", "2x1x1", "5"})
    for (std::string more : {std::string(), causal})
      check("func.func @f(%q: tensor<2x2x3x4xf64>, %k: tensor<2x2x5x4xf64>, %v: tensor<2x2x5x3xf64>, "
            "%i: tensor<" +
            bias +
            "xi64>) -> tensor<2x2x3x3xf64> {\n"
            "%b = graph.cast %i : (tensor<" +
            bias + "xi64>) -> tensor<" + bias +
            "xf64>\n"
            "%y = graph.attention %q, %k, %v, %b {" +
            attributes(more) +
            "} : (tensor<2x2x3x4xf64>, "
            "tensor<2x2x5x4xf64>, tensor<2x2x5x3xf64>, tensor<" +
            bias +
            "xf64>) -> tensor<2x2x3x3xf64>\n"
            "return %y : tensor<2x2x3x3xf64> }");
  // What dropout keeps, some pairs of rows and keys; beside a bias and without one.
  for (std::string bias : {"", "%b, "})
    for (std::string more : {std::string(), causal})
      check("func.func @f(%q: tensor<2x4x3x4xf64>, %k: tensor<2x2x5x4xf64>, %v: tensor<2x2x5x3xf64>, "
            "%i: tensor<2x4x3x5xi64>) -> tensor<2x4x3x3xf64> {\n"
            "%one = graph.constant dense<1> : tensor<i64>\n"
            "%keep = graph.le %one, %i : (tensor<i64>, tensor<2x4x3x5xi64>) -> tensor<2x4x3x5xi1>\n"
            "%b = graph.cast %i : (tensor<2x4x3x5xi64>) -> tensor<2x4x3x5xf64>\n"
            "%y = graph.attention %q, %k, %v, " +
            bias + "%keep {" + attributes(more) +
            ", keep_scale = 1.5 : f64} : (tensor<2x4x3x4xf64>, tensor<2x2x5x4xf64>, tensor<2x2x5x3xf64>, " +
            (bias.empty() ? "" : "tensor<2x4x3x5xf64>, ") +
            "tensor<2x4x3x5xi1>) -> tensor<2x4x3x3xf64>\n"
            "return %y : tensor<2x4x3x3xf64> }");
}

TEST_CASE("several uses and several results add up") {
  check(
      R"(func.func @f(%x: tensor<3xf64>, %w: tensor<3x3xf64>) -> (tensor<3xf64>, tensor<1x3xf64>) {
    %t = graph.tanh %x : (tensor<3xf64>) -> tensor<3xf64>
    %r = graph.reshape %t : (tensor<3xf64>) -> tensor<1x3xf64>
    %m = graph.matmul %r, %w : (tensor<1x3xf64>, tensor<3x3xf64>) -> tensor<1x3xf64>
    %n = graph.matmul %m, %w : (tensor<1x3xf64>, tensor<3x3xf64>) -> tensor<1x3xf64>
    %s = graph.add %n, %t : (tensor<1x3xf64>, tensor<3xf64>) -> tensor<1x3xf64>
    %e = graph.exp %t : (tensor<3xf64>) -> tensor<3xf64>
    return %e, %s : tensor<3xf64>, tensor<1x3xf64>
  })");
}

TEST_CASE("an operator without a gradient is an error that names it") {
  auto errorOf = [](const std::string &text) {
    Program p(text);
    func::FuncOp f = p.func("f");
    graph::OpWriter b(f);
    Value y = f.getBody().front().getTerminator()->getOperand(0);
    auto g = compiler::differentiate(b, compiler::Seed{y, b.constant(y.getType(), 1.0)}, Value(f.getArgument(0)));
    REQUIRE(!g);
    return llvm::toString(g.takeError());
  };
  CHECK(errorOf(R"(func.func @f(%x: tensor<3x4xf64>, %d: tensor<3x4xf64>) -> tensor<3x4xf64> {
    %y = graph.softmax_grad %d, %x {dim = 1 : i64, graph.name = "s1"}
      : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xf64>
    return %y : tensor<3x4xf64>
  })") == "cannot differentiate 's1' (graph.softmax_grad): there is no gradient rule for this "
          "operator");
  CHECK(errorOf(R"(func.func @f(%b: tensor<3x3xf64>, %x: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
    %y = graph.attention %x, %x, %x, %b {scale = 1.0 : f64, graph.name = "att"}
      : (tensor<2x3x4xf64>, tensor<2x3x4xf64>, tensor<2x3x4xf64>, tensor<3x3xf64>) -> tensor<2x3x4xf64>
    return %y : tensor<2x3x4xf64>
  })") == "cannot differentiate 'att' (graph.attention): its bias has no gradient rule");
  CHECK(errorOf(R"(func.func @f(%x: tensor<3x2xf64>, %s: tensor<2xf64>) -> tensor<2xf64> {
    %y, %m, %v = graph.batch_norm %x, %s, %s {epsilon = 1.0e-5 : f64, graph.name = "bn"}
      : (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>)
    return %m : tensor<2xf64>
  })") == "cannot differentiate 'bn' (graph.batch_norm): its batch mean and variance may only feed "
          "running "
          "statistics, but the loss depends on them");
}

// A new operator must come with a rule or a reason.
TEST_CASE("every operator has a gradient or is known to have none") {
  Program p("func.func @f() { return }");
  const std::set<std::string> none = {
      // Gradients of the second order are not built.
      "graph.conv_weight_grad", "graph.max_pool_grad", "graph.avg_pool_grad", "graph.softmax_grad",
      "graph.log_softmax_grad", "graph.batch_norm_grad", "graph.attention_grad",
      // Made after differentiation.
      "graph.fused", "graph.yield", "graph.micro_rows", "graph.accumulate", "graph.leaf_sums", "graph.orthonormalize"};
  const auto &rules = compiler::GradientRules::get();
  for (RegisteredOperationName name : p.context.getRegisteredOperationsByDialect("graph")) {
    std::string op = name.getStringRef().str();
    INFO(op);
    bool known = rules.has(name) || rules.isConstant(name);
    CHECK(int(known) + int(none.count(op)) == 1);
  }
}
