#include "runtime/backend/Layouts.h"
#include "runtime/backend/ExpressionCode.h"
#include "runtime/plan/TimeOrder.h"

#include <numeric>

namespace tessera::rt {
namespace {

/// Classes of buffers that share a layout.
class Classes {
public:
  explicit Classes(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t(0)); }
  size_t find(size_t x) {
    while (parent_[x] != x)
      x = parent_[x] = parent_[parent_[x]];
    return x;
  }
  void unite(size_t a, size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b); // the smallest index leads, so that the order of calls does not matter
  }

private:
  std::vector<size_t> parent_;
};

Shape shapeOf(const plan::Plan &plan, size_t b) {
  const auto &shape = plan.buffers(int(b)).shape();
  return Shape(shape.begin(), shape.end());
}

/// Buffers with the shape of the largest operand move together through an expression.
void uniteExpression(const plan::Plan &plan, const plan::Kernel &kernel, const KernelCall &call, Classes &classes) {
  Result<ExpressionCode> code = lowerExpression(call);
  if (!code)
    return;
  std::vector<size_t> full;
  for (int i = 0; i < kernel.inputs_size(); ++i)
    if (code->inputs[size_t(i)].view == code->domain)
      full.push_back(kernel.inputs(i));
  for (int r = 0; r < kernel.outputs_size(); ++r)
    if (code->results[size_t(r)].view == code->domain)
      full.push_back(kernel.outputs(r));
  for (size_t i = 1; i < full.size(); ++i)
    if (shapeOf(plan, full[i]) == shapeOf(plan, full[0]))
      classes.unite(full[i], full[0]);
}

/// Whether a view is all of the other buffer or some of its rows.
bool isRows(const plan::Plan &plan, size_t view, size_t of) {
  const Shape part = shapeOf(plan, view), whole = shapeOf(plan, of);
  if (part == whole)
    return true;
  if (part.size() < 3 || part[0] == 0 || part.size() != whole.size() ||
      !std::equal(part.begin() + 1, part.end(), whole.begin() + 1))
    return false;
  const plan::Buffer &buffer = plan.buffers(int(view));
  const Shape row(part.begin() + 1, part.end());
  const uint64_t bytes = uint64_t(elementCount(row)) * bytesPerElement(buffer.dtype());
  return bytes != 0 && (buffer.offset() - plan.buffers(int(of)).offset()) % bytes == 0;
}

/// Whether rows of a buffer lie in a layout as they do in the whole: no block of rows is cut.
bool keepsBlocks(const plan::Plan &plan, size_t view, size_t of, const LayoutWishes &wishes, bool weight) {
  const Shape part = shapeOf(plan, view), whole = shapeOf(plan, of);
  if (part == whole)
    return true;
  const Layout layout = wishes.layout(part, weight);
  int64_t block = 1;
  for (auto [dim, size] : layout.inner)
    block *= dim == 0 ? size : 1;
  const plan::Buffer &buffer = plan.buffers(int(view));
  const uint64_t row = uint64_t(elementCount(part)) / uint64_t(part[0]) * bytesPerElement(buffer.dtype());
  const uint64_t before = (buffer.offset() - plan.buffers(int(of)).offset()) / row;
  return layout == wishes.layout(whole, weight) && int64_t(before) % block == 0;
}

enum Wish : uint8_t { None = 0, Activation = 1, Weight = 2, Plain = 4 };

} // namespace

int64_t pointsOf(const Shape &shape) {
  int64_t points = 1;
  for (size_t d = 2; d < shape.size(); ++d)
    points *= shape[d];
  return points;
}

Layout channelsLastLayout(const Shape &shape) {
  return shape[1] > 1 && shape[1] <= INT32_MAX && pointsOf(shape) > 1 ? Layout{{{1, int(shape[1])}}} : Layout();
}

std::vector<Layout> chooseLayouts(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls,
                                  const LayoutWishes &wishes) {
  size_t n = size_t(plan.buffers_size());
  Classes classes(n);
  std::vector<uint8_t> wish(n, None);
  auto want = [&](uint32_t b, Wish w) {
    if (wishes.wanted(plan.buffers(int(b)).dtype(), w == Weight))
      wish[b] |= w;
  };
  for (size_t b = 0; b < wishes.plain.size(); ++b)
    if (wishes.plain[b])
      wish[b] |= Plain;
  Classes bytes(n); // views of one another
  for (size_t b = 0; b < n; ++b)
    if (uint32_t alias = plan.buffers(int(b)).alias_of_plus_one(); alias && alias <= n) {
      bytes.unite(b, alias - 1);
      if (isRows(plan, b, alias - 1)) {
        classes.unite(b, alias - 1);
      } else {
        wish[b] |= Plain;
        wish[alias - 1] |= Plain;
      }
    }
  for (int p = 0; p < plan.programs_size(); ++p)
    for (int s = 0; s < plan.programs(p).steps_size(); ++s) {
      const plan::Step &step = plan.programs(p).steps(s);
      if (step.has_collective()) {
        const plan::Collective &c = step.collective();
        if (c.input() >= n || c.output() >= n)
          continue;
        if (c.kind() == plan::EXCHANGE) // its boxes may begin and end inside a block
          wish[c.input()] |= Plain, wish[c.output()] |= Plain;
        else
          classes.unite(c.input(), c.output());
        continue;
      }
      if (!step.has_kernel())
        continue;
      const plan::Kernel &k = step.kernel();
      const KernelCall &call = calls[size_t(p)][size_t(s)];
      if (isExpressionKernel(k.name())) {
        uniteExpression(plan, k, call, classes);
      } else if (k.name() == "reshape") { // a reshape that keeps the shape is a copy
        if (shapeOf(plan, k.inputs(0)) == shapeOf(plan, k.outputs(0)))
          classes.unite(k.inputs(0), k.outputs(0));
      } else if (k.name() == kMicroRows) { // whole rows, in whatever layout they have
        classes.unite(k.inputs(0), k.outputs(0));
      } else if (k.name() == "conv" || k.name() == "conv_input_grad") {
        want(k.inputs(0), Activation);
        want(k.outputs(0), Activation);
        want(k.inputs(1), Weight);
      } else if (k.name() == "conv_weight_grad") {
        want(k.inputs(0), Activation);
        want(k.inputs(1), Activation);
        want(k.outputs(0), Weight);
      } else if (k.name().find("_pool") != std::string::npos) {
        for (uint32_t b : k.inputs())
          want(b, Activation);
        want(k.outputs(0), Activation);
      }
    }
  auto agree = [&] { // in two passes, to the leader and back, so that all names of a buffer agree
    for (int pass = 0; pass < 2; ++pass)
      for (size_t b = 0; b < n; ++b) {
        wish[bytes.find(b)] |= wish[b] & Plain;
        wish[b] |= wish[bytes.find(b)] & Plain;
      }
  };
  agree();
  std::vector<uint8_t> classWish(n, None);
  for (size_t b = 0; b < n; ++b)
    classWish[classes.find(b)] |= wish[b];

  for (size_t b = 0; b < n; ++b) {
    const uint32_t alias = plan.buffers(int(b)).alias_of_plus_one();
    uint8_t &w = classWish[classes.find(b)];
    if (!alias || alias > n || shapeOf(plan, b).size() < 3 || (wish[b] & Plain) || !(w & (Activation | Weight)) ||
        keepsBlocks(plan, b, alias - 1, wishes, !(w & Activation)))
      continue;
    wish[b] |= Plain;
    w |= Plain;
  }
  agree();

  std::vector<Layout> layouts(n);
  for (size_t b = 0; b < n; ++b) {
    uint8_t w = classWish[classes.find(b)];
    Shape shape = shapeOf(plan, b);
    if (shape.size() < 3 || (wish[b] & Plain))
      continue;
    // One plain member makes a class of weights plain, since otherwise every elementwise kernel
    // would have to reorder.
    if ((w & Plain) && !(w & Activation))
      continue;
    if ((w & Weight) && !(w & Activation))
      layouts[b] = wishes.layout(shape, true);
    else if ((w & Activation) && pointsOf(shape) > 1)
      // A tensor of one point has the same bytes in any layout here; a plain one still allows
      // views.
      layouts[b] = wishes.layout(shape, false);
  }
  return layouts;
}

} // namespace tessera::rt
