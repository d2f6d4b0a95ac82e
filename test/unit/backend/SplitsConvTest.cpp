// Convolutions keep their bits (SplitsTest.cpp): under cuts of batch, channels, groups and rows, and on threads.
#include "test/unit/backend/Splits.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

void checkAll(std::initializer_list<plan::DType> types, std::initializer_list<ConvSizes> geometries) {
  std::vector<Case> cases;
  for (plan::DType type : types)
    for (const ConvSizes &g : geometries)
      for (const Case &c : convolutions(type, g))
        cases.push_back(c);
  check(cases);
}

/// Rows [first, first + count) of images, with zeros where there are none.
Values rowsOf(const Values &image, const Shape &shape, int64_t first, int64_t count) {
  Values result;
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (int64_t row = first; row < first + count; ++row)
      for (int64_t column = 0; column < shape[3]; ++column)
        result.push_back(row < 0 || row >= shape[2] ? 0 : image[size_t((plane * shape[2] + row) * shape[3] + column)]);
  return result;
}

int64_t floorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

/// Computes the rows of the result in so many parts, each from the rows that it reads, as ranks with halos do.
void checkRows(const Case &c, const ConvSizes &g, int64_t parts) {
  const bool gradient = c.kernel == "conv_input_grad";
  const Shape in = c.in[0].shape, out = c.out[0].shape;
  const Values x = numbers(elementCount(in), 1, c.type), w = numbers(elementCount(c.in[1].shape), 2, c.type);
  std::vector<std::string> by;
  const Values whole = run(c, c.in, c.out, {x, w}, {}, &by)[0];
  const int64_t rows = out[2] / parts, reach = (g.kernel - 1) * g.dilation;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = part * rows, end = begin + rows;
    // Of the operand: rows [first, last], of which the windows of these rows read nothing else.
    const int64_t first = gradient ? -floorDiv(reach - begin - g.pad(), g.stride) : begin * g.stride - g.pad();
    const int64_t last = gradient ? floorDiv(end - 1 + g.pad(), g.stride) : (end - 1) * g.stride - g.pad() + reach;
    Case piece = c;
    piece.in[0].shape[2] = last - first + 1;
    piece.out[0].shape[2] = rows;
    const int64_t pad = g.pad(), before = gradient ? pad + begin - first * g.stride : 0;
    piece.attributes["pads"] = Shape{before, pad, 0, pad};
    if (gradient)
      piece.attributes["input_sizes"] = Shape{rows, out[3]};
    INFO(c.kernel << ", type " << c.type << ", " << str(in) << " by " << str(c.in[1].shape) << ", stride " << g.stride
                  << ", dilation " << g.dilation << ", part " << part << " of " << parts << ", " << by[0]);
    CHECK(sameBits(run(piece, piece.in, piece.out, {rowsOf(x, in, first, last - first + 1), w}, {})[0],
                   slice(whole, out, 2, parts, part)));
  }
}

} // namespace

TEST_CASE("convolutions and their gradients keep their bits under cuts of batch, channels and threads", "[bits]") {
  checkAll({plan::F32, plan::BF16}, {{8, 64, 64, 14, 3, 1},
                                     {8, 64, 128, 14, 3, 2},
                                     {8, 128, 64, 14, 1, 1},
                                     {8, 64, 256, 7, 1, 2},
                                     {8, 3, 64, 32, 7, 2},
                                     {4, 24, 40, 9, 3, 1},
                                     {8, 32, 5, 14, 1, 1},
                                     {8, 64, 10, 14, 3, 1},
                                     {8, 64, 5, 14, 3, 2},
                                     {8, 512, 128, 16, 1, 1},
                                     {8, 128, 512, 16, 1, 1},
                                     {8, 1024, 512, 8, 1, 2}});
}

TEST_CASE("convolutions of many channels keep their bits", "[bits]") {
  checkAll({plan::F32, plan::BF16}, {{2, 512, 512, 4, 3, 1}, {2, 512, 512, 8, 3, 2}, {2, 2048, 512, 4, 1, 1}});
}

TEST_CASE("convolutions of few channels keep their bits", "[bits]") {
  checkAll({plan::F32, plan::BF16},
           {{8, 1, 6, 28, 5, 1}, {8, 6, 16, 14, 5, 1}, {4, 20, 50, 16, 5, 2}, {4, 20, 48, 24, 3, 1, 1, 2}});
}

TEST_CASE("a convolution of points with a border keeps its bits", "[bits]") {
  const Attributes line = {
      {"strides", Shape{1}}, {"pads", Shape{0, 1}}, {"dilations", Shape{1}}, {"groups", int64_t(1)}};
  std::vector<Case> cases;
  for (int64_t c : {5, 8, 20, 64})
    cases.push_back({"conv", {{"nch", {5, c, 1}}, {"fcr", {2, c, 1}}}, {{"nfi", {5, 2, 2}}}, "n", line});
  check(cases);
}

TEST_CASE("dilated and transposed convolutions keep their bits", "[bits]") {
  checkAll({plan::F32, plan::BF16}, {{4, 64, 64, 14, 3, 1, 1, 2}, {4, 64, 64, 16, 2, 2}, {4, 32, 64, 16, 4, 2}});
}

TEST_CASE("convolutions in groups keep their bits under cuts of batch, groups and threads", "[bits]") {
  checkAll({plan::F32, plan::BF16}, {{4, 96, 96, 14, 3, 1, 96},
                                     {4, 64, 64, 14, 5, 2, 64},
                                     {3, 24, 24, 9, 3, 1, 24},
                                     {4, 64, 64, 14, 3, 1, 4},
                                     {4, 128, 128, 8, 3, 2, 32},
                                     {4, 32, 64, 8, 1, 1, 2},
                                     {4, 64, 64, 8, 1, 1, 4},
                                     {4, 24, 48, 10, 3, 1, 3}});
}

TEST_CASE("convolutions in other types keep their bits", "[bits]") {
  checkAll({plan::F16, plan::F64}, {{4, 32, 32, 6, 3, 1}, {4, 16, 32, 6, 1, 2}, {4, 16, 16, 6, 3, 1, 16}});
}

TEST_CASE("a convolution whose rows are cut keeps its bits", "[bits]") {
  for (plan::DType type : {plan::F32, plan::BF16})
    for (const ConvSizes &g : {ConvSizes{2, 32, 64, 16, 3, 1},       ConvSizes{2, 64, 64, 32, 3, 1},
                               ConvSizes{2, 64, 64, 32, 3, 2},       ConvSizes{2, 128, 64, 16, 3, 1},
                               ConvSizes{2, 128, 64, 16, 3, 2},      ConvSizes{2, 256, 64, 8, 3, 1},
                               ConvSizes{2, 256, 64, 8, 3, 2},       ConvSizes{2, 512, 64, 4, 3, 1},
                               ConvSizes{2, 64, 64, 32, 1, 1},       ConvSizes{2, 128, 64, 16, 1, 2},
                               ConvSizes{2, 256, 64, 8, 1, 1},       ConvSizes{2, 512, 64, 16, 1, 1},
                               ConvSizes{2, 512, 64, 4, 1, 2},       ConvSizes{2, 2048, 64, 4, 1, 1},
                               ConvSizes{2, 3, 64, 32, 7, 2},        ConvSizes{2, 64, 64, 16, 2, 2},
                               ConvSizes{5, 8, 6, 4, 2, 2},          ConvSizes{5, 8, 6, 4, 2, 2, 2},
                               ConvSizes{2, 64, 64, 16, 3, 1, 1, 2}, ConvSizes{2, 64, 64, 16, 3, 1, 64},
                               ConvSizes{8, 1, 6, 28, 5, 1},         ConvSizes{8, 6, 16, 16, 5, 1},
                               ConvSizes{4, 20, 50, 16, 5, 2},       ConvSizes{4, 20, 48, 24, 3, 1, 1, 2},
                               ConvSizes{2, 64, 64, 16, 5, 2, 64},   ConvSizes{2, 64, 64, 16, 3, 1, 4}})
      for (int64_t parts : {2, 4})
        for (const Case &c : convolutions(type, g))
          if (c.kernel != "conv_weight_grad" && c.out[0].shape[2] % parts == 0)
            checkRows(c, g, parts);
}
