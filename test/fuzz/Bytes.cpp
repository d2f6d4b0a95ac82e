#include "test/fuzz/Fuzz.h"

namespace tessera::fuzz {

void mutateBytes(std::string &input, Random &random) {
  auto pick = [&](size_t n) { return n ? size_t(random() % n) : 0; };
  size_t at = pick(input.size());
  size_t length = std::min<size_t>(1 + pick(16), input.size() - at);
  switch (random() % 6) {
  case 0:
    if (!input.empty())
      input[at] = char(input[at] ^ (1 << pick(8)));
    break;
  case 1:
    if (!input.empty())
      input[at] = char("\x00\x01\x7f\x80\xff\xfe\x10@"[pick(8)]);
    break;
  case 2:
    input.insert(at, 1, char(random()));
    break;
  case 3:
    input.erase(at, length);
    break;
  case 4:
    input.insert(pick(input.size()), input.substr(at, length));
    break;
  default:
    input.resize(pick(input.size() + 1));
  }
}

int64_t interesting(int64_t old, Random &random) {
  static const int64_t values[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   63,
                                   64,
                                   65,
                                   1 << 10,
                                   4096,
                                   1 << 20,
                                   INT32_MAX,
                                   INT64_MAX,
                                   INT64_MIN,
                                   -1,
                                   -2,
                                   -64,
                                   int64_t(1) << 32,
                                   int64_t(1) << 40,
                                   int64_t(1) << 62};
  switch (random() % 4) {
  case 0:
    return int64_t(uint64_t(old) + 1);
  case 1:
    return int64_t(uint64_t(old) - 1);
  case 2:
    return int64_t(random() % 16);
  default:
    return values[random() % std::size(values)];
  }
}

} // namespace tessera::fuzz
