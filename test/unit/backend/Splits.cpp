#include "test/unit/backend/Splits.h"

#include "runtime/backend/Half.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

namespace tessera::rt::test {
namespace {

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
    // Winograd's algorithm is taken by the number of images, points and channels, and shares tiles out over threads
    "conv by wino: f",
    "conv by wino: f to few",
    "conv by wino: n",
    "conv by wino: n to few",
    "conv_input_grad by wino: c",
    "conv_input_grad by wino: c to few",
    "conv_input_grad by wino: n",
    "conv_input_grad by wino: n to few",
    "conv_weight_grad by wino: c",
    "conv_weight_grad by wino: c to few",
    "conv_weight_grad by wino: f",
    "conv_weight_grad by wino: f to few",
    "conv_weight_grad by wino: threads",
    // the older code again
    "conv_weight_grad: f",
    // on several threads products of matrices share out what they sum over, if the image is small
    "conv: threads",
    "conv_input_grad: threads",
    // oneDNN shares the batch out over threads
    "conv_weight_grad: threads",
    "conv_weight_grad by 1x1: threads",
    // lines that are pieces of memory, where one element is left behind them, go to other code
    "softmax: n to few",
    "softmax_grad: n to few",
    "reduce_sum of columns: k", // chunks of rows follow from the number of columns
    "reduce_sum of columns: k to few",
};

/// What does so in every plan: oneDNN has other code for so few output channels. A gradient of weights has two kinds.
/// And it has other code for one group.
const std::set<std::string> kAlwaysChanges = {"conv: g to one",
                                              "conv_input_grad: g to one",
                                              "conv_weight_grad: g to one",
                                              "conv: f to few",
                                              "conv_input_grad: c to few",
                                              "conv_weight_grad: c to few",
                                              "conv_weight_grad: f to few",
                                              "conv by 1x1: f to few",
                                              "conv_input_grad by 1x1: c to few",
                                              "conv_weight_grad by 1x1: c to few",
                                              "conv_weight_grad by 1x1: f to few"};

/// What padding holds in these tests.
constexpr double kPadding = 3;

Values cropped(const Values &values, const Shape &shape, size_t dim, int64_t count) {
  const int64_t inner = elementCount({shape.begin() + int64_t(dim) + 1, shape.end()}), row = shape[dim] * inner;
  Values result;
  for (auto at = values.begin(); at != values.end(); at += row)
    result.insert(result.end(), at, at + count * inner);
  return result;
}

/// Whether a cut may end in padding. Channels stay together in blocks, which are not padded; here, so do groups of more
/// than one.
bool mayPad(const Case &c, char letter) {
  if (!c.kernel.starts_with("conv"))
    return true;
  const bool depthwise = c.in[0].shape[1] == std::get<int64_t>(c.attributes.at("groups")) &&
                         (c.kernel == "conv_weight_grad" ? c.in[1].shape[1] : c.in[1].shape[0]) == c.in[0].shape[1];
  return letter == 'n' || (letter == 'g' && depthwise);
}

} // namespace

Case product(plan::DType type, int64_t m, int64_t n, int64_t k, bool ta, bool tb, const Shape &batch) {
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

std::vector<Case> convolutions(plan::DType type, const ConvSizes &g) {
  const bool grouped = g.groups > 1;
  auto named = [&](const char *one, const char *several) { return grouped ? several : one; };
  const Operand image{named("nchw", "nghw"), {g.n, g.c, g.h, g.h}};
  const Operand weight{named("fcrs", "gcrs"), {g.f, g.c / g.groups, g.kernel, g.kernel}};
  const Operand result{named("nfij", "ngij"), {g.n, g.f, g.out(), g.out()}};
  Attributes input = g.attributes(), kernel = g.attributes();
  input["input_sizes"] = Shape{g.h, g.h};
  kernel["kernel_sizes"] = Shape{g.kernel, g.kernel};
  return {{"conv", {image, weight}, {result}, named("nf", "ng"), g.attributes(), type},
          {"conv_input_grad", {result, weight}, {image}, named("nc", "ng"), input, type},
          {"conv_weight_grad", {image, result}, {weight}, named("fc", "g"), kernel, type}};
}

Values numbers(int64_t n, uint64_t seed, plan::DType type) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(n));
  for (double &v : values) {
    const double x = std::ldexp(double(random() >> 11) * 0x1p-53 - 0.5, int(random() % 7) - 3);
    v = type == plan::BF16 ? double(float(int64_t(x * 128)) / 128) : double(float(x));
  }
  return values;
}

Values slice(const Values &values, const Shape &shape, size_t dim, int64_t parts, int64_t part) {
  const int64_t inner = elementCount({shape.begin() + int64_t(dim) + 1, shape.end()});
  const int64_t length = (shape[dim] + parts - 1) / parts, row = shape[dim] * inner;
  const int64_t first = std::min(part * length, shape[dim]), last = std::min(first + length, shape[dim]);
  Values result;
  for (auto at = values.begin(); at != values.end(); at += row) {
    result.insert(result.end(), at + first * inner, at + last * inner);
    result.insert(result.end(), size_t((length - (last - first)) * inner), kPadding);
  }
  return result;
}

std::vector<Values> run(const Case &c, const std::vector<Operand> &in, const std::vector<Operand> &out,
                        const std::vector<Values> &values, const Setting &setting,
                        std::vector<std::string> *descriptions) {
  PlanBuilder p;
  if (setting.reproducible) {
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
  options.threads = setting.threads;
  return p.run(setting.backend, inputs, to, options, descriptions);
}

bool sameBits(const Values &a, const Values &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

namespace {

/// One letter in so many parts.
struct Split {
  const Case &whole;
  char letter;
  int64_t parts;

  size_t dim(const Operand &o) const { return o.dims.find(letter); }
  bool has(const Operand &o) const { return dim(o) != std::string::npos; }
  int64_t length(const Operand &o) const { return (o.shape[dim(o)] + parts - 1) / parts; }
  /// Elements of a part that are no padding.
  int64_t count(const Operand &o, int64_t part) const {
    return std::clamp<int64_t>(o.shape[dim(o)] - part * length(o), 0, length(o));
  }
  bool divides() const {
    auto even = [&](const Operand &o) { return !has(o) || o.shape[dim(o)] % parts == 0; };
    auto groups = whole.attributes.find("groups");
    return std::ranges::all_of(whole.in, even) && std::ranges::all_of(whole.out, even) &&
           (letter != 'g' || std::get<int64_t>(groups->second) % parts == 0);
  }
  /// What follows the letter in the name of the cut.
  const char *name() const {
    if (letter == 'g')
      return std::get<int64_t>(whole.attributes.at("groups")) <= parts ? " to one" : "";
    return isFew() ? " to few" : "";
  }
  bool isFew() const {
    return std::ranges::any_of(whole.out, [&](const Operand &o) { return has(o) && length(o) < kFew; });
  }
  Case part() const {
    Case c = whole;
    for (auto *operands : {&c.in, &c.out})
      for (Operand &o : *operands)
        if (has(o))
          o.shape[dim(o)] = length(o);
    if (letter == 'g')
      c.attributes["groups"] = (std::get<int64_t>(c.attributes["groups"]) + parts - 1) / parts;
    return c;
  }
};

/// Adds what changes the bits of this case, with an example.
void collect(const Case &c, const Setting &setting, std::map<std::string, std::string> &changes) {
  std::vector<Values> values;
  for (size_t i = 0; i < c.in.size(); ++i)
    values.push_back(numbers(elementCount(c.in[i].shape), i + 1, c.type));
  std::vector<std::string> by;
  const std::vector<Values> whole = run(c, c.in, c.out, values, setting, &by);
  std::string kernel = c.kernel;
  for (const char *code : {"gemm", "1x1", "wino"})
    if ((c.kernel == "matmul") == (code == std::string("gemm")) && by[0].find(code) != std::string::npos &&
        by[0].find("fused") == std::string::npos)
      kernel += std::string(" by ") + code;
  auto compare = [&](const Values &a, const Values &b, const std::string &cut, int64_t parts) {
    if (sameBits(a, b))
      return;
    std::string example = " in " + std::to_string(parts) + ", type " + std::to_string(c.type) + " of";
    for (const Operand &o : c.in)
      example += " " + str(o.shape);
    changes.try_emplace(kernel + ": " + cut, example + ", " + by[0]);
  };
  for (int threads : setting.backend == "cpu" ? std::vector{2, 4} : std::vector<int>()) {
    const std::vector<Values> again = run(c, c.in, c.out, values, {threads, setting.reproducible, setting.backend});
    for (size_t o = 0; o < whole.size(); ++o)
      compare(again[o], whole[o], "threads", threads);
  }
  for (char letter : c.cuts)
    for (int64_t parts : {2, 3, 4, 8}) {
      const Split split{c, letter, parts};
      // Other numbers end in padding in the same way.
      if (!split.divides() && (parts != 3 || !mayPad(c, letter)))
        continue;
      const Case piece = split.part();
      for (int64_t part = 0; part < parts; ++part) {
        std::vector<Values> mine;
        for (size_t i = 0; i < c.in.size(); ++i)
          mine.push_back(split.has(c.in[i]) ? slice(values[i], c.in[i].shape, split.dim(c.in[i]), parts, part)
                                            : values[i]);
        const std::vector<Values> result = run(piece, piece.in, piece.out, mine, setting);
        for (size_t o = 0; o < c.out.size(); ++o)
          if (split.has(c.out[o])) {
            const size_t dim = split.dim(c.out[o]);
            const int64_t count = split.count(c.out[o], part);
            compare(cropped(result[o], piece.out[o].shape, dim, count),
                    cropped(slice(whole[o], c.out[o].shape, dim, parts, part), piece.out[o].shape, dim, count),
                    std::string(1, letter) + split.name(), parts);
          }
      }
    }
}

std::string joined(const std::map<std::string, std::string> &changes) {
  std::string all;
  for (const auto &[change, example] : changes)
    all += change + example + "\n";
  return all;
}

} // namespace

void checkLeaves(const LeafSizes &s, plan::DType type, bool ta, bool tb, const Setting &setting) {
  auto stored = [type](double x) {
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
    sums.push_back(run(part, part.in, part.out, mine, {1, true, setting.backend})[0]);
  }
  for (size_t step = 1; step < sums.size(); step *= 2)
    for (size_t at = 0; at < sums.size(); at += 2 * step)
      for (size_t e = 0; e < sums[at].size(); ++e)
        sums[at][e] = stored(sums[at][e] + sums[at + step][e]);
  whole.attributes["leaves"] = s.leaves;
  INFO("type " << type << ", " << s.leaves << " leaves of " << str(whole.in[0].shape) << " and "
               << str(whole.in[1].shape) << ", " << setting.threads << " threads");
  CHECK(sameBits(run(whole, whole.in, whole.out, values, setting)[0], sums[0]));
}

void check(const std::vector<Case> &cases) {
  for (bool reproducible : {false, true}) {
    std::map<std::string, std::string> changes;
    for (const Case &c : cases)
      collect(c, {1, reproducible}, changes);
    for (const std::string &known : kAlwaysChanges)
      changes.erase(known);
    for (const std::string &known : kChanges)
      if (!reproducible)
        changes.erase(known);
    INFO("these cuts change bits" << (reproducible ? " of a reproducible plan" : "") << ":\n" << joined(changes));
    CHECK(changes.empty());
  }
}

void checkOnDevice(const std::vector<Case> &cases) {
  std::map<std::string, std::string> changes;
  for (const Case &c : cases)
    collect(c, {1, true, "cuda"}, changes);
  INFO("these cuts change bits on the device:\n" << joined(changes));
  CHECK(changes.empty());
}

} // namespace tessera::rt::test
