//===- KernelBench.cpp - the kernels of a ResNet-50 training step, one by one -----------------------------===//
//
//   kernel_bench [--backend cpu] [--threads 2] [--batch 32] [--only conv|bn|update] [--quantile 0.5]
//
// Times every convolution (forward and both gradients) of ResNet-50 on 32 x 32 images, and the fused
// elementwise passes of its normalisations and of the optimizer, each as the median of several runs
// (--quantile 0: the least, for a machine that others use too), and adds them up to a whole step. GB/s counts every
// operand once.
//
//===----------------------------------------------------------------------------------------------===//
#include "test/conformance/backend/PlanBuilder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct Options {
  std::string backend = "cpu", only;
  int threads = 2;
  int64_t batch = 32;
  double quantile = 0.5;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Time of step `step`, in seconds. The buffers are filled with values around 1.
double timeStep(const Options &options, const PlanBuilder &builder, const plan::Plan &plan, uint32_t step,
                std::string &description) {
  auto backend = createBackend(options.backend);
  LoadOptions load;
  load.threads = options.threads;
  auto loaded = (*backend)->load(plan, load);
  if (!loaded.ok()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    std::exit(1);
  }
  for (int b = 0; b < plan.buffers_size(); ++b) {
    size_t count = size_t(elementCount(builder.shapeOf(uint32_t(b))));
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = float(int(i * 7 % 13) - 6) * 0.1f;
    (void)(*loaded)->upload(uint32_t(b), values.data());
  }
  description = (*loaded)->describe(0, step);
  std::vector<double> times;
  double begin = now();
  for (int i = 0; i < 3 || (i < 40 && now() - begin < 0.4); ++i) {
    double t = now();
    if (!(*loaded)->launch(0, step).ok())
      std::exit(1);
    times.push_back(now() - t);
  }
  std::sort(times.begin(), times.end());
  return times[size_t(options.quantile * double(times.size() - 1))];
}

struct ConvSpec {
  int64_t c, f, size, kernel, stride, count;
  int64_t out() const { return (size - 1) / stride + 1; }
};
const std::vector<ConvSpec> kConvs = {
    {3, 64, 32, 3, 1, 1},     {64, 64, 32, 1, 1, 1},   {64, 64, 32, 3, 1, 3},    {64, 256, 32, 1, 1, 4},
    {256, 64, 32, 1, 1, 2},   {256, 128, 32, 1, 1, 1}, {128, 128, 32, 3, 2, 1},  {128, 512, 16, 1, 1, 4},
    {256, 512, 32, 1, 2, 1},  {512, 128, 16, 1, 1, 3}, {128, 128, 16, 3, 1, 3},  {512, 256, 16, 1, 1, 1},
    {256, 256, 16, 3, 2, 1},  {256, 1024, 8, 1, 1, 6}, {512, 1024, 16, 1, 2, 1}, {1024, 256, 8, 1, 1, 5},
    {256, 256, 8, 3, 1, 5},   {1024, 512, 8, 1, 1, 1}, {512, 512, 8, 3, 2, 1},   {512, 2048, 4, 1, 1, 3},
    {1024, 2048, 8, 1, 2, 1}, {2048, 512, 4, 1, 1, 2}, {512, 512, 4, 3, 1, 2},
};

double benchConvs(const Options &o) {
  double total = 0, flopTotal = 0;
  std::printf("%-28s %-9s %9s %9s  %s\n", "convolution", "", "ms", "GFLOP/s", "kernel");
  for (const ConvSpec &s : kConvs) {
    PlanBuilder p;
    Shape xs = {o.batch, s.c, s.size, s.size}, ys = {o.batch, s.f, s.out(), s.out()};
    Shape ws = {s.f, s.c, s.kernel, s.kernel};
    int64_t pad = s.kernel / 2;
    uint32_t x = p.buffer(plan::F32, xs), w = p.buffer(plan::F32, ws), y = p.buffer(plan::F32, ys);
    uint32_t dx = p.buffer(plan::F32, xs), dw = p.buffer(plan::F32, ws);
    Attributes a = {{"strides", Shape{s.stride, s.stride}},
                    {"pads", Shape(4, pad)},
                    {"dilations", Shape{1, 1}},
                    {"groups", int64_t(1)}};
    p.kernel("conv", {x, w}, {y}, a);
    Attributes in = a, weight = a;
    in["input_sizes"] = Shape{s.size, s.size};
    weight["kernel_sizes"] = Shape{s.kernel, s.kernel};
    p.kernel("conv_input_grad", {y, w}, {dx}, in);
    p.kernel("conv_weight_grad", {x, y}, {dw}, weight);
    double flop = 2.0 * double(elementCount(ys) * s.c * s.kernel * s.kernel);
    char name[64];
    std::snprintf(name, sizeof name, "%dx %4d->%-4d %2d^2 k%d s%d", int(s.count), int(s.c), int(s.f), int(s.size),
                  int(s.kernel), int(s.stride));
    for (uint32_t step = 0; step < 3; ++step) {
      if (step == 1 && s.c == 3)
        continue; // the image has no gradient
      std::string kernel;
      double t = timeStep(o, p, p.plan(), step, kernel);
      total += t * double(s.count);
      flopTotal += flop * double(s.count);
      std::printf("%-28s %-9s %9.2f %9.1f  %s\n", step == 0 ? name : "",
                  step == 0   ? "forward"
                  : step == 1 ? "input"
                              : "weight",
                  t * 1e3, flop / t * 1e-9, kernel.c_str());
    }
  }
  std::printf("%-28s %-9s %9.2f %9.1f\n", "all convolutions of a step", "", total * 1e3, flopTotal / total * 1e-9);
  return total;
}

/// Writes expressions: names of values are their numbers.
class Fused {
public:
  Fused(PlanBuilder &p, const Shape &domain) : kernel_(p.kernel("fused", {}, {})), p_(p), domain_(domain) {
    fill(expression().mutable_domain(), domain);
  }
  uint32_t input(uint32_t buffer, const Shape &view) {
    kernel_.add_inputs(buffer);
    fill(expression().add_input_views()->mutable_shape(), view);
    return next_++;
  }
  uint32_t op(const char *name, std::vector<uint32_t> operands, double immediate = 0, plan::DType type = plan::F32) {
    plan::Instruction *i = expression().add_code();
    i->set_op(name);
    i->set_type(type);
    i->set_immediate(immediate);
    for (uint32_t o : operands)
      i->add_operands(o);
    return next_++;
  }
  void result(uint32_t buffer, uint32_t value, const Shape &view) {
    kernel_.add_outputs(buffer);
    plan::Result *r = expression().add_results();
    r->set_value(value);
    r->set_reduction(view == domain_ ? plan::NONE : plan::SUM);
    fill(r->mutable_shape(), view);
  }
  double bytes() const {
    double total = 0;
    for (const auto *list : {&kernel_.inputs(), &kernel_.outputs()})
      for (uint32_t b : *list)
        total += 4.0 * double(elementCount(p_.shapeOf(b)));
    return total;
  }

private:
  plan::Expression &expression() { return *kernel_.mutable_expression(); }
  static void fill(google::protobuf::RepeatedField<int64_t> *to, const Shape &shape) {
    for (int64_t d : shape)
      to->Add(d);
  }
  plan::Kernel &kernel_;
  PlanBuilder &p_;
  Shape domain_;
  uint32_t next_ = 0;
};

double report(const Options &o, PlanBuilder &p, uint32_t step, double bytes, const char *name, const std::string &what,
              double count) {
  std::string kernel;
  double t = timeStep(o, p, p.plan(), step, kernel);
  std::printf("%-28s %-14s %9.2f %9.1f  %s\n", what.c_str(), name, t * 1e3, bytes / t * 1e-9, kernel.c_str());
  return t * count;
}

double benchNorms(const Options &o) {
  double total = 0;
  std::printf("%-28s %-14s %9s %9s  %s\n", "normalisation", "", "ms", "GB/s", "kernel");
  struct Spec {
    int64_t c, size, count;
  };
  for (Spec s : std::vector<Spec>{{64, 32, 7},
                                  {256, 32, 4},
                                  {128, 32, 1},
                                  {128, 16, 7},
                                  {512, 16, 5},
                                  {256, 16, 1},
                                  {256, 8, 11},
                                  {1024, 8, 7},
                                  {512, 8, 1},
                                  {512, 4, 5},
                                  {2048, 4, 4}}) {
    PlanBuilder p;
    Shape xs = {o.batch, s.c, s.size, s.size}, cs = {1, s.c, 1, 1};
    uint32_t x = p.buffer(plan::F32, xs), dy = p.buffer(plan::F32, xs), y = p.buffer(plan::F32, xs);
    uint32_t a = p.buffer(plan::F32, {s.c}), b = p.buffer(plan::F32, {s.c});
    uint32_t r1 = p.buffer(plan::F32, {s.c}), r2 = p.buffer(plan::F32, {s.c});
    // A convolution over all of these tensors gives them blocked layouts, as in a network.
    uint32_t w = p.buffer(plan::F32, {s.c, s.c, 1, 1});
    Attributes conv = {
        {"strides", Shape{1, 1}}, {"pads", Shape(4, 0)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};
    p.kernel("conv", {x, w}, {y}, conv);
    char what[64];
    std::snprintf(what, sizeof what, "%dx %4d %2d^2", int(s.count), int(s.c), int(s.size));
    std::vector<std::pair<const char *, double>> steps;
    {
      Fused f(p, xs);
      f.result(r1, f.input(x, xs), cs);
      steps.push_back({"sum", f.bytes()});
    }
    {
      Fused f(p, xs);
      uint32_t v = f.input(x, xs), mean = f.input(a, cs), d = f.op("sub", {v, mean});
      f.result(r1, f.op("mul", {d, d}), cs);
      steps.push_back({"squares", f.bytes()});
    }
    {
      Fused f(p, xs);
      uint32_t v = f.input(x, xs), scale = f.input(a, cs), shift = f.input(b, cs);
      f.result(y, f.op("relu", {f.op("add", {f.op("mul", {v, scale}), shift})}), xs);
      steps.push_back({"apply, relu", f.bytes()});
    }
    {
      Fused f(p, xs);
      uint32_t v = f.input(x, xs), g = f.input(dy, xs), out = f.input(y, xs), mean = f.input(a, cs);
      uint32_t zero = f.op("constant", {}, 0);
      uint32_t masked = f.op("select", {f.op("lt", {zero, out}, 0, plan::BOOL), g, zero});
      f.result(r1, masked, cs);
      f.result(r2, f.op("mul", {masked, f.op("sub", {mean, v})}), cs);
      steps.push_back({"gradient sums", f.bytes()});
    }
    {
      Fused f(p, xs);
      uint32_t v = f.input(x, xs), g = f.input(dy, xs), out = f.input(y, xs), scale = f.input(a, cs),
               shift = f.input(b, cs);
      uint32_t zero = f.op("constant", {}, 0);
      uint32_t masked = f.op("select", {f.op("lt", {zero, out}, 0, plan::BOOL), g, zero});
      uint32_t first = f.op("mul", {masked, scale});
      uint32_t second = f.op("add", {f.op("mul", {v, shift}), shift});
      f.result(dy, f.op("add", {first, second}), xs);
      steps.push_back({"gradient", f.bytes()});
    }
    for (size_t i = 0; i < steps.size(); ++i)
      total += report(o, p, uint32_t(i + 1), steps[i].second, steps[i].first, i == 0 ? what : "", double(s.count));
  }
  std::printf("%-28s %-14s %9.2f\n", "all normalisations of a step", "", total * 1e3);
  return total;
}

double benchUpdate(const Options &o) {
  PlanBuilder p;
  Shape ws = {512, 512, 3, 3};
  uint32_t w = p.buffer(plan::F32, ws), m = p.buffer(plan::F32, ws), g = p.buffer(plan::F32, ws);
  Fused f(p, ws);
  uint32_t vw = f.input(w, ws), vm = f.input(m, ws), vg = f.input(g, ws);
  uint32_t decay = f.op("constant", {}, 0.9), rate = f.op("constant", {}, 0.1);
  uint32_t momentum = f.op("add", {f.op("mul", {vm, decay}), vg});
  f.result(w, f.op("sub", {vw, f.op("mul", {momentum, rate})}), ws);
  f.result(m, momentum, ws);
  return report(o, p, 0, f.bytes(), "momentum", "update of 2.4 million", 23.5 / 2.36);
}

void benchCopy(const Options &o) {
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {8 << 20}), y = p.buffer(plan::F32, {8 << 20});
  p.kernel("relu", {x}, {y});
  report(o, p, 0, 64e6 * 1.048576, "relu", "copy of 32 MiB", 0);
}

} // namespace

int main(int argc, char **argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string name = argv[i];
    if (name == "--backend")
      o.backend = argv[i + 1];
    else if (name == "--threads")
      o.threads = std::atoi(argv[i + 1]);
    else if (name == "--batch")
      o.batch = std::atoi(argv[i + 1]);
    else if (name == "--quantile")
      o.quantile = std::clamp(std::atof(argv[i + 1]), 0.0, 1.0);
    else if (name == "--only")
      o.only = argv[i + 1];
    else {
      std::fprintf(stderr, "kernel_bench: there is no option '%s'\n", argv[i]);
      return 2;
    }
  }
  benchCopy(o);
  double total = 0;
  if (o.only.empty() || o.only == "update")
    total += benchUpdate(o);
  if (o.only.empty() || o.only == "bn")
    total += benchNorms(o);
  if (o.only.empty() || o.only == "conv")
    total += benchConvs(o);
  std::printf("sum: %.0f ms\n", total * 1e3);
  return 0;
}
