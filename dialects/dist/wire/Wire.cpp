#include "dialects/dist/wire/Wire.h"

#include "llvm/ADT/SmallVector.h"

namespace tessera::dist {

/// The longest block: a scale for more numbers says little about most of them.
static constexpr int64_t kMostBlock = 1 << 16;

llvm::Expected<Wire> Wire::parse(llvm::StringRef text) {
  auto fail = [&](const std::string &why) {
    return llvm::createStringError("'" + text.str() + "': " + why +
                                   "; expected bf16, f16 or int8[:block=N], each with 'always' if sums are to be sent "
                                   "so whatever it costs: int8:block=256,always");
  };
  Wire wire;
  auto [name, options] = text.split(':');
  if (name == "bf16")
    wire.kind = Kind::BF16;
  else if (name == "f16")
    wire.kind = Kind::F16;
  else if (name == "int8")
    wire = {Kind::I8, false, 256};
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
  }
  return "";
}

} // namespace tessera::dist
