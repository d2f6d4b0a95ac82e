//===- Nesting.h - how deep a JSON text goes -------------------------------------------------------===//
//
// Whoever parses a text from outside asks this first, since the parser's time is quadratic in the depth.
//
//   nestsDeeper(R"({"a": [1, "[["]})", 2);   // false
//   nestsDeeper("[[[", 2);                   // true
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_NESTING_H
#define TESSERA_RUNTIME_SUPPORT_NESTING_H

#include <cstddef>
#include <string_view>

namespace tessera::rt {

inline bool nestsDeeper(std::string_view json, int most) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most)
        return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

} // namespace tessera::rt

#endif
