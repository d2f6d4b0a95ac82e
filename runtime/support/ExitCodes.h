//===- ExitCodes.h - what the programs end with ---------------------------------------------------===//
//
// One table for all of them; docs/exit-codes.md tells it to users.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_EXITCODES_H
#define TESSERA_RUNTIME_SUPPORT_EXITCODES_H

namespace tessera::rt {

constexpr int kExitError = 1;
/// The command line is wrong; nothing was begun.
constexpr int kExitUsage = 2;
/// tessera-run --check-numerics stop met numbers that are not finite.
constexpr int kExitNumerics = 3;
/// Ctrl-C; tessera-run also after SIGTERM, since it ends by itself after a step. Others end with 128 and the signal.
constexpr int kExitInterrupted = 130;

/// Between a supervisor and its ranks. One that ends since another one did: nothing is wrong with this one.
constexpr int kExitOther = 4;
/// One that failed before its first step, by what will not change: data, weights or options that do not fit the plan.
constexpr int kExitLasting = 5;

} // namespace tessera::rt

#endif
