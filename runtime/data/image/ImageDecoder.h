//===- ImageDecoder.h - pixels of JPEG and PNG files ------------------------------------------===//
//
// The first bytes of a file, not its name, tell its format. Every image becomes 8-bit RGB: grey levels and palettes are
// expanded, 16-bit samples are scaled, CMYK is multiplied out, alpha is dropped, as Pillow's convert("RGB") does. EXIF
// orientation is not applied.
//
//   ImageDecoder decoder(bytes.data(), bytes.size());
//   TESSERA_RETURN_IF_ERROR(decoder.readHeader());           // decoder.width(), decoder.height()
//   Pixels pixels;
//   TESSERA_RETURN_IF_ERROR(decoder.decode({100, 50, 400, 300}, 2, pixels));
//   // the box of 400 x 300 pixels from (100, 50), at half its size: pixels covers at least
//   // [50, 250) x [25, 175) of the image at half size
//
// A reduced size costs a JPEG file less than the whole (its inverse DCT gives fewer pixels); of both
// kinds nothing below the box is read. Files are hostile: sizes, memory and the number of a JPEG's
// scans are bounded, and what is damaged or ends too early within the box is an error.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_IMAGEDECODER_H
#define TESSERA_RUNTIME_DATA_IMAGE_IMAGEDECODER_H

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::rt {

/// A part of an image; the image may be a reduced one.
struct Pixels {
  int64_t left = 0, top = 0; // of the part in the image
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb; // height rows of width pixels; kept for reuse
};

struct PixelBox {
  int64_t left, top, width, height;
};

class ImageDecoder {
public:
  /// Images with more pixels, or more of them in a row or column, are refused.
  static constexpr int64_t kMostPixels = int64_t{1} << 26, kMostSide = 65500;

  /// Takes the bytes of a file, which outlive the decoder.
  ImageDecoder(const void *data, size_t size);
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder &) = delete;
  ImageDecoder &operator=(const ImageDecoder &) = delete;

  Status readHeader();
  int64_t width() const;
  int64_t height() const;
  /// The largest reduction that decode can apply: 8 for some formats, else 1.
  int mostReduction() const;

  /// Called once, after readHeader. `box` is not empty and lies in the image as stored; `reduction` is 1, 2, 4 or 8.
  Status decode(const PixelBox &box, int reduction, Pixels &pixels);

  /// The decoder of one kind of file.
  class Format;

private:
  const uint8_t *data_;
  size_t size_;
  std::unique_ptr<Format> format_;
};

} // namespace tessera::rt

#endif
