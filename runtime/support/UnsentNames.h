//===- UnsentNames.h - how the states of compressed sums are called ---------------------------------===//
//
// A plan that sends sums of gradients in fewer bytes (docs/adr/0024-compressed-reductions.md) keeps in states what is
// left unsent, and what it takes from one step to the next to send the next sum. Compiler and runtime know them by
// their names, as they know the optimizer's:
//
//   unsent/fc1.weight        of a rank's own terms
//   unsent_sum/fc1.weight    of the part of the sum that the rank hands to the others
//   sent_basis/fc1.weight    the right factor that was sent last
//   unsent-1/fc1.weight      of a second sum for the same parameter
//
// Their shapes depend on the number of ranks. So a checkpoint of other ranks has none for a plan, and neither has the
// sequential program.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_UNSENTNAMES_H
#define TESSERA_RUNTIME_SUPPORT_UNSENTNAMES_H

#include <string>
#include <string_view>

namespace tessera::rt {

inline constexpr const char *kUnsent = "unsent", *kUnsentSum = "unsent_sum", *kSentBasis = "sent_basis";

/// The name of the state number `number` of a kind.
inline std::string unsentName(const std::string &kind, const std::string &parameter, int number) {
  return kind + (number > 0 ? "-" + std::to_string(number) : "") + "/" + parameter;
}

/// Whether a state with this name is one of them.
inline bool isUnsent(std::string_view name) {
  std::string_view kind = name.substr(0, name.find('/'));
  if (kind.size() == name.size())
    return false;
  if (const size_t dash = kind.find('-'); dash != std::string_view::npos) {
    const std::string_view number = kind.substr(dash + 1);
    if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    kind = kind.substr(0, dash);
  }
  return kind == kUnsent || kind == kUnsentSum || kind == kSentBasis;
}

} // namespace tessera::rt

#endif
