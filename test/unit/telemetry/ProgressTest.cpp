// The lines that a run shows and logs.
#include "runtime/telemetry/Progress.h"
#include "runtime/support/BytesText.h"
#include "runtime/support/File.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>

using namespace tessera::rt;

TEST_CASE("sizes, durations and numbers are written for people") {
  CHECK(tessera::bytesText(0) == "0 B");
  CHECK(tessera::bytesText(1023) == "1023 B");
  CHECK(tessera::bytesText(1536) == "1.50 KiB");
  CHECK(tessera::bytesText(5.0 * (1 << 30)) == "5.00 GiB");
  CHECK(durationText(0.25) == "0.2 s");
  CHECK(durationText(59) == "59 s");
  CHECK(durationText(61) == "1 min 01 s");
  CHECK(durationText(3660) == "1 h 01 min");
  CHECK(durationText(HUGE_VAL) == "0.0 s");
  CHECK(numberText(0.1, 3) == "0.1");
}

TEST_CASE("progress prints plain lines to a file and the log is JSON") {
  std::string pattern = (std::filesystem::temp_directory_path() / "tessera-test-XXXXXX").string();
  std::string folder = mkdtemp(pattern.data());
  {
    std::FILE *out = std::fopen((folder + "/out").c_str(), "w");
    REQUIRE(out);
    {
      Console console(out);
      CHECK_FALSE(console.terminal());
      REQUIRE(console.openLog(folder + "/log", false).ok());
      CHECK_FALSE(Console(nullptr).openLog(folder + "/no/log", false).ok());
      console.transient("never seen");
      Progress progress(console, 0, 100, 32);
      for (int i = 1; i <= 100; ++i)
        progress.step(i, 2.5, i == 50 ? 9.0 : 0.5);
      CHECK(progress.medianSeconds() == 0.5);
      CHECK(progress.totalSeconds() == Approx(58.5));
      CHECK(console.log({{"step", 1}, {"loss", NAN}, {"x", 0.1}}).ok());
      CHECK(console.log({{"step", 2}}, "seconds", {0.5, NAN}).ok());
    }
    std::fclose(out);
  }
  std::string text = *readFile(folder + "/out", 1 << 20);
  CHECK(std::count(text.begin(), text.end(), '\n') == 21); // 1, 5, 10, ... 100
  CHECK(text.find("never") == std::string::npos);
  CHECK(text.find("step 1/100 loss 2.50000  64.0 samples/s  50 s left\n") == 0);
  CHECK(*readFile(folder + "/log", 1 << 20) == "{\"step\": 1, \"loss\": null, \"x\": 0.10000000000000001}\n"
                                               "{\"step\": 2, \"seconds\": [0.5, null]}\n");
  std::filesystem::remove_all(folder);
}
