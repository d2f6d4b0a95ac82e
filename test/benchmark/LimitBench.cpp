//===- LimitBench.cpp - what a program's products and bytes take at this machine's limits ----------------===//
//
//   limit_bench PLAN [--program train] [--threads 2] [--seconds 0.05]
//
// Times every different product of a plan's program (matrix products, convolutions and their gradients) by every
// kernel that oneDNN has for its shape: with plain operands, with channels last, and in oneDNN's own layouts, reorders
// not counted. The fastest is the product's limit. Attention counts its operations at the rate of a large product. The
// least bytes beside products: every tensor that a product reads or writes, once more, and every parameter and state
// read and written. Prints one JSON object; seconds are of one run of the program on rank 0.
//
//===----------------------------------------------------------------------------------------------===//
#include "runtime/backend/KernelWork.h"
#include "runtime/backend/MachineRates.h"
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cpu/OneDnn.h"
#include "runtime/plan/PlanFile.h"
#include "runtime/plan/PlanInfo.h"
#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Printable.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

using namespace tessera;
using namespace tessera::rt;
using dnnl::memory;

namespace {

struct Options {
  std::string plan, program = "train";
  int threads = 2;
  double seconds = 0.05;
};

/// The fastest kernel of a product.
struct Best {
  double seconds = 0;
  std::string implementation;
};

/// Memory for a descriptor, with small numbers in it: nothing else costs as in a network.
memory filled(const memory::desc &desc) {
  memory result(desc, dnnlEngine());
  std::memset(result.get_data_handle(), 0x3c, desc.get_size());
  return result;
}

/// Times a primitive with its own memory for the arguments and keeps it if it is the fastest.
void time(const dnnl::primitive &primitive, const std::string &name,
          const std::vector<std::pair<int, memory::desc>> &of, double seconds, Best &best) {
  using Clock = std::chrono::steady_clock;
  dnnl::stream stream(dnnlEngine());
  std::unordered_map<int, memory> arguments;
  for (const auto &[argument, desc] : of)
    arguments.emplace(argument, filled(desc));
  double least = 0;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 4 || (i < 100 && std::chrono::duration<double>(Clock::now() - start).count() < seconds); ++i) {
    const Clock::time_point begin = Clock::now();
    primitive.execute(stream, arguments);
    stream.wait();
    const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
    least = i < 2 ? mine : std::min(least, mine); // the first warms up
  }
  if (best.implementation.empty() || least < best.seconds)
    best = {least, name};
}

/// Every implementation for a call. `describe(wanted)` gives the first one that is accepted. It is asked again for
/// each: in version 2 an implementation cannot be asked for the next one when what described it is gone.
template <typename Primitive, typename Describe, typename Arguments>
void timeAll(const KernelCall &call, const Describe &describe, const Arguments &arguments, const char *layout,
             const Options &o, Best &best) {
  for (int number = 0;; ++number) {
    Wanted wanted;
    wanted.accepts = [left = number](const std::string &) mutable { return left-- == 0; };
    const auto pd = describe(wanted);
    if (!pd)
      break;
    const std::string name = pd.impl_info_str();
    if (!isFast(name))
      break; // the reference loops are last
    if (call.name() != "matmul" && isFaulty(dnnlVersion(), call.name(), name, *convGeometry(call)))
      continue;
    auto of = arguments(pd);
    of.push_back({DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()});
    time(Primitive(pd), name + " " + layout, of, o.seconds, best);
  }
}

memory::desc channelsLast(const Shape &shape, plan::DType type) {
  Shape order{shape[0]}, strides(shape.size());
  order.insert(order.end(), shape.begin() + 2, shape.end());
  order.push_back(shape[1]);
  const Shape inOrder = rowMajorStrides(order);
  strides[0] = inOrder[0];
  strides[1] = 1;
  std::copy(inOrder.begin() + 1, inOrder.end() - 1, strides.begin() + 2);
  return memory::desc(memory::dims(shape.begin(), shape.end()), dnnlType(type),
                      memory::dims(strides.begin(), strides.end()));
}

void timeConv(const KernelCall &call, dnnl::algorithm algorithm, const Options &o, Best &best) {
  const ConvGeometry g = *convGeometry(call);
  const bool input = call.name() == "conv_input_grad", weight = call.name() == "conv_weight_grad";
  const TensorView &x = input ? call.outputs[0] : call.inputs[0], &w = weight ? call.outputs[0] : call.inputs[1],
                   &y = input ? call.inputs[0] : call.inputs[weight ? 1 : 0];
  const TensorView &result = input || weight ? y : call.outputs[0];
  Shape weights = w.shape;
  if (g.groups > 1) {
    weights[0] /= g.groups;
    weights.insert(weights.begin(), g.groups);
  }
  memory::dims strides, dilations, low, high;
  for (size_t d = 3 - g.spatial; d < 3; ++d) {
    strides.push_back(g.stride[d]);
    dilations.push_back(g.dilation[d] - 1);
    low.push_back(g.padLo[d]);
    high.push_back((g.out[d] - 1) * g.stride[d] + g.dilation[d] * (g.kernel[d] - 1) + 1 - g.in[d] - g.padLo[d]);
  }
  const plan::DType type = call.inputs[0].dtype;
  for (const char *layout : {"plain", "channels last", "own layout"}) {
    auto lay = [&](const TensorView &view, plan::DType as) {
      return layout[0] == 'p'   ? rowMajor(view.shape, dnnlType(as))
             : layout[0] == 'c' ? channelsLast(view.shape, as)
                                : anyLayout(rowMajor(view.shape, dnnlType(as)));
    };
    const memory::desc wd = anyLayout(rowMajor(weights, dnnlType(w.dtype)));
    try {
      auto forward = describePrimitive<dnnl::convolution_forward>(
          dnnl::prop_kind::forward_training, algorithm, lay(x, type), anyLayout(rowMajor(weights, dnnlType(type))),
          lay(result, type), strides, dilations, low, high);
      if (input) {
        timeAll<dnnl::convolution_backward_data>(
            call,
            [&](const Wanted &wanted) {
              return describeGradientWith<dnnl::convolution_backward_data>(
                  wanted, forward, algorithm, lay(x, x.dtype), wd, lay(y, y.dtype), strides, dilations, low, high);
            },
            [](const auto &pd) {
              return std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
                                                               {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                               {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}};
            },
            layout, o, best);
      } else if (weight) {
        timeAll<dnnl::convolution_backward_weights>(
            call,
            [&](const Wanted &wanted) {
              return describeGradientWith<dnnl::convolution_backward_weights>(
                  wanted, forward, algorithm, lay(x, x.dtype), wd, lay(y, y.dtype), strides, dilations, low, high);
            },
            [](const auto &pd) {
              return std::vector<std::pair<int, memory::desc>>{{DNNL_ARG_SRC, pd.src_desc()},
                                                               {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                                                               {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}};
            },
            layout, o, best);
      } else {
        timeAll<dnnl::convolution_forward>(
            call,
            [&](const Wanted &wanted) {
              return describePrimitiveWith<dnnl::convolution_forward>(
                  wanted, dnnl::prop_kind::forward_training, algorithm, lay(x, x.dtype), wd, lay(result, result.dtype),
                  strides, dilations, low, high);
            },
            [](const auto &pd) {
              return std::vector<std::pair<int, memory::desc>>{
                  {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}};
            },
            layout, o, best);
      }
    } catch (const dnnl::error &) {
      continue; // oneDNN has no kernel for this layout
    }
  }
}

/// One matrix of a product, with leading batch dimensions of 1 where it is broadcast.
memory::desc matrix(const TensorView &view, size_t rank, bool transposed) {
  Shape shape(rank - view.shape.size(), 1);
  shape.insert(shape.end(), view.shape.begin(), view.shape.end());
  Shape strides = rowMajorStrides(shape);
  if (transposed) {
    std::swap(shape[rank - 2], shape[rank - 1]);
    std::swap(strides[rank - 2], strides[rank - 1]);
  }
  return memory::desc(memory::dims(shape.begin(), shape.end()), dnnlType(view.dtype),
                      memory::dims(strides.begin(), strides.end()));
}

void timeMatMul(const KernelCall &call, const Options &o, Best &best) {
  const MatMulGeometry g = *matmulGeometry(call);
  const size_t rank = std::max<size_t>(g.batch.size() + 2, call.outputs[0].shape.size());
  const memory::desc a = matrix(call.inputs[0], rank, g.transposeA), b = matrix(call.inputs[1], rank, g.transposeB),
                     y = matrix(call.outputs[0], rank, false);
  for (bool own : {false, true})
    try {
      timeAll<dnnl::matmul>(
          call,
          [&](const Wanted &wanted) {
            return describePrimitiveWith<dnnl::matmul>(wanted, own ? anyLayout(a) : a, own ? anyLayout(b) : b,
                                                       own ? anyLayout(y) : y);
          },
          [](const auto &pd) {
            return std::vector<std::pair<int, memory::desc>>{
                {DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}};
          },
          own ? "own layout" : "as it lies", o, best);
    } catch (const dnnl::error &) {
      continue;
    }
}

/// What tells products apart, for people: "matmul f32 [4, 8] f32 [8, 2]" and its attributes.
std::string nameOf(const KernelCall &call) {
  std::string name = call.name();
  for (const TensorView &view : call.inputs)
    name += " " + dtypeName(view.dtype) + str(view.shape);
  for (const plan::Attribute &attribute : call.kernel->attributes())
    if (attribute.has_ints() || attribute.has_i())
      name += " " + attribute.name() + "=" +
              (attribute.has_ints() ? str(toVector(attribute.ints().values())) : std::to_string(attribute.i()));
  return name;
}

Status run(const Options &o) {
  Result<PlanDirectory> directory = readPlanDirectory(o.plan);
  if (!directory)
    return directory.status();
  const plan::Plan &plan = directory->ranks[0];
  const int program = findProgram(plan, o.program);
  if (program < 0)
    return Status::error(o.plan + ": there is no program '" + o.program + "'");
  LoadOptions load;
  load.threads = o.threads;
  useThreads(o.threads);
  // Version 2 lists an implementation once more for each of its primitives in the cache, so that a list would not end.
  dnnl::set_primitive_cache_capacity(0);
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(plan, load);
  Result<std::unique_ptr<Backend>> backend = createBackend("cpu");
  if (!calls || !backend)
    return calls ? backend.status() : calls.status();
  Result<double> bandwidth = measureBandwidth(**backend, load);
  if (!bandwidth)
    return bandwidth.status();

  const TimeOrder order(plan.programs(program));
  std::map<plan::DType, double> rates;
  std::map<std::string, std::pair<Best, uint64_t>> products;
  std::set<uint32_t> touched; // by products
  for (int s = 0; s < plan.programs(program).steps_size(); ++s) {
    const KernelCall &call = (*calls)[size_t(program)][size_t(s)];
    if (!call.kernel)
      continue;
    const bool matmul = call.name() == "matmul", conv = call.name().starts_with("conv"),
               attention = call.name().starts_with("attention");
    if (!matmul && !conv && !attention)
      continue;
    for (const auto *buffers : {&call.kernel->inputs(), &call.kernel->outputs()})
      touched.insert(buffers->begin(), buffers->end());
    auto [entry, isNew] = products.try_emplace(nameOf(call));
    entry->second.second += order.timesOf(uint32_t(s));
    Best &best = entry->second.first;
    if (!isNew)
      continue;
    if (acceptsDnnl(call) && matmul)
      timeMatMul(call, o, best);
    else if (acceptsDnnl(call) && conv)
      for (const auto algorithm : {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_winograd})
        timeConv(call, algorithm, o, best);
    if (!best.implementation.empty())
      continue;
    auto [rate, unknown] = rates.try_emplace(call.inputs[0].dtype, 0.0); // no kernel of oneDNN's: its operations count
    if (unknown) {
      Result<double> measured = measureProducts(**backend, load, rate->first);
      if (!measured)
        return measured.status();
      rate->second = *measured;
    }
    best = {workOf(call).flops.value_or(0) / rate->second, "operations"};
  }

  double seconds = 0, bytes = 0;
  for (const plan::Binding &binding : plan.bindings())
    if (binding.role() == plan::PARAMETER || binding.role() == plan::STATE) {
      touched.erase(binding.buffer());
      const plan::Buffer &buffer = plan.buffers(int(binding.buffer()));
      if (o.program == "train")
        bytes += 2 * double(bytesOf(toVector(buffer.shape()), buffer.dtype()).value_or(0));
    }
  for (uint32_t b : touched)
    bytes += double(bytesOf(toVector(plan.buffers(int(b)).shape()), plan.buffers(int(b)).dtype()).value_or(0));
  std::string text;
  for (const auto &[name, product] : products) {
    const auto &[best, count] = product;
    seconds += best.seconds * double(count);
    char row[160];
    std::snprintf(row, sizeof row,
                  "\"calls\": %llu, \"seconds\": %.9g, \"implementation\": ", static_cast<unsigned long long>(count),
                  best.seconds);
    text += std::string(text.empty() ? "\n" : ",\n") + "  {" + row + "\"" + best.implementation +
            "\", \"product\": \"" + name + "\"}";
  }
  std::printf(
      "{\"bandwidth\": %.6g, \"bytes\": %.0f, \"product_seconds\": %.9g, \"byte_seconds\": %.9g, \"limit\": %.9g,\n"
      " \"products\": [%s]}\n",
      *bandwidth, bytes, seconds, bytes / *bandwidth, seconds + bytes / *bandwidth, text.c_str());
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  Options o;
  CLI::App app("Times a program's products and bytes at this machine's limits", "limit_bench");
  app.add_option("PLAN", o.plan, "Plan directory")->required();
  app.add_option("--program", o.program, "train, eval or infer")->capture_default_str();
  app.add_option("--threads", o.threads, "Kernel threads")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--seconds", o.seconds, "Time of one measurement")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const Status status = run(o);
  if (!status)
    printError("limit_bench: " + status.message());
  return status ? 0 : 1;
}
