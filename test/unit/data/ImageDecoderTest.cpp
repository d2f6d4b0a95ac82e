#include "runtime/data/image/ImageDecoder.h"
#include "runtime/data/image/Resample.h"
#include "test/unit/data/ImageWriting.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

using namespace tessera::rt;
using namespace tessera::rt::testing;
using Catch::Contains;

namespace {

/// A smooth picture, which a JPEG keeps within a few levels.
int smooth(int y, int x, int c) { return 40 + (c == 0 ? y : c == 1 ? x : (x + y) / 2); }

std::string errorOf(const std::string &file) {
  ImageDecoder decoder(file.data(), file.size());
  Status status = decoder.readHeader();
  Pixels pixels;
  if (status.ok())
    status = decoder.decode({0, 0, decoder.width(), decoder.height()}, 1, pixels);
  return status.message();
}

/// Decodes a box and compares it with what was painted.
void checkBox(const std::string &file, const PixelBox &box, int reduction, const Painter &expected, int tolerance) {
  ImageDecoder decoder(file.data(), file.size());
  Status status = decoder.readHeader();
  INFO(status.message());
  REQUIRE(status.ok());
  Pixels p;
  status = decoder.decode(box, reduction, p);
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(p.left * reduction <= box.left);
  REQUIRE(p.top * reduction <= box.top);
  REQUIRE((p.left + p.width) * reduction >= box.left + box.width);
  REQUIRE((p.top + p.height) * reduction >= box.top + box.height);
  REQUIRE(p.rgb.size() == size_t(p.width * p.height * 3));
  int worst = 0;
  for (int64_t y = 0; y < p.height; ++y)
    for (int64_t x = 0; x < p.width; ++x)
      for (int c = 0; c < 3; ++c) {
        const int got = p.rgb[size_t((y * p.width + x) * 3 + c)];
        const int want = expected(int((p.top + y) * reduction + (reduction - 1) / 2),
                                  int((p.left + x) * reduction + (reduction - 1) / 2), c);
        worst = std::max(worst, std::abs(got - want));
      }
  CHECK(worst <= tolerance);
}

} // namespace

TEST_CASE("boxes of a JPEG file are read at every reduction", "[data][image]") {
  for (bool progressive : {false, true}) {
    const std::string file = jpegFile(160, 120, 3, smooth, progressive);
    for (const PixelBox &box :
         {PixelBox{0, 0, 160, 120}, {33, 41, 50, 60}, {159, 119, 1, 1}, {0, 100, 160, 20}, {96, 0, 17, 9}})
      for (int reduction : {1, 2, 4, 8})
        checkBox(file, box, reduction, smooth, reduction == 8 ? 6 : 4);
  }
  checkBox(
      jpegFile(64, 48, 1, [](int y, int x, int) { return x + y; }), {5, 6, 20, 20}, 1,
      [](int y, int x, int) { return x + y; }, 3);
  // The channels are inks, and 255 means no ink. Red has no cyan and no black.
  checkBox(
      jpegFile(32, 32, 4, [](int, int, int c) { return c == 1   ? 100
                                                       : c == 3 ? 200
                                                                : 255; }), {0, 0, 32, 32}, 1,
      [](int, int, int c) { return c == 1 ? 78 : 200; }, 3);
}

TEST_CASE("PNG files of every kind are read", "[data][image]") {
  const PixelBox box{3, 7, 20, 15};
  for (bool interlaced : {false, true}) {
    checkBox(pngFile(40, 30, PNG_COLOR_TYPE_RGB, 8, smooth, interlaced), box, 1, smooth, 0);
    checkBox(pngFile(
                 40, 30, PNG_COLOR_TYPE_RGB_ALPHA, 8, [](int y, int x, int c) { return c == 3 ? x : smooth(y, x, c); },
                 interlaced),
             box, 1, smooth, 0);
    checkBox(pngFile(
                 40, 30, PNG_COLOR_TYPE_RGB, 16, [](int y, int x, int c) { return smooth(y, x, c) * 257; }, interlaced),
             box, 1, smooth, 0);
    checkBox(
        pngFile(
            40, 30, PNG_COLOR_TYPE_PALETTE, 8, [](int y, int x, int) { return y + x; }, interlaced),
        box, 1, [](int y, int x, int c) { return c == 0   ? y + x
                                                 : c == 1 ? 2 * (y + x)
                                                          : 255 - y - x; }, 0);
    checkBox(
        pngFile(
            40, 30, PNG_COLOR_TYPE_GRAY_ALPHA, 8, [](int y, int x, int c) { return c ? 9 : y + x; }, interlaced),
        box, 1, [](int y, int x, int) { return y + x; }, 0);
  }
}

TEST_CASE("damaged image files are refused", "[data][image]") {
  CHECK(errorOf("") == "is empty");
  CHECK_THAT(errorOf("GIF89a and more"), Contains("neither a JPEG nor a PNG"));
  for (const std::string &file :
       {jpegFile(160, 120, 3, smooth), jpegFile(160, 120, 3, smooth, true),
        pngFile(40, 30, PNG_COLOR_TYPE_RGB, 8, smooth), pngFile(40, 30, PNG_COLOR_TYPE_RGB, 8, smooth, true)}) {
    REQUIRE(errorOf(file) == "");
    for (size_t kept : {size_t{9}, file.size() / 4, file.size() / 2, file.size() * 3 / 4})
      CHECK_THAT(errorOf(file.substr(0, kept)), Contains("is no intact"));
  }
  // A header that promises 65000 x 65000 pixels.
  std::string jpeg = jpegFile(16, 16, 3, smooth);
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  jpeg.replace(frame + 5, 4, "\xfd\xe8\xfd\xe8");
  CHECK_THAT(errorOf(jpeg), Contains("65000 x 65000 pixels; the limit"));
}

TEST_CASE("resampling is exact for one to one, constants, and linear ramps", "[data][image]") {
  Pixels pixels;
  pixels.width = 40;
  pixels.height = 30;
  for (int y = 0; y < 30; ++y)
    for (int x = 0; x < 40; ++x)
      for (int c = 0; c < 3; ++c)
        pixels.rgb.push_back(uint8_t(c == 0 ? 2 * x : c == 1 ? 3 * y : 77));
  const std::vector<double> mean = {0, 0, 0}, std = {1 / 255., 1 / 255., 1 / 255.};
  struct Case {
    int64_t height, width;
    CropBox box;
    bool flip;
  };
  for (const Case &k : {Case{10, 12, {4, 5, 12, 10}, false}, Case{10, 12, {4, 5, 12, 10}, true},
                        Case{5, 6, {8, 6, 24, 20}, false}, Case{20, 30, {10, 8, 15.5, 10.25}, true}}) {
    std::vector<float> whole(size_t(3 * k.height * k.width));
    Resampler resampler({3, k.height, k.width}, {0, 0, 0}, {3, k.height, k.width}, mean, std);
    resampler.fill(pixels, k.box, {0, 0, 40, 30}, k.flip, whole.data());
    double worst = 0;
    for (int64_t y = 0; y < k.height; ++y)
      for (int64_t x = 0; x < k.width; ++x) {
        const double at = double(k.flip ? k.width - 1 - x : x);
        const double sx = k.box.left + (at + 0.5) * k.box.width / double(k.width) - 0.5;
        const double sy = k.box.top + (double(y) + 0.5) * k.box.height / double(k.height) - 0.5;
        const double want[3] = {2 * sx, 3 * sy, 77};
        for (int64_t c = 0; c < 3; ++c)
          worst = std::max(worst, std::abs(want[c] - whole[size_t((c * k.height + y) * k.width + x)]));
      }
    CHECK(worst < 1e-3);
    // A rank's box is that part of the whole.
    std::vector<float> part(2 * 3 * 4);
    Resampler mine({3, k.height, k.width}, {1, 2, 1}, {2, 3, 4}, mean, std);
    mine.fill(pixels, k.box, {0, 0, 40, 30}, k.flip, part.data());
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t x = 0; x < 4; ++x)
          CHECK(part[size_t((c * 3 + y) * 4 + x)] == whole[size_t(((c + 1) * k.height + y + 2) * k.width + x + 1)]);
  }
}
