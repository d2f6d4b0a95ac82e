#include "test/fuzz/Fuzz.h"

namespace tessera::fuzz {

void mutateBytes(std::string &input, Random &random) {
  auto pick = [&](size_t n) { return n ? static_cast<size_t>(random() % n) : 0; };
  size_t at = pick(input.size());
  size_t length = std::min<size_t>(1 + pick(16), input.size() - at);
  switch (random() % 6) {
  case 0:
    if (!input.empty())
      input[at] = static_cast<char>(input[at] ^ (1 << pick(8)));
    break;
  case 1:
    if (!input.empty())
      input[at] = static_cast<char>("\x00\x01\x7f\x80\xff\xfe\x10@"[pick(8)]);
    break;
  case 2:
    input.insert(at, 1, static_cast<char>(random()));
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

} // namespace tessera::fuzz
