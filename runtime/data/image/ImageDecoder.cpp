#include "runtime/data/image/ImageFormats.h"

#include <cstring>
#include <string>

namespace tessera::rt {

ImageDecoder::ImageDecoder(const void *data, size_t size) : data_(static_cast<const uint8_t *>(data)), size_(size) {}

ImageDecoder::~ImageDecoder() = default;

Status ImageDecoder::readHeader() {
  if (size_ >= 3 && std::memcmp(data_, "\xff\xd8\xff", 3) == 0)
    format_ = makeJpegFormat(data_, size_);
  else if (size_ >= 8 && std::memcmp(data_, "\x89PNG\r\n\x1a\n", 8) == 0)
    format_ = makePngFormat(data_, size_);
  else
    return Status::error(size_ == 0 ? "is empty" : "is neither a JPEG nor a PNG file");
  TESSERA_RETURN_IF_ERROR(format_->readHeader());
  if (width() < 1 || height() < 1 || width() > kMostSide || height() > kMostSide || width() * height() > kMostPixels)
    return Status::error("is an image of " + std::to_string(width()) + " x " + std::to_string(height()) +
                         " pixels; the limit is " + std::to_string(kMostPixels) + " pixels");
  return Status();
}

int64_t ImageDecoder::width() const { return format_->width; }
int64_t ImageDecoder::height() const { return format_->height; }
int ImageDecoder::mostReduction() const { return format_->mostReduction(); }

Status ImageDecoder::decode(const PixelBox &box, int reduction, Pixels &pixels) {
  return format_->decode(box, reduction, pixels);
}

} // namespace tessera::rt
