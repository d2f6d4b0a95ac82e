#include "GradientChecking.h"

#include "compiler/autodiff/Gradient.h"

using namespace mlir;

namespace tessera::test {

void check(const std::string &text, std::vector<Range> ranges, int64_t classes) {
  Program p(text);
  func::FuncOp f = p.func("f");
  OwningOpRef<ModuleOp> plain = p.module->clone();
  auto original = plain->lookupSymbol<func::FuncOp>("f");
  Operation *terminator = f.getBody().front().getTerminator();

  std::mt19937_64 engine(7);
  std::vector<Tensor> arguments;
  SmallVector<Value> wrt;
  for (BlockArgument a : f.getArguments()) {
    auto type = cast<RankedTensorType>(a.getType());
    if (isa<FloatType>(type.getElementType())) {
      Range range = wrt.size() < ranges.size() ? ranges[wrt.size()] : Range{-2, 2};
      arguments.push_back(random(type.getShape(), range.low, range.high, engine));
      wrt.push_back(a);
    } else {
      Tensor t = Tensor::zeros(type.getShape());
      for (size_t i = 0; i < t.data.size(); ++i)
        t.data[i] = double(int64_t(i * 5 + 1) % classes);
      arguments.push_back(t);
    }
  }

  // Every result gets its own weights; they enter as constants.
  SmallVector<compiler::Seed> seeds;
  std::vector<Tensor> weights;
  graph::OpWriter b(f);
  OpBuilder raw(terminator);
  for (Value y : terminator->getOperands()) {
    auto type = cast<RankedTensorType>(y.getType());
    weights.push_back(random(type.getShape(), 0.5, 1.5, engine));
    auto elements = DenseElementsAttr::get(type, ArrayRef<double>(weights.back().data));
    seeds.push_back({y, graph::ConstantOp::create(raw, f.getLoc(), elements)});
  }
  auto gradients = compiler::differentiate(b, seeds, wrt);
  if (!gradients)
    FAIL(llvm::toString(gradients.takeError()));
  for (auto [i, g] : llvm::enumerate(*gradients))
    if (!g)
      g = b.constant(wrt[i].getType(), 0.0);
  terminator->setOperands(*gradients);
  SmallVector<Type> types(ValueRange(*gradients).getTypes());
  f.setFunctionType(FunctionType::get(&p.context, f.getArgumentTypes(), types));
  p.verify();
  std::string printed;
  llvm::raw_string_ostream(printed) << *p.module;
  INFO(printed);
  std::vector<Tensor> exact = run(f, arguments);

  auto loss = [&] {
    double sum = 0;
    std::vector<Tensor> results = run(original, arguments);
    for (size_t r = 0; r < results.size(); ++r)
      for (size_t i = 0; i < results[r].data.size(); ++i)
        sum += results[r].data[i] * weights[r].data[i];
    return sum;
  };
  const double h = 1e-5;
  for (size_t k = 0; k < wrt.size(); ++k) {
    Tensor &x = arguments[cast<BlockArgument>(wrt[k]).getArgNumber()];
    Tensor numeric = Tensor::zeros(x.shape);
    for (size_t i = 0; i < x.data.size(); ++i) {
      double at = x.data[i];
      x.data[i] = at + h;
      double above = loss();
      x.data[i] = at - h;
      numeric.data[i] = (above - loss()) / (2 * h);
      x.data[i] = at;
    }
    CAPTURE(k);
    CHECK(distance(exact[k], numeric) < 1e-6);
  }
}

std::string program(const std::string &op, std::vector<std::string> in, const std::string &out,
                    const std::string &attributes) {
  std::string args, uses, types;
  for (size_t i = 0; i < in.size(); ++i) {
    std::string comma = i ? ", " : "", type = "tensor<" + in[i] + ">";
    args += comma + "%a" + std::to_string(i) + ": " + type;
    uses += comma + "%a" + std::to_string(i);
    types += comma + type;
  }
  return "func.func @f(" + args + ") -> tensor<" + out + "> {\n  %y = graph." + op + " " + uses +
         (attributes.empty() ? "" : " {" + attributes + "}") + " : (" + types + ") -> tensor<" + out +
         ">\n  return %y : tensor<" + out + ">\n}";
}

} // namespace tessera::test
