//===- ImageFormats.h - the kinds of image files, one by one ----------------------------------===//
//
// Internal to ImageDecoder.cpp, which passes its calls on to the format's library.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_IMAGEFORMATS_H
#define TESSERA_RUNTIME_DATA_IMAGE_IMAGEFORMATS_H

#include "runtime/data/image/ImageDecoder.h"

namespace tessera::rt {

class ImageDecoder::Format {
public:
  virtual ~Format() = default;
  virtual Status readHeader() = 0;
  virtual Status decode(const PixelBox &box, int reduction, Pixels &pixels) = 0;
  virtual int mostReduction() const { return 1; }
  int64_t width = 0, height = 0;
};

std::unique_ptr<ImageDecoder::Format> makeJpegFormat(const uint8_t *data, size_t size);
std::unique_ptr<ImageDecoder::Format> makePngFormat(const uint8_t *data, size_t size);

} // namespace tessera::rt

#endif
