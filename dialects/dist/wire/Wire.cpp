#include "dialects/dist/wire/Wire.h"

#include "llvm/ADT/SmallVector.h"

namespace tessera::dist {

/// The longest block: a scale for more numbers says little about most of them.
static constexpr int64_t kMostBlock = 1 << 16;
/// The highest rank: columns are made orthogonal one after the other, so a high rank saves bytes but no time.
static constexpr int64_t kMostRank = 128;
static constexpr int64_t kUsualRank = 4;

llvm::Expected<Wire> Wire::parse(llvm::StringRef text) {
  auto fail = [&](const std::string &why) {
    return llvm::createStringError("'" + text.str() + "': " + why +
                                   "; expected bf16, f16, int8[:block=N] or powersgd[:rank=R], each with 'always' if "
                                   "sums are to be sent so whatever it costs: int8:block=256,always");
  };
  Wire wire;
  auto [name, options] = text.split(':');
  if (name == "bf16")
    wire.kind = Kind::BF16;
  else if (name == "f16")
    wire.kind = Kind::F16;
  else if (name == "int8")
    wire = {Kind::I8, false, 256};
  else if (name == "powersgd")
    wire = {.kind = Kind::Factors, .rank = kUsualRank};
  else
    return fail("there is no '" + name.str() + "'");
  if (options.empty() && text.contains(':'))
    return fail("nothing follows the colon");
  llvm::SmallVector<llvm::StringRef> parts;
  options.split(parts, ',', -1, /*KeepEmpty=*/!options.empty());
  for (llvm::StringRef part : parts) {
    if (part == "always") {
      wire.always = true;
    } else if (wire.kind == Kind::I8 && part.consume_front("block=")) {
      if (part.getAsInteger(10, wire.block) || wire.block < 8 || wire.block > kMostBlock)
        return fail("a block has 8 to " + std::to_string(kMostBlock) + " elements");
    } else if (wire.kind == Kind::Factors && part.consume_front("rank=")) {
      if (part.getAsInteger(10, wire.rank) || wire.rank < 1 || wire.rank > kMostRank)
        return fail("a rank is 1 to " + std::to_string(kMostRank));
    } else {
      return fail("'" + part.str() + "' is none of its options");
    }
  }
  return wire;
}

std::string Wire::str() const {
  switch (kind) {
  case Kind::Whole:
    return "";
  case Kind::BF16:
  case Kind::F16:
    return (kind == Kind::BF16 ? "bf16" : "f16") + std::string(always ? ":always" : "");
  case Kind::I8:
    return "int8:block=" + std::to_string(block) + (always ? ",always" : "");
  case Kind::Factors:
    return "powersgd:rank=" + std::to_string(rank) + (always ? ",always" : "");
  }
  return "";
}

std::string Wire::name() const {
  switch (kind) {
  case Kind::Whole:
    return "float32";
  case Kind::BF16:
    return "bf16";
  case Kind::F16:
    return "f16";
  case Kind::I8:
    return "int8 in blocks of " + std::to_string(block);
  case Kind::Factors:
    return "factors of rank " + std::to_string(rank);
  }
  return "";
}

} // namespace tessera::dist
