#include "runtime/support/Printable.h"

#include <catch2/catch.hpp>

using tessera::rt::printable;

TEST_CASE("printable text stays as it is", "[printable]") {
  for (const char *text :
       {"", "/conv1/Conv", "a \"b\" 'c' \\d \\x1b", "Größe naïve 模型 😀", "\u00a0\u00ff\u2027\uffff"})
    CHECK(printable(text) == text);
}

TEST_CASE("control characters are shown as escapes", "[printable]") {
  CHECK(printable("\x1b[2J\x1b]0;title\a") == "\\x1b[2J\\x1b]0;title\\x07");
  CHECK(printable("a\nerror: b\r\tc\x7f") == "a\\x0aerror: b\\x0d\\x09c\\x7f");
  CHECK(printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(printable("\u0080\u009b31m\u009f") == "\\xc2\\x80\\xc2\\x9b31m\\xc2\\x9f"); // C1 as UTF-8
  CHECK(printable("\x9b"
                  "31m") == "\\x9b31m"); // C1 as a byte
  CHECK(printable("\u2028\u202egnp\u2066") == "\\xe2\\x80\\xa8\\xe2\\x80\\xaegnp\\xe2\\x81\\xa6");
}

TEST_CASE("bytes that are no UTF-8 are shown one by one", "[printable]") {
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable("caf\xe9 ") == "caf\\xe9 ");                    // Latin-1
  CHECK(printable("\xc3") == "\\xc3");                            // cut off
  CHECK(printable("\xe2\x82") == "\\xe2\\x82");                   // cut off
  CHECK(printable("\xc0\x8a") == "\\xc0\\x8a");                   // a line feed in two bytes
  CHECK(printable("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");          // U+009B in three
  CHECK(printable("\xf0\x80\x80\x8a") == "\\xf0\\x80\\x80\\x8a"); // a line feed in four
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");          // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80"); // beyond U+10FFFF
  CHECK(printable("\xc3\x1b[mü") == "\\xc3\\x1b[mü");             // a character that another one interrupts
}

TEST_CASE("escaping twice gives the same as escaping once", "[printable]") {
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += char(i);
  for (int i = 255; i >= 0; --i)
    all += char(i);
  const std::string once = printable(all);
  CHECK(printable(once) == once);
  for (const char c : once)
    CHECK((c >= ' ' && c != '\x7f'));
}
