// The .npy reader: a file that it accepts is read to its last byte, and written again is accepted again.
#include "runtime/data/NpyFile.h"
#include "runtime/plan/PlanInfo.h"
#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace tessera;

namespace {

std::string file(plan::DType type, const std::vector<int64_t> &shape, size_t bytes) {
  return rt::formatNpyHeader(type, shape) + std::string(bytes, 'x');
}

} // namespace

namespace tessera::fuzz {

std::vector<std::string> seeds() {
  return {file(plan::F32, {2, 3}, 24), file(plan::I64, {5}, 40), file(plan::BOOL, {}, 1), file(plan::F16, {0, 7}, 0)};
}

void mutate(std::string &input, Random &random) {
  // The padding of the header is of little interest: keep to its text and what precedes it.
  if (random() % 4 == 0 || input.size() < 72)
    return mutateBytes(input, random);
  const size_t at = random() % 72;
  if (random() % 2 == 0)
    input[at] = "0123456789(),'{}: <>|fibuVTF"[random() % 28];
  else
    std::swap(input[at], input[random() % 72]);
}

} // namespace tessera::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // In memory, under a path that opens it: no disk in the way.
  const int fd = memfd_create("input", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size))
    abort();
  rt::Result<rt::NpyFile> file = rt::NpyFile::open("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!file)
    return 0;
  if (file->bytes() > size)
    abort(); // promises more than there is
  std::vector<uint8_t> contents(file->bytes());
  if (!file->readBox(std::vector<int64_t>(file->shape().size(), 0), file->shape(), contents.data()) ||
      !std::equal(contents.begin(), contents.end(), data + size - contents.size()))
    abort();
  const std::string header = rt::formatNpyHeader(file->dtype(), file->shape());
  rt::Result<rt::NpyHeader> again = rt::parseNpyHeader(header.data(), header.size());
  if (!again || again->dtype != file->dtype() || again->shape != file->shape() || again->dataBytes != file->bytes() ||
      again->dataOffset != header.size())
    abort();
  return 0;
}
