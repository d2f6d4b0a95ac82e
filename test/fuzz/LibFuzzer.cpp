// Gives libFuzzer the target's own mutations beside its byte-level ones, and writes its seeds for a corpus:
//   build-fuzz/bin/fuzz_plan --write-seeds DIR
#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  if (*argc != 3 || std::strcmp((*argv)[1], "--write-seeds") != 0)
    return 0;
  int index = 0;
  for (const std::string &seed : tessera::fuzz::seeds()) {
    std::string path = std::string((*argv)[2]) + "/seed" + std::to_string(index++);
    std::ofstream file(path, std::ios::binary);
    file << seed;
    file.close();
    if (!file) {
      std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
      std::exit(1);
    }
  }
  std::exit(0);
}

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  tessera::fuzz::Random random(seed);
  if (random() % 8 == 0)
    return LLVMFuzzerMutate(data, size, limit);
  std::string input(reinterpret_cast<char *>(data), size);
  tessera::fuzz::mutate(input, random);
  size = std::min(input.size(), limit);
  std::memcpy(data, input.data(), size);
  return size;
}
