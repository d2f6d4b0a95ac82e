// Every kind of kernel binds; what is generated for it compiles for sm_80 and sm_90 where there is a toolkit
// (NVRTC needs no device); the cache on disk is right or ignored.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"
#include "runtime/backend/cuda/run/FiniteCheck.h"
#include "runtime/backend/cuda/run/KernelCache.h"
#include "runtime/backend/cuda/run/KernelNames.h"
#include "runtime/comm/nccl/DeviceSums.h"
#include "runtime/device/Device.h"
#include "runtime/support/Scalar.h"
#include "test/conformance/backend/Loops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

using namespace tessera::rt;
using namespace tessera::rt::cuda;
using test::PlanBuilder;
namespace plan = tessera::plan;

namespace {

/// One plan with every kernel that is not elementwise, in a floating-point type, and elementwise ones of all
/// kinds.
PlanBuilder everything(plan::DType t) {
  PlanBuilder p;
  auto in = [&](const Shape &s, plan::DType type) { return p.buffer(type, s); };
  uint32_t x = in({2, 4, 6, 6}, t), w = in({4, 4, 3, 3}, t), y = in({2, 4, 6, 6}, t);
  const test::Attributes conv = {
      {"strides", Shape{1, 1}}, {"dilations", Shape{1, 1}}, {"pads", Shape{1, 1, 1, 1}}, {"groups", int64_t(1)}};
  p.kernel("conv", {x, w}, {y}, conv);
  test::Attributes inputGrad = conv, weightGrad = conv;
  inputGrad["input_sizes"] = Shape{6, 6};
  weightGrad["kernel_sizes"] = Shape{3, 3};
  p.kernel("conv_input_grad", {y, w}, {in({2, 4, 6, 6}, t)}, inputGrad);
  p.kernel("conv_weight_grad", {x, y}, {in({4, 4, 3, 3}, t)}, weightGrad);
  test::Attributes pool = {
      {"kernel", Shape{2, 2}}, {"strides", Shape{2, 2}}, {"pads", Shape{0, 0, 0, 0}}, {"dilations", Shape{1, 1}}};
  uint32_t small = in({2, 4, 3, 3}, t);
  p.kernel("max_pool", {x}, {small}, pool);
  p.kernel("max_pool_grad", {x, small}, {in({2, 4, 6, 6}, t)}, pool);
  pool.erase("dilations");
  p.kernel("avg_pool", {x}, {in({2, 4, 3, 3}, t)}, pool);
  pool["input_sizes"] = Shape{6, 6};
  p.kernel("avg_pool_grad", {small}, {in({2, 4, 6, 6}, t)}, pool);
  uint32_t a = in({3, 8, 40}, t), b = in({3, 40, 5}, t);
  p.kernel("matmul", {a, b}, {in({3, 8, 5}, t)});
  p.kernel("softmax", {a}, {in({3, 8, 40}, t)}, {{"dim", int64_t(2)}});
  uint32_t long1 = in({200, 50257}, t), long2 = in({200, 50257}, t); // too long for registers
  p.kernel("softmax", {long1}, {long2}, {{"dim", int64_t(1)}});
  p.kernel("softmax_grad", {long1, long2}, {in({200, 50257}, t)}, {{"dim", int64_t(1)}});
  uint32_t other = in({3, 8, 40}, t);
  p.kernel("softmax_grad", {a, other}, {in({3, 8, 40}, t)}, {{"dim", int64_t(1)}});
  uint32_t q = in({2, 4, 3, 8}, t), k = in({2, 2, 5, 8}, t), v = in({2, 2, 5, 6}, t), z = in({2, 4, 3, 6}, t);
  const test::Attributes causal = {{"scale", 0.5}, {"causal", int64_t(1)}, {"outside", -1e4}};
  p.kernel("attention", {q, k, v, in({2, 1, 1, 5}, t)}, {z}, causal);
  p.kernel("attention_grad", {z, q, k, v}, {in({2, 4, 3, 8}, t), in({2, 2, 5, 8}, t), in({2, 2, 5, 6}, t)}, causal);
  const uint32_t lines = in({2, 4, 3}, bytesPerElement(t) == 2 ? plan::F32 : t);
  p.kernel("attention", {q, k, v}, {z, lines}, causal);
  p.kernel("attention_grad", {z, q, k, v, z, lines}, {in({2, 4, 3, 8}, t), in({2, 2, 5, 8}, t), in({2, 2, 5, 6}, t)},
           causal);
  const uint32_t keep = in({2, 4, 3, 5}, plan::BOOL);
  test::Attributes dropout = causal;
  dropout["keep_scale"] = 1.25;
  p.kernel("attention", {q, k, v, keep}, {z, lines}, dropout);
  p.kernel("attention_grad", {z, q, k, v, z, lines, keep},
           {in({2, 4, 3, 8}, t), in({2, 2, 5, 8}, t), in({2, 2, 5, 6}, t)}, dropout);
  p.kernel("reshape", {a}, {in({24, 40}, t)});
  p.kernel("transpose", {in({64, 70}, t)}, {in({70, 64}, t)}, {{"perm", Shape{1, 0}}});
  p.kernel("transpose", {a}, {in({40, 3, 8}, t)}, {{"perm", Shape{2, 0, 1}}});
  p.kernel("slice", {a}, {in({3, 4, 20}, t)},
           {{"starts", Shape{0, 1, 0}}, {"limits", Shape{3, 8, 40}}, {"strides", Shape{1, 2, 2}}});
  p.kernel("pad", {in({2, 3}, t)}, {in({4, 7}, t)},
           {{"lo", Shape{1, 1}}, {"hi", Shape{1, 1}}, {"inner", Shape{0, 1}}, {"value", 2.0}});
  p.kernel("concat", {a, other}, {in({3, 16, 40}, t)}, {{"dim", int64_t(1)}});
  uint32_t indices = in({5}, plan::I64);
  p.kernel("gather", {in({9, 7}, t), indices}, {in({5, 7}, t)}, {{"axis", int64_t(0)}});
  p.kernel("scatter_add", {indices, in({5, 7}, t)}, {in({9, 7}, t)}, {{"axis", int64_t(0)}, {"size", int64_t(9)}});
  p.kernel("argmax", {a}, {in({3, 8}, plan::I64)}, {{"dim", int64_t(2)}});
  p.kernel("topk", {a}, {in({3, 8, 4}, plan::I64)}, {{"dim", int64_t(2)}, {"k", int64_t(4)}});
  p.kernel("orthonormalize", {a}, {in({3, 8, 40}, t)});
  for (const ElementwiseFunction &f : elementwiseFunctions()) {
    bool logic = f.kind == ElementwiseKind::Logic || f.kind == ElementwiseKind::LogicUnary;
    plan::DType from = logic ? plan::BOOL : f.kind == ElementwiseKind::Whole ? plan::I32 : t;
    uint32_t first = in({3, 8, 40}, from);
    uint32_t result = in({3, 8, 40}, f.kind == ElementwiseKind::Compare ? plan::BOOL : from);
    if (f.operands == 1)
      p.kernel(std::string(f.name), {first}, {result});
    if (f.operands == 2)
      p.kernel(std::string(f.name), {first, in({40}, from)}, {result});
  }
  p.kernel("select", {in({3, 8, 40}, plan::BOOL), a, other}, {in({3, 8, 40}, t)});
  p.kernel("cast", {a}, {in({3, 8, 40}, plan::I32)});
  p.kernel("random", {in({}, plan::I64)}, {in({4, 4}, t)}, {{"seed", int64_t(1)}, {"stream", int64_t(2)}});
  p.kernel("iota", {}, {in({4, 4}, plan::I64)}, {{"dim", int64_t(1)}});
  for (const char *name : {"reduce_sum", "reduce_max", "reduce_min"}) {
    p.kernel(name, {in({64, 1000}, t)}, {in({64, 1}, t)}, {{"dims", Shape{1}}, {"keepdims", int64_t(1)}});
    p.kernel(name, {in({5000, 3}, t)}, {in({1, 3}, t)}, {{"dims", Shape{0}}, {"keepdims", int64_t(1)}});
  }
  return p;
}

/// The call on operands of 16 bits, or of F32, with channels last, if it has some.
std::optional<KernelCall> withLayouts(const KernelCall &call) {
  KernelCall last = call;
  bool found = false;
  for (std::vector<TensorView> *views : {&last.inputs, &last.outputs})
    for (TensorView &view : *views)
      if (view.shape.size() == 4 && view.shape[1] > 1 && isFloat(view.dtype) && view.dtype != plan::F64) {
        view.layout = {{{1, int(view.shape[1])}}};
        found = true;
      }
  return found ? std::optional(last) : std::nullopt;
}

/// Of a plan with so many leaves; 0: it is not reproducible.
std::vector<std::string> sourcesOf(plan::DType type, std::set<std::string> &names, int64_t leaves = 0) {
  PlanBuilder builder = everything(type);
  builder.plan().set_leaves(leaves);
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(builder.plan(), {});
  INFO(calls.status().message());
  REQUIRE(calls.ok());
  std::set<std::string> sources;
  for (const std::vector<KernelCall> &program : *calls)
    for (const KernelCall &call : program) {
      names.insert(call.name());
      Result<std::vector<CudaKernel>> choices = bindCuda(call, {});
      if (std::optional<KernelCall> last = withLayouts(call); last && choices.ok() && !leaves) {
        Result<std::vector<CudaKernel>> more = bindCuda(*last, {});
        REQUIRE(more.ok());
        std::move(more->begin(), more->end(), std::back_inserter(*choices));
      }
      INFO(call.name() << ": " << choices.status().message());
      REQUIRE(choices.ok());
      REQUIRE_FALSE(choices->empty());
      bool own = false; // no library is needed for anything
      for (const CudaKernel &choice : *choices) {
        bool library = false;
        for (const Action &action : choice.actions) {
          if (const auto *launch = std::get_if<Launch>(&action)) {
            sources.insert(launch->source);
            if (launch->loop)
              sources.insert(launch->loop->tableSource());
            CHECK((launch->grid[0] > 0 && launch->grid[1] > 0 && launch->grid[1] <= 65535));
            CHECK((launch->block >= 32 && launch->block <= 1024));
          }
          library |= isLibraryCall(action);
        }
        own |= !library;
        CHECK_FALSE((library && leaves));
      }
      CHECK(own);
    }
  return {sources.begin(), sources.end()};
}

#ifdef TESSERA_CUDA_LIBRARY
/// Rows of every length class and a kernel each: with sums over the rows, and numbers of all kinds.
std::vector<std::string> rowSources(plan::DType type) {
  std::vector<std::string> sources;
  for (int64_t columns : {2, 12, 33, 768, 1000, 5000}) {
    PlanBuilder p;
    const Shape full = {100, columns}, row = {100, 1}, column = {1, columns};
    const plan::DType wide = type == plan::F64 ? plan::F64 : plan::F32;
    auto buffer = [&](plan::DType t, const Shape &shape) { return p.buffer(t, shape); };
    const uint32_t x = buffer(type, full), top = buffer(wide, row), sum = buffer(wide, row),
                   scale = buffer(type, column), scaled = buffer(wide, row), y = buffer(type, full),
                   total = buffer(wide, column), step = buffer(plan::I64, {1, 1});
    test::Loop(p, full, wide).in(x).out(top, 0, plan::MAX, row);
    test::Loop(p, full, wide).in(x).in(top, row).op("sub", {0, 1}).op("exp", {2}).out(sum, 3, plan::SUM, row);
    test::Loop(p, row, wide).in(sum).op("reciprocal", {0}).out(scaled, 1);
    test::Loop(p, full, wide)
        .in(x)
        .in(scaled, row)
        .in(scale, column)
        .in(step, {1, 1})
        .op("mul", {0, 1})
        .op("mul", {4, 2})
        .op("random", {3}, wide, 0, {{"seed", int64_t(1)}, {"stream", int64_t(2)}})
        .op("mul", {5, 6})
        .out(y, 7)
        .out(total, 4, plan::SUM, column);
    std::vector<TensorView> views;
    REQUIRE(resolveBuffers(p.plan(), false, {}, reinterpret_cast<std::byte *>(1 << 20), views).ok());
    std::vector<ByteRange> ranges;
    for (const TensorView &v : views)
      ranges.push_back({reinterpret_cast<uint64_t>(v.data), reinterpret_cast<uint64_t>(v.data) + v.bytes()});
    const plan::Program &program = p.plan().programs(0);
    std::vector<KernelCall> calls(4);
    for (int s = 0; s < 4; ++s)
      REQUIRE(resolveCall(p.plan(), program.steps(s), views, {}, calls[size_t(s)]).ok());
    std::optional<JoinedKernel> joined =
        rowsFrom(program, calls, 0, ranges, BufferUses(p.plan()), JoinedProgram(program, ranges), {});
    REQUIRE(joined);
    CHECK(joined->set.steps.size() == 4);
    for (const Action &action : joined->kernel.actions)
      sources.push_back(std::get<Launch>(action).source);
  }
  return sources;
}
#endif

} // namespace

TEST_CASE("every kernel that the checks know is bound") {
  std::set<std::string> names;
  for (plan::DType type : {plan::F32, plan::F64, plan::F16, plan::BF16})
    CHECK(sourcesOf(type, names).size() > 40);
  for (const char *name : {"conv",
                           "conv_input_grad",
                           "conv_weight_grad",
                           "max_pool",
                           "max_pool_grad",
                           "avg_pool",
                           "avg_pool_grad",
                           "matmul",
                           "softmax",
                           "softmax_grad",
                           "reshape",
                           "transpose",
                           "slice",
                           "pad",
                           "concat",
                           "gather",
                           "scatter_add",
                           "argmax",
                           "topk",
                           "attention",
                           "attention_grad",
                           "orthonormalize"})
    CHECK(names.count(name) == 1);
}

TEST_CASE("four neighbouring random numbers come from one counter") {
  auto source = [](const Shape &global, const Shape &offset) {
    PlanBuilder p;
    p.kernel("random", {p.buffer(plan::I64, {})}, {p.buffer(plan::F32, {1024, 1056})},
             {{"seed", int64_t(1)}, {"stream", int64_t(0)}, {"global_shape", global}, {"offset", offset}});
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    Result<std::vector<CudaKernel>> kernels = bindCuda((*calls)[0][0], {});
    REQUIRE(kernels.ok());
    return std::get<Launch>(kernels->front().actions.front()).source;
  };
  const std::string whole = source({1024, 1056}, {0, 0}), block = source({1024, 2112}, {0, 1056}),
                    uneven = source({1024, 2112}, {0, 1}), odd = source({1024, 1057}, {0, 0});
  CHECK(whole.find("uniform_word(0x1ull, 0x0ull + (u64)(q0), (u32)i & 3u, ") != std::string::npos);
  CHECK(block.find("uniform_word(0x1ull, 0x108ull + (u64)(q0 * 528u + q1), (u32)i & 3u, ") != std::string::npos);
  CHECK(uneven.find("uniform(0x1ull, 0x1ull + (u64)(x0 * 2112u + x1), ") != std::string::npos);
  CHECK(odd.find("uniform(0x1ull, 0x0ull + (u64)(x0 * 1057u + x1), ") != std::string::npos);
}

TEST_CASE("kernels have names that tell them apart") {
  std::set<std::string> operators, names;
  const std::vector<std::string> sources = sourcesOf(plan::F32, operators);
  for (const std::string &source : sources) {
    const NamedKernel named = nameKernel(source, kernelLabel("some op", {8, 1024}));
    INFO(named.source.substr(named.source.find("__global__")));
    CHECK(named.name.starts_with("some_op_8x1024_"));
    CHECK(nameKernel(source, "some_op_8x1024").name == named.name);
    CHECK(std::count_if(named.name.begin(), named.name.end(), [](char c) { return !std::isalnum(c) && c != '_'; }) ==
          0);
    // Every kernel of the source is renamed.
    size_t kernels = 0;
    for (size_t at = source.find("__global__"); at != std::string::npos; at = source.find("__global__", at + 1))
      ++kernels;
    CHECK(named.source.size() == source.size() + kernels * (named.name.size() - 1));
    names.insert(named.name);
  }
  CHECK(names.size() == sources.size());
  CHECK(kernelLabel("3d", {}) == "kernel_3d");
}

#ifdef TESSERA_CUDA_LIBRARY
TEST_CASE("sums of many numbers over the same rows fit into shared memory") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load(TESSERA_CUDA_LIBRARY);
  if (!module) {
    WARN("skipped: " << module.status().message());
    return;
  }
  // A block has 48 KiB, and each sum in F64 takes 2 KiB of them.
  PlanBuilder p;
  const Shape full = {40000, 3}, column = {1, 3};
  test::Loop loop(p, full, plan::F64);
  for (uint32_t i = 0; i < 40; ++i)
    loop.in(p.buffer(plan::F64, full));
  for (uint32_t i = 0; i < 40; ++i)
    loop.out(p.buffer(plan::F64, column), i, plan::SUM, column);
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
  REQUIRE(calls.ok());
  Result<std::vector<CudaKernel>> choices = bindCuda((*calls)[0][0], {});
  REQUIRE(choices.ok());
  std::vector<const std::string *> sources;
  for (const Action &action : (*choices)[0].actions)
    if (const auto *launch = std::get_if<Launch>(&action))
      sources.push_back(&launch->source);
  const Result<std::vector<std::string>> images = compileKernels((*module)->api(), 90, sources, 2);
  INFO(images.status().message());
  CHECK(images.ok());
}

TEST_CASE("neighbouring elements of loops and rows are moved by one instruction") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load(TESSERA_CUDA_LIBRARY);
  if (!module) {
    WARN("skipped: " << module.status().message());
    return;
  }
  const TesseraDeviceApi &api = (*module)->api();
  // For a device that no compiler knows it makes PTX, which is text.
  auto ptx = [&](const std::string &source) {
    void *image = nullptr;
    size_t bytes = 0;
    TesseraMessage m = {};
    INFO(source);
    REQUIRE(api.compile(source.c_str(), 999, 0, &image, &bytes, &m) == TESSERA_OK);
    const std::string text(static_cast<char *>(image), bytes);
    api.freeImage(image);
    return text;
  };
  auto has = [](const std::string &text, const std::vector<const char *> &any) {
    return std::ranges::any_of(any, [&](const char *part) { return text.find(part) != std::string::npos; });
  };
  auto source = [](plan::DType type, int64_t rows, int64_t columns, bool sums) {
    PlanBuilder p;
    const Shape full = {rows, columns};
    test::Loop loop(p, full);
    loop.in(p.buffer(type, full)).op("neg", {0}).out(p.buffer(type, full), 1);
    if (sums) // a row's sum makes rows of the loop
      loop.out(p.buffer(plan::F32, {rows, 1}), 1, plan::SUM, {rows, 1});
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    const Result<std::vector<CudaKernel>> choices = bindCuda((*calls)[0][0], {});
    REQUIRE(choices.ok());
    return std::get<Launch>(choices->front().actions.front()).source;
  };
  for (const bool rows : {false, true}) {
    INFO(rows);
    const std::string wide = ptx(source(plan::F32, 2048, 1024, rows)), half = ptx(source(plan::BF16, 2048, 1024, rows));
    CHECK(has(wide, {"ld.global.nc.v4.f32", "ld.global.nc.v4.b32", "ld.global.nc.v2.b64"}));
    CHECK(has(wide, {"st.global.v4.f32", "st.global.v4.b32", "st.global.v2.b64"}));
    CHECK(has(half, {"ld.global.nc.v4.u32", "ld.global.nc.v4.b32", "ld.global.nc.v2.u64", "ld.global.nc.v2.b64"}));
    CHECK(has(half, {"st.global.v4.u32", "st.global.v4.b32", "st.global.v2.u64", "st.global.v2.b64"}));
    // Rows that do not all begin at a multiple of four elements are read one by one.
    CHECK_FALSE(has(ptx(source(plan::F32, 2048, 1023, true)), {"ld.global.nc.v4"}));
  }
}

TEST_CASE("a grid has no more blocks than a device takes") {
  PlanBuilder p; // 2^32 + 1 indices; nothing is allocated
  const int64_t many = (int64_t(1) << 32) + 1;
  const uint32_t indices = p.buffer(plan::I64, {many});
  p.kernel("scatter_add", {indices, p.buffer(plan::F32, {many, 2})}, {p.buffer(plan::F32, {9, 2})},
           {{"axis", int64_t(0)}, {"size", int64_t(9)}});
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
  INFO(calls.status().message());
  REQUIRE(calls.ok());
  const Result<std::vector<CudaKernel>> choices = bindCuda((*calls)[0][0], {});
  REQUIRE(choices.ok());
  uint32_t most = 0;
  for (const Action &action : choices->front().actions)
    if (const auto *launch = std::get_if<Launch>(&action)) {
      CHECK(launch->grid[0] < uint32_t(1) << 31);
      most = std::max(most, launch->grid[0]);
    }
  CHECK(most > 500);
}

TEST_CASE("generated kernels compile for sm_80 and sm_90") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load(TESSERA_CUDA_LIBRARY);
  if (!module) {
    WARN("skipped: " << module.status().message());
    return;
  }
  const TesseraDeviceApi &api = (*module)->api();
  std::set<std::string> names;
  for (plan::DType type : {plan::F32, plan::BF16}) {
    std::vector<std::string> sources = sourcesOf(type, names), rows = rowSources(type);
    sources.insert(sources.end(), rows.begin(), rows.end());
    std::vector<const std::string *> pointers = {&finiteCheckSource()};
    for (const std::string &source : sources)
      pointers.push_back(&source);
    for (int capability : {80, 90}) {
      Result<std::vector<std::string>> images = compileKernels(api, capability, pointers, 2);
      INFO(images.status().message());
      REQUIRE(images.ok());
      for (const std::string &image : *images)
        CHECK(image.compare(0, 4,
                            "\x7f"
                            "ELF") == 0);
    }
  }
  // Those of reproducible plans, and the sums between ranks.
  for (plan::DType type : {plan::F32, plan::F64, plan::BF16, plan::F16}) {
    std::vector<std::string> sources = sourcesOf(type, names, 8);
    sources.push_back(treeSumSource(type, 6));
    std::vector<const std::string *> pointers;
    for (const std::string &source : sources)
      pointers.push_back(&source);
    Result<std::vector<std::string>> images = compileKernels(api, 90, pointers, 2, true);
    INFO(images.status().message());
    CHECK(images.ok());
  }
  // A product is rounded, or is one instruction with the sum.
  const std::string sum = "extern \"C\" __global__ void k(float *x) { x[0] = x[1] * x[2] + x[3]; }";
  for (bool rounds : {false, true}) {
    Result<std::vector<std::string>> code = compileKernels(api, 999, {&sum}, 1, rounds);
    REQUIRE(code.ok());
    CHECK(((*code)[0].find("fma.rn.f32") == std::string::npos) == rounds);
  }
  // A device newer than the compiler gets PTX.
  const std::string trivial = "extern \"C\" __global__ void k(int *x) { *x = 1; }";
  Result<std::vector<std::string>> ptx = compileKernels(api, 999, {&trivial}, 1);
  REQUIRE(ptx.ok());
  CHECK((*ptx)[0].find(".visible .entry k") != std::string::npos);
  const std::string wrong = "extern \"C\" __global__ void k(int *x) { nonsense; }";
  CHECK(compileKernels(api, 90, {&wrong}, 1).status().message().find("nonsense") != std::string::npos);
}
#endif

TEST_CASE("a damaged kernel in the cache is compiled anew") {
  Result<std::shared_ptr<DeviceModule>> module = DeviceModule::load();
  REQUIRE(module.ok());
  const char *where = std::getenv("TMPDIR");
  std::string folder = std::string(where && *where ? where : "/tmp") + "/tessera-cache-XXXXXX";
  REQUIRE(mkdtemp(folder.data()));
  const std::string old = std::getenv("TESSERA_CACHE_DIR") ? std::getenv("TESSERA_CACHE_DIR") : "";
  setenv("TESSERA_CACHE_DIR", folder.c_str(), 1);
  const std::string source = "extern \"C\" __global__ void k(int *x) { *x = 1; }";
  auto images = [&] { return compileKernels((*module)->api(), 90, {&source}, 1); };
  auto first = images();
  REQUIRE(first.ok());
  auto again = images();
  REQUIRE(again.ok());
  CHECK(*again == *first); // read back: a fresh compilation would differ in its file's name
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
  auto repaired = images();
  REQUIRE(repaired.ok());
  CHECK((*repaired)[0].size() == (*first)[0].size());
  // A compiler with other options makes other kernels.
  TesseraDeviceApi other = (*module)->api();
  other.compilerText = [] { return "the same compiler --with another option"; };
  REQUIRE(compileKernels(other, 90, {&source}, 1).ok());
  using Files = std::filesystem::directory_iterator;
  CHECK(std::distance(Files(folder), Files()) == 2);
  setenv("TESSERA_CACHE_DIR", old.c_str(), 1);
  std::filesystem::remove_all(folder);
}
