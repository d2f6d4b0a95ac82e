// Gives libFuzzer the target's own mutations beside its byte-level ones, and its seeds: an input that does
// not begin like any file is replaced by a seed.
#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  tessera::fuzz::Random random(seed);
  if (random() % 8 == 0)
    return LLVMFuzzerMutate(data, size, limit);
  static const std::vector<std::string> seeds = tessera::fuzz::seeds();
  std::string input(reinterpret_cast<char *>(data), size);
  if (size < 8 || random() % 64 == 0)
    input = seeds[random() % seeds.size()];
  tessera::fuzz::mutate(input, random);
  size = std::min(input.size(), limit);
  std::memcpy(data, input.data(), size);
  return size;
}
