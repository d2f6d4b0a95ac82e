//===- Printable.h - foreign text as a terminal may show it -----------------------------------------===//
//
// Names in models, plans and settings, and what other machines send, come from others. Printed as they are, they can
// move the cursor, change the window's title, or forge a line of a program. So every program passes a message, a row of
// a table or a line of a log through `printable` before it prints it:
//
//   printable("naïve")             // "naïve"
//   printable("a\x1b[2J\nb\xff")   // "a\x1b[2J\x0ab\xff", where each \x stands there as two characters
//
// A message is one line; the program's own line feed is written behind it. Applying the function twice changes nothing
// more.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_PRINTABLE_H
#define TESSERA_RUNTIME_SUPPORT_PRINTABLE_H

#include <string>
#include <string_view>

namespace tessera::rt {

/// The text with \xNN in place of every byte of these characters: control characters (below U+0020, and U+007F to
/// U+009F), line and paragraph separators, characters that change the direction of writing, and what is not UTF-8.
std::string printable(std::string_view text);

/// Writes printable(text) and a line feed to stderr, at once.
void printError(std::string_view text);

} // namespace tessera::rt

#endif
