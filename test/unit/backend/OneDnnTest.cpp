// What depends on the version of oneDNN.
#include "runtime/backend/cpu/OneDnn.h"

#include <catch2/catch.hpp>

using namespace tessera::rt;

TEST_CASE("kernels that are wrong in a version of oneDNN are refused in that version") {
  const ConvGeometry g{};
  const std::string amx = "brgconv_bwd_w:avx512_core_amx";
  CHECK(isFaulty({2, 6, 3}, "conv_weight_grad", amx, g));
  CHECK(isFaulty({2, 7, 0}, "conv_weight_grad", amx, g));
  CHECK_FALSE(isFaulty({3, 0, 0}, "conv_weight_grad", amx, g));
  CHECK_FALSE(isFaulty({3, 2, 0}, "conv_weight_grad", amx, g));
  CHECK_FALSE(isFaulty({2, 6, 3}, "conv", "brgconv:avx512_core_amx", g)); // only the weights' gradients
  CHECK_FALSE(isFaulty({2, 6, 3}, "conv_weight_grad", "jit:avx512_common", g));
}

TEST_CASE("the library that is loaded is of the version that was compiled against") {
  CHECK(dnnlVersion().major == DNNL_VERSION_MAJOR);
  CHECK(dnnlVersion() >= DnnlVersion{2, 6, 0});
}

TEST_CASE("primitives are described alike in all versions") {
  using tag = dnnl::memory::format_tag;
  const auto type = dnnl::memory::data_type::f32;
  const dnnl::memory::desc x({2, 16, 8, 8}, type, tag::nchw), w({32, 16, 3, 3}, type, tag::oihw), none;
  const dnnl::memory::dims ones{1, 1}, zeros{0, 0};
  CHECK(none.is_zero());
  CHECK_FALSE(x.is_zero());
  CHECK(dimsOf(x) == dnnl::memory::dims{2, 16, 8, 8});
  CHECK(typeOf(x) == type);
  const dnnl::memory::desc y({2, 32, 8, 8}, type, tag::nchw);
  const auto forward = describePrimitive<dnnl::convolution_forward>(
      dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, anyLayout(x), anyLayout(w), anyLayout(y),
      ones, zeros, ones, ones);
  REQUIRE(forward);
  CHECK(dimsOf(forward.dst_desc()) == dimsOf(y));
  const auto gradient = describeGradient<dnnl::convolution_backward_data>(
      forward, dnnl::algorithm::convolution_direct, anyLayout(x), anyLayout(w), anyLayout(y), ones, zeros, ones, ones);
  REQUIRE(gradient);
  CHECK(dimsOf(gradient.diff_src_desc()) == dimsOf(x));
  const auto pool =
      describePrimitive<DnnlPooling>(dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_max, x,
                                     dnnl::memory::desc({2, 16, 4, 4}, type, tag::nchw), dnnl::memory::dims{2, 2},
                                     dnnl::memory::dims{2, 2}, zeros, zeros, zeros);
  REQUIRE(pool);
  CHECK_FALSE(pool.workspace_desc().is_zero()); // the positions of the maxima
}
