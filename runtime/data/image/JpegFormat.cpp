// JPEG by libjpeg-turbo. The library reports errors by a jump out of its code: between setjmp and the
// calls that may jump lives no object with a destructor.
#include "runtime/data/image/ImageFormats.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

namespace tessera::rt {
namespace {

/// More scans than any camera or encoder writes. Each scan may cost as much as a whole image.
constexpr int kMostScans = 100;
constexpr long kMostMemory = 1L << 30;

class JpegFormat : public ImageDecoder::Format {
public:
  JpegFormat(const uint8_t *data, size_t size) : data_(data), size_(size) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { jump(info); };
    errors_.emit_message = [](j_common_ptr info, int level) { message(info, level); };
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    progress_.progress_monitor = [](j_common_ptr info) { scanned(info); };
  }
  ~JpegFormat() override {
    if (created_)
      jpeg_destroy_decompress(&info_);
  }

  Status readHeader() override;
  Status decode(const PixelBox &box, int reduction, Pixels &pixels) override;
  int mostReduction() const override { return 8; }

private:
  static JpegFormat &self(j_common_ptr info) { return *static_cast<JpegFormat *>(info->client_data); }
  [[noreturn]] static void jump(j_common_ptr info) {
    (*info->err->format_message)(info, self(info).text_);
    std::longjmp(self(info).jump_, 1);
  }
  /// Turns damage that the library would repair by guessing into an error.
  static void message(j_common_ptr info, int level) {
    if (level >= 0)
      return;
    const int code = info->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC)
      jump(info);
  }
  static void scanned(j_common_ptr info) {
    if (!info->is_decompressor || reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans)
      return;
    std::snprintf(self(info).text_, sizeof self(info).text_, "more than %d scans", kMostScans);
    std::longjmp(self(info).jump_, 1);
  }
  Status failure() const { return Status::error(std::string("is no intact JPEG file: ") + text_); }
  /// Does all that comes between the header and the box's last row, in code that may jump.
  bool begin(const PixelBox &box, int reduction, Pixels &pixels);
  bool rows(Pixels &pixels);

  const uint8_t *data_;
  const size_t size_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  char text_[JMSG_LENGTH_MAX] = "";
  std::vector<uint8_t> line_; // a row in the file's own colours
  bool created_ = false;
};

Status JpegFormat::readHeader() {
  if (setjmp(jump_))
    return failure();
  jpeg_create_decompress(&info_);
  created_ = true;
  info_.progress = &progress_;
  info_.mem->max_memory_to_use = kMostMemory;
  jpeg_mem_src(&info_, data_, size_);
  jpeg_read_header(&info_, TRUE);
  width = info_.image_width;
  height = info_.image_height;
  return Status();
}

bool JpegFormat::begin(const PixelBox &box, int reduction, Pixels &pixels) {
  if (setjmp(jump_))
    return false;
  const bool fourInks = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  info_.out_color_space = fourInks ? JCS_CMYK : JCS_RGB;
  info_.scale_num = 1;
  info_.scale_denom = unsigned(reduction);
  jpeg_start_decompress(&info_);
  // The box is rounded outwards, and widened by the pixels from which the colours of its border are computed.
  const int64_t columns = info_.output_width, lines = info_.output_height;
  auto left = static_cast<JDIMENSION>(std::max<int64_t>(box.left / reduction - 2, 0));
  auto across =
      static_cast<JDIMENSION>(std::min((box.left + box.width + reduction - 1) / reduction + 2, columns) - left);
  if (across < columns)
    jpeg_crop_scanline(&info_, &left, &across);
  else
    left = 0;
  pixels.left = left;
  pixels.width = info_.output_width;
  pixels.top = box.top / reduction;
  pixels.height = std::min((box.top + box.height + reduction - 1) / reduction, lines) - pixels.top;
  if (pixels.top > 0)
    jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(pixels.top));
  return true;
}

bool JpegFormat::rows(Pixels &pixels) {
  if (setjmp(jump_))
    return false;
  for (int64_t y = 0; y < pixels.height; ++y) {
    uint8_t *out = pixels.rgb.data() + y * pixels.width * 3;
    uint8_t *line = info_.out_color_components == 3 ? out : line_.data();
    jpeg_read_scanlines(&info_, &line, 1);
    if (line == out)
      continue;
    // Adobe's files store inks inverted: 255 means no ink.
    const int flip = info_.saw_Adobe_marker ? 0 : 255;
    for (int64_t x = 0; x < pixels.width; ++x)
      for (int c = 0; c < 3; ++c)
        out[x * 3 + c] = uint8_t(((line[x * 4 + c] ^ flip) * (line[x * 4 + 3] ^ flip) + 127) / 255);
  }
  return true;
}

Status JpegFormat::decode(const PixelBox &box, int reduction, Pixels &pixels) {
  if (!begin(box, reduction, pixels))
    return failure();
  pixels.rgb.resize(size_t(pixels.width * pixels.height * 3));
  line_.resize(size_t(pixels.width) * 4);
  return rows(pixels) ? Status() : failure();
}

} // namespace

std::unique_ptr<ImageDecoder::Format> makeJpegFormat(const uint8_t *data, size_t size) {
  return std::make_unique<JpegFormat>(data, size);
}

} // namespace tessera::rt
