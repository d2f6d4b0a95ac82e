// PNG by libpng. Errors jump, as in JpegFormat.cpp, so there are no destructors between setjmp and
// the library's calls.
#include "runtime/data/image/ImageFormats.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <png.h>

namespace tessera::rt {
namespace {

class PngFormat : public ImageDecoder::Format {
public:
  PngFormat(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  ~PngFormat() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  Status readHeader() override;
  Status decode(const PixelBox &box, int reduction, Pixels &pixels) override;

private:
  static PngFormat &self(png_structp png) { return *static_cast<PngFormat *>(png_get_io_ptr(png)); }
  static void read(png_structp png, png_bytep out, size_t bytes) {
    PngFormat &me = self(png);
    if (bytes > me.size_ - me.at_)
      png_error(png, "it is truncated");
    std::memcpy(out, me.data_ + me.at_, bytes);
    me.at_ += bytes;
  }
  [[noreturn]] static void fail(png_structp png, png_const_charp text) {
    std::snprintf(static_cast<char *>(png_get_error_ptr(png)), kMostText, "%s", text);
    png_longjmp(png, 1);
  }
  Status failure() const { return Status::error(std::string("is no intact PNG file: ") + text_); }
  bool begin();
  bool rows(const PixelBox &box, Pixels &pixels);
  bool interlaced(const PixelBox &box, Pixels &pixels);

  static constexpr size_t kMostText = 200;
  const uint8_t *data_;
  const size_t size_;
  size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char text_[kMostText] = "";
  int passes_ = 1;
  std::vector<uint8_t> line_;         // a row, or the image if it is interlaced
  std::vector<uint8_t *> lineStarts_; // the rows of that image
};

Status PngFormat::readHeader() {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, text_, fail, [](png_structp, png_const_charp) {});
  info_ = png_ ? png_create_info_struct(png_) : nullptr;
  if (!info_)
    return Status::error("libpng has no memory");
  if (setjmp(png_jmpbuf(png_)))
    return failure();
  png_set_user_limits(png_, ImageDecoder::kMostSide, ImageDecoder::kMostSide);
  png_set_chunk_cache_max(png_, 100);
  png_set_chunk_malloc_max(png_, 16u << 20);
  png_set_read_fn(png_, this, read);
  png_read_info(png_, info_);
  width = png_get_image_width(png_, info_);
  height = png_get_image_height(png_, info_);
  return Status();
}

bool PngFormat::begin() {
  if (setjmp(png_jmpbuf(png_)))
    return false;
  png_set_expand(png_);
  png_set_scale_16(png_);
  png_set_strip_alpha(png_);
  png_set_gray_to_rgb(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  if (png_get_rowbytes(png_, info_) != size_t(width) * 3)
    png_error(png_, "it does not expand to 8-bit RGB");
  return true;
}

bool PngFormat::rows(const PixelBox &box, Pixels &pixels) {
  if (setjmp(png_jmpbuf(png_)))
    return false;
  const size_t bytes = size_t(pixels.width) * 3;
  for (int64_t y = 0; y < box.top + box.height; ++y) {
    png_read_row(png_, line_.data(), nullptr);
    if (y >= box.top)
      std::memcpy(pixels.rgb.data() + size_t(y - box.top) * bytes, line_.data() + pixels.left * 3, bytes);
  }
  return true;
}

bool PngFormat::interlaced(const PixelBox &box, Pixels &pixels) {
  if (setjmp(png_jmpbuf(png_)))
    return false;
  png_read_image(png_, lineStarts_.data());
  const size_t bytes = size_t(pixels.width) * 3;
  for (int64_t y = 0; y < pixels.height; ++y)
    std::memcpy(pixels.rgb.data() + size_t(y) * bytes, lineStarts_[size_t(box.top + y)] + pixels.left * 3, bytes);
  return true;
}

Status PngFormat::decode(const PixelBox &box, int, Pixels &pixels) {
  pixels.left = box.left;
  pixels.top = box.top;
  pixels.width = box.width;
  pixels.height = box.height;
  pixels.rgb.resize(size_t(box.width * box.height * 3));
  if (!begin())
    return failure();
  const size_t bytes = size_t(width) * 3;
  line_.resize(passes_ > 1 ? bytes * size_t(height) : bytes);
  if (passes_ > 1)
    for (int64_t y = 0; y < height; ++y)
      lineStarts_.push_back(line_.data() + size_t(y) * bytes);
  return (passes_ > 1 ? interlaced(box, pixels) : rows(box, pixels)) ? Status() : failure();
}

} // namespace

std::unique_ptr<ImageDecoder::Format> makePngFormat(const uint8_t *data, size_t size) {
  return std::make_unique<PngFormat>(data, size);
}

} // namespace tessera::rt
