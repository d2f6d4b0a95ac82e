//===- BytesText.h - numbers of bytes for people ------------------------------------------------------===//
//
//   bytesText(1023) == "1023 B", bytesText(1536) == "1.50 KiB", bytesText(5.0 * (1 << 30)) == "5.00 GiB"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_BYTESTEXT_H
#define TESSERA_RUNTIME_SUPPORT_BYTESTEXT_H

#include <cstddef>
#include <cstdio>
#include <string>

namespace tessera {

inline std::string bytesText(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit)
    bytes /= 1024;
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return text;
}

} // namespace tessera

#endif
