// Every operator's gradient over random shapes, attributes and broadcasting, against central differences in double
// precision. A new operator with a gradient needs a row in the table: the last test fails without.
#include "GradientChecking.h"

#include "compiler/autodiff/GradientRules.h"

#include <functional>
#include <map>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

/// Random operands, attributes and broadcasting; the same ones in every run.
class Programs {
public:
  explicit Programs(unsigned seed) : engine_(seed) {}
  int64_t pick(int64_t low, int64_t high) { return low + int64_t(engine_() % uint64_t(high - low + 1)); }
  SmallVector<int64_t> shape(int64_t rank, int64_t most = 4) {
    SmallVector<int64_t> s;
    for (int64_t d = 0; d < rank; ++d)
      s.push_back(pick(1, most));
    return s;
  }
  /// A shape that broadcasts to `shape`: some dimensions are 1, and leading ones are left out.
  SmallVector<int64_t> narrowed(ArrayRef<int64_t> shape) {
    SmallVector<int64_t> s(shape.drop_front(pick(0, int64_t(shape.size()))));
    for (int64_t &extent : s)
      if (pick(0, 2) == 0)
        extent = 1;
    return s;
  }
  static std::string type(ArrayRef<int64_t> shape, const std::string &element = "f64") {
    std::string text;
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + element;
  }
  static std::string array(ArrayRef<int64_t> values) {
    std::string text;
    for (size_t i = 0; i < values.size(); ++i)
      text += (i ? ", " : "") + std::to_string(values[i]);
    return values.empty() ? "array<i64>" : "array<i64: " + text + ">";
  }

private:
  std::mt19937_64 engine_;
};

} // namespace

TEST_CASE("gradients of movement with random attributes") {
  Programs r(2);
  for (int i = 0; i < 20; ++i) {
    SmallVector<int64_t> x = r.shape(r.pick(1, 4)), perm, y, starts, limits, strides, lo, hi, inner;
    for (int64_t d = 0; d < int64_t(x.size()); ++d)
      perm.insert(perm.begin() + r.pick(0, d), d);
    for (int64_t p : perm)
      y.push_back(x[p]);
    check(program("transpose", {r.type(x)}, r.type(y), "perm = " + r.array(perm)));
    y.clear();
    for (int64_t extent : x) {
      starts.push_back(r.pick(0, extent - 1));
      limits.push_back(r.pick(starts.back() + 1, extent));
      strides.push_back(r.pick(1, 3));
      y.push_back((limits.back() - starts.back() - 1) / strides.back() + 1);
    }
    check(program("slice", {r.type(x)}, r.type(y),
                  "starts = " + r.array(starts) + ", limits = " + r.array(limits) + ", strides = " + r.array(strides)));
    y.clear();
    for (int64_t extent : x) {
      lo.push_back(r.pick(0, 2));
      hi.push_back(r.pick(0, 2));
      inner.push_back(r.pick(0, 2));
      y.push_back(lo.back() + extent + (extent - 1) * inner.back() + hi.back());
    }
    check(program("pad", {r.type(x)}, r.type(y),
                  "lo = " + r.array(lo) + ", hi = " + r.array(hi) + ", inner = " + r.array(inner) +
                      ", value = 1.0 : f64"));
  }
}

namespace {

using Shape = SmallVector<int64_t>;

std::string spatial(ArrayRef<int64_t> strides, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  return "strides = " + Programs::array(strides) + ", pads = " + Programs::array(pads) +
         ", dilations = " + Programs::array(dilations);
}

void unary(Programs &r, const std::string &op) {
  Shape x = r.shape(r.pick(0, 4));
  check(program(op, {r.type(x)}, r.type(x)), {rangeOf(*rt::elementwiseFunction(op))});
}

void binary(Programs &r, const std::string &op) {
  Shape y = r.shape(r.pick(0, 4), 3), a = y, b = r.narrowed(y);
  if (r.pick(0, 1))
    std::swap(a, b);
  Range range = op == "div" || op == "pow" ? Range{0.5, 2} : Range{-2, 2};
  if (op == "mod") // a jump where a is a multiple of b
    check(program(op, {r.type(a), r.type(b)}, r.type(y)), {{5.1, 5.9}, {2.05, 2.45}});
  else
    check(program(op, {r.type(a), r.type(b)}, r.type(y)), {range, range});
}

void select(Programs &r, const std::string &) {
  Shape y = r.shape(r.pick(1, 4), 3), c = r.narrowed(y), a = y, b = r.narrowed(y);
  check("func.func @f(%i: tensor<" + r.type(c, "i64") + ">, %a: tensor<" + r.type(a) + ">, %b: tensor<" + r.type(b) +
        ">) -> tensor<" + r.type(y) + "> {\n %one = graph.constant dense<1> : tensor<i64>\n" +
        " %c = graph.lt %one, %i : (tensor<i64>, tensor<" + r.type(c, "i64") + ">) -> tensor<" + r.type(c, "i1") +
        ">\n %y = graph.select %c, %a, %b : (tensor<" + r.type(c, "i1") + ">, tensor<" + r.type(a) + ">, tensor<" +
        r.type(b) + ">) -> tensor<" + r.type(y) + ">\n return %y : tensor<" + r.type(y) + ">\n}");
}

/// A conversion to float32 and back, with an operator between that is no identity.
void cast(Programs &r, const std::string &) {
  std::string wide = "tensor<" + r.type(r.shape(r.pick(0, 3))) + ">", narrow = wide;
  narrow.replace(narrow.find("f64"), 3, "f32");
  check("func.func @f(%a: " + wide + ") -> " + wide + " {\n %n = graph.cast %a : (" + wide + ") -> " + narrow +
        "\n %m = graph.mul %n, %n : (" + narrow + ", " + narrow + ") -> " + narrow + "\n %y = graph.cast %m : (" +
        narrow + ") -> " + wide + "\n return %y : " + wide + "\n}");
}

void broadcast(Programs &r, const std::string &op) {
  Shape y = r.shape(r.pick(0, 4));
  check(program(op, {r.type(r.narrowed(y))}, r.type(y)));
}

void reshape(Programs &r, const std::string &op) {
  Shape x = r.shape(r.pick(1, 4)), y;
  for (size_t i = 0; i < x.size(); ++i) // neighbours joined, ones put in
    if (i > 0 && r.pick(0, 1))
      y.back() *= x[i];
    else
      y.append(r.pick(0, 3) ? Shape{x[i]} : Shape{1, x[i]});
  if (r.pick(0, 1))
    std::swap(x, y);
  check(program(op, {r.type(x)}, r.type(y)));
}

void concat(Programs &r, const std::string &op) {
  Shape y = r.shape(r.pick(1, 4));
  int64_t dim = r.pick(0, int64_t(y.size()) - 1), total = 0;
  std::vector<std::string> parts;
  for (int64_t n = r.pick(1, 3); n > 0; --n) {
    y[dim] = r.pick(1, 3);
    total += y[dim];
    parts.push_back(r.type(y));
  }
  y[dim] = total;
  check(program(op, parts, r.type(y), "dim = " + std::to_string(dim) + " : i64"));
}

/// A gather, and its adjoint with the same shapes.
void gather(Programs &r, const std::string &op) {
  Shape table = r.shape(r.pick(1, 4));
  int64_t rank = int64_t(table.size()), batch = r.pick(0, rank - 1), axis = r.pick(batch, rank - 1);
  Shape at(ArrayRef<int64_t>(table).take_front(batch)), y(ArrayRef<int64_t>(table).take_front(axis));
  Shape more = r.shape(r.pick(0, 2), 3);
  at.append(more);
  y.append(more);
  y.append(table.begin() + axis + 1, table.end());
  std::string where = "axis = " + std::to_string(axis) + " : i64, batch_dims = " + std::to_string(batch) + " : i64";
  if (op == "gather")
    check(program(op, {r.type(table), r.type(at, "i64")}, r.type(y), where), {}, table[axis]);
  else
    check(program(op, {r.type(at, "i64"), r.type(y)}, r.type(table),
                  where + ", size = " + std::to_string(table[axis]) + " : i64"),
          {}, table[axis]);
}

void reduction(Programs &r, const std::string &op) {
  Shape x = r.shape(r.pick(0, 4)), y, dims;
  bool kept = r.pick(0, 1);
  for (int64_t d = 0; d < int64_t(x.size()); ++d)
    if (r.pick(0, 1)) {
      dims.push_back(d);
      if (kept)
        y.push_back(1);
    } else {
      y.push_back(x[d]);
    }
  check(program(op, {r.type(x)}, r.type(y), "dims = " + r.array(dims) + ", keepdims = " + (kept ? "true" : "false")));
}

void matmul(Programs &r, const std::string &op) {
  Shape y = r.shape(r.pick(0, 2), 3), a = y, b = r.narrowed(y);
  if (r.pick(0, 1))
    std::swap(a, b);
  int64_t m = r.pick(1, 4), k = r.pick(1, 4), n = r.pick(1, 4);
  bool ta = r.pick(0, 1), tb = r.pick(0, 1);
  a.append({ta ? k : m, ta ? m : k});
  b.append({tb ? n : k, tb ? k : n});
  y.append({m, n});
  check(
      program(op, {r.type(a), r.type(b)}, r.type(y),
              std::string("transpose_a = ") + (ta ? "true" : "false") + ", transpose_b = " + (tb ? "true" : "false")));
}

/// The convolution, or (x and y exchanged) its adjoint; one to three spatial dimensions.
void convolution(Programs &r, const std::string &op) {
  int64_t groups = r.pick(1, 2), c = r.pick(1, 2), f = r.pick(1, 2), n = r.pick(1, 2), dims = r.pick(1, 3);
  Shape x = {n, groups * c}, w = {groups * f, c}, y = {n, groups * f}, strides, lo, hi, dilations, sizes;
  for (int64_t d = 0; d < dims; ++d) {
    int64_t kernel = r.pick(1, dims == 3 ? 2 : 3), extent = r.pick(3, dims == 3 ? 4 : 6);
    strides.push_back(r.pick(1, 3));
    dilations.push_back(extent > 3 ? r.pick(1, 2) : 1);
    lo.push_back(r.pick(0, 2));
    hi.push_back(r.pick(0, 2));
    int64_t window = (kernel - 1) * dilations.back() + 1;
    if (window > extent + lo.back() + hi.back())
      hi.back() = window - extent - lo.back();
    x.push_back(extent);
    w.push_back(kernel);
    y.push_back((extent + lo.back() + hi.back() - window) / strides.back() + 1);
    sizes.push_back(extent);
  }
  lo.append(hi);
  std::string attributes = spatial(strides, lo, dilations) + ", groups = " + std::to_string(groups) + " : i64";
  if (op == "conv")
    check(program(op, {r.type(x), r.type(w)}, r.type(y), attributes));
  else
    check(program(op, {r.type(y), r.type(w)}, r.type(x), attributes + ", input_sizes = " + r.array(sizes)));
}

void pooling(Programs &r, const std::string &op) {
  int64_t dims = r.pick(1, 3);
  Shape x = {r.pick(1, 2), r.pick(1, 2)}, y = x, kernel, strides, lo, hi, dilations;
  for (int64_t d = 0; d < dims; ++d) {
    int64_t extent = r.pick(3, dims == 3 ? 4 : 6);
    kernel.push_back(r.pick(1, 3));
    strides.push_back(r.pick(1, 3));
    lo.push_back(r.pick(0, kernel.back() / 2));
    hi.push_back(r.pick(0, kernel.back() / 2));
    dilations.push_back(1);
    x.push_back(extent);
    y.push_back((extent + lo.back() + hi.back() - kernel.back()) / strides.back() + 1);
  }
  lo.append(hi);
  std::string window = "kernel = " + r.array(kernel) + ", strides = " + r.array(strides) + ", pads = " + r.array(lo);
  check(program(op, {r.type(x)}, r.type(y),
                window + (op == "max_pool" ? ", dilations = " + r.array(dilations)
                                           : std::string(", include_pad = ") + (r.pick(0, 1) ? "true" : "false"))));
}

void softmax(Programs &r, const std::string &op) {
  Shape x = r.shape(r.pick(1, 4));
  check(program(op, {r.type(x)}, r.type(x), "dim = " + std::to_string(r.pick(0, int64_t(x.size()) - 1)) + " : i64"));
}

void batchNorm(Programs &r, const std::string &) {
  Shape x = r.shape(r.pick(2, 5), 3);
  x[0] = r.pick(3, 5); // of one element there is no variance
  std::string t = "tensor<" + r.type(x) + ">", c = "tensor<" + r.type({x[1]}) + ">";
  check("func.func @f(%x: " + t + ", %s: " + c + ", %b: " + c + ") -> " + t +
        " {\n %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-3 : f64} : (" + t + ", " + c + ", " + c +
        ") -> (" + t + ", " + c + ", " + c + ")\n return %y : " + t + "\n}");
}

void attention(Programs &r, const std::string &op) {
  bool rowsFirst = r.pick(0, 1);
  int64_t groups = r.pick(1, 2), heads = groups * r.pick(1, 2), m = r.pick(1, 3), n = r.pick(1, 4), d = r.pick(1, 3),
          e = r.pick(1, 3);
  Shape batch = r.shape(r.pick(0, 1), 2);
  auto tensor = [&](int64_t h, int64_t rows, int64_t columns) {
    Shape s = batch;
    s.append({rowsFirst ? rows : h, rowsFirst ? h : rows, columns});
    return r.type(s);
  };
  std::string causal = r.pick(0, 1) ? ", causal = true, outside = -1.0 : f64" : "";
  check(program(op, {tensor(heads, m, d), tensor(groups, n, d), tensor(groups, n, e)}, tensor(heads, m, e),
                "scale = 0.6 : f64, rows_first = " + std::string(rowsFirst ? "true" : "false") + causal));
}

/// Operators with attributes of every dimension are in the table above ("movement").
void elsewhere(Programs &, const std::string &) {}

using Row = void (*)(Programs &, const std::string &);
/// Operators of one operand come from Elementwise.def.
std::map<std::string, Row> allRows() {
  std::map<std::string, Row> rows = {
      {"cast", cast},
      {"add", binary},
      {"sub", binary},
      {"mul", binary},
      {"div", binary},
      {"pow", binary},
      {"max", binary},
      {"min", binary},
      {"mod", binary},
      {"select", select},
      {"broadcast", broadcast},
      {"reshape", reshape},
      {"transpose", elsewhere},
      {"slice", elsewhere},
      {"pad", elsewhere},
      {"concat", concat},
      {"gather", gather},
      {"scatter_add", gather},
      {"reduce_sum", reduction},
      {"reduce_max", reduction},
      {"reduce_min", reduction},
      {"matmul", matmul},
      {"conv", convolution},
      {"conv_input_grad", convolution},
      {"max_pool", pooling},
      {"avg_pool", pooling},
      {"softmax", softmax},
      {"log_softmax", softmax},
      {"batch_norm", batchNorm},
      {"attention", attention},
  };
  for (const rt::ElementwiseFunction &f : rt::elementwiseFunctions())
    if (isDifferentiableUnary(f))
      rows.emplace(f.name, unary);
  return rows;
}

} // namespace

TEST_CASE("gradients of every operator over random shapes and attributes") {
  Programs r(3);
  const std::map<std::string, Row> rows = allRows();
  for (const auto &[op, row] : rows)
    for (int i = 0; i < 8; ++i) {
      INFO(op << " " << i);
      row(r, op);
    }
  Program p("func.func @f() { return }");
  const auto &rules = compiler::GradientRules::get();
  for (RegisteredOperationName name : p.context.getRegisteredOperationsByDialect("graph"))
    if (rules.has(name)) {
      std::string op = name.getStringRef().drop_front(strlen("graph.")).str();
      INFO(op);
      CHECK(rows.count(op));
    }
}
