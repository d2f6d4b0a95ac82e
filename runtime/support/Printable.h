//===- Printable.h - foreign text as a terminal may show it -----------------------------------------===//
//
// Names in models, plans and settings, and what other machines send, come from others. Printed as they are, they can
// move the cursor, change the window's title, or forge a line of a program. So whoever prints a message, a row of a
// table or a line of a log, prints this of it:
//
//   printable("naïve")             // "naïve"
//   printable("a\x1b[2J\nb\xff")   // "a\x1b[2J\x0ab\xff", where each \x stands there as two characters
//
// A message is one line: a line feed of ours is written behind it, never inside. Twice is the same as once.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_PRINTABLE_H
#define TESSERA_RUNTIME_SUPPORT_PRINTABLE_H

#include <string>
#include <string_view>

namespace tessera::rt {

/// The text with \xNN for every byte of control characters (those below U+0020, U+007F to U+009F), of line and
/// paragraph separators, of characters that turn the direction of writing, and of what is no UTF-8.
std::string printable(std::string_view text);

/// Writes printable(text) and a line feed to stderr, at once.
void printError(std::string_view text);

} // namespace tessera::rt

#endif
