//===- Refusals.h - why a test is refused, as a user would put it ------------------------------------===//
//
// The importer's message says what it met in one file. Here every refusal gets one of few reasons, with what helps. A
// refusal that fits none is an error of the test: either the operator is built, or its reason is written down.
//
//   refusalOf(outcome)->why   "Which elements there are depends on the data"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_CONFORMANCE_ONNX_REFUSALS_H
#define TESSERA_TEST_CONFORMANCE_ONNX_REFUSALS_H

#include "test/conformance/onnx/NodeTest.h"

namespace tessera::test {

struct Refusal {
  const char *why;
  const char *helps;
};

/// The reason of a refused test; null: none is written down.
const Refusal *refusalOf(const Outcome &outcome);

/// The names of refused tests without a reason, one a line.
std::string unexplained(const std::vector<Outcome> &outcomes);

/// A table of all reasons with their tests, in Markdown; operators with the number of their tests.
std::string refusalTable(const std::vector<Outcome> &outcomes);

} // namespace tessera::test

#endif
