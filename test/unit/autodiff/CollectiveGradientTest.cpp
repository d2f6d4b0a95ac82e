// Gradients of the sum of all ranks' losses through collectives, against central differences of that sum.
#include "Programs.h"

#include "compiler/autodiff/Gradient.h"
#include "dialects/dist/DistOps.h"

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

void perRank(Operation *op, int64_t rank, NamedAttrList &attributes) {
  if (auto all = op->getAttrOfType<ArrayAttr>(dist::kPerRankAttr))
    for (NamedAttribute attribute : cast<DictionaryAttr>(all[unsigned(rank)]))
      attributes.set(attribute.getName(), attribute.getValue());
}

/// @f(%x, %w) on one rank: the collective between two tanh, times a rank's own weights, summed up. Differentiated
/// on all ranks at once by every rank's %x.
void check(StringRef mesh, StringRef collective, StringRef in, StringRef out) {
  INFO(collective.str() << " " << in.str() << " -> " << out.str() << " on " << mesh.str());
  std::string x = ("tensor<" + in + "xf64>").str(), y = ("tensor<" + out + "xf64>").str();
  std::string text = ("module attributes {dist.mesh = #dist.mesh<\"" + mesh + "\">} {\n").str() +
                     "func.func @f(%x: " + x + ", %w: " + y +
                     ") -> tensor<f64> {\n"
                     "  %e = graph.tanh %x : (" +
                     x + ") -> " + x +
                     "\n"
                     "  %c = dist.collective " +
                     collective.str() + " : (" + x + ") -> " + y +
                     "\n"
                     "  %t = graph.tanh %c : (" +
                     y + ") -> " + y +
                     "\n"
                     "  %m = graph.mul %t, %w : (" +
                     y + ", " + y + ") -> " + y +
                     "\n"
                     "  %s = graph.reduce_sum %m {dims = array<i64: 0, 1>, keepdims = false} : (" +
                     y +
                     ") -> tensor<f64>\n"
                     "  return %s : tensor<f64>\n}\n}\n";
  Program p(text);
  func::FuncOp f = p.func("f");
  OwningOpRef<ModuleOp> plain = p.module->clone();
  auto original = plain->lookupSymbol<func::FuncOp>("f");
  Operation *terminator = f.getBody().front().getTerminator();
  graph::OpWriter b(f);
  Value loss = terminator->getOperand(0);
  auto found = compiler::differentiate(b, {{loss, b.constant(loss.getType(), 1.0)}}, {f.getArgument(0)});
  if (!found)
    FAIL(llvm::toString(found.takeError()));
  REQUIRE(found->front());
  terminator->setOperands(*found);
  f.setFunctionType(FunctionType::get(&p.context, f.getArgumentTypes(), ValueRange(*found).getTypes()));
  p.verify();

  const int64_t ranks = dist::getMesh(*p.module).numRanks();
  std::mt19937_64 engine(11);
  std::vector<std::vector<Tensor>> arguments;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    arguments.emplace_back();
    for (BlockArgument a : f.getArguments())
      arguments.back().push_back(random(cast<RankedTensorType>(a.getType()).getShape(), -1, 1, engine));
  }
  auto evaluate = [&](func::FuncOp func) {
    auto results = interpretRanks(func, arguments, perRank);
    if (!results)
      FAIL(llvm::toString(results.takeError()));
    return std::move(*results);
  };
  auto total = [&] {
    double sum = 0;
    for (const std::vector<Tensor> &results : evaluate(original))
      sum += results[0].data[0];
    return sum;
  };
  std::vector<std::vector<Tensor>> exact = evaluate(f);
  const double h = 1e-5;
  double largest = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Tensor &at = arguments[size_t(rank)][0], numeric = Tensor::zeros(at.shape);
    for (size_t i = 0; i < at.data.size(); ++i) {
      double value = at.data[i];
      at.data[i] = value + h;
      double above = total();
      at.data[i] = value - h;
      numeric.data[i] = (above - total()) / (2 * h);
      at.data[i] = value;
      largest = std::max(largest, std::abs(numeric.data[i]));
    }
    INFO("rank " << rank);
    CHECK(distance(exact[size_t(rank)][0], numeric) < 1e-8);
  }
  CHECK(largest > 1e-2);
}

} // namespace

TEST_CASE("gradients of collectives are transposed maps") {
  const char *mesh = "data=2,model=2";
  for (const char *axes : {"\"data\"", "\"model\"", "\"data\", \"model\"", "\"model\", \"data\""}) {
    bool all = StringRef(axes).contains(',');
    std::string over = std::string("axes = [") + axes + "]";
    for (const char *reduction : {"sum", "max", "min"}) {
      std::string by = std::string("reduction = \"") + reduction + "\"";
      check(mesh, "\"all-reduce\" %e {" + over + ", " + by + "}", "2x4", "2x4");
      check(mesh, "\"reduce-scatter\" %e {" + over + ", dim = 1 : i64, " + by + "}", "2x4", all ? "2x1" : "2x2");
    }
    check(mesh, "\"all-gather\" %e {" + over + ", dim = 1 : i64}", "2x3", all ? "2x12" : "2x6");
    check(mesh, "\"all-to-all\" %e {" + over + ", dim = 1 : i64, split_dim = 0 : i64}", "4x2", all ? "1x8" : "2x4");
    check(mesh, "\"slice\" %e {" + over + ", dim = 0 : i64}", "4x3", all ? "1x3" : "2x3");
    check(mesh, "\"broadcast\" %e {" + over + ", root = 1 : i64}", "2x3", "2x3");
  }
  check(mesh, "\"permute\" %e {axes = [\"data\", \"model\"], sources = array<i64: 1, 2, 3, 0>}", "2x3", "2x3");
  check("data=3", "\"all-reduce\" %e {axes = [\"data\"], reduction = \"sum\"}", "2x2", "2x2");
  check("data=3", "\"broadcast\" %e {axes = [\"data\"], root = 2 : i64}", "2x2", "2x2");
}

TEST_CASE("equal extrema on several ranks share the adjoint") {
  Program p(R"(module attributes {dist.mesh = #dist.mesh<"data=4">} {
    func.func @f(%x: tensor<1x1xf64>) -> tensor<1x1xf64> {
      %y = dist.collective "all-reduce" %x {axes = ["data"], reduction = "max"} : (tensor<1x1xf64>) -> tensor<1x1xf64>
      return %y : tensor<1x1xf64>
    }
  })");
  func::FuncOp f = p.func("f");
  graph::OpWriter b(f);
  Operation *ret = f.getBody().front().getTerminator();
  Value y = ret->getOperand(0);
  auto found = compiler::differentiate(b, {{y, b.constant(y.getType(), 1.0)}}, {f.getArgument(0)});
  REQUIRE(bool(found));
  ret->setOperands(*found);
  auto results = interpretRanks(
      f, {{Tensor::of({1, 1}, {3})}, {Tensor::of({1, 1}, {5})}, {Tensor::of({1, 1}, {5})}, {Tensor::of({1, 1}, {1})}},
      perRank);
  REQUIRE(bool(results));
  // Four ranks read the value, so the two ranks that have it get four adjoints in all.
  CHECK((*results)[0][0].data[0] == 0);
  CHECK((*results)[1][0].data[0] == 2);
  CHECK((*results)[2][0].data[0] == 2);
  CHECK((*results)[3][0].data[0] == 0);
}
