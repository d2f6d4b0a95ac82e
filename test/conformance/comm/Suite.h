//===- Suite.h - the conformance suite of the transports -------------------------------------===//
//
// Every rank runs every case on its own World. Inputs are functions of (rank, index), so each rank
// can compute what all others hold and what the result must be, with the plain loops of Model.h. A
// case reports through Check instead of a test framework's macros, since ranks are threads or
// processes.
//
//   static void broadcastFromLast(World &world, Check &check) { ... check.that(ok, "what", i); }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_COMM_SUITE_H
#define TESSERA_TEST_CONFORMANCE_COMM_SUITE_H

#include "runtime/comm/Communicator.h"

#include <string>
#include <vector>

namespace tessera::rt::conformance {

/// Collects one rank's failures of one case.
class Check {
public:
  void that(bool condition, const std::string &what) {
    ++checks_;
    if (!condition && failures_.size() < 5)
      failures_.push_back(what);
    failed_ |= !condition;
  }
  void ok(const Status &status, const std::string &what) { that(status.ok(), what + ": " + status.message()); }
  /// Checks that the status is an error whose text contains all of `parts`.
  void fails(const Status &status, const std::vector<std::string> &parts, const std::string &what) {
    that(!status.ok(), what + ": no error");
    for (const std::string &part : parts)
      that(status.message().find(part) != std::string::npos,
           what + ": '" + status.message() + "' does not say '" + part + "'");
  }
  bool failed() const { return failed_; }
  long checks() const { return checks_; }
  const std::vector<std::string> &failures() const { return failures_; }

private:
  std::vector<std::string> failures_;
  bool failed_ = false;
  long checks_ = 0;
};

struct Case {
  const char *name;
  void (*run)(World &world, Check &check);
};

std::vector<Case> collectiveCases();
std::vector<Case> exchangeCases();
std::vector<Case> failureCases();
std::vector<Case> messageCases();
/// Cases in which `rank` aborts while the others wait. They come last, since the world does not work afterwards.
std::vector<Case> abortCases();

/// The group of all ranks, in order; a failure is reported and null returned.
std::unique_ptr<Communicator> everyone(World &world, Check &check);

} // namespace tessera::rt::conformance

#endif
