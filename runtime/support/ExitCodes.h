//===- ExitCodes.h - what the programs end with ---------------------------------------------------===//
//
// All programs share this table. docs/exit-codes.md explains it to users.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_EXITCODES_H
#define TESSERA_RUNTIME_SUPPORT_EXITCODES_H

#include <csignal>

namespace tessera::rt {

constexpr int kExitError = 1;
/// The command line is wrong; nothing was begun.
constexpr int kExitUsage = 2;
/// tessera-run --check-numerics stop met numbers that are not finite.
constexpr int kExitNumerics = 3;
/// Ended by Ctrl-C (130) or SIGTERM (143), at once or, as tessera-run, after a step: as a shell would have it.
constexpr int exitCodeOf(int signal) { return 128 + signal; }
constexpr bool isInterrupt(int exitCode) { return exitCode == exitCodeOf(SIGINT) || exitCode == exitCodeOf(SIGTERM); }

/// A rank tells its supervisor that it ended because another rank did, and that it has no fault of its own.
constexpr int kExitOther = 4;
/// A rank tells its supervisor that it failed before its first step, and that another start would fail alike: data,
/// weights or options do not fit the plan.
constexpr int kExitLasting = 5;

} // namespace tessera::rt

#endif
