// The safetensors reader: every tensor of a file that it accepts can be read.
#include "runtime/plan/PlanInfo.h"
#include "runtime/tensor/Safetensors.h"
#include "test/fuzz/Fuzz.h"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace tessera;

namespace {

std::string file(const std::string &header, size_t contents) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += char(header.size() >> (8 * i));
  return bytes + header + std::string(contents, 'x');
}

} // namespace

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {file(R"({"__metadata__":{"step":"3"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24),
          file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"F16","shape":[],"data_offsets":[4,6]}})",
               6)};
}

void mutate(std::string &input, Random &random) {
  // Digits are where the offsets and shapes are.
  if (random() % 2 || input.size() < 9)
    return mutateBytes(input, random);
  for (int tries = 0; tries < 50; ++tries) {
    size_t at = 8 + random() % (input.size() - 8);
    if (input[at] >= '0' && input[at] <= '9') {
      input[at] = char('0' + random() % 10);
      return;
    }
  }
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // In memory, under a path that opens it: no disk in the way.
  int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size))
    abort();
  rt::Result<rt::Safetensors> file = rt::Safetensors::open("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!file)
    return 0;
  for (const auto &[name, entry] : file->entries()) {
    std::optional<uint64_t> bytes = rt::bytesOf(entry.shape, entry.type);
    std::vector<char> contents(bytes.value_or(0));
    (void)file->readBox(entry, std::vector<int64_t>(entry.shape.size(), 0), entry.shape, entry.type, contents.data())
        .ok();
  }
  return 0;
}
