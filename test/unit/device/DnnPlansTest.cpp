// cuDNN makes execution plans for a device that is only described: descriptions, heuristics, the choice by numerical
// notes and runtime compilation are tested without a GPU; only execution is not. The descriptions are what
// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION takes, with the figures of the devices' data sheets.
#include "runtime/device/cuda/Common.h"
#include "runtime/device/cuda/DnnGraph.h"

#include <catch2/catch.hpp>
#include <cublasLt.h>
#include <dlfcn.h>
#include <filesystem>
#include <unistd.h>

using namespace tessera::device;

namespace {

std::string deviceJson(int capability, int multiprocessors, int sharedMemory, const char *name) {
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
         R"("multiProcessorCount":)" +
         std::to_string(multiprocessors) +
         R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(sharedMemory) +
         R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
         R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"totalGlobalMem":80000000000,"smClockRateKHz":1755000,)"
         R"("memClockRateKHz":2619000,"l2CacheSize":41943040,"cudaDeviceId":0,"deviceVer":)" +
         std::to_string(capability * 10) + R"(,"driverVer":13000,"deviceName":")" + name + "\"}";
}

Descriptor describe(const std::string &json) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, int64_t(json.size() + 1), json.c_str());
  device.finalize();
  return device;
}

TesseraConv square(int32_t kind, int32_t dtype, int64_t channels, int64_t filters, int64_t size, int64_t kernel,
                   int64_t stride) {
  TesseraConv c = {};
  c.kind = kind;
  c.dtype = c.resultType = dtype;
  c.spatial = 2;
  c.n = 32;
  c.groups = 1;
  c.channels = channels;
  c.filters = filters;
  for (int d = 0; d < 3; ++d) {
    c.in[d] = d ? size : 1;
    c.kernel[d] = d ? kernel : 1;
    c.stride[d] = d ? stride : 1;
    c.padLow[d] = c.padHigh[d] = d ? kernel / 2 : 0;
    c.dilation[d] = 1;
    c.out[d] = d ? (size + 2 * (kernel / 2) - kernel) / stride + 1 : 1;
  }
  return c;
}

std::string text(const TesseraConv &c) {
  return "kind " + std::to_string(c.kind) + " type " + std::to_string(c.dtype) + " to " + std::to_string(c.resultType) +
         " channels " + std::to_string(c.channels) + " filters " + std::to_string(c.filters) + " groups " +
         std::to_string(c.groups) + " size " + std::to_string(c.in[2]) + " kernel " + std::to_string(c.kernel[2]) +
         (c.tf32 ? " tf32" : "") + (c.channelsLast ? " channels last" : "");
}

struct AttentionSizes {
  int64_t batches, heads, keyHeads, length, depth;
  bool causal, bias, dropout = false;
};

/// Rows of all heads side by side. `beside`: q, k and v, and their gradients, are slices of one tensor.
TesseraAttention attention(bool gradient, int32_t dtype, const AttentionSizes &s, bool beside = false) {
  TesseraAttention a = {};
  a.gradient = gradient;
  a.statistics = !gradient;
  a.dtype = dtype;
  a.causal = s.causal;
  a.batches = s.batches;
  a.heads = s.heads;
  a.keyHeads = s.keyHeads;
  a.rows = a.keys = s.length;
  a.depth = a.width = s.depth;
  a.scale = 0.125;
  a.dropout = s.dropout;
  a.keepScale = s.dropout ? 1 / 0.9 : 1;
  for (int32_t t = TESSERA_ATTENTION_Q; t <= TESSERA_ATTENTION_DV; ++t) {
    const bool ofKeys =
        t == TESSERA_ATTENTION_K || t == TESSERA_ATTENTION_V || t == TESSERA_ATTENTION_DK || t == TESSERA_ATTENTION_DV;
    const bool slice = beside && t != TESSERA_ATTENTION_Y && t != TESSERA_ATTENTION_DY;
    a.apart[t][2] = (slice ? s.heads + 2 * s.keyHeads : ofKeys ? s.keyHeads : s.heads) * s.depth;
    a.apart[t][1] = s.depth;
    a.apart[t][0] = s.length * a.apart[t][2];
  }
  if (s.bias) {
    a.biasType = TESSERA_F32;
    a.biasApart[0] = s.length; // one row for all heads and rows of a batch
    a.biasApart[3] = 1;
  }
  return a;
}

std::string text(const TesseraAttention &a) {
  return std::string(a.gradient ? "gradient" : "forward") + " type " + std::to_string(a.dtype) + " batches " +
         std::to_string(a.batches) + " heads " + std::to_string(a.heads) + "/" + std::to_string(a.keyHeads) + " rows " +
         std::to_string(a.rows) + " depth " + std::to_string(a.depth) + (a.causal ? " causal" : "") +
         (a.biasType ? " bias" : "") + (a.dropout ? " dropout" : "");
}

bool has(const DnnPlan &plan, cudnnBackendNumericalNote_t note) {
  for (cudnnBackendNumericalNote_t n : plan.notes)
    if (n == note)
      return true;
  return false;
}

struct Target {
  explicit Target(const std::string &json) : device(describe(json)) {
    INFO(cudnnGetErrorString(device.status()));
    REQUIRE(device.status() == CUDNN_STATUS_SUCCESS);
    target.described = &device;
  }
  Descriptor device;
  DnnTarget target;
};

} // namespace

TEST_CASE("a described device gets plans for the convolutions of a residual network") {
  for (const std::string &json :
       {deviceJson(90, 132, 232448, "NVIDIA H200"), deviceJson(80, 108, 166912, "NVIDIA A100-SXM4-80GB")}) {
    Target t(json);
    int found = 0, all = 0;
    for (int32_t kind : {0, 1, 2})
      for (const auto &[dtype, tensorCores] :
           std::vector<std::pair<int32_t, bool>>{{TESSERA_F32, false}, {TESSERA_F32, true}, {TESSERA_BF16, true}})
        for (TesseraConv c : {square(kind, dtype, 64, 64, 56, 3, 1), square(kind, dtype, 256, 512, 56, 1, 2),
                              square(kind, dtype, 128, 128, 56, 3, 2), square(kind, dtype, 64, 256, 56, 1, 1)}) {
          c.channelsLast = tensorCores;
          c.tf32 = tensorCores && dtype == TESSERA_F32;
          DnnPlan plan;
          TesseraMessage m = {};
          const int32_t code = planConv(t.target, c, plan, &m);
          INFO(text(c) << ": " << m.text << " engine " << plan.engine);
          ++all;
          found += code == TESSERA_OK;
          CHECK((code == TESSERA_OK || code == TESSERA_UNSUPPORTED));
          if (code != TESSERA_OK)
            continue;
          CHECK_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
          CHECK_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
          // Tensor cores take 16 bits and TF32. F32 stays F32.
          CHECK(has(plan, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) == tensorCores);
          CHECK(plan.workspace <= size_t(1) << 30);
          // A second plan is equal to the first one.
          DnnPlan again;
          REQUIRE(planConv(t.target, c, again, &m) == TESSERA_OK);
          CHECK(again.engine == plan.engine);
          CHECK(again.workspace == plan.workspace);
          // What adds to its result takes the same engine, which cuDNN has ready.
          c.accumulate = 1;
          DnnPlan adding;
          REQUIRE(planConv(t.target, c, adding, &m) == TESSERA_OK);
          CHECK(adding.engine == plan.engine);
        }
    INFO(found << " of " << all);
    CHECK(found == all);
  }
}

TEST_CASE("unequal padding, groups, dilation, three dimensions, sums in F32") {
  Target t(deviceJson(90, 132, 232448, "NVIDIA H200"));
  // Sums in F32 are for engines that are compiled at run time, which cuDNN proposes only where it can load the
  // driver's library.
  const bool driver = dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
  auto attempt = [&](const char *what, const TesseraConv &c) {
    DnnPlan plan;
    TesseraMessage m = {};
    const int32_t code = planConv(t.target, c, plan, &m);
    INFO(what << ": " << text(c) << ": " << m.text);
    CHECK(code == (driver || c.dtype == c.resultType ? TESSERA_OK : TESSERA_UNSUPPORTED));
  };
  for (int32_t kind : {0, 1, 2})
    for (int32_t dtype : {TESSERA_F32, TESSERA_BF16, TESSERA_F16}) {
      TesseraConv c = square(kind, dtype, 64, 64, 28, 3, 1);
      c.channelsLast = dtype != TESSERA_F32;
      TesseraConv uneven = c;
      uneven.padHigh[1] = uneven.padHigh[2] = 0;
      uneven.out[1] = uneven.out[2] = 27;
      attempt("padding on one side", uneven);
      TesseraConv grouped = c;
      grouped.groups = 4;
      attempt("groups", grouped);
      TesseraConv dilated = c;
      dilated.dilation[1] = dilated.dilation[2] = 2;
      dilated.padLow[1] = dilated.padLow[2] = dilated.padHigh[1] = dilated.padHigh[2] = 2;
      attempt("dilation", dilated);
      TesseraConv cube = c;
      cube.spatial = 3;
      cube.in[0] = cube.out[0] = 8;
      cube.kernel[0] = 3;
      cube.padLow[0] = cube.padHigh[0] = 1;
      attempt("three dimensions", cube);
      if (dtype == TESSERA_F32)
        continue;
      TesseraConv wide = c;
      wide.resultType = TESSERA_F32;
      attempt("a result in F32", wide);
      TesseraConv adding = wide;
      adding.accumulate = 1;
      DnnPlan none;
      TesseraMessage why = {};
      CHECK(planConv(t.target, adding, none, &why) == TESSERA_UNSUPPORTED);
      // Only forward are there engines for groups with results in F32.
      wide.groups = 4;
      DnnPlan plan;
      TesseraMessage m = {};
      const int32_t code = planConv(t.target, wide, plan, &m);
      INFO("groups, a result in F32: " << text(wide) << ": " << m.text);
      CHECK(code == (driver && kind == 0 ? TESSERA_OK : TESSERA_UNSUPPORTED));
    }
}

TEST_CASE("a described device gets plans for attention") {
  const bool driver = dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;              // its engines are compiled at run time
  const std::vector<AttentionSizes> sizes = {{8, 12, 12, 1024, 64, true, false}, // GPT-2
                                             {16, 16, 16, 512, 64, false, true}, // BERT-large with a mask of keys
                                             {16, 16, 16, 512, 64, false, false, true}, // with dropout
                                             {16, 16, 16, 512, 64, false, true, true},  // with both
                                             {8, 12, 12, 1024, 64, true, false, true},  // GPT-2 with dropout
                                             {8, 16, 16, 1024, 128, true, false}, // a GPT of 1.3 billion parameters
                                             {2, 8, 2, 1000, 128, true, false},   // heads that share keys
                                             {32, 6, 6, 197, 64, false, false}};  // a vision transformer
  for (const std::string &json :
       {deviceJson(90, 132, 232448, "NVIDIA H200"), deviceJson(80, 108, 166912, "NVIDIA A100-SXM4-80GB")}) {
    Target t(json);
    for (const bool gradient : {false, true})
      for (const AttentionSizes &s : sizes)
        for (const bool beside : {false, true}) {
          const TesseraAttention a = attention(gradient, TESSERA_BF16, s, beside);
          DnnPlan plan;
          TesseraMessage m = {};
          const int32_t code = planAttention(t.target, a, plan, &m);
          INFO(text(a) << (beside ? " beside: " : ": ") << m.text << " engine " << plan.engine << " workspace "
                       << plan.workspace);
          const bool known = !gradient || !s.dropout || !s.causal; // that it computes what it says
          CHECK(code == (driver && known ? TESSERA_OK : TESSERA_UNSUPPORTED));
          if (code != TESSERA_OK)
            continue;
          CHECK_FALSE(has(plan, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
          // Saved and read again it has the same operands, and the numbers among them.
          DnnPlan again;
          REQUIRE(restorePlan(t.target, DnnLimits(), savedPlan(plan), again));
          CHECK(again.operands == plan.operands);
          CHECK(again.numbers == plan.numbers);
          CHECK(again.workspace == plan.workspace);
        }
  }
}

TEST_CASE("attention that cuDNN has not, or gets wrong, is unsupported") {
  Target t(deviceJson(90, 132, 232448, "NVIDIA H200"));
  const AttentionSizes s = {2, 4, 4, 128, 64, false, false};
  DnnPlan plan;
  TesseraMessage m = {};
  CHECK(planAttention(t.target, attention(false, TESSERA_F32, s), plan, &m) == TESSERA_UNSUPPORTED);
  TesseraAttention odd = attention(false, TESSERA_BF16, s);
  odd.depth = 60;
  CHECK(planAttention(t.target, odd, plan, &m) == TESSERA_UNSUPPORTED);
}

TEST_CASE("a convolution that cuDNN cannot plan is unsupported") {
  Target t(deviceJson(90, 132, 232448, "NVIDIA H200"));
  TesseraConv c = square(0, TESSERA_F32, 64, 64, 28, 3, 1);
  c.out[2] = 5; // not what the sizes give
  DnnPlan plan;
  TesseraMessage m = {};
  CHECK(planConv(t.target, c, plan, &m) == TESSERA_UNSUPPORTED);
  CHECK(std::string(m.text).find("cuDNN") == 0);
}

TEST_CASE("a product that cuBLASLt does not know is unsupported, and another failure is none of that") {
  TesseraMessage m = {};
  CHECK(failChoice(&m, CUBLAS_STATUS_NOT_SUPPORTED) == TESSERA_UNSUPPORTED);
  CHECK(failChoice(&m, CUBLAS_STATUS_INVALID_VALUE) == TESSERA_UNSUPPORTED);
  CHECK(std::string(m.text).find(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) != std::string::npos);
  CHECK(failChoice(&m, CUBLAS_STATUS_NOT_INITIALIZED) == TESSERA_FAILED);
}

TEST_CASE("a plan is made once, and then taken from the cache") {
  const std::string folder = (std::filesystem::temp_directory_path() / ("plans-" + std::to_string(getpid()))).string();
  const char *before = std::getenv("TESSERA_CACHE_DIR");
  const std::string old = before ? before : "";
  setenv("TESSERA_CACHE_DIR", folder.c_str(), 1);
  Target t(deviceJson(90, 132, 232448, "NVIDIA H200"));
  TesseraMessage m = {};
  int made = 0;
  auto plan = [&](const TesseraConv &c, const std::string &key) {
    DnnPlan found;
    CHECK(planThroughCache(
              t.target, key,
              [&](const DnnTarget &target, DnnPlan &fresh) {
                ++made;
                return planConv(target, c, fresh, &m);
              },
              found) == TESSERA_OK);
    CHECK(found.plan.raw() != nullptr);
    return std::pair(found.workspace, found.operands);
  };
  TesseraConv c = square(2, TESSERA_BF16, 64, 64, 28, 3, 1);
  c.channelsLast = 1;
  if (dlopen("libcuda.so.1", RTLD_LAZY))
    c.resultType = TESSERA_F32; // compiled at run time
  const auto first = plan(c, "one");
  CHECK(plan(c, "one") == first);
  CHECK(made == 1);
  plan(c, "other");
  CHECK(made == 2);
  // What is no plan is not taken.
  for (const auto &file : std::filesystem::directory_iterator(folder))
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  CHECK(plan(c, "one") == first);
  CHECK(made == 3);
  DnnPlan none;
  CHECK_FALSE(restorePlan(t.target, DnnLimits(), "1 2 3 \n{\"cudnnVersion\":1}", none));
  CHECK_FALSE(restorePlan(t.target, DnnLimits(), "", none));
  std::filesystem::remove_all(folder);
  before ? setenv("TESSERA_CACHE_DIR", old.c_str(), 1) : unsetenv("TESSERA_CACHE_DIR");
}

TEST_CASE("only allowed engines are taken") {
  DnnLimits exact, fast;
  exact.tensorCores = false;
  CHECK(allowedNotes({}, exact));
  CHECK(allowedNotes({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, fast));
  CHECK_FALSE(allowedNotes({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, exact));
  for (auto note : {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                    CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13})
    CHECK_FALSE(allowedNotes({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, note}, fast));
}
