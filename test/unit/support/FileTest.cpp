// Files that are read whole.
#include "runtime/support/File.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace tessera;

TEST_CASE("a file that the kernel makes is read although it has no size") {
  const char *path = "/proc/sys/kernel/random/boot_id";
  if (!std::filesystem::exists(path))
    return;
  rt::Result<std::string> text = rt::readFile(path, 256);
  REQUIRE(text);
  CHECK(text->size() == 37); // 32 digits, 4 dashes, the line's end
  rt::Result<std::string> cut = rt::readFile(path, 36);
  REQUIRE(!cut);
  CHECK(cut.status().message() == std::string(path) + ": is larger than the limit of 36 bytes");
}

TEST_CASE("files are read whole or refused") {
  const std::string path = std::filesystem::temp_directory_path() / ("tessera-file-test-" + std::to_string(getpid()));
  for (const std::string &contents : {std::string(), std::string("abc")}) {
    std::ofstream(path) << contents;
    rt::Result<std::string> text = rt::readFile(path, 3);
    REQUIRE(text);
    CHECK(*text == contents);
  }
  CHECK(rt::readFile(path, 2).status().message() == path + ": is larger than the limit of 2 bytes");
  std::filesystem::remove(path);
  CHECK(!rt::readFile(path, 2));
}
