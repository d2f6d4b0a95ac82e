// The cpu backend's kernels keep their bits when a factor is cut that they do not sum over, and on any number of
// threads. Results on meshes of different shape can only be equal to the bit because of this. No library promises it,
// so a new oneDNN, compiler or instruction set may break it: CMakeLists.txt runs the cases with several of the latter.
//
// What does not keep its bits is named in kChanges and kAlwaysChanges. In a reproducible plan (Plan.leaves) the former
// does.
#include "runtime/backend/Backend.h"
#include "runtime/backend/Half.h"
#include "test/conformance/backend/Loops.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// A tensor of a kernel. `dims` names each dimension by a letter. A cut of a letter cuts every dimension of this name.
struct Operand {
  std::string dims;
  Shape shape;
};

struct Case {
  std::string kernel;
  std::vector<Operand> in, out;
  std::string cuts; // the letters that are cut, one at a time
  Attributes attributes = {};
  plan::DType type = plan::F32;
  /// Builds the kernel where it is a loop; else it is made of `kernel` and `attributes`.
  void (*build)(PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) = nullptr;
};

/// A cut is named by its letter, and by " to few" where the parts are smaller than a vector; "threads" is a cut, too.
constexpr int64_t kFew = 16;

/// What changes bits: "kernel: cut".
const std::set<std::string> kChanges = {
    // oneDNN's code for processors without AVX-512 shares the terms of a sum out over threads, and by the shape
    "matmul by gemm: threads",
    "matmul by gemm: m",
    "matmul by gemm: m to few",
    "matmul by gemm: n",
    "matmul by gemm: n to few",
    // oneDNN's code for single points cuts the channels that it sums over in chunks, by the number of the others
    "conv by 1x1: f",
    "conv_input_grad by 1x1: c",
    // oneDNN shares the batch out over threads
    "conv_weight_grad: threads",
    "conv_weight_grad by 1x1: threads",
    "reduce_sum of columns: k", // chunks of rows follow from the number of columns
    "reduce_sum of columns: k to few",
};

/// What does so in every plan: oneDNN has other code for so few output channels. A gradient of weights has two kinds.
const std::set<std::string> kAlwaysChanges = {"conv: f to few",
                                              "conv_input_grad: c to few",
                                              "conv_weight_grad: c to few",
                                              "conv_weight_grad: f to few",
                                              "conv by 1x1: f to few",
                                              "conv_input_grad by 1x1: c to few",
                                              "conv_weight_grad by 1x1: c to few",
                                              "conv_weight_grad by 1x1: f to few"};

/// Numbers of many magnitudes, so that another order of adding shows in the last bits.
Values numbers(int64_t n, uint64_t seed, plan::DType type) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(n));
  for (double &v : values) {
    const double x = std::ldexp(double(random() >> 11) * 0x1p-53 - 0.5, int(random() % 7) - 3);
    v = type == plan::BF16 ? double(float(int64_t(x * 128)) / 128) : double(float(x));
  }
  return values;
}

/// Part `part` of `parts` of the dimension `dim`.
Values slice(const Values &values, const Shape &shape, size_t dim, int64_t parts, int64_t part) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < dim ? outer : inner) *= shape[d];
  const int64_t length = inner / parts;
  Values result;
  for (int64_t o = 0; o < outer; ++o) {
    const auto at = values.begin() + o * inner + part * length;
    result.insert(result.end(), at, at + length);
  }
  return result;
}

std::vector<Values> run(const Case &c, const std::vector<Operand> &in, const std::vector<Operand> &out,
                        const std::vector<Values> &values, int threads, bool reproducible,
                        std::vector<std::string> *descriptions = nullptr) {
  PlanBuilder p;
  if (reproducible) {
    p.plan().set_version(6);
    p.plan().set_leaves(8);
  }
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> from, to;
  for (size_t i = 0; i < in.size(); ++i) {
    from.push_back(p.buffer(c.type, in[i].shape));
    inputs[from.back()] = values[i];
  }
  for (const Operand &o : out)
    to.push_back(p.buffer(c.type, o.shape));
  if (c.build)
    c.build(p, from, to);
  else
    p.kernel(c.kernel, from, to, c.attributes);
  LoadOptions options;
  options.threads = threads;
  return p.run("cpu", inputs, to, options, descriptions);
}

bool sameBits(const Values &a, const Values &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

std::vector<Operand> cutOperands(const std::vector<Operand> &operands, char letter, int64_t parts) {
  std::vector<Operand> result = operands;
  for (Operand &o : result)
    if (const size_t d = o.dims.find(letter); d != std::string::npos)
      o.shape[d] /= parts;
  return result;
}

/// Adds what changes the bits of this case, with an example.
void collect(const Case &c, bool reproducible, std::map<std::string, std::string> &changes) {
  std::vector<Values> values;
  for (size_t i = 0; i < c.in.size(); ++i)
    values.push_back(numbers(elementCount(c.in[i].shape), i + 1, c.type));
  std::vector<std::string> by;
  const std::vector<Values> whole = run(c, c.in, c.out, values, 1, reproducible, &by);
  std::string kernel = c.kernel;
  for (const char *code : {"gemm", "1x1"})
    if ((c.kernel == "matmul") == (code == std::string("gemm")) && by[0].find(code) != std::string::npos)
      kernel += std::string(" by ") + code;
  auto compare = [&](const Values &a, const Values &b, const std::string &cut, int64_t parts) {
    if (sameBits(a, b))
      return;
    std::string example = " in " + std::to_string(parts) + ", type " + std::to_string(c.type) + " of";
    for (const Operand &o : c.in)
      example += " " + str(o.shape);
    changes.try_emplace(kernel + ": " + cut, example);
  };
  for (int threads : {2, 4}) {
    const std::vector<Values> again = run(c, c.in, c.out, values, threads, reproducible);
    for (size_t o = 0; o < whole.size(); ++o)
      compare(again[o], whole[o], "threads", threads);
  }
  for (char letter : c.cuts)
    for (int64_t parts : {2, 4, 8}) {
      auto has = [&](const Operand &o) { return o.dims.find(letter) != std::string::npos; };
      auto divides = [&](const Operand &o) { return !has(o) || o.shape[o.dims.find(letter)] % parts == 0; };
      if (!std::all_of(c.in.begin(), c.in.end(), divides) || !std::all_of(c.out.begin(), c.out.end(), divides))
        continue;
      const std::vector<Operand> in = cutOperands(c.in, letter, parts), out = cutOperands(c.out, letter, parts);
      const bool few = std::any_of(out.begin(), out.end(),
                                   [&](const Operand &o) { return has(o) && o.shape[o.dims.find(letter)] < kFew; });
      for (int64_t part = 0; part < parts; ++part) {
        std::vector<Values> mine;
        for (size_t i = 0; i < c.in.size(); ++i)
          mine.push_back(has(c.in[i]) ? slice(values[i], c.in[i].shape, c.in[i].dims.find(letter), parts, part)
                                      : values[i]);
        const std::vector<Values> result = run(c, in, out, mine, 1, reproducible);
        for (size_t o = 0; o < c.out.size(); ++o)
          if (has(c.out[o]))
            compare(result[o], slice(whole[o], c.out[o].shape, c.out[o].dims.find(letter), parts, part),
                    few ? std::string(1, letter) + " to few" : std::string(1, letter), parts);
      }
    }
}

std::string joined(const std::map<std::string, std::string> &changes) {
  std::string all;
  for (const auto &[change, example] : changes)
    all += change + example + "\n";
  return all;
}

void check(const std::vector<Case> &cases) {
  for (bool reproducible : {false, true}) {
    std::map<std::string, std::string> changes;
    for (const Case &c : cases)
      collect(c, reproducible, changes);
    for (const std::string &known : kAlwaysChanges)
      changes.erase(known);
    for (const std::string &known : kChanges)
      if (!reproducible)
        changes.erase(known);
    INFO("these cuts change bits" << (reproducible ? " of a reproducible plan" : "") << ":\n" << joined(changes));
    CHECK(changes.empty());
  }
}

Case product(plan::DType type, int64_t m, int64_t n, int64_t k, bool ta, bool tb, Shape batch = {}) {
  Case c{"matmul", {}, {}, batch.empty() ? "mn" : "bmn"};
  c.type = type;
  auto operand = [&](const std::string &dims, int64_t rows, int64_t columns) {
    Shape shape = batch;
    shape.insert(shape.end(), {rows, columns});
    return Operand{(batch.empty() ? "" : "b") + dims, shape};
  };
  c.in = {ta ? operand("km", k, m) : operand("mk", m, k), tb ? operand("nk", n, k) : operand("kn", k, n)};
  c.out = {operand("mn", m, n)};
  c.attributes = {{"transpose_a", int64_t(ta)}, {"transpose_b", int64_t(tb)}};
  return c;
}

struct Geometry {
  int64_t n, c, f, h, kernel, stride;
};

/// The convolution and its gradients. Of each, the factors are cut that it does not sum over.
std::vector<Case> convolutions(plan::DType type, const Geometry &g) {
  const int64_t pad = g.kernel / 2, y = (g.h + 2 * pad - g.kernel) / g.stride + 1;
  const Operand image{"nchw", {g.n, g.c, g.h, g.h}}, weight{"fcrs", {g.f, g.c, g.kernel, g.kernel}};
  const Operand result{"nfij", {g.n, g.f, y, y}};
  const Attributes a = {{"strides", Shape{g.stride, g.stride}},
                        {"pads", Shape{pad, pad, pad, pad}},
                        {"dilations", Shape{1, 1}},
                        {"groups", int64_t(1)}};
  Attributes input = a, kernel = a;
  input["input_sizes"] = Shape{g.h, g.h};
  kernel["kernel_sizes"] = Shape{g.kernel, g.kernel};
  return {{"conv", {image, weight}, {result}, "nf", a, type},
          {"conv_input_grad", {result, weight}, {image}, "nc", input, type},
          {"conv_weight_grad", {image, result}, {weight}, "fc", kernel, type}};
}

} // namespace

TEST_CASE("products keep their bits under cuts of rows, columns, batch and threads", "[bits]") {
  std::vector<Case> cases;
  for (plan::DType type : {plan::F32, plan::BF16})
    for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      cases.push_back(product(type, 256, 128, 64, ta, tb));
      cases.push_back(product(type, 64, 512, 576, ta, tb));
      cases.push_back(product(type, 8, 40, 1024, ta, tb));
      cases.push_back(product(type, 48, 10, 300, ta, tb));
      cases.push_back(product(type, 32, 64, 96, ta, tb, {8}));
    }
  cases.push_back(product(plan::F64, 48, 40, 300, false, true));
  check(cases);
}

TEST_CASE("a product in leaves is the tree of its leaves' products", "[bits]") {
  struct Sizes {
    int64_t m, n, k, leaves;
    Shape batch = {};
  };
  for (plan::DType type : {plan::F32, plan::BF16, plan::F16, plan::F64})
    for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}})
      for (const Sizes &s : {Sizes{48, 40, 96, 2}, Sizes{300, 1100, 128, 4}, Sizes{130, 7, 512, 8}, Sizes{1, 33, 64, 4},
                             Sizes{32, 64, 96, 4, {3}}}) {
        if (s.m * s.n > 100000 && type != plan::F32 && type != plan::BF16)
          continue; // plain loops, which have no tiles
        auto stored = [type = type](double x) {
          if (type == plan::BF16)
            return double(toFloat(toBfloat16(float(x))));
          if (type == plan::F16)
            return double(toFloat(toHalf(float(x))));
          return type == plan::F32 ? double(float(x)) : x;
        };
        Case whole = product(type, s.m, s.n, s.k, ta, tb, s.batch);
        const Case part = product(type, s.m, s.n, s.k / s.leaves, ta, tb, s.batch);
        std::vector<Values> values;
        for (size_t i = 0; i < 2; ++i) {
          values.push_back(numbers(elementCount(whole.in[i].shape), i + 1, type));
          std::ranges::transform(values.back(), values.back().begin(), stored);
        }
        std::vector<Values> sums;
        for (int64_t leaf = 0; leaf < s.leaves; ++leaf) {
          std::vector<Values> mine;
          for (size_t i = 0; i < 2; ++i)
            mine.push_back(slice(values[i], whole.in[i].shape, whole.in[i].dims.find('k'), s.leaves, leaf));
          sums.push_back(run(part, part.in, part.out, mine, 1, true)[0]);
        }
        for (size_t step = 1; step < sums.size(); step *= 2)
          for (size_t at = 0; at < sums.size(); at += 2 * step)
            for (size_t e = 0; e < sums[at].size(); ++e)
              sums[at][e] = stored(sums[at][e] + sums[at + step][e]);
        whole.attributes["leaves"] = s.leaves;
        for (int threads : {1, 2, 3}) {
          INFO("type " << type << ", " << s.leaves << " leaves of " << str(whole.in[0].shape) << " and "
                       << str(whole.in[1].shape) << ", " << threads << " threads");
          CHECK(sameBits(run(whole, whole.in, whole.out, values, threads, true)[0], sums[0]));
        }
      }
}

TEST_CASE("convolutions and their gradients keep their bits under cuts of batch, channels and threads", "[bits]") {
  std::vector<Case> cases;
  for (plan::DType type : {plan::F32, plan::BF16})
    for (const Geometry &g :
         {Geometry{8, 64, 64, 14, 3, 1}, Geometry{8, 64, 128, 14, 3, 2}, Geometry{8, 128, 64, 14, 1, 1},
          Geometry{8, 64, 256, 7, 1, 2}, Geometry{8, 3, 64, 32, 7, 2}, Geometry{4, 24, 40, 9, 3, 1},
          Geometry{8, 32, 5, 14, 1, 1}, Geometry{8, 64, 10, 14, 3, 1}, Geometry{8, 64, 5, 14, 3, 2},
          Geometry{8, 512, 128, 16, 1, 1}, Geometry{8, 128, 512, 16, 1, 1}, Geometry{8, 1024, 512, 8, 1, 2}})
      for (const Case &c : convolutions(type, g))
        cases.push_back(c);
  check(cases);
}

TEST_CASE("a convolution whose rows are cut keeps its bits", "[bits]") {
  struct Sizes {
    int64_t c, h, kernel, stride;
  };
  const int64_t n = 2, f = 64;
  for (const Sizes &s :
       {Sizes{32, 16, 3, 1}, Sizes{64, 32, 3, 1}, Sizes{64, 32, 3, 2}, Sizes{128, 16, 3, 1}, Sizes{128, 16, 3, 2},
        Sizes{256, 8, 3, 1}, Sizes{256, 8, 3, 2}, Sizes{512, 4, 3, 1}, Sizes{64, 32, 1, 1}, Sizes{128, 16, 1, 2},
        Sizes{256, 8, 1, 1}, Sizes{512, 16, 1, 1}, Sizes{512, 4, 1, 2}, Sizes{2048, 4, 1, 1}})
    for (int64_t parts : {2, 4}) {
      const int64_t rows = s.h / parts, halo = s.kernel / 2;
      if (rows < s.stride)
        continue;
      const Values x = numbers(n * s.c * s.h * s.h, 1, plan::F32),
                   w = numbers(f * s.c * s.kernel * s.kernel, 2, plan::F32);
      auto convolve = [&](const Values &image, int64_t height, int64_t pad, int64_t out,
                          std::vector<std::string> *by = nullptr) {
        Case k{"conv", {{"nchw", {n, s.c, height, s.h}}, {"fcrs", {f, s.c, s.kernel, s.kernel}}}, {}, ""};
        k.out = {{"nfij", {n, f, out, s.h / s.stride}}};
        const int64_t behind = (out - 1) * s.stride + s.kernel - height - pad;
        k.attributes = {{"strides", Shape{s.stride, s.stride}},
                        {"pads", Shape{pad, halo, behind, halo + 1 - s.stride}},
                        {"dilations", Shape{1, 1}},
                        {"groups", int64_t(1)}};
        return run(k, k.in, k.out, {image, w}, 1, true, by)[0];
      };
      std::vector<std::string> by;
      const Values whole = convolve(x, s.h, halo, s.h / s.stride, &by);
      for (int64_t part = 0; part < parts; ++part) {
        Values image; // the part's rows and a halo at either side, zeros beyond the border
        for (int64_t plane = 0; plane < n * s.c; ++plane)
          for (int64_t row = part * rows - halo; row < (part + 1) * rows + halo; ++row)
            for (int64_t column = 0; column < s.h; ++column)
              image.push_back(row < 0 || row >= s.h ? 0 : x[size_t((plane * s.h + row) * s.h + column)]);
        INFO(s.c << " channels, " << s.h << " x " << s.h << ", kernel " << s.kernel << ", stride " << s.stride
                 << ", part " << part << " of " << parts << ", " << by[0]);
        CHECK(sameBits(convolve(image, rows + 2 * halo, 0, rows / s.stride),
                       slice(whole, {n, f, s.h / s.stride, s.h / s.stride}, 2, parts, part)));
      }
    }
}

TEST_CASE("softmax, pooling and attention keep their bits under cuts of what they do not sum over", "[bits]") {
  const Attributes line = {{"dim", int64_t(1)}};
  const Operand rows{"mk", {64, 1000}}, few{"mk", {64, 37}};
  std::vector<Case> cases;
  for (const Operand &o : {rows, few}) {
    cases.push_back({"softmax", {o}, {o}, "m", line});
    cases.push_back({"log_softmax", {o}, {o}, "m", line});
    cases.push_back({"softmax_grad", {o, o}, {o}, "m", line});
    cases.push_back({"log_softmax_grad", {o, o}, {o}, "m", line});
  }
  const Attributes window = {
      {"kernel", Shape{3, 3}}, {"strides", Shape{2, 2}}, {"pads", Shape{1, 1, 1, 1}}, {"include_pad", int64_t(1)}};
  cases.push_back({"avg_pool", {{"nchw", {4, 64, 16, 16}}}, {{"ncij", {4, 64, 8, 8}}}, "nc", window});
  const Operand q{"bhmd", {4, 8, 70, 32}}, k{"bhnd", {4, 8, 70, 32}}, v{"bhne", {4, 8, 70, 32}},
      y{"bhme", {4, 8, 70, 32}};
  for (int64_t causal : {0, 1}) {
    const Attributes scores = {
        {"scale", 0.2}, {"causal", causal}, {"outside", -1e9}, {"start", int64_t(0)}, {"rows_first", int64_t(0)}};
    cases.push_back({"attention", {q, k, v}, {y}, "bh", scores});
    cases.push_back({"attention_grad", {y, q, k, v}, {q, k, v}, "bh", scores});
  }
  check(cases);
}

TEST_CASE("loops keep their bits under cuts of what they do not sum over", "[bits]") {
  std::vector<Case> cases;
  for (auto [m, k] : {std::pair<int64_t, int64_t>{64, 768}, {1024, 64}, {64, 37}, {16, 5000}}) {
    const Operand all{"mk", {m, k}}, row{"m", {m}}, column{"k", {k}};
    cases.push_back({"gelu", {all}, {all}, "mk"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      Loop(p, p.shapeOf(in[0]))
          .in(in[0])
          .constant(0.7071)
          .constant(0.5)
          .op("mul", {0, 1})
          .op("erf", {3})
          .op("mul", {0, 2})
          .op("mul", {4, 5})
          .op("add", {6, 5})
          .out(out[0], 7);
    };
    cases.push_back({"reduce_sum of rows", {all}, {row}, "m"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      p.kernel("reduce_sum", in, out, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
    };
    cases.push_back({"reduce_sum of columns", {all}, {column}, "k"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      p.kernel("reduce_sum", in, out, {{"dims", Shape{0}}, {"keepdims", int64_t(0)}});
    };
    cases.push_back({"normalised rows", {all, all}, {all, row}, "m"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      const Shape domain = p.shapeOf(in[0]);
      Loop(p, domain).in(in[0]).in(in[1]).op("mul", {0, 1}).out(out[0], 2).out(out[1], 2, plan::SUM, {domain[0], 1});
    };
  }
  const Operand image{"nchw", {8, 64, 14, 14}}, channel{"c", {64}};
  cases.push_back({"reduce_sum of channels", {image}, {channel}, "c"});
  cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
    p.kernel("reduce_sum", in, out, {{"dims", Shape{0, 2, 3}}, {"keepdims", int64_t(0)}});
  };
  cases.push_back({"mean of images", {image}, {{"nc", {8, 64}}}, "nc"});
  cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
    p.kernel("reduce_sum", in, out, {{"dims", Shape{2, 3}}, {"keepdims", int64_t(0)}});
  };
  check(cases);
}

TEST_CASE("in a reproducible plan a loop has the bits of its parts", "[bits]") {
  const int64_t m = 48, k = 100;
  const std::vector<Values> values = {numbers(m * k, 1, plan::F32), numbers(m * k, 2, plan::F32),
                                      numbers(m * k, 3, plan::F32)};
  auto compute = [&](bool fused) {
    PlanBuilder p;
    p.plan().set_version(3);
    p.plan().set_leaves(8);
    uint32_t in[3], product = p.buffer(plan::F32, {m, k}), sum = p.buffer(plan::F32, {m, k});
    const uint32_t squares = p.buffer(plan::F32, {m, k}), rows = p.buffer(plan::F32, {m});
    std::map<uint32_t, Values> inputs;
    for (size_t i = 0; i < 3; ++i) {
      in[i] = p.buffer(plan::F32, {m, k});
      inputs[in[i]] = values[i];
    }
    if (fused) {
      Loop(p, {m, k}).in(in[0]).in(in[1]).in(in[2]).op("mul", {0, 1}).op("add", {3, 2}).out(sum, 4);
      Loop(p, {m, k}).in(sum).op("mul", {0, 0}).out(rows, 1, plan::SUM, {m, 1});
    } else {
      p.kernel("mul", {in[0], in[1]}, {product});
      p.kernel("add", {product, in[2]}, {sum});
      p.kernel("mul", {sum, sum}, {squares});
      p.kernel("reduce_sum", {squares}, {rows}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
    }
    return p.run("cpu", inputs, {sum, rows});
  };
  const std::vector<Values> together = compute(true), apart = compute(false);
  CHECK(sameBits(together[0], apart[0]));
  CHECK(sameBits(together[1], apart[1]));
}
