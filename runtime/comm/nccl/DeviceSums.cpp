#include "runtime/comm/nccl/DeviceSums.h"

#include "runtime/support/Float16Code.h"

#include <bit>

namespace tessera::rt {
namespace {

constexpr const char *kTypes = "typedef unsigned int u32;\ntypedef unsigned short u16;\ntypedef long long i64;\n";

// Sums wait on a stack, the larger ones below, as the digits of a binary counter of the members.
constexpr const char *kKernel = R"(
__device__ inline A sum_of(A a, A b) { return LOAD(STORE(a + b)); }
extern "C" __global__ void __launch_bounds__(256) add_tree(T *to, const T *from, const i64 *table) {
  const i64 count = table[0], apart = table[1];
  for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < count; i += (i64)gridDim.x * 256) {
    A waiting[LEVELS];
    int depth = 0;
#pragma unroll
    for (int k = 0; k < MEMBERS; ++k) {
      A sum = LOAD(from[k * apart + i]);
      for (int carried = k; carried & 1; carried >>= 1)
        sum = sum_of(waiting[--depth], sum);
      waiting[depth++] = sum;
    }
    for (; depth > 1; --depth)
      waiting[depth - 2] = sum_of(waiting[depth - 2], waiting[depth - 1]);
    to[i] = STORE(waiting[0]);
  }
}
)";

} // namespace

std::string treeSumSource(plan::DType dtype, int members) {
  const bool half = dtype == plan::F16, bfloat = dtype == plan::BF16;
  auto define = [](const std::string &name, const std::string &text) { return "#define " + name + " " + text + "\n"; };
  return kTypes + (half || bfloat ? std::string(kFloat16Code) : "") +
         define("T", half || bfloat       ? "u16"
                     : dtype == plan::F64 ? "double"
                                          : "float") +
         define("A", dtype == plan::F64 ? "double" : "float") +
         define("LOAD(x)", half     ? "from_half(x)"
                           : bfloat ? "from_bfloat(x)"
                                    : "(x)") +
         define("STORE(x)", half     ? "to_half(x)"
                            : bfloat ? "to_bfloat(x)"
                                     : "(x)") +
         define("MEMBERS", std::to_string(members)) +
         define("LEVELS", std::to_string(std::bit_width(unsigned(members)))) + kKernel;
}

Status DeviceSums::add(const void *from, int members, size_t apart, void *to, size_t count, plan::DType dtype) {
  if (count == 0)
    return Status();
  return kernels_.launch(treeSumSource(dtype, members), to, from, {int64_t(count), int64_t(apart)}, int64_t(count));
}

} // namespace tessera::rt
