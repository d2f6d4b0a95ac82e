#include "runtime/support/Printable.h"

#include <cstdint>
#include <cstdio>

namespace tessera::rt {
namespace {

/// The number of bytes of the character that begins `text`, with its code point in `code`; 0 if it
/// is not UTF-8.
size_t readCharacter(std::string_view text, uint32_t &code) {
  const auto first = uint8_t(text[0]);
  const size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > text.size())
    return 0;
  code = bytes == 1 ? first : first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = uint8_t(text[i]);
    if ((next & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (next & 0x3f);
  }
  const bool tooLong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return tooLong || surrogate || code > 0x10ffff ? 0 : bytes;
}

bool isShown(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return !control && !separator && !direction;
}

} // namespace

std::string printable(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t bytes = readCharacter(text, code);
    const size_t taken = bytes == 0 ? 1 : bytes;
    if (bytes > 0 && isShown(code))
      out += text.substr(0, taken);
    else
      for (const char c : text.substr(0, taken))
        (out += "\\x") += {kDigits[uint8_t(c) >> 4], kDigits[uint8_t(c) & 15]};
    text.remove_prefix(taken);
  }
  return out;
}

void printError(std::string_view text) {
  std::fflush(stdout);
  std::fputs((printable(text) + "\n").c_str(), stderr);
  std::fflush(stderr);
}

} // namespace tessera::rt
