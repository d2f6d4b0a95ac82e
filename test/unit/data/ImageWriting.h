//===- ImageWriting.h - small JPEG and PNG files for tests ------------------------------------===//
#ifndef TESSERA_TEST_UNIT_DATA_IMAGEWRITING_H
#define TESSERA_TEST_UNIT_DATA_IMAGEWRITING_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>

namespace tessera::rt::testing {

/// Sample `channel` of the pixel in row y, column x.
using Painter = std::function<int(int y, int x, int channel)>;

/// `channels`: 1 grey, 3 RGB (stored as YCbCr), 4 CMYK as Adobe writes it.
inline std::string jpegFile(int width, int height, int channels, const Painter &paint, bool progressive = false) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char *bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  info.write_Adobe_marker = channels == 4;
  if (progressive)
    jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(size_t(width * channels));
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < width * channels; ++i)
      row[size_t(i)] = uint8_t(paint(y, i / channels, i % channels));
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char *>(bytes), size);
  std::free(bytes);
  return file;
}

/// `type` as PNG_COLOR_TYPE_*; `paint` gives samples of `depth` bits, 8 or 16; a palette has the entries
/// (i, 2 i, 255 - i).
inline std::string pngFile(int width, int height, int type, int depth, const Painter &paint, bool interlaced = false) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, size_t bytes) {
        static_cast<std::string *>(png_get_io_ptr(p))->append(reinterpret_cast<char *>(data), bytes);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int i = 0; i < 100; ++i)
    palette.push_back({static_cast<png_byte>(i), static_cast<png_byte>(2 * i), static_cast<png_byte>(255 - i)});
  if (type == PNG_COLOR_TYPE_PALETTE)
    png_set_PLTE(png, info, palette.data(), 100);
  png_write_info(png, info);
  const int channels = png_get_channels(png, info);
  std::vector<std::vector<uint8_t>> rows(static_cast<size_t>(height));
  std::vector<png_bytep> starts;
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < width * channels; ++i) {
      const int value = paint(y, i / channels, i % channels);
      if (depth == 16)
        rows[size_t(y)].push_back(uint8_t(value >> 8));
      rows[size_t(y)].push_back(uint8_t(value));
    }
    starts.push_back(rows[size_t(y)].data());
  }
  png_write_image(png, starts.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

} // namespace tessera::rt::testing

#endif
