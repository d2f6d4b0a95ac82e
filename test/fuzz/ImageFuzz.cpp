// The image decoders: whatever the bytes, a box is decoded or refused, in bounded time and memory.
#include "runtime/data/image/ImageDecoder.h"
#include "test/fuzz/Fuzz.h"
#include "test/unit/data/ImageWriting.h"

#include <cstdlib>

using namespace tessera;

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  auto paint = [](int y, int x, int c) { return (x * 7 + y * 3 + c * 50) & 255; };
  std::vector<std::string> files;
  for (int channels : {1, 3, 4})
    for (bool progressive : {false, true})
      files.push_back(rt::testing::jpegFile(40, 30, channels, paint, progressive));
  for (int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA})
    for (int depth : {8, 16})
      files.push_back(rt::testing::pngFile(20, 15, type, depth, paint, depth == 16));
  files.push_back(rt::testing::pngFile(20, 15, PNG_COLOR_TYPE_PALETTE, 8, [](int y, int x, int) { return x + y; }));
  return files;
}

void mutate(std::string &input, Random &random) { mutateBytes(input, random); }

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (int reduction : {1, 4}) {
    rt::ImageDecoder decoder(data, size);
    if (!decoder.readHeader() || decoder.width() * decoder.height() > 1 << 20)
      return 0; // large ones take their time
    rt::Pixels pixels;
    const rt::PixelBox box{decoder.width() / 3, decoder.height() / 3, decoder.width() - decoder.width() / 3 * 2,
                           decoder.height() - decoder.height() / 3 * 2};
    if (decoder.mostReduction() < reduction || !decoder.decode(box, reduction, pixels))
      return 0;
    if (pixels.rgb.size() != size_t(pixels.width * pixels.height * 3) || pixels.left * reduction > box.left ||
        pixels.top * reduction > box.top || (pixels.left + pixels.width) * reduction < box.left + box.width ||
        (pixels.top + pixels.height) * reduction < box.top + box.height)
      abort();
  }
  return 0;
}
